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
    from sweeps.answers.hardware import print_catalogue, print_entry, print_technologies, technology_record

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
        return print_json([_record(entry) for entry in entries]) if options.json else print_catalogue(entries)
    entry = hwspaces.priced(hwspaces.hardware(options.name), options.prices)
    return print_json(_record(entry)) if options.json else print_entry(entry)


def _record(entry: Any) -> dict[str, Any]:
    from sweeps.answers.hardware import die_record, price_record

    names = ("name", "aliases", "vendor", "product", "architecture", "status", "date")
    names += ("figures", "sources", "assumptions", "notes")
    return {name: getattr(entry, name) for name in names} | price_record(entry) | die_record(entry)
