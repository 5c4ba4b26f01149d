"""Fits of kernels of recurrent states, short convolutions, residual streams and encoders' attention."""

import dataclasses
import functools
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import hwspaces
from hwspaces.performance.kernel_tables import hull_of
from jaxroof.efficiency import Hull, Spread
from jaxroof.efficiency.hull import hull_distance
from jaxroof.efficiency.kernels import MODELS
from jaxroof.efficiency.prefill import PrefillKernel, published
from jaxroof.efficiency.recurrence import StateKernel
from jaxroof.efficiency.stream import StreamKernel
from jaxroof.efficiency.timing import SHORT
from jaxroof.hardware import Hardware
from jaxroof.numerics.arrays import eager
from jaxroof.op import Kernel, StreamsShape
from sweeps.ask.axes import leaf, replaced
from sweeps.measure.kernel_data.group import KernelGroup
from sweeps.measure.validate.relative_errors import Errors, errors
from tests.evidence.layer_rows import layer_groups
from tests.evidence.learned_kernels.decode import CORE_CLASSES, with_constants
from tests.evidence.learned_kernels.result import ARCHITECTURES, KernelFit, deviation, errors_by_length
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

OURS = "ours: order of magnitude"

ALIKE = "ours: kernels of an engine are alike"

COPIES = "large copies: 85 to 92 % of HBM"

NEAR = 0.25
"""Octaves below which a device that was left out says nothing of how errors grow."""


class Class(NamedTuple):
    """One class of kernels of an engine: where its constants belong, its rows, and what moves."""

    path: str
    tables: tuple[str, ...]
    roles: tuple[str, ...]  # first words of a group's precision; empty: all
    start: Any
    moved: tuple[Parameter, ...]
    foreign: tuple[str, ...] = ()  # devices that run other kernels in it: scored, not fitted


class Sample(NamedTuple):
    """Rows of one class, shape [rows] each."""

    op: Kernel
    hardware: Hardware
    seconds: np.ndarray
    devices: np.ndarray
    sites: np.ndarray  # bool: left out of all fits
    groups: tuple[KernelGroup, ...]


def _own(
    ratios: Mapping[str, float], classes: Sequence[str] = CORE_CLASSES, spread: float = 0.4
) -> tuple[Parameter, ...]:
    """Ratios of constants of every class of cores to those of the class before."""
    return tuple(
        Parameter(f"{name}.{constant}", prior, spread, prior / 20.0, prior * 20.0, ALIKE)
        for name in classes
        for constant, prior in ratios.items()
    )


# Recurrent states.


PASSES = StateKernel(
    launch_cycles=0.0,
    launch_time=18e-6,  # six kernels of 3 us
    row_cycles=300.0,  # a row of a triangle after the other
    step_cycles=4000.0,
    states=1.0,
    spill=8.0,  # what the six kernels of flash-linear-attention read and write for each other, counted
    copies=2.0,  # states are gathered before and scattered after
    bandwidth=0.8,
    cache_bandwidth=0.4,
    core_bytes=10.0,
    resident=0.8,
)
"""Chunked prompts in one kernel per pass."""

FUSED = dataclasses.replace(PASSES, launch_time=15e-6, row_cycles=10.0, spill=2.0, step_cycles=6000.0)
"""The same with most passes in one kernel: FlashKDA."""

UPDATES = StateKernel(
    launch_cycles=0.0,
    launch_time=3e-6,
    row_cycles=0.0,
    step_cycles=2000.0,
    states=8.0,
    spill=0.0,
    copies=1.0,
    bandwidth=0.85,
    cache_bandwidth=0.5,
    core_bytes=25.0,
    resident=0.8,
)
"""Updates of decoding tokens."""

BLACKWELLS_OWN = {"launch_time": 1.0, "step_cycles": 1.0, "core_bytes": 1.0}
"""What its kernel for Blackwell differs in from that for Hopper."""

FLASHINFER = {"launch_time": 0.6, "row_cycles": 0.01, "step_cycles": 1.2, "core_bytes": 1.0}
FLASHINFER |= {"states": 0.2, "spill": 0.03}
"""What FlashInfer's fused kernel, which vLLM runs on asynchronous cores, differs in from kernels per pass."""


def _states(start: StateKernel) -> tuple[Parameter, ...]:
    moved = (
        Parameter("launch_time", start.launch_time, 0.5, 5e-7, 1e-4, "3 us per kernel in a CUDA graph"),
        Parameter("step_cycles", start.step_cycles, 0.5, 10.0, 1e5, OURS),
        Parameter("states", start.states, 0.5, 0.1, 64.0, OURS),
        Parameter("copies", start.copies, 0.4, 0.3, 8.0, "as engines gather and scatter states"),
        Parameter("bandwidth", start.bandwidth, 0.05, 0.3, 0.97, COPIES),
        Parameter("cache_bandwidth", start.cache_bandwidth, 0.25, 0.05, 1.0, OURS),
        Parameter("core_bytes", start.core_bytes, 0.3, 1.0, 200.0, OURS),
        Parameter("resident", start.resident, 0.2, 0.2, 1.5, OURS),
    )
    if not start.spill:
        return moved
    return (
        *moved,
        Parameter("row_cycles", start.row_cycles, 0.7, 1e-2, 1e4, OURS),
        Parameter("spill", start.spill, 0.3, 0.05, 40.0, "passes counted by what they read and write"),
    )


# Kernels that stream.


STREAMING = StreamKernel(
    launch_cycles=0.0,
    launch_time=2.5e-6,
    bandwidth=0.85,
    vector=0.5,
    matrix=0.5,
    core_bytes=9.0,
    residency=0.8,
)

LANES = dataclasses.replace(STREAMING, lane_cycles=150.0)
"""Convolutions with a block of threads per channel and sequence: TensorRT-LLM's."""

MIXING = dataclasses.replace(STREAMING, matrix=0.015)
"""Coefficients of residual streams are products of 24 outputs, which synchronous cores make without matrix units."""


def _streams(start: StreamKernel) -> tuple[Parameter, ...]:
    moved = (
        Parameter("launch_time", start.launch_time, 0.5, 5e-7, 1e-4, "a kernel in a CUDA graph"),
        Parameter("bandwidth", start.bandwidth, 0.05, 0.3, 0.97, COPIES),
        Parameter("core_bytes", 9.0, 0.4, 0.5, 100.0, "16 B in flight per thread, 1000 cycles of latency"),
        Parameter("residency", 0.8, 0.3, 0.1, 1.5, OURS),
    )
    if start.lane_cycles is not None:
        moved = (*moved, Parameter("lane_cycles", start.lane_cycles, 0.7, 1.0, 1e4, OURS))
    if start.matrix < 0.1:
        moved = (
            *moved,
            Parameter("matrix", start.matrix, 0.5, 1e-3, 1.0, "vector units: a twentieth of the matrix peak"),
            Parameter("asynchronous.matrix", 20.0, 0.3, 1.0, 100.0, "DeepGEMM's product of such coefficients"),
        )
    return moved


# Attention of encoders.


BLACKWELL = "asynchronous.tensor_memory."
"""Beginning of the paths of ratios of constants where accumulators have a memory of their own to those of Hopper."""


def _full(engine: str) -> PrefillKernel:
    """Constants that no row moves: heads are padded to 32 elements by FlashAttention-2 and 3, to 16 by 4 and Triton."""
    known = published()
    synchronous = dataclasses.replace(known.synchronous, width_step=32.0, uneven=0.05)
    if engine == "sglang":
        synchronous = dataclasses.replace(known.synchronous, width_step=16.0, uneven=1.0)
    # trtllm-gen has no kernel for heads of 72: an older one runs.
    uneven = 3.0 if engine == "trtllm" else 0.05
    memory = {"width_step": 16.0, "uneven": uneven}
    asynchronous = dataclasses.replace(known.asynchronous, width_step=32.0, uneven=0.05, tensor_memory=memory)
    none = {"cache_write": 0.0, "query_copy": 0.0, "low_launch": 0.0}
    return dataclasses.replace(known, synchronous=synchronous, asynchronous=asynchronous, launch_cycles=8000.0, **none)


FULL = (
    Parameter("synchronous.matrix", 0.7, 0.15, 0.2, 0.97, "FlashAttention-2: 50 to 73 % of A100's peak"),
    Parameter("asynchronous.matrix", 0.8, 0.1, 0.3, 0.97, "FlashAttention-3: 75 % of H100's peak"),
    Parameter("synchronous.serial", 0.5, 0.3, 0.01, 1.5, OURS),
    Parameter("asynchronous.serial", 0.2, 0.4, 0.01, 1.5, OURS),
    Parameter("synchronous.tile_cycles", 4000.0, 0.4, 200.0, 3e4, OURS),
    Parameter("asynchronous.tile_cycles", 6000.0, 0.4, 200.0, 3e4, OURS),
    Parameter(f"{BLACKWELL}matrix", 1.0, 0.15, 0.5, 1.3, ALIKE),
    Parameter(f"{BLACKWELL}serial", 1.0, 0.4, 0.1, 5.0, ALIKE),
    Parameter(f"{BLACKWELL}tile_cycles", 1.0, 0.4, 0.1, 5.0, ALIKE),
    Parameter("vector", 6.0, 0.15, 1.0, 60.0, "operations of online softmax"),
    Parameter("tail", 0.8, 0.2, 0.1, 2.0, OURS),
    Parameter("resident", 0.7, 0.2, 0.2, 1.5, OURS),
    Parameter("warm", 0.25, 0.4, 0.03, 1.0, OURS),
    Parameter("memory_serial", 0.1, 0.3, 0.01, 1.0, OURS),
    Parameter("launch_cycles", 8e3, 0.5, 1e3, 6e4, OURS),
    Parameter("bandwidth", 0.85, 0.05, 0.3, 0.95, COPIES),
)

UNEVEN = {
    "sglang": (Parameter("synchronous.uneven", 1.0, 0.5, 0.01, 10.0, "loads of 16 B do not fit such rows"),),
    "trtllm": (Parameter(f"{BLACKWELL}uneven", 60.0, 0.5, 1.0, 300.0, "a kernel of Ampere in place of Blackwell's"),),
    "vllm": (),
}
"""What differs by engine where 16 does not divide the width of a head."""

OLDER = ("a100_sxm",)
"""Devices measured under SGLang 0.5.10 alone, whose kernels of these layers are others."""


def classes(engine: str) -> list[Class]:
    """Classes of an engine's kernels in these tables."""
    # Kernels written in Triton are the same everywhere; on Blackwell their cores move more bytes per cycle.
    blackwell = ["tensor_memory"]
    states = {"trtllm": (), "sglang": _own({"core_bytes": 1.0}, blackwell)}.get(engine, ())
    if engine == "vllm":
        states = (*_own(FLASHINFER, ["asynchronous"]), *_own(BLACKWELLS_OWN, blackwell))
    found = [
        Class("prefill_attention.states", ("gdn",), ("chunks",), PASSES, (*_states(PASSES), *states)),
        Class("decode_attention.states", ("gdn",), ("states",), UPDATES, _states(UPDATES), OLDER),
    ]
    convolved = ("gdn", "mamba2") if engine == "trtllm" else ("gdn", "kda")
    window = LANES if engine == "trtllm" else STREAMING
    found += [
        Class("elementwise.window", convolved, ("window", "keys"), window, _streams(window), OLDER),
        Class("elementwise.update", convolved, ("update",), STREAMING, _streams(STREAMING), OLDER),
        Class("elementwise.streams", ("mhc",), ("mix", "spread"), MIXING, _streams(MIXING)),
    ]
    if engine != "trtllm":
        chunks = FUSED if engine == "vllm" else PASSES
        # FlashKDA needs bulk copies, which L40S lacks: vLLM has kernels per pass there.
        foreign = ("l40s",) if engine == "vllm" else ()
        own = _own({"step_cycles": 1.0, "core_bytes": 1.0}) if engine == "vllm" else ()
        found += [
            Class("prefill_attention.gated", ("kda",), ("chunks",), chunks, (*_states(chunks), *own), foreign),
            Class("decode_attention.gated", ("kda",), ("states", "fused"), UPDATES, _states(UPDATES)),
        ]
    # Triton's tiles of 64 rows read keys again that L40S's L2 does not hold.
    foreign = ("l40s",) if engine == "sglang" else ()
    return [*found, Class("prefill_attention.full", ("encoder",), (), _full(engine), (*FULL, *UNEVEN[engine]), foreign)]


# Sampling, fitting and judging.


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
    hull: Hull


def judged(one: Class, folder: Path, engine: str) -> Judged:
    """Constants of a class, fitted to four shapes of five; each architecture left out in turn."""
    rows = sample(one, folder, engine)
    fitted_rows = ~rows.sites & ~np.isin(rows.devices, one.foreign)
    kernel = fit(rows, fitted_rows, one.start, one.moved)
    priced = predicted(rows, kernel)
    known = ~np.isin(rows.devices, one.foreign)
    architectures = np.array([ARCHITECTURES[device] for device in rows.devices])
    carried, blind, octaves = priced.copy(), {}, []
    for name in np.unique(architectures[known]):
        out = (architectures == name) & known
        held = fit(rows, fitted_rows & ~out, one.start, one.moved)
        carried[out] = predicted(rows, held)[out]
        blind |= dict.fromkeys(map(str, np.unique(rows.devices[out])), held)
        octaves.append(_growth(rows, out, known & ~out, priced, carried))
    off = np.abs(np.log(carried[known] / rows.seconds[known]))
    long = rows.seconds[known] >= SHORT
    spread = Spread(short=deviation(off[~long]), long=deviation(off[long]))
    growths = [square for square in octaves if square is not None]
    hull = evidence(rows, known, float(np.sqrt(np.mean(growths))) if growths else 0.0)
    used = [group for group in rows.groups if group.device not in one.foreign]
    return Judged(
        fit=KernelFit(
            path=one.path,
            kernel=dataclasses.replace(kernel, spread=spread, hull=hull),
            engine=engine,
            versions=tuple(sorted({group.version for group in used})),
            kernels=tuple(sorted({group.kernel for group in used})),
            devices=tuple(sorted({group.device for group in used})),
            rows=int(np.sum(fitted_rows)),
            errors=errors(priced[fitted_rows], rows.seconds[fitted_rows]),
            held_out=_by_device(rows, carried, known),
            blind=blind,
        ),
        seen=_by_device(rows, priced, fitted_rows),
        sites=_by_device(rows, priced, rows.sites),
        hull=hull,
    )


def _by_device(rows: Sample, seconds: np.ndarray, chosen: np.ndarray) -> dict[str, tuple[Errors, Errors]]:
    found = {}
    for device in np.unique(rows.devices[chosen]):
        here = chosen & (rows.devices == device)
        found[str(device)] = errors_by_length(seconds[here], rows.seconds[here])
    return found


def evidence(rows: Sample, chosen: np.ndarray, growth: float = 0.0) -> Hull:
    """The hull of some rows: of each device, as rows of one have the same figures."""
    parts = []
    for device in np.unique(rows.devices[chosen]):
        here = chosen & (rows.devices == device)
        op = jax.tree.map(lambda leaf, here=here: np.asarray(leaf)[here], rows.op)
        parts.append((op, hwspaces.hardware(str(device)).hardware))
    return hull_of(parts, growth)


def _growth(rows: Sample, out: np.ndarray, others: np.ndarray, priced: np.ndarray, carried: np.ndarray) -> float | None:
    """Square of what the deviation gains per octave on an architecture that was left out; None where it is near."""
    hull = evidence(rows, others)
    device = str(rows.devices[out][0])
    op = jax.tree.map(lambda leaf: np.asarray(leaf)[out], rows.op)
    with eager():
        octaves = float(np.mean(hull_distance(hull, op, hwspaces.hardware(device).hardware)))
    if octaves < NEAR:
        return None
    inside, off = (deviation(np.abs(np.log(one[out] / rows.seconds[out]))) for one in (priced, carried))
    return max(off**2 - inside**2, 0.0) / octaves**2
