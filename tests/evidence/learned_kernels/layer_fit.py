"""Fits of kernels of recurrent states, short convolutions, residual streams and encoders' attention."""

import dataclasses
import functools
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import hwspaces
from hwspaces.performance.kernel_tables import hull_of
from jaxroof.efficiency import Hull
from jaxroof.efficiency.kernels import MODELS
from jaxroof.efficiency.prefill import PrefillKernel
from jaxroof.hardware import Hardware
from jaxroof.op import Kernel, StreamsShape
from sweeps.ask.axes import leaf, replaced
from sweeps.measure.kernel_data.group import KernelGroup
from sweeps.measure.validate.relative_errors import Errors, errors
from tests.evidence.hulls import Errors as IntervalErrors
from tests.evidence.hulls import LeftOut, bound, furthest
from tests.evidence.layer_rows import layer_groups
from tests.evidence.learned_kernels.decode import with_constants
from tests.evidence.learned_kernels.layer_classes import Class
from tests.evidence.learned_kernels.result import ARCHITECTURES, KernelFit, errors_by_length, sources
from tests.evidence.least_squares import fitted
from tests.evidence.parameters import Parameter

ROWS = 300
"""Rows per device and table that are fitted, drawn at random."""

ROW_SPREAD = 0.15
"""Standard deviation of the log ratio of measured to predicted that a right model would leave."""

INDEPENDENT = 150.0
"""Rows of a table of thousands that err independently of each other; priors weigh against these."""

SITES = 5
"""One shape in so many is left out of every fit, on all devices and in all releases."""


class Sample(NamedTuple):
    """Rows of one class, shape [rows] each."""

    op: Kernel
    hardware: Hardware
    seconds: np.ndarray
    devices: np.ndarray
    sites: np.ndarray  # bool: left out of all fits
    groups: tuple[KernelGroup, ...]


def sample(one: Class, folder: Path, engine: str, rows: int = ROWS) -> Sample:
    """Rows of a class as one op and one device per row."""
    groups = [
        group
        for name in one.tables
        for group in layer_groups(folder, name)
        if group.engine == engine and len(group) and (not one.roles or group.precision.split()[0] in one.roles)
    ]
    draw = np.random.default_rng(0)
    sizes: dict[tuple[str, str], int] = {}
    for group in groups:
        sizes[group.device, group.family] = sizes.get((group.device, group.family), 0) + len(group)
    parts, kept = [], []
    for group in groups:
        share = min(1.0, rows / sizes[group.device, group.family])
        part = group.chosen(np.sort(draw.permutation(len(group))[: max(1, round(share * len(group)))]))
        (op,) = jax.vmap(part.call)(part.columns)
        where = np.zeros(len(part), int)
        device = jax.tree.map(lambda leaf, rows=where: jnp.asarray(leaf)[None][rows], slim(part.device))
        parts.append((_alike(op), device))
        kept.append(part)
    op, hardware = (jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *(part[i] for part in parts)) for i in (0, 1))
    return Sample(
        op=op,
        hardware=hardware,
        seconds=np.concatenate([part.seconds for part in kept]),
        devices=np.concatenate([np.full(len(part), part.device, object) for part in kept]),
        sites=np.concatenate([left_out(part) for part in kept]),
        groups=tuple(kept),
    )


def _alike(op: Kernel) -> Kernel:
    """The same without labels that no time depends on and work that binds nothing, so that rows have one structure."""
    op = dataclasses.replace(op, phase="mixed", role=None)
    if isinstance(op.shape, StreamsShape):
        none = jnp.zeros_like(op.bytes)
        flops = none if op.matrix_flops is None else op.matrix_flops
        op = dataclasses.replace(op, matrix_flops=flops, operand_bytes=none + 2.0, precision="bf16", exps=None)
    return op


def left_out(group: KernelGroup) -> np.ndarray:
    """Whether each row's shape is one of those that no fit sees: a fixed hash of its numbers."""
    names = sorted(set(group.columns) - {"d_model"})
    rows = np.stack([group.columns[name] for name in names], axis=1)
    return np.array([_hashed(group.family, row) for row in rows.tolist()])


def _hashed(family: str, row: Sequence[float]) -> bool:
    text = family + " ".join(f"{value:g}" for value in row)
    return int(hashlib.sha256(text.encode()).hexdigest(), 16) % SITES == 0


@functools.cache
def slim(name: str) -> Hardware:
    """What a kernel sees of a device, alike in structure for all."""
    device = hwspaces.hardware(name).hardware
    unread = dict.fromkeys(("links", "power", "price", "energy", "silicon", "costs", "package", "design"))
    cores = dataclasses.replace(device.cores, matrix_flops_per_clock=None)
    return dataclasses.replace(device, matrix={"bf16": device.matrix["bf16"]}, cores=cores, **unread)


def constants(start: Any, values: Mapping[str, Any]) -> Any:
    """The struct with fitted values: of prefill attention by path, of others as `with_constants` takes ratios."""
    if not isinstance(start, PrefillKernel):
        return with_constants(start, values)
    before = "asynchronous."
    for path, value in values.items():
        name = path.removeprefix(f"{before}tensor_memory.")
        # Ratios to Hopper's where accumulators have a memory of their own.
        value = value * leaf(start, before + name) if name != path else value
        start = replaced(start, path, value)
    return start


def fit(one: Sample, rows: np.ndarray, start: Any, moved: Sequence[Parameter]) -> Any:
    op, hardware = jax.tree.map(lambda leaf: leaf[rows], (one.op, one.hardware))
    model = MODELS[type(start)]

    def predicted(values: dict[str, Any]) -> jax.Array:
        kernel = constants(start, values)
        return jax.vmap(lambda op, device: op.count * model(kernel, op, device).total)(op, hardware)

    width = ROW_SPREAD * max(np.sum(rows) / INDEPENDENT, 1.0) ** 0.5
    return constants(start, fitted(predicted, one.seconds[rows], np.full(np.sum(rows), width), moved))


def predicted(one: Sample, kernel: Any) -> np.ndarray:
    model = MODELS[type(kernel)]
    return np.asarray(jax.vmap(lambda op, device: op.count * model(kernel, op, device).total)(one.op, one.hardware))


MODELS_BY = {"gdn": "d_model", "kda": "d_model", "mamba2": "nheads", "mhc": "hidden_size", "encoder": "head_dim"}
"""Family of a group -> the column that tells models apart."""


def without_models(one: Class, folder: Path, engine: str) -> dict[str, tuple[Errors, Errors]]:
    """Errors on each model's rows of constants that were fitted without them, over all rows and over long ones."""
    rows = sample(one, folder, engine)
    known = ~np.isin(rows.devices, one.foreign)
    models = np.concatenate(
        [
            np.array([f"{group.family} {MODELS_BY[group.family]} {value:g}" for value in column])
            for group in rows.groups
            for column in [group.columns[MODELS_BY[group.family]]]
        ]
    )
    found = {}
    for name in np.unique(models):
        out = models == name
        held = fit(rows, known & ~rows.sites & ~out, one.start, one.moved)
        found[str(name)] = errors_by_length(predicted(rows, held)[out & known], rows.seconds[out & known])
    return found


# Errors on what a fit has seen and on what it has not.


class Judged(NamedTuple):
    """A fit with its errors on shapes and on devices that were left out."""

    fit: KernelFit
    seen: dict[str, tuple[Errors, Errors]]  # by device: over all rows that were fitted, and over long ones
    sites: dict[str, tuple[Errors, Errors]]  # the same of shapes that no fit has seen
    unseen: list[LeftOut]  # by architecture that was left out


def judged(one: Class, folder: Path, engine: str) -> Judged:
    """Constants of a class, fitted to four shapes of five; each architecture left out in turn.

    The hull has no growth yet: that is chosen over all classes of an engine.
    """
    rows = sample(one, folder, engine)
    known = ~np.isin(rows.devices, one.foreign)
    fitted_rows = known & ~rows.sites
    kernel = fit(rows, fitted_rows, one.start, one.moved)
    priced, hull = predicted(rows, kernel), evidence(rows, known)
    # Each architecture is priced by constants that have not seen it.
    architectures = np.array([ARCHITECTURES[device] for device in rows.devices])
    carried, blind, unseen = priced.copy(), {}, []
    for name in np.unique(architectures[known]):
        out = (architectures == name) & known
        held = fit(rows, fitted_rows & ~out, one.start, one.moved)
        carried[out] = predicted(rows, held)[out]
        blind |= dict.fromkeys(map(str, np.unique(rows.devices[out])), held)
        if (others := known & ~out).any():
            inside = _interval_errors(rows, out, priced, hull).spread()
            unseen.append(
                LeftOut.of(one.path, name, inside, _interval_errors(rows, out, carried, evidence(rows, others)))
            )
    used = [group for group in rows.groups if group.device not in one.foreign]
    return Judged(
        fit=KernelFit(
            path=one.path,
            kernel=dataclasses.replace(kernel, spread=_interval_errors(rows, known, priced, hull).spread(), hull=hull),
            engine=engine,
            sources=sources(used),
            rows=int(np.sum(fitted_rows)),
            errors=errors(priced[fitted_rows], rows.seconds[fitted_rows]),
            held_out=_by_device(rows, carried, known),
            blind=blind,
        ),
        seen=_by_device(rows, priced, fitted_rows),
        sites=_by_device(rows, priced, rows.sites),
        unseen=unseen,
    )


def _by_device(rows: Sample, seconds: np.ndarray, chosen: np.ndarray) -> dict[str, tuple[Errors, Errors]]:
    found = {}
    for device in np.unique(rows.devices[chosen]):
        here = chosen & (rows.devices == device)
        found[str(device)] = errors_by_length(seconds[here], rows.seconds[here])
    return found


def evidence(rows: Sample, chosen: np.ndarray) -> Hull:
    """The hull of some rows: of each device, as rows of one have the same figures."""
    parts = ((_ops(rows, here), hardware) for here, hardware in _devices(rows, chosen))
    return hull_of(parts)


def _interval_errors(rows: Sample, chosen: np.ndarray, seconds: np.ndarray, hull: Hull) -> IntervalErrors:
    """Errors of some rows as intervals see them: with their distance from a hull and the datasheet's bound."""
    parts = []
    for here, hardware in _devices(rows, chosen):
        op, n = _ops(rows, here), int(np.sum(here))
        least, octaves = bound([op], hardware, n), furthest([(hull, op)], hardware, n)
        parts.append(IntervalErrors.of(seconds[here], rows.seconds[here], least, octaves))
    return IntervalErrors.joined(parts)


def _devices(rows: Sample, chosen: np.ndarray) -> Iterator[tuple[np.ndarray, Hardware]]:
    """The rows of each device among some rows."""
    for device in np.unique(rows.devices[chosen]):
        yield chosen & (rows.devices == device), hwspaces.hardware(str(device)).hardware


def _ops(rows: Sample, chosen: np.ndarray) -> Kernel:
    return jax.tree.map(lambda leaf: np.asarray(leaf)[chosen], rows.op)
