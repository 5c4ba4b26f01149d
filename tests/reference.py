"""Pages that are generated from declarations and files: `python -m tests.reference` writes them anew."""

import functools
from collections.abc import Iterable, Iterator
from pathlib import Path

from hwspaces import engine_names
from hwspaces.quantities.units import formatted
from jaxroof.numerics.struct import NO_DEFAULT, Declaration
from tests import engine_pages, scenario_page

FOLDER = Path(__file__).parents[1] / "docs"

NUMBERS = """# Numbers

Every number and word of a specification by its path. `--set PATH=VALUE` and `axes` take the numbers; the words of a
deployment are given in its table. `*` stands for a precision or for a position, `links.*` for `scale_up`, `scale_out`
and `cluster`. This page is generated from the declarations in the structs.
"""

CONSTANTS = """## efficiency

Constants of kernels, links and host by the table of an efficiency file that holds them. A path such as
`efficiency.linear.wide.tile_cycles` names the table, the class of kernels and the constant; a `clock` is one cycle.
"""

VARIABLES = """# Variables

Every variable of a dataset. Counts, shares and US dollars have the unit 1. This page is generated from the
declarations beside the jobs.
"""


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table of Markdown."""
    lines = [heads, *rows]
    written = [f"| {' | '.join(cell.replace('|', ',') for cell in row)} |" for row in lines]
    return "\n".join([written[0], "|" + "---|" * len(list(heads)), *written[1:]])


def numbers() -> str:
    """The page of all leaves of a scenario, a table for each struct."""
    from sweeps.ask.leaves import leaves

    groups: dict[str, list[tuple[str, ...]]] = {}
    for path, leaf in leaves().items():
        if path.startswith(("hardware.links.scale_out.", "hardware.links.cluster.")):
            continue
        shown = path.replace("links.scale_up.", "links.*.")
        meaning = leaf.meaning.replace("scale-up ", "").replace("{}", "*")
        about = f"{meaning}; {leaf.about}" if leaf.about else meaning
        row = f"`{shown}`", leaf.unit, about, allowed(leaf), default(leaf)
        groups.setdefault(path.partition(".")[0], []).append(row)
    parts = [NUMBERS]
    for name, rows in groups.items():
        parts += [f"## {name}\n", table(("path", "unit", "meaning", "allowed", "default"), rows) + "\n"]
    return "\n".join([*parts, CONSTANTS, *constants()])


def constants() -> Iterator[str]:
    """A table for each struct of constants: what files of efficiencies hold, and paths of settings end in."""
    from hwspaces.performance.efficiency import TABLES
    from hwspaces.performance.kernel_tables import STRUCTS
    from jaxroof.efficiency.timing import Spread
    from jaxroof.numerics.struct import declarations

    tables: dict[type, list[str]] = {}
    for name, kind in (*TABLES.items(), *STRUCTS.items(), ("spread", Spread)):
        tables.setdefault(kind, []).append(name)
    for kind, names in tables.items():
        title = f'`model = "{names[0]}"`' if names[0] in STRUCTS else ", ".join(f"`{name}`" for name in names)
        rows = (
            (f"`{path}`", leaf.unit, "; ".join(filter(None, (leaf.meaning, leaf.about))), allowed(leaf), default(leaf))
            for path, leaf in declarations(kind).items()
            if not path.startswith("spread.")
        )
        yield f"### {title}\n\n{table(('constant', 'unit', 'meaning', 'allowed', 'default'), rows)}\n"


def allowed(leaf: Declaration) -> str:
    """What a value may be beside positive."""
    words = ", ".join(f"`{word}`" for word in leaf.codes or leaf.choices) or leaf.range
    zero = "or 0" if leaf.zero and not words else ""
    return ", ".join(part for part in ("whole" if leaf.whole else "", words, zero) if part)


def default(leaf: Declaration) -> str:
    """What holds where nothing is given, and why."""
    if leaf.default is NO_DEFAULT:
        return "unknown" if leaf.optional else ""
    if leaf.default is None:
        return "none"
    value = leaf.default
    value = leaf.codes[int(value)] if leaf.codes else value
    plain = formatted(value, leaf.unit, 4) if isinstance(value, float) else f"{value}"
    return f"{plain} ({leaf.source})" if leaf.source else plain


def variables() -> str:
    """The page of all variables of datasets."""
    from sweeps.ask.names import VARIABLES as KNOWN

    better = {True: "higher", False: "lower", None: ""}
    rows = (
        (f"`{name}`", each.unit, each.long_name, better[each.higher_is_better], ", ".join(each.flags))
        for name, each in KNOWN.items()
    )
    return "\n".join([VARIABLES, table(("name", "unit", "meaning", "better", "codes"), rows) + "\n"])


PAGES = {
    "reference/numbers.md": numbers,
    "reference/variables.md": variables,
    "evidence/scenarios.md": scenario_page.whole_page,
    **{f"reference/engines/{name}.md": functools.partial(engine_pages.page, name, table) for name in engine_names()},
}


def main() -> None:
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
