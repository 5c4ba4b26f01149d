"""Controls of the explorer's page as HTML, from the declarations of the state's fields."""

import html
import itertools
import math
from collections.abc import Collection

from sweeps.ui.offer import NAMED, Offer
from sweeps.ui.state import CONTROLS, FACTOR, MOST, Control


def controls(offer: Offer) -> str:
    """All controls as the page opens with them, in a field set for every group."""
    groups = itertools.groupby(CONTROLS.items(), key=lambda item: item[1].group)
    return "\n".join(
        f"<fieldset><legend>{group}</legend>\n{''.join(_control(*member, offer) for member in members)}</fieldset>"
        for group, members in groups
    )


def _control(name: str, control: Control, offer: Offer) -> str:
    """One control with its label, and a slider or a list where it has one."""
    first = getattr(offer.start, name)
    value = html.escape("" if first is None else f"{first:g}" if control.kind == "factor" else str(first))
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
        options = "".join(f'<option value="{html.escape(choice)}">' for choice in offer.choices(name))
        listed = f'<datalist id="{name}-list">{options}</datalist>'
        field = f'<input {identity} list="{name}-list" value="{value}" placeholder="default" autocomplete="off"{said}>'
        return f'<div class="control">{label}{field}{listed}{hint}</div>\n'
    # Names are longer than what other controls hold.
    wide = " wide" if name in NAMED else ""
    field = f"<select {identity}{said}>{_options(name, offer)}</select>"
    return f'<div class="control{wide}">{label}{field}{hint}</div>\n'


def _options(name: str, offer: Offer) -> str:
    """What a list holds; names of the command line stand together before those of the catalogue."""
    first, own = getattr(offer.start, name), offer.named(name)
    # An empty choice stands for what applies where nothing is said.
    choices = (*([""] if first is None else []), *offer.choices(name))
    options = [
        f'<option value="{html.escape(choice)}"{" selected" if choice == str(first or "") else ""}>'
        f"{html.escape(_label(choice, choices) if choice in own else choice) or 'default'}</option>"
        for choice in choices
    ]
    if not own:
        return "".join(options)
    parts = {"Command line": options[: len(own)], "Catalogue": options[len(own) :]}
    return "".join(f'<optgroup label="{title}">{"".join(part)}</optgroup>' for title, part in parts.items())


def _label(path: str, others: Collection[str]) -> str:
    """The end of a path, where it tells the path from all others: a control has room for few characters."""
    folders = path.replace("\\", "/").split("/")
    for place in range(len(folders) - 1, 0, -1):
        end = "/".join(folders[place:])
        # Every model of the Hub has a file of this name: its folder tells which one it is.
        if end and not end.startswith("config.json") and sum(other.endswith(end) for other in others) == 1:
            return end
    return path
