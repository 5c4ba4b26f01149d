"""`jaxroof hardware`: the accelerators of the catalogue, every figure of one and its source, or technologies."""

import argparse
from typing import Any

from sweeps.answers.answer import say
from sweeps.answers.to_json import print_json
from sweeps.cli.common import schema_argument, word_arguments


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the verb."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="one accelerator, or a TOML file: everything about it")
    parser.add_argument(
        "--technology", action="store_true", help="processes, memories, links and packages that designs are made of"
    )
    parser.add_argument("--template", action="store_true", help="a file that describes a chip of your own, to fill in")
    schema_argument(parser, "TOML files of hardware", "hwspaces.accelerators.json_schema:schema")
    word_arguments(parser, "prices")
    parser.add_argument("--json", action="store_true", help="JSON with SI numbers instead of tables")


def run(options: argparse.Namespace) -> None:
    """Print the catalogue, or one entry of it."""
    import hwspaces
    from hwspaces.accelerators.described import template
    from sweeps.answers.hardware import print_technologies, technology_record

    asked = [flag for flag in ("technology", "template") if getattr(options, flag)]
    if asked and options.name is not None:
        raise ValueError(f"--{asked[0]} takes no name, and {options.name!r} is given")
    if len(asked) > 1:
        raise ValueError(f"--{asked[0]} and --{asked[1]} are given: one of them at a time")
    if options.template:
        return say(template(), end="")
    if options.technology:
        return print_json(technology_record()) if options.json else print_technologies()
    # Prices may be by other terms than the catalogue's, which --prices names.
    if options.name is None:
        entries = [hwspaces.priced(entry, options.prices) for entry in hwspaces.catalogue().values()]
        return print_json([_record(entry) for entry in entries]) if options.json else _print_catalogue(entries)
    entry = hwspaces.priced(hwspaces.hardware(options.name), options.prices)
    return print_json(_record(entry)) if options.json else _print_entry(entry)


COLUMNS = {
    "16 bit\nTF/s": (("matrix.bf16", "matrix.fp16"), 1e12),
    "fp8\nTF/s": (("matrix.fp8",), 1e12),
    "fp4\nTF/s": (("matrix.fp4",), 1e12),
    "int8\nTOP/s": (("matrix.int8",), 1e12),
    "memory\nGB": (("memory.hbm.capacity",), 1e9),
    "memory\nTB/s": (("memory.hbm.bandwidth",), 1e12),
    "link\nGB/s": (("links.scale_up.bandwidth",), 1e9),
    "TDP\nW": (("power.tdp",), 1.0),
    "price\nUSD/h": (("price",), 1 / 3600.0),
}
"""Columns of the catalogue's table: header -> (the first figure that is known, size of its unit in SI units)."""


def _print_catalogue(entries: list[Any]) -> None:
    from sweeps.answers.tables import console, table
    from sweeps.data.labels import number

    catalogue = table("name", "vendor", "architecture", *COLUMNS, "price\nof", "sold\nby", numbers=COLUMNS)
    for entry in entries:
        announced = " *" if entry.status == "announced" else ""
        # Of several figures for one column the first known one counts: bf16 before fp16.
        known = [[entry.figures[path] for path in paths if path in entry.figures] for paths, _ in COLUMNS.values()]
        figures = [
            (values[0] if values else None, unit) for values, (_, unit) in zip(known, COLUMNS.values(), strict=True)
        ]
        # Thousands separators are left out to keep the columns narrow.
        cells = ["-" if figure is None else number(figure / unit).replace(",", "") for figure, unit in figures]
        price = ("-", "-") if entry.price is None else ((entry.price.date or "-")[:7], entry.price.seller)
        catalogue.add_row(entry.name, entry.vendor or "-", f"{entry.architecture or '-'}{announced}", *cells, *price)
    out = console()
    out.print(catalogue)
    out.print(f"\n{len(entries)} accelerators; * announced, - unknown or absent.")
    out.print("TF/s: dense matrix peak in TFLOP/s, 16 bit: bf16, else fp16. link: scale-up bandwidth per direction.")
    out.print(
        "price: median of one kind of seller, on demand unless --prices says otherwise; estimate: nobody sells it; "
        "bought: nobody rents it out, its price as new over its life."
    )
    out.print("`jaxroof hardware NAME` shows every figure of one and where it is from.")


def _print_entry(entry: Any) -> None:
    from hwspaces import formatted, leaf_unit
    from sweeps.answers.hardware import print_die, print_estimates, print_prices
    from sweeps.answers.tables import console, table
    from sweeps.ask.text import escaped

    out = console()
    # Words that are missing are left out; all may come from a user's file.
    words = [entry.product, entry.architecture, entry.status, entry.date and f"looked up {entry.date}", entry.file]
    out.print(escaped(f"{entry.name}: {', '.join(word for word in words if word)}", breaks=True))
    if entry.aliases:
        out.print(escaped(f"also called {', '.join(entry.aliases)}", breaks=True))
    out.print()
    figures = table("figure", "value", "source", numbers=("value",))
    for path, value in entry.figures.items():
        figures.add_row(path, formatted(value, leaf_unit(path), 4), entry.sources.get(path, "-"))
    out.print(figures)
    out.print()
    print_estimates(entry, out)
    print_die(entry, out)
    out.print()
    print_prices(entry, out)
    # Sentences on assumptions and notes are full lines, each with its kind.
    for kind, sentences in (("assumed", entry.assumptions), ("note", entry.notes)):
        if sentences:
            out.print()
        for sentence in sentences:
            out.print(escaped(f"{kind}  {sentence}", breaks=True))


def _record(entry: Any) -> dict[str, Any]:
    from sweeps.answers.hardware import die_record, price_record

    names = ("name", "aliases", "vendor", "product", "architecture", "status", "date")
    names += ("figures", "sources", "assumptions", "notes")
    return {name: getattr(entry, name) for name in names} | price_record(entry) | die_record(entry)
