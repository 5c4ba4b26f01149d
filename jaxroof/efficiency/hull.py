"""Hull of the evidence behind a kernel's constants: measured ranges of devices and shapes, and distances to it."""

import dataclasses
import math
from collections.abc import Callable
from typing import NamedTuple

from jaxroof.hardware import Hardware, clock, gpu_cores
from jaxroof.layers.linear import OPERAND_BYTES
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.smooth import maximum
from jaxroof.numerics.struct import Array, Scalar
from jaxroof.op import AnyOp, AttentionShape, Collective, Kernel, ProductShape

BEYOND = 0.25
"""Octaves outside from which an answer is marked as extrapolated: 19 % beyond what was measured; ours."""

FORMAT = 0.5
"""Octaves between two precisions of one width whose kernels differ, such as int8 and fp8; ours."""

SHAPE = 0.5
"""Octaves that one octave of a shape counts for: errors of products grow half as fast with it as with that of a device;
fitted to the smaller half of the measured shapes and scored on the others, `docs/evidence/kernels.md`."""

KINDRED = 2.0
"""Octaves between kinds of cores, whose kernels have nothing in common, in words and pictures; ours."""

KIND = 0.6
"""Standard deviation of the log errors that cores of another kind add to what is lost against the datasheet's bound.

Source: TPU, Gaudi and Neuron devices, `python -m tests.evidence.intervals`."""

ALIKE = {"fp16": "bf16", "tf32": "fp32"}
"""Precision -> the one whose kernels it shares."""

REFERENCE_BYTES = 2.0
"""B per operand at which rates of matrix units are stated: twice the rate at half the bytes is the same unit."""


class Feature(NamedTuple):
    """One number of a device, or of the shape of an op, that times of kernels depend on."""

    words: str
    unit: str  # SI; "1" also where the name says it
    device: bool  # else of the shape
    value: Callable[[AnyOp, Hardware], Scalar | None]  # None: unknown, or the op has no such number
    repeats: bool = False  # more of it is more of the same work: only less than the least counts


@dataclasses.dataclass(frozen=True)
class FittedRange:
    """Least and largest measured value of a feature."""

    feature: str  # a key of `FEATURES`
    low: float
    high: float


@dataclasses.dataclass(frozen=True)
class Hull:
    """Evidence for the constants of one class of kernels. Structure: no time depends on it, and no gradient."""

    ranges: tuple[FittedRange, ...]
    precisions: tuple[str, ...] = ()  # that were measured, keys of `Hardware.matrix`; empty: any
    compiled: bool = False  # whether a compiler schedules the cores of what was measured, `Cores.compiled`
    growth: float = 0.0  # standard deviation of log errors far outside, of a time that is all lost against the bound


LEAST = 1e-9
"""Octaves below which an op counts as inside: rounding of a device that is at an end of a range."""


def hull_distance(hull: Hull, op: AnyOp, hardware: Hardware) -> Array:
    """Octaves by which `op` on `hardware` is outside of `hull`, shape (); 0 inside.

    distance = sqrt(device^2 + (SHAPE shape)^2 + precision^2 + (KINDRED kind)^2)

    Cores of another kind, `kind_difference`, are `KINDRED` octaves away whatever their figures.
    Of device and shape it is the largest excess of a feature, log2(value / high) or log2(low / value): figures of one
    device move together, and the furthest says how far it is.
    """
    excesses = hull_excesses(hull, op, hardware)
    # A Euclidean sum over independent reasons to distrust: precision, kind of cores, device, shape.
    kind = KINDRED * kind_difference(hull, hardware)
    square = jnp.asarray(precision_distance(hull, op) ** 2) + kind * kind
    for device, share in ((True, 1.0), (False, SHAPE)):
        own = [jnp.abs(octaves) for name, octaves in excesses.items() if FEATURES[name].device is device]
        if own:
            furthest = share * (maximum(*own) if len(own) > 1 else own[0])
            square = square + furthest * furthest
    # Double `where`, as in other roots: the slope at 0 would be infinite.
    outside = square > LEAST * LEAST
    return jnp.where(outside, jnp.sqrt(jnp.where(outside, square, 1.0)), 0.0)


def hull_excesses(hull: Hull, op: AnyOp, hardware: Hardware) -> dict[str, Array]:
    """Octaves above the range of every feature that `op` on `hardware` has, negative below it, 0 inside; shapes ()."""
    excesses = {}
    for one in hull.ranges:
        value = FEATURES[one.feature].value(op, hardware)
        if value is not None:
            # An op without work is put at the low end of the range, where its distance is 0.
            there = jnp.asarray(value) > 0.0  # an op without work has no shape
            octaves = jnp.log2(jnp.where(there, value, one.low))
            # More rows or longer messages repeat the same inner loop: only less than the least is new.
            high = math.inf if FEATURES[one.feature].repeats else math.log2(one.high)
            # Clipping subtracts the part inside: what remains is 0 inside, positive above, negative below.
            excesses[one.feature] = octaves - jnp.clip(octaves, math.log2(one.low), high)
    return excesses


def precision_distance(hull: Hull, op: AnyOp) -> float:
    """Octaves between the op's precision and the nearest measured one: a factor of two in width is one, another format
    of a measured width `FORMAT`; 0 where it was measured or the op has none.
    """
    precision = op.precision if isinstance(op, Kernel) else None
    # fp16 and bf16 run on the same units at the same rate: measured in one, known in both.
    measured = [ALIKE.get(one, one) for one in hull.precisions]
    if precision is None or not measured or ALIKE.get(precision, precision) in measured:
        return 0.0
    width = OPERAND_BYTES[precision]
    return min(max(abs(math.log2(width / OPERAND_BYTES[one])), FORMAT) for one in measured)


def kind_difference(hull: Hull, hardware: Hardware) -> Array:
    """1 where the cores are of another kind than the measured ones, shape (); 0: of the same, between: half-way.

    Kinds are cores that a compiler schedules, threads in waves of 32, and those in waves of 16, whose kernels another
    maker writes; waves of 64 are half a kind, `WAVES`.
    """
    cores = hardware.cores
    scheduled = jnp.abs(jnp.asarray(cores.compiled) - float(hull.compiled))
    return maximum(scheduled, cores.narrow_waves, WAVES * jnp.asarray(cores.wide_waves))


WAVES = 0.5
"""Kinds between waves of 64 and of 32 threads; ours: few constants are fitted on such cores."""


def error_growth(hull: Hull, octaves: Scalar, loss: Scalar, hardware: Hardware) -> Array:
    """Standard deviation of log errors that being outside of `hull` adds, shape ().

    reach sqrt((growth loss)^2 + (KIND kind)^2 loss),   reach = d / sqrt(1 + d^2),   kind: `kind_difference`

    Errors grow with the first octave and little beyond: what a generation changes is its kernels, and those of one
    that is three octaves away differ no more than those of the next one. They are of what kernels lose against the
    datasheet; kernels of another kind of cores may lose where none were seen to.

    Args:
      octaves: d, by which an op is outside.
      loss: share of its time that is beyond the datasheet's bound.

    Source: ours; saturating against linear growth on architectures left out: `docs/evidence/intervals.md`.
    """
    known, kind = hull.growth * loss, KIND * kind_difference(hull, hardware)
    return reach(octaves) * jnp.sqrt(known * known + kind * kind * loss + TINY)


def reach(octaves: Scalar) -> Array:
    """Share of the errors of what is far outside that something has which is so many octaves outside, shape ()."""
    return octaves / jnp.sqrt(1.0 + jnp.asarray(octaves) ** 2)


TINY = 1e-18
"""Square of a deviation that stands for none: the slope of a square root is infinite at 0."""


def _cores(op: AnyOp, hardware: Hardware) -> Scalar | None:
    # A wide core that a compiler schedules works as several of a GPU's size, and counts as so many in all figures.
    return None if isinstance(op, Collective) else gpu_cores(hardware)


def _clock(op: AnyOp, hardware: Hardware) -> Scalar | None:
    return None if isinstance(op, Collective) else hardware.cores.clock


def _core_flops(op: AnyOp, hardware: Hardware) -> Scalar | None:
    rate = _matrix_rate(op, hardware)
    # Per clock and core, so that generations compare by what a core does and not by how many of them there are.
    return None if rate is None else rate / (gpu_cores(hardware) * clock(hardware))


def _core_bytes(op: AnyOp, hardware: Hardware) -> Scalar | None:
    if not isinstance(op, Kernel):
        return None
    return hardware.memory.hbm.bandwidth / (gpu_cores(hardware) * clock(hardware))


def _ridge(op: AnyOp, hardware: Hardware) -> Scalar | None:
    rate = _matrix_rate(op, hardware)
    return None if rate is None else rate / hardware.memory.hbm.bandwidth


def _core_l2(op: AnyOp, hardware: Hardware) -> Scalar | None:
    l2 = hardware.memory.l2
    return None if l2 is None or not isinstance(op, Kernel) else l2.capacity / gpu_cores(hardware)


def _matrix_rate(op: AnyOp, hardware: Hardware) -> Scalar | None:
    """FLOP/s of the matrix units as if their operands had `REFERENCE_BYTES`; None where the op has no use for them."""
    if not isinstance(op, Kernel) or op.matrix_flops is None or op.precision not in hardware.matrix:
        return None
    # In units of 16-bit operands: an fp8 peak of twice the rate is the same array of multipliers.
    return hardware.matrix[op.precision] * (OPERAND_BYTES[op.precision] / REFERENCE_BYTES)


def _link_bandwidth(op: AnyOp, hardware: Hardware) -> Scalar | None:
    link = hardware.links.scale_up if isinstance(op, Collective) else None
    return None if link is None else link.bandwidth


def _collective(value: Callable[[Collective], Scalar]) -> Callable[[AnyOp, Hardware], Scalar | None]:
    return lambda op, hardware: value(op) if isinstance(op, Collective) else None


def _product(value: Callable[[ProductShape], Scalar]) -> Callable[[AnyOp, Hardware], Scalar | None]:
    def of_products(op: AnyOp, hardware: Hardware) -> Scalar | None:
        shape = op.shape if isinstance(op, Kernel) else None
        return value(shape) if isinstance(shape, ProductShape) else None

    return of_products


def _attention(value: Callable[[AttentionShape], Scalar]) -> Callable[[AnyOp, Hardware], Scalar | None]:
    def of_attention(op: AnyOp, hardware: Hardware) -> Scalar | None:
        shape = op.shape if isinstance(op, Kernel) else None
        return value(shape) if isinstance(shape, AttentionShape) else None

    return of_attention


FEATURES = {
    "cores": Feature("cores", "1", True, _cores),
    "clock": Feature("clock", "Hz", True, _clock),
    "core_flops_per_clock": Feature("matrix FLOP per clock and core", "1", True, _core_flops),
    "core_bytes_per_clock": Feature("HBM bytes per clock and core", "1", True, _core_bytes),
    "flops_per_byte": Feature("matrix FLOP per HBM byte", "1", True, _ridge),
    "core_l2": Feature("L2 capacity per core", "B", True, _core_l2),
    "link_bandwidth": Feature("scale-up link bandwidth", "B/s", True, _link_bandwidth),
    "rows": Feature(
        "rows of one matrix", "1", False, _product(lambda one: one.rows / maximum(one.matrices, 1.0)), True
    ),
    "outputs": Feature("outputs of a matrix", "1", False, _product(lambda one: one.outputs)),
    "inputs": Feature("inputs of a matrix", "1", False, _product(lambda one: one.inputs)),
    "matrices": Feature("matrices of one kernel", "1", False, _product(lambda one: one.matrices)),
    "weight_bytes": Feature("bytes per weight", "1", False, _product(lambda one: one.weight_bytes)),
    "queries": Feature("queries of a sequence", "1", False, _attention(lambda one: one.queries)),
    "keys": Feature("keys of a sequence", "1", False, _attention(lambda one: one.keys)),
    "units": Feature("sequences x KV heads", "1", False, _attention(lambda one: one.sequences * one.kv_heads), True),
    "group": Feature("query heads per KV head", "1", False, _attention(lambda one: one.heads / one.kv_heads)),
    "key_width": Feature("elements of a key", "1", False, _attention(lambda one: one.key_width)),
    "kv_bytes": Feature("bytes per cached element", "1", False, _attention(lambda one: one.kv_bytes)),
    "participants": Feature("devices of a collective", "1", False, _collective(lambda op: op.participants)),
    "message_bytes": Feature("bytes of a message", "1", False, _collective(lambda op: op.message_bytes), True),
}
"""Features by name. Rates of matrix units are those at operands of 16 bits."""
