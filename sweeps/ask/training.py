"""A training workload from a user's settings: numbers and adapters."""

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from hwspaces.quantities.units import nearest, quantity
from jaxroof.deployment import ADAPTED
from jaxroof.layers.linear import LOW_PRECISIONS
from jaxroof.model import Model, expert_layers
from jaxroof.numerics.struct import declarations
from jaxroof.step.forward import formats_of
from jaxroof.training.schedules import SCHEDULES
from jaxroof.training.training import RECOMPUTES, LoRA, Training
from sweeps.ask.deployments import adapter_settings
from sweeps.ask.leaves import known_leaf

PRECISIONS = ("bf16", "fp8")
"""Of linear layers that are trained."""

ADAPTER_NUMBERS = ("lora.rank", "lora.dropout")
"""Numbers of adapters that a user may give by their path."""


def training_workload(given: Mapping[str, Any], parsed: Callable[[str, Any], float], encoder: bool) -> Training:
    """The workload that a user describes.

    Args:
      given: by field, as a user writes them; None: not given. `lora` is "rank=16,target=q,v", or a table of rank and
        targets; `lora.rank` and `lora.dropout` replace its numbers.
      parsed: the number of a leaf's path and of what a user writes for it, in SI units.
      encoder: whether the model attends to an encoder's output, which training does not know.

    Raises:
      ValueError: one line that names the field, its value and what is allowed.
    """
    known = [field.name for field in dataclasses.fields(Training)]
    for name in given:
        if name not in (*known, *ADAPTER_NUMBERS):
            raise ValueError(f"workload.{name} is not a number of a training run{nearest(name, known)}")
    lora = given.get("lora")
    # Adapters are a struct, read apart from the numbers.
    values: dict[str, Any] = {
        name: parsed(f"workload.{name}", value)
        for name, value in given.items()
        if value is not None and not name.startswith("lora")
    }
    # Required numbers, then combinations that are not modelled or miss a figure.
    missing = [f"workload.{name}" for name in ("global_batch", "seq") if name not in values]
    if missing:
        raise ValueError(f"a training run needs {' and '.join(missing)}")
    if encoder:
        raise ValueError("training of models that attend to an encoder's output is not modelled")
    if values.get("offload", 0.0) > 0.0 and values.get("host_bandwidth") is None:
        raise ValueError(
            "workload.offload streams optimiser states over the link to the host, whose bandwidth the catalogue does "
            "not have: give workload.host_bandwidth, such as 55GB/s"
        )
    if lora is None:
        lone = next((name for name in ADAPTER_NUMBERS if name in given), None)
        if lone is not None:
            raise ValueError(f"workload.{lone} is of adapters that are not there: give workload.lora")
        return Training(**values)
    lora = adapters(lora)
    # Numbers given by path replace those in the text of the adapters.
    numbers: dict[str, Any] = {
        path.removeprefix("lora."): parsed(f"workload.{path}", given[path])
        for path in ADAPTER_NUMBERS
        if given.get(path) is not None
    }
    return Training(**values, lora=dataclasses.replace(lora, **numbers))


def adapters(text: Any) -> LoRA:
    """LoRA of "rank=16,target=q,v", or of a table; ValueError of one line for another."""
    if isinstance(text, LoRA):
        return text
    table = adapter_settings(text) or {}
    targets = tuple(table.get("targets") or ())
    for target in targets:
        if target not in ADAPTED:
            raise ValueError(f"workload.lora: there is no target {target!r}{nearest(target, ADAPTED)}")
    # A rank that is no number becomes 0, which the check of the form refuses.
    try:
        number = float(table.get("rank", 0.0))
    except (TypeError, ValueError):
        number = 0.0
    whole_rank, once = number >= 1.0 and number % 1.0 == 0.0, len(set(targets)) == len(targets)
    if set(table) != {"rank", "targets"} or not (whole_rank and targets and once):
        raise ValueError(f"workload.lora = {text!r} must be like rank=16,target=q,v, targets of {', '.join(ADAPTED)}")
    return LoRA(rank=number, targets=targets)


def schedule_settings(text: str | None) -> dict[str, Any]:
    """`schedule` and `virtual_stages` of "interleaved:4"; ValueError of one line for chunks of another schedule."""
    if text is None:
        return {}
    name, colon, chunks = text.partition(":")
    if name != "interleaved":
        if colon:
            raise ValueError(f"--schedule {text}: only interleaved has chunks, as in interleaved:4")
        return {"schedule": name}
    where = "--schedule interleaved:"
    # Interleaved stages hold two chunks of layers each where no number is given (Narayanan et al., arXiv:2104.04473).
    number = quantity(chunks or "2", "1", where)
    if number != int(number):
        raise ValueError(f"{where} = {chunks!r} must be a whole number")
    return {"schedule": name, "virtual_stages": number}


def workload_settings(settings: Iterable[str]) -> dict[str, str]:
    """Numbers of the workload that have no flag, by name, of "workload.gradient_bytes=4B"."""
    texts = {}
    flagged = {name for name, declared in declarations(Training).items() if declared.flag}
    for setting in settings:
        path, equals, value = (part.strip() for part in setting.partition("="))
        name = path.removeprefix("workload.")
        if not (equals and value):
            raise ValueError(f"--set {setting!r} must be PATH=VALUE, such as workload.gradient_bytes=4B")
        # What has a flag is refused here, so that it is given in one way only.
        if name in (*flagged, "lora", "schedule"):
            raise ValueError(f"--set {setting}: use --{name.replace('_', '-')}")
        texts[name] = value
    return texts


def stored_weights(weights: str | None, precision: str | None, lora: str | None) -> str:
    """What weights are stored in: frozen ones as `weights` says, others in the precision of linear layers."""
    usual = precision or PRECISIONS[0]
    if usual not in PRECISIONS:
        raise ValueError(f"--precision {usual} must be {' or '.join(PRECISIONS)}")
    if weights is not None and lora is None:
        raise ValueError(f"--weights {weights} is what frozen weights are stored in: give --lora too")
    if weights is not None and precision is not None:
        raise ValueError(f"--weights {weights} and --precision {precision}: give one of them")
    return weights or usual


def require_converted(name: str, model: Model) -> None:
    """ValueError for frozen weights that are multiplied with activations of 8 bits or less, which have no gradient."""
    # Formats of 8 bits or less multiply quantised activations, through which no gradient flows.
    low = sorted({weights.compute for weights in formats_of(model)} & set(LOW_PRECISIONS))
    if low:
        raise ValueError(
            f"--weights {name} multiplies in {low[0]}: give weights that are converted to 16 bits, such as nf4, w8a16, "
            "w4a16 or q4_k_m"
        )


# Layouts of a training run on a number of devices, and a deployment's degrees from those that people name.


CHUNKS = (2, 4, 8)
"""Chunks of layers per device that interleaved schedules are tried with."""

LARGEST_CONTEXT = 16
"""Context-parallel degree that is tried at most; beyond it sequences are longer than most runs'."""

COLUMNS = ("tp", "pp", "cp", "ep", "dp", "micro_batch", "zero", "recompute", "schedule", "virtual_stages")
"""What sets layouts apart, in the order of tables; ep and dp as training counts them (see `settings`)."""


def settings(degrees: dict[str, int]) -> dict[str, int]:
    """Settings of `jaxroof.Deployment` from degrees as training frameworks count them.

    There ep devices that share experts are taken from the tp x cp x dp ones. Here they are those of a stage: with
    ep above tp x cp, ep / (tp x cp) attention groups share experts, and dp is what is left of the copies.

    Args:
      degrees: tp, pp, cp, ep, dp by name, those that were given.

    Raises:
      ValueError: one line, where they do not divide.
    """
    given = dict(degrees)
    # Devices of one stage that work on the same sequences: tp x cp of them.
    ep, stage = given.get("ep", 1), given.get("tp", 1) * given.get("cp", 1)
    if ep <= stage:
        return given
    if ep % stage:
        raise ValueError(f"ep = {ep} must be a multiple of tp x cp = {stage}, or divide it")
    # Beyond one group, experts are spread over several, which are taken out of the dp copies.
    groups = ep // stage
    dp = given.get("dp", groups)
    if dp % groups:
        raise ValueError(f"dp = {dp} must be a multiple of ep / (tp x cp) = {groups}")
    return given | {"attention_dp": groups, "dp": dp // groups}


@dataclasses.dataclass(frozen=True)
class Layouts:
    """Every layout that is tried, as columns of numbers by name: those of `COLUMNS`."""

    columns: dict[str, np.ndarray]

    def __len__(self) -> int:
        return len(self.columns["tp"])

    def paths(self, experts: bool) -> dict[str, np.ndarray]:
        """The same by the paths of a scenario's leaves; degrees of experts only where the model has some."""
        own = self.columns
        # Groups that share experts, as in `settings`, for all rows at once.
        groups = np.maximum(1, own["ep"] // (own["tp"] * own["cp"]))
        columns = {f"deployment.{name}": own[name] for name in ("tp", "pp", "cp")}
        if experts:
            columns |= {"deployment.ep": own["ep"], "deployment.attention_dp": groups}
        # A copy of the experts spans all groups that share them.
        columns["deployment.dp"] = own["dp"] // groups
        names = ("micro_batch", "zero", "recompute", "schedule", "virtual_stages")
        return columns | {f"workload.{name}": own[name] for name in names}

    def row(self, place: int) -> dict[str, float | str]:
        """One layout in numbers and words."""
        layout = {name: column[place].item() for name, column in self.columns.items()}
        for name in ("recompute", "schedule"):
            layout[name] = known_leaf(f"workload.{name}").codes[int(layout[name])]
        return layout


def layouts(model: Model, devices: int, global_batch: int, seq: int) -> Layouts:
    """Every layout on `devices` devices that can be: degrees that divide what they split, whole micro-batches,
    stages and chunks that have layers, schedules that run with them.

    ZeRO is tried where there are copies of the weights, schedules where there are stages. With experts ep is 1, or any
    divisor of tp x cp x dp that divides the experts and spans whole tp x cp groups.
    """
    # Degrees first, then every way to train with each: micro-batch, ZeRO, recomputation, schedule.
    degrees = np.array(list(_degrees(model, devices, global_batch, seq)), dtype=np.int64)
    if not len(degrees):
        return Layouts({name: np.zeros(0, np.int64) for name in COLUMNS})
    rows = [row for tp, pp, cp, ep, dp in degrees.tolist() for row in _ways(model, global_batch, tp, pp, cp, ep, dp)]
    return Layouts(dict(zip(COLUMNS, np.array(rows, np.int64).T, strict=True)))


def _degrees(model: Model, devices: int, global_batch: int, seq: int) -> Iterator[tuple[int, ...]]:
    layers = sum(int(block.count) for block in model.blocks)
    experts = expert_layers(model)
    # A degree has to divide the experts of every layer, so their greatest common divisor.
    shared = math.gcd(*(int(layer.experts) for layer in experts)) if experts else 1
    for tp in divisors(devices):
        for pp in divisors(devices // tp):
            if pp > layers:
                continue
            for cp in divisors(devices // (tp * pp)):
                # Ring and all-to-all context parallelism split a sequence into equal parts.
                if cp > LARGEST_CONTEXT or seq % cp:
                    continue
                dp = devices // (tp * pp * cp)
                # Every copy works on equally many sequences.
                if global_batch % dp:
                    continue
                stage = tp * cp
                for ep in divisors(stage * dp) if experts else (1,):
                    # Experts are spread inside one tp x cp group, or over whole groups.
                    if shared % ep == 0 and (stage % ep == 0 or ep % stage == 0):
                        yield tp, pp, cp, ep, dp


def _ways(model: Model, global_batch: int, tp: int, pp: int, cp: int, ep: int, dp: int) -> Iterator[tuple[int, ...]]:
    layers = sum(int(block.count) for block in model.blocks)
    sequences = global_batch // dp
    for size in divisors(sequences):
        if size & (size - 1):
            continue  # kernels and people like powers of two
        schedules = list(_schedules(pp, sequences // size, layers))
        # ZeRO stages 0 to 3 (Rajbhandari et al., arXiv:1910.02054); with a single copy there is nothing to shard.
        zeros = range(4) if dp * cp > 1 else (0,)
        for zero, recompute, (schedule, chunks) in itertools.product(zeros, range(len(RECOMPUTES)), schedules):
            yield tp, pp, cp, ep, dp, size, zero, recompute, schedule, chunks


def _schedules(pp: int, number: int, layers: int) -> Iterator[tuple[int, int]]:
    """Codes of schedules that run, with chunks per device."""
    names = ("1f1b",) if pp == 1 else ("gpipe", "1f1b", "zero_bubble")
    yield from ((SCHEDULES.index(name), 1) for name in names)
    # Interleaving needs micro-batches in multiples of the stages (Narayanan et al., arXiv:2104.04473).
    if pp > 1 and number % pp == 0:
        yield from ((SCHEDULES.index("interleaved"), v) for v in CHUNKS if layers % (pp * v) == 0)
    # DualPipe feeds micro-batches from both ends: even numbers, at least two per stage (DeepSeek-V3, arXiv:2412.19437).
    if pp > 1 and pp % 2 == 0 and number % 2 == 0 and number >= 2 * pp:
        yield SCHEDULES.index("dualpipe"), 1


def divisors(number: int) -> list[int]:
    """Divisors in rising order."""
    # Divisors come in pairs d and number / d, of which one is at most the square root.
    small = [d for d in range(1, math.isqrt(number) + 1) if number % d == 0]
    return sorted({*small, *(number // d for d in small)})
