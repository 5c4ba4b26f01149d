"""Join of a step's kernels with a user's measured tables: interpolated, clamped at an edge, or the model's, and why."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from jaxroof.batch import Batch
from jaxroof.efficiency import Efficiency, Surfaces
from jaxroof.efficiency.surface import Surface, coordinates, op_form, shape_excesses, surface_of
from jaxroof.jobs import Scenario
from jaxroof.numerics.arrays import eager
from jaxroof.op import KINDS, Kernel, Ops
from jaxroof.roofline import op_time
from jaxroof.step.overlap import computing_hardware
from jaxroof.step.placed import device_ops
from sweeps.run.evidence import factor

WAYS = {
    "interpolated": "between measured shapes",
    "clamped": "outside of them: as far from the model as the nearest",
    "model": "not measured",
}
"""Where an op's time is from, and what that means."""

NAMED = 6
"""Ops of one way and reason that are named, at most."""

FORMS = {
    "product": "products",
    "attention": "attention",
    "latent": "attention to latent vectors",
    "scores": "scores of an indexer",
    "stream": "element-wise kernels",
}
"""Form of an op, in words."""

DIMENSIONS = {
    "kv_heads": "KV heads",
    "group": "query heads per KV head",
    "head_dim": "key width",
    "kv_bytes": "bytes per cached element",
    "weight_bytes": "bytes per weight",
    "reach": "keys per query",
    "between": "the nearest measured shape",
}
"""Dimension or label of a table, in words; others are called as they are."""


class Joined(NamedTuple):
    """How one op of a step is priced."""

    op: str
    way: str  # a key of `WAYS`
    why: str  # "" where it is interpolated
    time: float  # s of all its runs


def measured_tables(efficiency: Efficiency) -> bool:
    """Whether there is any table of a user's."""
    return any(isinstance(getattr(efficiency, kind), Surfaces) for kind in KINDS)


def step_joined(scenario: Scenario, batch: Batch) -> list[Joined]:
    """The kernels of one step of a scenario, one point, in their order; none where there are no tables."""
    if not measured_tables(scenario.efficiency):
        return []
    with eager():
        hardware = computing_hardware(scenario.hardware, scenario.deployment)
        ops = device_ops(scenario.hardware, scenario.model, scenario.deployment, batch)
        return ops_joined(
            ops, scenario.efficiency, lambda op: float(op.count * op_time(op, hardware, scenario.efficiency))
        )


def ops_joined(ops: Ops, efficiency: Efficiency, seconds: Callable[[Kernel], float]) -> list[Joined]:
    """The kernels of `ops` that have work.

    Args:
      ops: numbers of shape (), computed on NumPy.
      efficiency: with tables.
      seconds: of all runs of an op.
    """
    kernels = {name: op for name, op in ops.items() if isinstance(op, Kernel) and float(op.kernels * op.count) > 0.0}
    return [Joined(name, *_way(efficiency, op), seconds(op)) for name, op in kernels.items()]


def _way(efficiency: Efficiency, op: Kernel) -> tuple[str, str]:
    entry, form = getattr(efficiency, op.kind), op_form(op)
    words = "kernels like it" if form is None else FORMS[form]
    if not isinstance(entry, Surfaces):
        return "model", f"no table of {words}" if op.kind != "experts" else "no table of grouped products"
    table = surface_of(entry, op)
    if table is None:
        own = [one for one in entry.tables if one.form == form]
        there = sorted({_format(one.precision, one.scaled, one.dequantised) for one in own})
        if not there:
            return "model", f"no table of {words}"
        asked = _format(op.precision, op.scaled, form == "product" and op.vector_flops is not None)
        return "model", f"{asked} {words} were not measured, {' and '.join(there)} were"
    excesses = {name: float(octaves) for name, octaves in shape_excesses(table, op).items()}
    outside = {name: octaves for name, octaves in excesses.items() if octaves > LEAST}
    if not outside:
        return "interpolated", ""
    name = max(outside, key=lambda one: outside[one])
    return "clamped", f"a factor of {factor(outside[name])} {_edge(table, name, op)}"


def _edge(table: Surface, name: str, op: Kernel) -> str:
    """What is passed: the least or the largest position of a dimension, the only one, or the nearest shape."""
    words = DIMENSIONS.get(name, name)
    for axis in table.axes:
        if axis.name == name:
            below = float(coordinates(op)[name]) < axis.low
            side, end = ("below the least", axis.low) if below else ("above the largest", axis.high)
            return f"{side} {words} measured ({end:.4g})"
    fixed = dict(table.fixed)
    return f"from the only {words} measured ({fixed[name]:.4g})" if name in fixed else f"from {words}"


LEAST = 0.05
"""Octaves outside that are rounding, not another shape."""


def _format(precision: str | None, scaled: bool, dequantised: bool) -> str:
    words = [precision or "", "with block scales" if scaled else "", "of converted weights" if dequantised else ""]
    return " ".join(word for word in words if word)


def joined_lines(joined: Iterable[Joined]) -> list[str]:
    """The ops by how they are priced, in words, with their share of the kernels' time; the longest reasons first."""
    rows = list(joined)
    total = sum(row.time for row in rows) or 1.0
    lines = []
    for way in WAYS:
        reasons: dict[str, list[Joined]] = {}
        for row in rows:
            if row.way == way:
                reasons.setdefault(row.why, []).append(row)
        for why, own in sorted(reasons.items(), key=lambda item: -sum(row.time for row in item[1])):
            # Layers of several kinds have ops of one name.
            names = list(dict.fromkeys(row.op.rpartition(".")[2] for row in sorted(own, key=lambda row: -row.time)))
            more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
            share = sum(row.time for row in own) / total
            lines.append(f"{way} {share:6.1%}  {', '.join(names[:NAMED])}{more}" + (f": {why}" if why else ""))
    return lines
