"""Controls of the explorer's page as HTML, from the declarations of the state's fields."""

import html
import itertools
import math

from sweeps.ui.state import CONTROLS, DEFAULT, FACTOR, MOST, Control


def controls() -> str:
    """All controls, in a field set for every group."""
    groups = itertools.groupby(CONTROLS.items(), key=lambda item: item[1].group)
    return "\n".join(
        f"<fieldset><legend>{group}</legend>\n{''.join(itertools.starmap(_control, members))}</fieldset>"
        for group, members in groups
    )


def _control(name: str, control: Control) -> str:
    """One control with its label, and a slider or a list where it has one."""
    default = getattr(DEFAULT, name)
    value = html.escape("" if default is None else str(default))
    identity = f'id="{name}" name="{name}"'
    hint = f'<small id="{name}-hint">{html.escape(control.hint)}</small>' if control.hint else ""
    said = f' aria-describedby="{name}-hint"' if control.hint else ""
    label = f'<label for="{name}">{html.escape(control.label)}</label>'
    if control.slider is not None:
        least, most, step = (1 / FACTOR, FACTOR, "any") if control.kind == "factor" else (1, MOST, "1")
        low, high = (math.log2(end) for end in control.slider)
        field = (
            f'<input {identity} type="number" min="{least:g}" max="{most:g}" step="{step}" value="{value}"{said}>'
            # The slider moves the logarithm; the script keeps it and the number together.
            f'<input type="range" data-for="{name}" min="{low:g}" max="{high:g}" step="0.05" '
            f'aria-label="{html.escape(control.label)}, slider">'
        )
        figure = f'<output id="{name}-figure"></output>' if control.kind == "factor" else ""
        return f'<div class="control slider">{label}{field}{figure}{hint}</div>\n'
    if control.kind == "text":
        options = "".join(f'<option value="{html.escape(choice)}">' for choice in control.choices())
        listed = f'<datalist id="{name}-list">{options}</datalist>'
        field = f'<input {identity} list="{name}-list" value="{value}" placeholder="default" autocomplete="off"{said}>'
        return f'<div class="control">{label}{field}{listed}{hint}</div>\n'
    # An empty choice stands for what applies where nothing is said.
    choices = ("", *control.choices()) if default is None else control.choices()
    options = "".join(
        f'<option value="{html.escape(choice)}"{" selected" if choice == value else ""}>'
        f"{html.escape(choice) or 'default'}</option>"
        for choice in choices
    )
    return f'<div class="control">{label}<select {identity}{said}>{options}</select>{hint}</div>\n'
