"""`jaxroof disaggregate`: prompts on one pool of devices and decoding on another, and the best split between them."""

import argparse
from typing import Any

from sweeps.cli import common
from sweeps.cli.images import encoder_arguments, encoder_workload
from sweeps.cli.leaf_flags import add_flags, leaf_flags
from sweeps.cli.outputs import output_argument
from sweeps.cli.printing import print_json

POOLS = leaf_flags("jaxroof.jobs.disaggregated")
"""Flags of the pools' work, by name."""

NUMBERS = ("isl", "osl", "batch", "cached", "acceptance", *POOLS)
"""Flags of the workload."""

SPLITTING = ("loads", "slo", "output")
"""Flags that only a search over splits reads."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the verb."""
    common.case_arguments(parser)
    common.word_arguments(parser, "draft")
    what = "of the prefill pool: hardware, efficiency, tp, dp, ...; what is not said is as in the decode pool, but "
    what += "degrees, which are 1; may be given several times. Other flags describe the decode pool"
    common.settings_argument(parser, "--prefill", what)
    common.length_arguments(parser)
    common.batch_arguments(parser, "sequences that a decode replica has at once (default 1)")
    add_flags(parser, POOLS)
    encoder_arguments(parser)
    parser.add_argument(
        "--whole", action="store_true", help="the cache leaves after the prompt, instead of layer by layer"
    )
    split = parser.add_argument_group("the best split of a number of devices over the load")
    split.add_argument("--devices", metavar="N", help="of both pools together")
    split.add_argument("--loads", metavar="R,..", help="requests/s (default: 40 up to what the best split can do)")
    split.add_argument("--slo", metavar="LATENCY=LIMIT,..", help="ttft=500ms,tpot=40ms")
    what = ".nc every split and load, .png or .svg a picture"
    output_argument(split, "-o", "--output", kinds=("dataset", "png", "svg"), metavar="FILE", help=what)
    common.json_argument(parser)


def run(options: argparse.Namespace) -> None:
    """Print what the two pools do, or which split of the devices is best; write the file that is wanted."""
    common.require_lengths(options)
    if options.devices is None:
        for flag in SPLITTING:
            if getattr(options, flag) is not None:
                raise ValueError(f"--{flag} is for a search over splits: give --devices N too")
    workload: dict[str, Any] = {name: getattr(options, name) for name in NUMBERS} | encoder_workload(options, "isl")
    workload["layerwise"] = "0" if options.whole else None
    prefill = common.named_settings("--prefill", options.prefill, "tp=4")
    if options.devices is None:
        _print_pools(common.asked_case("disaggregated", options, workload, prefill=prefill), options)
        return
    devices = int(common.whole_number("--devices", options.devices))
    from sweeps.run.simulated.objective import parse_slo

    objective = parse_slo(options.slo)
    loads = None if options.loads is None else _loads(options.loads)
    case = common.asked_case("disaggregated", options, workload, prefill=prefill)
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
    from sweeps.cli.answers import record, throttled_lines
    from sweeps.run.answer import answer

    found = answer(case)
    if options.json:
        return print_json(record(case, found))
    out = tables.console()
    work = case.scenario.workload
    what = f"decode {work.batch:,.0f} requests of {work.isl:,.0f} + {work.osl:,.0f} tokens at once"
    out.print(tables.heading(case, what, common.overrides(options.set)))
    out.print(f"prefill {_pool_text(case.scenario.prefill.deployment)}", end="\n\n")
    out.print(tables.metric_table(found.metrics))
    out.print()
    out.print(tables.op_summary(found.steps))
    tables.print_lines(out, "power", throttled_lines(case, found.metrics))
    tables.print_lines(out, "note", tables.notes(case))


def _pool_text(deployment: Any) -> str:
    """The prefill pool in words: how many devices, and how they are spread."""
    from jaxroof.deployment import DEGREES, degree, devices

    spread = [(name, degree(getattr(deployment, name))) for name in DEGREES]
    words = ", ".join(f"{name} {value:g}" for name, value in spread if value != 1.0) or "tp 1"
    return f"{devices(deployment):g} devices: {words}"


def _print_splits(case: Any, found: Any, options: argparse.Namespace) -> None:
    """The best split at every load."""
    import numpy as np

    from sweeps.cli import tables
    from sweeps.studies.splits import best_text

    if options.json:
        values = {name: np.asarray(found[name].values).tolist() for name in found.variables}
        return print_json({"attributes": dict(found.attrs), **values})
    out = tables.console()
    out.print(f"{found.attrs['title']}, {found.attrs['replicas']}")
    out.print(f"{found.attrs['requests']}; {found.attrs['target'] or 'no limits: lowest E2E latency'}", end="\n\n")
    rows = tables.table("requests/s", "best prefill:decode", numbers=("requests/s",))
    for i, load in enumerate(found["load"].values):
        rows.add_row(f"{load:.4g}", best_text(found, i))
    out.print(rows)
    if options.output:
        out.print(f"{options.output}: every split and load")
    tables.print_lines(out, "note", tables.notes(case))
