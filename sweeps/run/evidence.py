"""Distance of an engine step from the evidence of its constants: one judgement for answers, rankings and pictures."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from hwspaces import formatted
from jaxroof.batch import Batch, Decode, Prefill
from jaxroof.efficiency import Efficiency, Hull, Surfaces
from jaxroof.efficiency.hull import BEYOND, FEATURES, KINDRED, SHAPE, hull_excesses, kind_difference, precision_distance
from jaxroof.hardware import Hardware
from jaxroof.jobs import Scenario
from jaxroof.numerics.arrays import eager
from jaxroof.op import AnyOp, Kernel, Ops
from jaxroof.roofline import op_extrapolation, op_hull, op_time
from jaxroof.step.overlap import computing_hardware
from jaxroof.step.placed import device_ops
from jaxroof.step.step import evidence_known, evidence_of, host_time

MEASURED_CORES = {False: "GPUs with waves of 32 threads", True: "cores that a compiler schedules"}
"""`Hull.compiled` -> the devices of the evidence, in words."""

CAUSES = 2
"""Features that are named, at most."""


@dataclasses.dataclass(frozen=True)
class Beyond:
    """How far a step is beyond the evidence."""

    octaves: float | None  # mean over the step's time, the metric `*_extrapolation`; None: no evidence is known
    causes: tuple[str, ...]  # what is furthest out, in words; empty inside

    @property
    def marked(self) -> bool:
        """Whether it counts as extrapolated."""
        return self.octaves is None or self.octaves >= BEYOND

    @property
    def text(self) -> str:
        """In words."""
        if self.octaves is None:
            return "nothing is known of the evidence for these constants"
        if not self.marked:
            return "inside of the evidence"
        return f"a factor of {factor(self.octaves)} beyond the evidence: {', '.join(self.causes)}"


def factor(octaves: float) -> str:
    """A distance in octaves as people say it, as a factor: "2.3"; two digits."""
    return formatted(2.0**octaves, "1", 2)


def beyond(scenario: Scenario, batch: Batch) -> Beyond:
    """How far one engine step of a scenario is beyond what its constants were fitted to.

    Args:
      scenario: one point: numbers of shape ().
      batch: what the step works on.
    """
    efficiency = scenario.efficiency
    with eager():
        hardware = computing_hardware(scenario.hardware, scenario.deployment)
        ops = device_ops(scenario.hardware, scenario.model, scenario.deployment, batch)
        return ops_beyond(ops, hardware, efficiency, float(host_time(hardware, batch, scenario.deployment, efficiency)))


def ops_beyond(ops: Ops, hardware: Hardware, efficiency: Efficiency, host: float = 0.0) -> Beyond:
    """How far ops that run one after the other are beyond what the constants were fitted to.

    Args:
      ops: numbers of shape (), computed on NumPy.
      host: s that the host takes beside them.
    """
    # Without the shapes of its evidence an efficiency cannot tell how far it is used beyond them.
    if not evidence_known(efficiency):
        return Beyond(None, ())
    # Seconds per step: every op counts by its share of the step's time.
    times = [float(op.count * op_time(op, hardware, efficiency)) for op in ops.values()]
    total = sum(times) + host
    octaves, said = 0.0, dict[str, Any]()
    for op, time in zip(ops.values(), times, strict=True):
        if not (evidence_of(op, efficiency) and time > 0.0):
            continue
        octaves += time / total * float(op_extrapolation(op, hardware, efficiency))
        for name, (weight, words) in _causes(op, hardware, efficiency).items():
            before, text, heaviest = said.get(name, (0.0, "", 0.0))
            share = time / total * weight
            # Shares add up over ops; the words are those of the op that contributes most.
            said[name] = before + share, words if share > heaviest else text, max(share, heaviest)
    order = sorted(said.values(), key=lambda one: -one[0])
    # A cause is named where it contributes its part of the threshold at least.
    return Beyond(octaves, tuple(words for share, words, _ in order[:CAUSES] if share >= BEYOND / CAUSES))


def extrapolated(metrics: Mapping[str, float]) -> bool:
    """Whether a batch's prefill or decode steps are beyond the evidence by its metrics, or nothing is known of it."""
    # Written with `not <` so that NaN, which stands for unknown evidence, counts as extrapolated.
    return not max(metrics["prefill_extrapolation"], metrics["decode_extrapolation"]) < BEYOND


def serving_beyond(scenario: Scenario, sequences: float, isl: float, osl: float) -> Beyond:
    """The same of a step under load: the mean batch that decodes, at the middle of its outputs, beside one prompt."""
    return beyond(scenario, serving_step(sequences, isl, osl))


def serving_step(sequences: float, isl: float, osl: float) -> Batch:
    """The mean batch that decodes, at the middle of its outputs, beside one prompt."""
    # Requests that decode are at the middle of their outputs on average, hence ISL + OSL / 2 tokens of context.
    decode = Decode(sequences=sequences, context=sequences * (isl + 0.5 * osl))
    prefill = Prefill(sequences=1.0, tokens=isl, past=0.0)
    return Batch(prefill=prefill, decode=decode, logits=sequences + 1.0)


def without_hulls(tree: Any) -> Any:
    """An efficiency, or a part of one, that knows of no evidence: its intervals are those inside of the hull."""
    if not dataclasses.is_dataclass(tree) or isinstance(tree, Hull):
        return tree
    # Other dataclasses are searched for hulls in turn.
    fields = {field.name: getattr(tree, field.name) for field in dataclasses.fields(tree) if field.name != "hull"}
    changed = {name: without_hulls(value) for name, value in fields.items() if dataclasses.is_dataclass(value)}
    hull = {"hull": None} if hasattr(tree, "hull") else {}
    return dataclasses.replace(tree, **changed, **hull)  # type: ignore[type-var]


def _causes(op: AnyOp, hardware: Hardware, efficiency: Efficiency) -> dict[str, tuple[float, str]]:
    """Octaves that every feature counts for, and the words for it."""
    hull = op_hull(op, efficiency)
    entry = getattr(efficiency, op.kind) if isinstance(op, Kernel) else None
    # Kernels without a hull of their own size are judged by that of all surfaces of their kind.
    hull = entry.hull if hull is None and isinstance(entry, Surfaces) else hull
    if hull is None:
        return {}
    ranges, causes = {one.feature: one for one in hull.ranges}, {}
    for name, excess in hull_excesses(hull, op, hardware).items():
        octaves, feature = float(excess), FEATURES[name]
        if octaves != 0.0:
            # Positive octaves are above the measured range, negative ones below it.
            side = ("above the largest", ranges[name].high) if octaves > 0.0 else ("below the least", ranges[name].low)
            far = factor(abs(octaves))
            words = f"{feature.words} a factor of {far} {side[0]} measured ({formatted(side[1], feature.unit)})"
            # An octave of a shape counts for less than one of a device.
            causes[name] = (1.0 if feature.device else SHAPE) * abs(octaves), words
    distance = precision_distance(hull, op)
    if distance > 0.0 and isinstance(op, Kernel):
        causes["precision"] = distance, f"{op.precision} was not measured, {' and '.join(hull.precisions)} were"
    if (octaves := KINDRED * float(kind_difference(hull, hardware))) > 0.0:
        causes["kind"] = octaves, f"kernels were only measured on {MEASURED_CORES[hull.compiled]}"
    return causes
