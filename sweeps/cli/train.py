"""`jaxroof train`: one iteration of training a model on a layout of devices, or the best of all layouts."""

import argparse
from typing import Any

from sweeps.answers.to_json import print_json
from sweeps.cli import common, deployment
from sweeps.cli.leaf_flags import add_flags, flag, leaf_flags
from sweeps.cli.train_search import TOP, run_search

DEGREES = {
    "dp": "data-parallel degree: copies of the model, each with sequences of its own (default 1)",
    "tp": "tensor-parallel degree (default 1)",
    "pp": "pipeline stages (default 1)",
    "cp": "context-parallel degree: tokens of a sequence are split (default 1)",
    "ep": "expert-parallel degree, of the tp x cp x dp devices (default 1)",
}
"""Degrees as training frameworks count them."""

NUMBERS = leaf_flags("jaxroof.training.training")
"""Flags of a training's numbers, by name."""

WORK = (*NUMBERS, "schedule", "precision", "lora", "offload")
"""Flags that only a training has."""

PLACES = ("sequence_parallel", "context_kind", "overlap", "imbalance", "attention_kernel")
"""Flags of the deployment beside its degrees."""

PRECISIONS = ("bf16", "fp8")
OFFLOADS = ("optimizer",)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the verb."""
    case_arguments(parser)
    parser.add_argument("--search", action="store_true", help="every layout of --devices, the fastest that fit first")
    parser.add_argument("--devices", metavar="N", help="of --search")
    parser.add_argument("--top", metavar="N", help=f"layouts of --search that are shown (default {TOP})")
    common.json_argument(parser)


def case_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags that describe one training."""
    common.names_arguments(parser)
    common.word_arguments(parser, "efficiency", "prices")
    for name, text in DEGREES.items():
        parser.add_argument(flag(name), metavar="N", help=text)
    workload_arguments(parser)
    parser.add_argument("--weights", metavar="NAME", help="with --lora: storage of the frozen weights: nf4, w4a16 ...")
    add_flags(parser, {name: deployment.flags()[name] for name in PLACES})
    what = "any number: workload.gradient_bytes=4, hardware.memory.hbm.capacity=141GB; may be given several times"
    common.settings_argument(parser, "--set", what, "PATH=VALUE")


def workload_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags that only a training has."""
    add_flags(parser, NUMBERS)
    parser.add_argument(
        "--schedule", metavar="NAME", help="1f1b (default), gpipe, interleaved:CHUNKS, zero-bubble, dualpipe"
    )
    parser.add_argument("--precision", metavar="NAME", help="of linear layers: bf16 (default), fp8")
    parser.add_argument("--lora", metavar="TEXT", help="train adapters alone: rank=16,target=q,v (q k v o up down)")
    parser.add_argument("--offload", metavar="WHAT", help="optimizer: its states are in host memory")


def training_case(options: argparse.Namespace) -> Any:
    """The `sweeps.Case` that the flags describe; ValueError in one line when they do not."""
    common.require_names(options)
    for name in ("global_batch", "seq"):
        if getattr(options, name) is None:
            raise ValueError(f"{flag(name)} is missing: {NUMBERS[name].help}")
    precision = options.precision or "bf16"
    if precision not in PRECISIONS:
        raise ValueError(f"--precision {precision} must be {' or '.join(PRECISIONS)}")
    if options.weights is not None and options.lora is None:
        raise ValueError(f"--weights {options.weights} is what frozen weights are stored in: give --lora too")
    if options.weights is not None and options.precision is not None:
        raise ValueError(f"--weights {options.weights} and --precision {options.precision}: give one of them")
    if options.offload is not None and options.offload not in OFFLOADS:
        raise ValueError(f"--offload {options.offload} must be optimizer")
    given = {name: getattr(options, name) for name in (*NUMBERS, "lora") if getattr(options, name) is not None}
    work: dict[str, Any] = {
        name: common.whole_number(flag(name), text) if name in NUMBERS and NUMBERS[name].counts else text
        for name, text in given.items()
    }
    degrees = {
        name: int(common.whole_number(flag(name), getattr(options, name)))
        for name in DEGREES
        if getattr(options, name) is not None
    }
    work |= _schedule(options.schedule)
    if options.offload:
        work["offload"] = 1.0
    others = other_settings(options)
    settings = common.overrides(others)
    work |= _workload([setting for setting in options.set if setting not in others])
    from sweeps.ask.cases import case
    from sweeps.ask.training import settings as placed

    spread: dict[str, Any] = placed(degrees)
    spread |= {name: getattr(options, name) for name in PLACES if getattr(options, name) is not None}
    found = case(
        "train",
        **(common.named_words(options) | {"weights": options.weights or precision}),
        workload=work,
        deployment=spread,
        overrides=settings,
        check=not getattr(options, "search", False),
    )
    if options.weights is not None:
        _require_converted(options.weights, found.scenario.model)
    return found


def _require_converted(name: str, model: Any) -> None:
    """ValueError for frozen weights that are multiplied with activations of 8 bits or less, which have no gradient."""
    from jaxroof.layers.linear import LOW_PRECISIONS
    from jaxroof.step.forward import formats_of

    low = sorted({weights.compute for weights in formats_of(model)} & set(LOW_PRECISIONS))
    if low:
        raise ValueError(
            f"--weights {name} multiplies in {low[0]}: give weights that are converted to 16 bits, such as nf4, w8a16, "
            "w4a16 or q4_k_m"
        )


def _schedule(text: str | None) -> dict[str, Any]:
    """schedule and virtual_stages of "interleaved:4"."""
    if text is None:
        return {}
    name, colon, chunks = text.partition(":")
    if colon and name != "interleaved":
        raise ValueError(f"--schedule {text}: only interleaved has chunks, as in interleaved:4")
    if name == "interleaved":
        return {"schedule": name, "virtual_stages": common.whole_number("--schedule interleaved:", chunks or "2")}
    return {"schedule": name}


def other_settings(options: argparse.Namespace) -> list[str]:
    """Settings of `--set` outside of the workload."""
    return [setting for setting in options.set if not setting.strip().startswith("workload.")]


def _workload(settings: list[str]) -> dict[str, str]:
    """Numbers of the workload that have no flag, by name."""
    found = {}
    for setting in settings:
        path, equals, value = (part.strip() for part in setting.partition("="))
        name = path.removeprefix("workload.")
        if not (equals and value):
            raise ValueError(f"--set {setting!r} must be PATH=VALUE, such as workload.gradient_bytes=4B")
        if name in (*NUMBERS, "lora", "schedule"):
            raise ValueError(f"--set {setting}: use {flag(name)}")
        found[name] = value
    return found


def run(options: argparse.Namespace) -> None:
    """Print the tables of an iteration or of a search, or their JSON."""
    if options.search:
        return run_search(options, training_case)
    for name in ("devices", "top"):
        if getattr(options, name) is not None:
            raise ValueError(f"--{name} belongs to --search")
    case = training_case(options)
    from sweeps.answers import train as report
    from sweeps.run.answer import answer

    found = answer(case)
    if options.json:
        return print_json(report.record(case, found))
    report.show(case, found.metrics, common.overrides(other_settings(options)))
