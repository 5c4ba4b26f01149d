"""Step times of many deployments as tables, so that one compiled simulation serves every model and engine."""

import collections
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import jax
import numpy as np

import hwspaces
from jaxroof.batch import Batch, Decode, Prefill
from jaxroof.deployment import Deployment, degree, largest_stage
from jaxroof.efficiency import Efficiency
from jaxroof.hardware import Hardware
from jaxroof.memory.capacity import layer_count
from jaxroof.model import Model
from jaxroof.numerics.derivatives import output_dependence
from jaxroof.numerics.smooth import maximum
from jaxroof.numerics.struct import Scalar, struct
from jaxroof.numerics.tree import leaves
from jaxroof.op import unlabelled
from jaxroof.prices.prices import octave_interval
from jaxroof.prices.tables import CONTEXT, LOGITS, Limits, octaves
from jaxroof.roofline import op_time
from jaxroof.step.forward import split_rows
from jaxroof.step.overlap import computing_hardware, overlapped_ops
from sweeps.ask.engines import Chosen, with_host
from sweeps.measure.validate.relative_errors import positions_by_structure, stack
from sweeps.measure.validate.serving.serving_points import ServingPoint
from sweeps.run.simulated.lanes import power

ROWS, DECODE, PROMPT = 32, 8, 4
"""Nodes per octave of tables over GEMM rows, decoding sequences and tokens of one prompt."""

TOGETHER = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
"""Prompts of one step that attention is tabulated for; linear between them and beyond."""

PAST = (0.0, 1024.0, 4096.0, 16384.0, 65536.0)
"""Tokens before a chunk of a prompt that its attention is tabulated for."""

ENDLESS = 2**30
"""Intervals of a table that has no end."""

KINDS = ("rows", "decode", "logits", "prompt")


@dataclasses.dataclass(frozen=True)
class Unit:
    """What a table is made for."""

    hardware: Hardware
    model: Model
    deployment: Deployment
    efficiency: Efficiency


@struct
class Tables:
    """s of the parts of one unit's steps on the device, and of its host: `StepPrices` of `jaxroof` with prompts."""

    rows: jax.Array  # shape [octaves(rows)]
    decode: jax.Array  # shape [octaves(sequences), octaves(context)]
    logits: jax.Array  # shape [octaves(sequences)]
    prompt: jax.Array  # shape [PAST, TOGETHER, octaves(rows)]
    step_time: Scalar  # s of the host per step
    sequence_time: Scalar  # s of the host per sampled sequence


def units(points: Sequence[ServingPoint], efficiencies: Mapping[str, Efficiency]) -> tuple[list[Unit], list[int]]:
    """What differs between the points in anything but their load, and which of them every point is."""
    found: dict[Any, int] = {}
    made, places = [], []
    for point in points:
        leaves, structure = jax.tree.flatten((point.hardware, point.model, point.deployment))
        key = (tuple(leaves), structure, point.launch.engine)
        if key not in found:
            found[key] = len(made)
            made.append(
                Unit(point.hardware, point.model, point.deployment, with_release(point, efficiencies[point.engine]))
            )
        places.append(found[key])
    return made, places


def extent(points: Sequence[ServingPoint]) -> Limits:
    """The largest step of any point."""
    rows = max(max(float(point.policy.token_budget), point.isl + point.concurrency) for point in points)
    return Limits(
        rows=power(rows, 4),
        sequences=power(max(point.concurrency for point in points), 4),
        context=power(max(point.isl + point.osl for point in points), 4),
    )


def of_most(found: Sequence[ServingPoint]) -> Efficiency:
    """The constants of the releases that most of the points ran, as simulations of them take."""
    names = collections.Counter(point.case.engine.efficiency for point in found)
    return hwspaces.efficiency(names.most_common(1)[0][0]).efficiency


def with_release(point: ServingPoint, efficiency: Efficiency) -> Efficiency:
    """Constants with what the release of the point's engine adds to its host."""
    of = Chosen(point.case.engine, hwspaces.efficiency("derated"))  # the front end is not part of a step
    return with_host(of, efficiency, point.vendor, point.hardware, point.model, point.deployment)


Progress = Callable[[str, int, int], None]
"""Called with what is counted, how much of it is done, and all of it."""


def silent(what: str, done: int, every: int) -> None:
    """A `Progress` that says nothing."""


OpTimes = dict[str, dict[str, np.ndarray]]
"""Kind of table -> name of an op -> its time in s over all its runs at every node."""


@dataclasses.dataclass(frozen=True)
class Alike:
    """Ops of one structure that belong to tables of one kind."""

    kind: str
    ops: Any  # an op with leaves of shape [ops, nodes]
    hardware: Hardware  # of each, leaves of shape [ops]
    places: tuple[tuple[int, str], ...]  # unit and name of each


def op_times(units: Sequence[Unit], extent: Limits, progress: Progress = silent) -> list[OpTimes]:
    """Times of every op of every unit at the nodes of the table that it belongs to.

    Raises:
      ValueError: where an op depends on more than its tables have axes for.
    """
    return timed(units, alike_ops(units, extent, progress), extent, progress)


def timed(units: Sequence[Unit], groups: Sequence[Alike], extent: Limits, progress: Progress = silent) -> list[OpTimes]:
    """The times of ops that are there already, under the units' efficiencies: nothing is compiled a second time."""
    found: list[OpTimes] = [{kind: {} for kind in KINDS} for _ in units]
    for done, group in enumerate(groups, start=1):
        times = np.asarray(_timed(group.ops, group.hardware, units[group.places[0][0]].efficiency))
        for row, (i, name) in zip(times, group.places, strict=True):
            found[i][group.kind][name] = _laps(units[i]) * row.reshape(_shape(group.kind, extent))
        progress("kernels", done, len(groups))
    return found


def alike_ops(units: Sequence[Unit], extent: Limits, progress: Progress = silent) -> list[Alike]:
    """Every op of every unit at the nodes of the table that it belongs to.

    Ops of one structure on devices of one structure, whatever model and device they are of, are evaluated together: a
    program is compiled for every kind of kernel rather than for every model.
    """
    waiting: dict[Any, list] = {}
    computing = [computing_hardware(unit.hardware, unit.deployment) for unit in units]
    structures = positions_by_structure([(unit.model, unit.deployment) for unit in units])
    for done, members in enumerate(structures, start=1):
        models = stack([(units[i].model, units[i].deployment) for i in members])
        first = units[members[0]]
        kinds = _kinds(first.model, first.deployment)
        for kind in KINDS:
            names = tuple(name for name in kinds if kinds[name] == kind)
            for name, op in _ops(models, kind, names, extent).items():
                op = unlabelled(jax.tree.map(np.asarray, op))
                for place, i in enumerate(members):
                    key = (kind, jax.tree.structure((op, computing[i])), id(units[i].efficiency))
                    one = jax.tree.map(lambda leaf, place=place: leaf[place], op)
                    waiting.setdefault(key, []).append((i, name, one))
        progress("structures", done, len(structures))
    return [
        Alike(
            kind=kind,
            ops=jax.tree.map(lambda *leaves: np.stack(leaves), *(op for _, _, op in entries)),
            hardware=stack([computing[i] for i, _, _ in entries]),
            places=tuple((i, name) for i, name, _ in entries),
        )
        for (kind, _, _), entries in waiting.items()
    ]


def summed(unit: Unit, times: OpTimes, extent: Limits) -> Tables:
    """The tables of one unit, from the times of its ops."""
    parts: dict[str, Any] = {kind: sum(times[kind].values(), np.zeros(_shape(kind, extent))) for kind in KINDS}
    host = unit.efficiency.host
    groups = degree(unit.deployment.attention_dp)
    return Tables(**parts, step_time=float(host.step_time), sequence_time=float(host.sequence_time) / groups)


def _position(value: Scalar, per_octave: int) -> jax.Array:
    """Position of `value` among nodes of a table, however many it has."""
    below, share = octave_interval(value, per_octave, ENDLESS)
    return below.astype(float) + share


@jax.jit
def _timed(ops: Any, hardware: Hardware, efficiency: Efficiency) -> jax.Array:
    """s of ops, leaves of shape [ops, nodes], over all their runs."""

    def one(op: Any, device: Hardware) -> jax.Array:
        return jax.vmap(lambda each: each.count * op_time(each, device, efficiency))(op)

    return jax.vmap(one)(ops, hardware)


def _laps(unit: Unit) -> float:
    d = unit.deployment
    return float(maximum(degree(d.pp) * largest_stage(d, layer_count(unit.model)), 1.0))


def _ops(models: Any, kind: str, names: tuple[str, ...], extent: Limits) -> dict[str, Any]:
    """The named ops of models of one structure at the nodes of a table; leaves of shape [models, nodes]."""
    nodes = _nodes(kind, extent)

    def one(pair: tuple[Model, Deployment], node: tuple) -> dict[str, Any]:
        ops = _function(*pair)(*_arguments(kind, node))
        return {name: ops[name] for name in names}

    return jax.jit(jax.vmap(jax.vmap(one, in_axes=(None, 0)), in_axes=(0, None)))(models, nodes)


def _function(model: Model, deployment: Deployment) -> Callable:
    parts = degree(deployment.pp)

    def ops(prompt: tuple, decoding: tuple, logits: Scalar, rows: Scalar) -> dict[str, Any]:
        batch = Batch(
            prefill=Prefill(sequences=prompt[0] / parts, tokens=prompt[1] / parts, past=prompt[2] / parts),
            decode=Decode(sequences=decoding[0] / parts, context=decoding[1] / parts),
            logits=logits / parts,
        )
        return overlapped_ops(model, deployment, batch, split_rows(rows / parts, batch, deployment))

    return ops


def _kinds(model: Model, deployment: Deployment) -> dict[str, str]:
    """Name of every op -> the table that it belongs to."""
    mark = {name: frozenset((name,)) for name in KINDS}
    values = (2.0, 64.0, 16.0), (2.0, 64.0), 3.0, 66.0
    marks = ((mark["prompt"],) * 3, (mark["decode"],) * 2, mark["logits"], mark["rows"])
    found = output_dependence(_function(model, deployment), values, marks)
    kinds = {}
    for name, op in found.items():
        needs = frozenset().union(*leaves(op))
        alone = next((kind for kind in KINDS if needs <= {kind}), None)
        if alone is None and not needs <= {"prompt", "rows"}:
            raise ValueError(f"op {name} depends on {', '.join(sorted(needs))}: there is no table for it")
        kinds[name] = alone or "prompt"
    return kinds


def _arguments(kind: str, node: tuple) -> tuple:
    """Of `_function`, at a node of one table."""
    if kind == "rows":
        return (1.0, 1.0, 0.0), (1.0, 1.0), 1.0, node[0]
    if kind == "logits":
        return (1.0, 1.0, 0.0), (1.0, 1.0), node[0], 1.0
    if kind == "decode":
        return (1.0, 1.0, 0.0), (node[0], node[0] * node[1]), 1.0, 1.0
    past, n, tokens = node
    return (n, n * tokens, n * past), (1.0, 1.0), 1.0, n * tokens


@cache
def _axes(kind: str, extent: Limits) -> tuple[np.ndarray, ...]:
    if kind == "rows":
        return (np.asarray(octaves(extent.rows, ROWS)),)
    if kind == "logits":
        return (np.asarray(octaves(extent.sequences, LOGITS)),)
    if kind == "decode":
        return np.asarray(octaves(extent.sequences, DECODE)), np.asarray(octaves(extent.context, CONTEXT))
    return np.asarray(PAST), np.asarray(TOGETHER), np.asarray(octaves(extent.rows, PROMPT))


def _nodes(kind: str, extent: Limits) -> tuple[np.ndarray, ...]:
    return tuple(axis.ravel() for axis in np.meshgrid(*_axes(kind, extent), indexing="ij"))


def _shape(kind: str, extent: Limits) -> tuple[int, ...]:
    return tuple(len(axis) for axis in _axes(kind, extent))
