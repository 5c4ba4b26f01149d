"""`jaxroof disaggregate`: prompts on one pool of devices and decoding on another, and the best split between them."""

import argparse
import json
from typing import Any

from sweeps.cli.common import (
    asked_case,
    batch_arguments,
    case_arguments,
    draft_argument,
    json_argument,
    length_arguments,
    named_settings,
    overrides,
    require_lengths,
    whole_number,
)
from sweeps.cli.outputs import output_argument

NUMBERS = ("isl", "osl", "batch", "cached", "prompts", "lanes")
"""Flags that count."""

SPLITTING = ("loads", "slo", "output")
"""Flags that only a search over splits reads."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the verb."""
    case_arguments(parser)
    draft_argument(parser)
    parser.add_argument(
        "--prefill",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="of the prefill pool: hardware, efficiency, tp, dp, ...; what is not said is as in the decode pool, but "
        "degrees, which are 1; may be given several times. Other flags describe the decode pool",
    )
    length_arguments(parser)
    batch_arguments(parser, "sequences that a decode replica has at once (default 1)")
    parser.add_argument("--prompts", metavar="N", help="prompts of one prefill step (default 1)")
    parser.add_argument("--rate", metavar="R", help="requests/s that arrive at random (default: none waits)")
    parser.add_argument("--lanes", metavar="N", help="links that carry one cache at once (default: one per device)")
    parser.add_argument(
        "--whole", action="store_true", help="the cache leaves after the prompt, instead of layer by layer"
    )
    split = parser.add_argument_group("the best split of a number of devices over the load")
    split.add_argument("--devices", metavar="N", help="of both pools together")
    split.add_argument("--loads", metavar="R,..", help="requests/s (default: 40 up to what the best split can do)")
    split.add_argument("--slo", metavar="LATENCY=LIMIT,..", help="ttft=500ms,tpot=40ms")
    output_argument(
        split,
        "-o",
        "--output",
        kinds=("dataset", "png", "svg"),
        metavar="FILE",
        help=".nc every split and load, .png or .svg a picture",
    )
    json_argument(parser)


def run(options: argparse.Namespace) -> None:
    """Print what the two pools do, or which split of the devices is best; write the file that is wanted."""
    require_lengths(options)
    if options.devices is None:
        for flag in SPLITTING:
            if getattr(options, flag) is not None:
                raise ValueError(f"--{flag} is for a search over splits: give --devices N too")
    workload: dict[str, Any] = {name: getattr(options, name) for name in (*NUMBERS, "acceptance", "rate")}
    workload["layerwise"] = "0" if options.whole else None
    prefill = named_settings("--prefill", options.prefill, "tp=4")
    if options.devices is None:
        _print_pools(asked_case("disaggregated", options, workload, prefill=prefill), options)
        return
    devices = int(whole_number("--devices", options.devices))
    from sweeps.serving.objective import parse_slo

    objective = parse_slo(options.slo)
    loads = None if options.loads is None else _loads(options.loads)
    case = asked_case("disaggregated", options, workload, prefill=prefill)
    from sweeps.studies.splits import default_loads, splits

    found = splits(case, devices, default_loads(case, devices) if loads is None else loads, objective)
    if options.output and options.output.lower().endswith(".nc"):
        from sweeps.data.store import saved

        saved(options.output, found, options.force)
    elif options.output:
        from sweeps.show.splits import splits as picture
        from sweeps.show.style import saved  # type: ignore[assignment]

        saved(picture(found), options.output, options.force)
    _print_splits(case, found, options)


def _loads(text: str) -> list[float]:
    from hwspaces import quantity

    loads = [quantity(part.strip(), "1/s", "--loads") for part in text.split(",")]
    if loads != sorted(set(loads)):
        raise ValueError(f"--loads = {text!r} must increase")
    return loads


def _print_pools(case: Any, options: argparse.Namespace) -> None:
    """The table of metrics of one disaggregated deployment, or its JSON."""
    from sweeps.cli import tables
    from sweeps.cli.answers import record
    from sweeps.run.answer import answer

    found = answer(case)
    if options.json:
        print(json.dumps(record(case, found), indent=2, allow_nan=False))
        return
    out = tables.console()
    out.print(tables.heading(case, request_text(case), overrides(options.set)))
    out.print(f"prefill {pool_text(case)}", end="\n\n")
    out.print(tables.metric_table(found.metrics))
    out.print()
    out.print(tables.op_summary(found.steps))
    for note in tables.notes(case):
        out.print(f"note    {note}")


def request_text(case: Any) -> str:
    """The requests in words."""
    work = case.scenario.workload
    return f"decode {work.batch:,.0f} requests of {work.isl:,.0f} + {work.osl:,.0f} tokens at once"


def pool_text(case: Any) -> str:
    """The prefill pool in words: how many devices, and how they are spread."""
    from jaxroof.deployment import DEGREES, degree, devices

    deployment = case.scenario.prefill.deployment
    spread = [(name, degree(getattr(deployment, name))) for name in DEGREES]
    words = ", ".join(f"{name} {value:g}" for name, value in spread if value != 1.0) or "tp 1"
    return f"{devices(deployment):g} devices: {words}"


def _print_splits(case: Any, found: Any, options: argparse.Namespace) -> None:
    """The best split at every load."""
    from sweeps.cli import tables
    from sweeps.studies.splits import best_text

    if options.json:
        print(json.dumps(_record(found), indent=2, allow_nan=False))
        return
    out = tables.console()
    out.print(f"{found.attrs['title']}, {found.attrs['replicas']}")
    out.print(f"{found.attrs['requests']}; {found.attrs['target'] or 'no limits: lowest E2E latency'}", end="\n\n")
    rows = tables.table("requests/s", "best prefill:decode", numbers=("requests/s",))
    for i, load in enumerate(found["load"].values):
        rows.add_row(f"{load:.4g}", best_text(found, i))
    out.print(rows)
    if options.output:
        out.print(f"{options.output}: every split and load")
    for note in tables.notes(case):
        out.print(f"note    {note}")


def _record(found: Any) -> dict[str, Any]:
    """Everything for machines."""
    import numpy as np

    values = {name: np.asarray(found[name].values).tolist() for name in found.variables}
    return {"attributes": dict(found.attrs), **values}
