"""`jaxroof validate`: predictions against measured data, one kind of data per word."""

import argparse

from sweeps.answers.answer import say
from sweeps.answers.to_json import print_json
from sweeps.cli import (
    area_errors,
    collective_errors,
    kernel_errors,
    plausibility,
    power_errors,
    request_errors,
    serving_errors,
    step_errors,
    training_errors,
)
from sweeps.cli.outputs import pictures_argument

KINDS = {
    "requests": (request_errors, "TTFT, TPOT and E2E latency of requests that were served one at a time"),
    "collectives": (
        collective_errors,
        "times of all-reduces and other collectives, by device, library, group and message size",
    ),
    "kernels": (kernel_errors, "times of single kernels, by kind, precision, engine and device"),
    "power": (power_errors, "electrical power of single kernels, by kind and precision"),
    "serving": (serving_errors, "TTFT, TPOT and throughput of models that were served under load"),
    "steps": (step_errors, "times of single steps of an engine, by model, batch and sequences"),
    "training": (training_errors, "passes of whole models in fp32 PyTorch, inference and training, by device"),
    "plausibility": (
        plausibility,
        "shares of peak and bandwidth that every accelerator is predicted to reach on large kernels",
    ),
    "area": (area_errors, "die areas of accelerators against published sizes; needs no data"),
}
"""Kind of measured data -> (its module, what is compared).

A module has `arguments(parser)`; `scored(options)`, which predicts; `record(options, scored)` for machines and
`show(out, options, scored)` for people; where rows are simulations `commands(options)`, which
prints them in place of scores; and where there are pictures `PICTURES`, which says what is on them, and
`pictures(scored)`, which draws them: names and figures.
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the kinds of data and what each of them takes."""
    kinds = parser.add_subparsers(dest="kind", metavar="KIND", required=True)
    for kind, (module, summary) in KINDS.items():
        declared = kinds.add_parser(kind, help=summary, description=summary[0].upper() + summary[1:] + ".")
        module.arguments(declared)
        declared.add_argument("--json", action="store_true", help="print JSON instead of tables")
        if hasattr(module, "PICTURES"):
            pictures_argument(declared, module.PICTURES)


def run(options: argparse.Namespace) -> None:
    """Predict what was measured, draw the pictures that are wanted, and print the errors."""
    module = KINDS[options.kind][0]
    # Commands take the place of scores, and nothing is simulated.
    printed = module.commands(options) if hasattr(module, "commands") else None
    if printed is not None:
        return say("\n".join(printed))
    scores, paths = module.scored(options), []
    if getattr(options, "plots", None):
        from sweeps.show import style

        paths = style.pictures(options.plots, module.pictures(scores), options.force)
    if options.json:
        drawn = {"pictures": paths} if hasattr(module, "PICTURES") else {}
        return print_json(module.record(options, scores) | drawn)
    from sweeps.answers.tables import console

    out = console()
    module.show(out, options, scores)
    for path in paths:
        out.print(path)
