"""`jaxroof models`: the models of the catalogue as a table, or everything about one."""

import argparse

from sweeps.answers.to_json import print_json
from sweeps.cli.common import as_argument


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the verb."""
    what = "all about one model: its name, a config.json or its folder, a TOML file, OWNER/NAME of the Hugging Face Hub"
    parser.add_argument("name", nargs="?", metavar="NAME", help=what)
    as_argument(parser)
    what = "a file that describes a model of your own, to fill in: dense (default), moe or mla"
    parser.add_argument("--template", metavar="KIND", nargs="?", const="dense", help=what)
    parser.add_argument("--json", action="store_true", help="JSON with SI numbers instead of tables")


def run(options: argparse.Namespace) -> None:
    """Print the catalogue, or one model."""
    import workloads
    from sweeps.answers.models import record, show_catalogue, show_entry

    if options.template is not None:
        return _print_template(options)
    if options.name is not None:
        entry = workloads.model(options.name)
        return print_json(record(entry)) if options.json else show_entry(entry)
    # Every model is read: only then is it known whether its architecture is covered.
    covered, refused = [], {}
    for name in workloads.names():
        try:
            covered.append(workloads.model(name))
        except ValueError as error:
            # The name has a column of its own, and is no longer needed in the reason.
            refused[name] = str(error).removeprefix(f"{name} ")
    if options.json:
        refusals = [{"name": name, "refused": reason} for name, reason in refused.items()]
        return print_json([record(entry) for entry in covered] + refusals)
    show_catalogue(covered, refused)


def _print_template(options: argparse.Namespace) -> None:
    """Print a file to fill in."""
    from hwspaces.quantities.units import nearest
    from sweeps.answers.answer import say
    from workloads.models.template import TEMPLATES

    kind = options.template
    if options.name is not None:
        raise ValueError(f"--template takes no model, and {options.name!r} is given")
    if kind not in TEMPLATES:
        raise ValueError(f"--template {kind}: it must be one of {', '.join(TEMPLATES)}{nearest(kind, TEMPLATES)}")
    say(TEMPLATES[kind], end="")
