"""Points whose labels do not say what ran, found by rules that no prediction of the model under test enters."""

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jaxroof import batch
from jaxroof.deployment import Deployment, request_groups
from jaxroof.efficiency import Efficiency, datasheet
from jaxroof.hardware import Hardware
from jaxroof.model import Model, has_experts
from jaxroof.numerics.arrays import eager
from jaxroof.numerics.smooth import maximum
from jaxroof.numerics.struct import Array, Scalar, struct
from jaxroof.numerics.tree import mapped
from jaxroof.step.step import step_time
from sweeps.measure.validate.relative_errors import grouped, stacked
from sweeps.measure.validate.serving.launches import NVIDIA
from sweeps.measure.validate.serving.serving_points import NVIDIA_DEVICES, ServingPoint


@struct
class ImpliedLoad:
    """Mean state of a closed loop."""

    sequences: Scalar  # that decode at once
    isl: Scalar  # mean, tokens
    osl: Scalar
    mixed_share: Scalar  # prompts per decode step


def load(point: ServingPoint) -> ImpliedLoad:
    """Sequences that decode at once: clients * osl tpot / (osl tpot + ttft), with mean lengths.

    Every sequence that ends is replaced, and its successor's prompt is worked on between the others' steps.
    """
    # Lengths are drawn evenly from the shortest to the nominal one.
    mean = 0.5 * (1.0 + point.launch.shortest)
    isl, osl = mean * point.isl, mean * point.osl
    decoding = osl * point.tpot
    # Little's law: clients in each state are in proportion to the time spent in it.
    sequences = max(point.concurrency * decoding / (decoding + point.ttft), 1.0)
    return ImpliedLoad(sequences=sequences, isl=isl, osl=osl, mixed_share=max(sequences - 1.0, 0.0) / osl)


def little_times(points: Sequence[ServingPoint], efficiency: Efficiency) -> np.ndarray:
    """Time per output token, and of one prompt without anything else, in s, shape [2, points]."""
    order, stacks = stacked([(point.hardware, point.model, point.deployment, load(point)) for point in points])
    # On NumPy: every structure comes once, and compiling it would take a hundred times as long as its points.
    places = [(*mapped(_float64, stack), efficiency) for stack in stacks]
    with eager():
        times = [np.broadcast_arrays(*_times(*place)) for place in places]
    return np.concatenate([np.stack(pair) for pair in times], axis=1)[:, order]


def _float64(column: Any) -> np.ndarray:
    return np.asarray(column, np.float64)


def _times(
    hardware: Hardware, model: Model, deployment: Deployment, state: ImpliedLoad, efficiency: Efficiency
) -> tuple[Array, Array]:
    # Halfway through its output a sequence has its prompt and half of the output in the cache.
    decode = batch.decode(state.sequences, state.isl + 0.5 * state.osl)
    prompt = batch.prefill(1.0, state.isl)
    # A decode step takes its own time, and in the share of steps with a prompt what the prompt adds.
    steady = step_time(hardware, model, deployment, decode, efficiency)
    both = step_time(hardware, model, deployment, batch.mixed(prompt, decode), efficiency)
    alone = step_time(hardware, model, deployment, prompt, efficiency)
    return steady + state.mixed_share * maximum(both - steady, 0.0), alone


ATTAINABLE = 0.95
"""Share of a datasheet's bandwidth and peaks that no engine exceeds over a whole step."""

FASTER = 1.25
"""Ratio between two measurements of one point that no version of an engine explains by itself."""

LONGER, DROP, FEW = 4.0, 0.88, 8.0
"""Output lengths that are compared, the time per token that speculation alone explains, and up to which concurrency:
prompts take little of the time then, and a longer context only adds to it."""

MAJORITY = 0.5
"""Share of a series' points from which on all of it is suspect."""

CACHED = 0.25
"""The same for points beyond the device's rates: a series that cannot be in a quarter of its points was not measured as
labelled in the others either."""

Rule = tuple[str, Callable[[Sequence[ServingPoint]], list[bool]]]


def checked(points: Sequence[ServingPoint]) -> list[ServingPoint]:
    """The points with `suspect` set where a rule speaks against them; the first rule that does gives the reason.

    1. Experts and attention on different numbers of devices (set by the reader).
    2. The same two times to all digits under different layouts: at most one of the labels is right.
    3. Faster than weights, cache and prompts at 95 % of the datasheet: prompts were cached or tokens drafted. So is
       all of a series of which a quarter is.
    4. Speculative decoding without a label: a model with a prediction head whose points are 1.25 times faster than
       another measurement of the same, or whose time per token falls as outputs grow; half of a series stands for all.
    5. vLLM's 8-bit experts without block scales on Hopper: a kernel known to be several times too slow.
    """
    reasons: list[str | None] = [point.suspect for point in points]
    # The first reason stays, that of the file's reader before those of the rules.
    for reason, rule in RULES:
        for index, hit in enumerate(rule(points)):
            if hit and reasons[index] is None:
                reasons[index] = reason
    return [dataclasses.replace(point, suspect=reason) for point, reason in zip(points, reasons, strict=True)]


def _contradictory(points: Sequence[ServingPoint]) -> list[bool]:
    layouts = defaultdict(set)
    for point in points:
        layouts[_values(point)].add(_layout(point))
    return [len(layouts[_values(point)]) > 1 for point in points]


def _impossible(points: Sequence[ServingPoint]) -> list[bool]:
    if not points:
        return []
    # Times are compared with what no kernel beats, the datasheet's rates, at the share that whole steps attain.
    fast = [
        point.tpot < step / ATTAINABLE or point.ttft < prompt / ATTAINABLE
        for point, step, prompt in zip(points, *little_times(points, datasheet()), strict=True)
    ]
    return _spread(points, fast, [True] * len(points), CACHED)


def _speculative(points: Sequence[ServingPoint]) -> list[bool]:
    same, ladder = defaultdict(list), defaultdict(list)
    for index, point in enumerate(points):
        if point.model.prediction is None:
            continue
        # Without the two times: points that were asked for alike, measured more than once.
        same[(_values(point)[:-2], _layout(point))].append(index)
        if point.concurrency <= FEW:
            ladder[(_series(point), _layout(point), point.isl, point.concurrency)].append(index)
    hit, seen = [False] * len(points), [False] * len(points)
    # Two measurements of one point that differ by more than releases explain: the faster one drafted tokens.
    for group in same.values():
        slowest = max(points[i].tpot for i in group)
        if len({points[i].tpot for i in group}) > 1:
            for i in group:
                seen[i], hit[i] = True, hit[i] or slowest > FASTER * points[i].tpot
    # A longer output only adds context: time per token that falls with it is a sign of drafted tokens.
    for group in ladder.values():
        for i in group:
            for j in group:
                if points[j].osl >= LONGER * points[i].osl:
                    falls = points[j].tpot < DROP * points[i].tpot
                    for k in (i, j):
                        seen[k], hit[k] = True, hit[k] or falls
    return _spread(points, hit, seen, MAJORITY)


def _slow_experts(points: Sequence[ServingPoint]) -> list[bool]:
    return [
        point.engine == "vllm"
        and point.family == NVIDIA
        and point.modes[1] == "fp8"
        and has_experts(point.model)
        and point.vendor == NVIDIA_DEVICES
        and "fp4" not in point.hardware.matrix
        for point in points
    ]


def _spread(points: Sequence[ServingPoint], hit: Sequence[bool], seen: Sequence[bool], share: float) -> list[bool]:
    """`hit`, and all of every series in which at least `share` of the points that were compared are hit."""
    flags = list(hit)
    for group in grouped(range(len(points)), lambda index: _series(points[index])).values():
        compared = [i for i in group if seen[i]]
        if compared and sum(hit[i] for i in compared) >= share * len(compared) and any(hit[i] for i in compared):
            for i in group:
                flags[i] = True
    return flags


def _series(point: ServingPoint) -> tuple[Any, ...]:
    """Points that one campaign measured: model and engine as they were named, device, version, date."""
    return (point.label, point.gpu, point.engine, point.version, point.family, point.date)


def _values(point: ServingPoint) -> tuple[Any, ...]:
    """What was asked for, and both times."""
    return (point.gpu, point.engine, point.isl, point.osl, point.concurrency, point.ttft, point.tpot)


def _layout(point: ServingPoint) -> tuple[Any, ...]:
    # What decides times beside load: model, degrees and bytes of the cache.
    d = point.deployment
    return (point.model, d.tp, d.pp, request_groups(d), d.ep, d.kv_bytes)


RULES: tuple[Rule, ...] = (
    ("the same times under two layouts", _contradictory),
    ("faster than weights, cache and prompts at 95 % of the datasheet", _impossible),
    ("tokens drafted without a label", _speculative),
    ("vLLM's slow kernel for 8-bit experts without block scales", _slow_experts),
)
"""Reason -> the rule, in the order in which they are tried."""
