"""`jaxroof disaggregate`: prompts on one pool of devices and decoding on another, and the best split between them."""

import argparse
from typing import Any

from sweeps.cli import common
from sweeps.cli.images import encoder_arguments, encoder_workload
from sweeps.cli.leaf_flags import add_flags, leaf_flags
from sweeps.cli.outputs import output_argument, write

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
    from sweeps.answers.disaggregate import show_pools, show_splits

    common.require_lengths(options)
    # Without a number of devices there is one split, which the flags describe.
    if options.devices is None and (of_search := common.given(options, SPLITTING)):
        raise ValueError(f"{of_search[0]} is for a search over splits: give --devices N too")
    workload: dict[str, Any] = {name: getattr(options, name) for name in NUMBERS} | encoder_workload(options, "isl")
    # The flag names the exception: the cache moves layer by layer unless told otherwise.
    workload["layerwise"] = "0" if options.whole else None
    prefill = common.named_settings("--prefill", options.prefill, "tp=4")
    if options.devices is None:
        pools = common.asked_case("disaggregated", options, workload, prefill=prefill)
        show_pools(pools, options, common.overrides(options.set))
        return
    # A search over splits: the number of devices of both pools together is given.
    devices = int(common.whole_number("--devices", options.devices))
    from sweeps.run.simulated.objective import parse_slo

    objective = parse_slo(options.slo)
    loads = None if options.loads is None else _loads(options.loads)
    case = common.asked_case("disaggregated", options, workload, prefill=prefill)
    from sweeps.studies.splits import default_loads, splits

    # Default loads reach up to what the best split can serve.
    dataset = splits(case, devices, default_loads(case, devices) if loads is None else loads, objective)
    # The dataset itself is written as netCDF, and drawn as a picture otherwise.
    if options.output and not options.output.lower().endswith(".nc"):
        from sweeps.show.splits import splits as picture

        write(options, "output", lambda: picture(dataset))
    else:
        write(options, "output", lambda: dataset)
    show_splits(case, dataset, options)


def _loads(text: str) -> list[float]:
    from hwspaces import quantity

    loads = [quantity(part.strip(), "1/s", "--loads") for part in text.split(",")]
    # Increasing loads, since splits are drawn as lines over them.
    if loads != sorted(set(loads)):
        raise ValueError(f"--loads = {text!r} must increase")
    return loads
