"""`jaxroof space`: design spaces, and the knobs, laws and held figures of one."""

import argparse
from typing import Any

from sweeps.answers.to_json import print_json

HELD = ("power.", "memory.", "cores.", "links.scale_up.", "silicon.", "energy.", "price")
"""Beginnings of the figures that are shown as held; the rest, such as losses of links, is in `jaxroof hardware`."""

QUIET = ("transport", "areas", "process", "matrix.")
"""Parts of a path of figures that are not shown as held."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the verb."""
    parser.add_argument("action", nargs="?", default="list", choices=("list", "show"), help="list (default), or show")
    parser.add_argument("name", nargs="?", metavar="NAME", help="one space, or a TOML file: its knobs, laws, limits")
    parser.add_argument("--json", action="store_true", help="JSON with SI numbers instead of tables")


def run(options: argparse.Namespace) -> None:
    """Print what there is, or one space."""
    from hwspaces.accelerators.space import space, space_names

    # The list takes no name, which would otherwise be ignored.
    if options.action == "list":
        if options.name is not None:
            raise ValueError(f"list takes no name, and {options.name!r} is given; `jaxroof space show {options.name}`")
        spaces = [space(name) for name in space_names()]
        return print_json([_record(one) for one in spaces]) if options.json else _print_list(spaces)
    if options.name is None:
        raise ValueError(f"show needs the name of a space: {', '.join(space_names())}")
    design_space = space(options.name)
    return print_json(_record(design_space)) if options.json else _print(design_space)


def _print_list(spaces: list[Any]) -> None:
    from sweeps.answers.tables import console, table

    shown = table("space", "what", "base", "process", "memory", "knobs", "laws", numbers=("knobs", "laws"))
    for one in spaces:
        names = one.technologies
        counts = str(len(one.knobs)), str(len(one.laws))
        shown.add_row(one.name, one.title, one.base, names["process"], names.get("stack", "-"), *counts)
    out = console()
    out.print(shown)
    out.print(
        "\n`jaxroof space show NAME` shows knobs, laws and what is held; `jaxroof sweep` and `optimize` take --space."
    )


def _print(found: Any) -> None:
    from hwspaces import formatted, leaf_unit
    from sweeps.answers.tables import console, table
    from sweeps.ask.text import escaped

    out, figures = console(), found.entry.figures
    technologies = ", ".join(f"{key} {name}" for key, name in found.technologies.items() if key != "draw")
    out.print(escaped(f"{found.name}: {found.title}", breaks=True))
    out.print(f"starts from {found.base}; {technologies}\n")
    knobs = table("knob", "start", "range", numbers=("start",))
    for path, value in found.knobs.items():
        # Paths are those of the hardware, without its root, as the figures have them.
        plain = path.removeprefix("hardware.")
        knobs.add_row(plain, formatted(figures[plain], leaf_unit(plain), 4), _range_text(value))
    out.print(knobs)
    out.print()
    laws = table("figure", "at the start", "law", numbers=("at the start",))
    for path, text in found.laws.items():
        # A law for all precisions has a star: the value at the start is shown for bf16.
        shown_at = path.replace("*", "bf16") if path.replace("*", "bf16") in figures else path
        value = formatted(figures[shown_at], leaf_unit(shown_at), 4) if shown_at in figures else "-"
        laws.add_row(path, value, text)
    out.print(laws)
    out.print()
    # Only figures that matter to a reader; the rest is counted.
    shown = [path for path in found.held if path.startswith(HELD) and not any(word in path for word in QUIET)]
    texts = [f"{path} {formatted(figures[path], leaf_unit(path), 4)}" for path in shown]
    out.print(
        f"held constant  {', '.join(texts)}; {len(found.held) - len(shown)} more: `jaxroof hardware {found.name}`"
    )
    costs = found.entry.hardware.costs
    if costs is not None:
        from sweeps.answers.shared import margin_text

        out.print(f"money          {margin_text(costs.margin)}")
    used = {name for law in found.entry.hardware.laws for name, _ in law.constants if name in found.constants}
    assumed = sum(found.constants[name].assumed for name in used)
    out.print(f"\ntechnology: {len(used)} constants in these laws, {assumed} of them assumptions:")
    sources = table("constant", "value", "source", numbers=("value",))
    for name in sorted(used):
        one = found.constants[name]
        sources.add_row(name, formatted(one.value, one.unit, 4), one.source)
    out.print(sources)


def _range_text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(str(one) for one in value)
    steps = f", {value['n']} steps" if "n" in value else ""
    # Logarithmic scales step in equal ratios.
    return f"{value['from']} to {value['to']}{steps}{', in ratios' * (value.get('scale') == 'log')}"


def _record(found: Any) -> dict[str, Any]:
    used = {name for law in found.entry.hardware.laws for name, _ in law.constants if name in found.constants}
    return {
        "name": found.name,
        "title": found.title,
        "base": found.base,
        "technologies": dict(found.technologies),
        "knobs": dict(found.knobs),
        "laws": dict(found.laws),
        "start": {path: float(value) for path, value in found.entry.figures.items()},
        "held": list(found.held),
        "constants": {name: vars(found.constants[name]) for name in sorted(used)},
    }
