"""Constants of the grouped matrix products of experts, per engine, fitted to calls of whole layers of experts."""

import dataclasses
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import least_squares

import hwspaces
from jaxroof.efficiency.grouped import GroupedKernel, grouped_timing, published
from jaxroof.efficiency.stream import StreamKernel, stream_timing
from jaxroof.efficiency.timing import SHORT, Spread
from jaxroof.hardware import Hardware
from sweeps.measure.kernel_data.experts import LABELS, NUMBERS, expert_call, expert_table, routed
from sweeps.measure.kernel_data.group import Call, KernelGroup, groups
from sweeps.measure.validate.relative_errors import errors
from tests.evidence.learned_kernels.result import (
    ARCHITECTURES,
    FOLDERS,
    KernelFit,
    deviation,
    errors_by_length,
    held_sites,
    released,
    sources,
)
from tests.evidence.least_squares import OUTLIER
from tests.evidence.parameters import Parameter

ANY = ""

CLASSES: dict[str, dict[str, tuple[str, dict[str, str]]]] = {
    "trtllm": {
        "experts.wide": ("bfloat16", {ANY: r"^moe_torch_flow(?:_cutlass)?$"}),
        "experts.narrow": ("fp8", {ANY: r"^moe_torch_flow_cutlass$"}),
        "experts.scaled": ("fp8_block", {ANY: r"^(?:moe_torch_flow_cutlass|deepgemm)$"}),
        "experts.block4": ("nvfp4", {ANY: r"^moe_torch_flow_cutlass$", "b200_sxm": r"^moe_torch_flow_min_latency$"}),
        "experts.packed": ("w4a16_mxfp4", {ANY: r""}),
    },
    "vllm": {
        "experts.wide": ("bfloat16", {ANY: r"", "b200_sxm": r"trtllm"}),
        "experts.narrow": (
            "fp8",
            {ANY: r"", "b200_sxm": r"trtllm", "h100_sxm": r"^vllm_fused", "h200_sxm": r"^vllm_fused"},
        ),
        "experts.scaled": ("fp8_block", {ANY: r"", "b200_sxm": r"trtllm"}),
        "experts.block4": ("nvfp4", {ANY: r""}),
        "experts.packed": ("w4a16_mxfp4", {ANY: r"^vllm_(?!mxfp4_moe)"}),
    },
    "sglang": {
        "experts.wide": ("bfloat16", {ANY: r"triton$", "b200_sxm": r"trtllm"}),
        "experts.scaled": ("fp8_block", {ANY: r"triton$", "b200_sxm": r"trtllm"}),
        "experts.block4": ("nvfp4", {ANY: r""}),
        "experts.packed": ("w4a16_mxfp4", {ANY: r"(?<!silu)$"}),
    },
}
"""Engine -> class -> dtype of the table, and which kernels on a device or else on any: what engines choose.

Not fitted are Triton's and CUTLASS's kernels on B200, which run in older releases and at odd sizes, and vLLM's
kernel of 8 bits on Hopper since 0.24, 4 times slower than the one before.
"""

ROWS = 300
"""Rows per device that are fitted, and `SCORED` of sites that no fit sees, that errors are of."""

SCORED = 800

ROW_SPREAD = 0.2
"""Standard deviation of the log ratio of a row of a right model."""

STREAM = StreamKernel(launch_cycles=3600.0, launch_time=0.0, bandwidth=0.8, vector=0.5, matrix=0.5)
"""Prices activation, conversion and combination inside a call: 2 us each at 1.8 GHz, 80 % of HBM."""

RESIDENT = dataclasses.replace(STREAM, residency=0.3)
"""The same of kernels that mask rows, whose zeros and activations stay in a part of L2."""

TRUST = "published or usual value; its spread is ours"

MOVING = (
    Parameter("matrix", 0.8, 0.15, 0.15, 0.97, TRUST),
    Parameter("tile_cycles", 1500.0, 0.5, 100.0, 20000.0, TRUST),
    Parameter("small", 0.3, 0.5, 0.02, 5.0, TRUST),
    Parameter("energy", 1.0e-12, 0.15, 0.5e-12, 2.0e-12, TRUST),
    Parameter("launch_cycles", 9000.0, 0.5, 2000.0, 60000.0, TRUST),
    Parameter("launch_time", 5.0e-7, 0.7, 1e-8, 2e-5, TRUST),
    Parameter("matrix_cycles", 10.0, 0.7, 0.5, 500.0, TRUST),
    Parameter("step_time", 2.5e-7, 0.5, 1e-8, 3e-6, TRUST),
    Parameter("bandwidth", 0.88, 0.08, 0.4, 0.95, TRUST),
    Parameter("cache_bandwidth", 0.7, 0.4, 0.1, 2.0, TRUST),
    Parameter("contention", 0.1, 0.7, 1e-3, 1.0, TRUST),
    Parameter("activation_residency", 0.5, 0.5, 0.02, 1.0, TRUST),
    Parameter("copy_cycles", 0.0625, 0.6, 1e-3, 1.0, TRUST),
    Parameter("copies", 0.5, 0.7, 0.01, 5.0, TRUST),
    Parameter("overlapped", 0.5, 0.5, 0.02, 1.0, TRUST),
    Parameter("fused", 0.2, 0.7, 0.01, 0.9, TRUST),
)
"""Fields of `GroupedKernel` that are fitted; the others are `published()`'s."""

LOW = {"matrix": 0.3, "launch_cycles": 0.5}
"""What every class after the first has of its own -> standard deviation of its logarithm around that one's."""

CHANGED = {
    "experts.narrow": LOW,
    "experts.scaled": {**LOW, "promotion": 0.7, "tensor_memory.matrix": 0.3},
    "experts.block4": {**LOW, "tensor_memory.matrix": 0.3, "tensor_memory.launch_cycles": 0.5},
    "experts.packed": {**LOW, "tensor_memory.matrix": 0.5},
}
"""Class -> constants that it moves; all others are those of 16 bits. Moving all 16 to 19 in each made architectures
that were left out worse: 40 instead of 16 % under vLLM at 4 bits."""

FIRST = {"promotion": 0.2}
"""Where a constant starts that the first class lacks."""

SHARES = ("matrix", "bandwidth", "activation_residency", "overlapped", "fused")

BOUND = 4.0
"""Deviations of its prior beyond which no constant moves."""

CEILING = 0.97
"""What shares of a peak stay below."""

COARSE = (
    Parameter("coarse_rows", 4.0, 0.7, 0.5, 64.0, "sgl-project/sglang and vllm-project/vllm, default tiles"),
    Parameter("coarse_lines", 0.5, 0.5, 0.01, 3.0, "lines of 128 B that are read by 64 B; its spread is ours"),
)
"""Fields of the two engines whose kernels choose between fine and coarse tiles by the mean rows of an expert."""

TILED_BY_MEAN = ("vllm", "sglang")

FEW = 0.1
"""Share of rows that says too little of a spread by itself."""


class Stack(NamedTuple):
    """Rows of one call's structure, over all devices."""

    call: Call
    columns: dict[str, np.ndarray]
    hardware: Hardware  # leaves of shape [rows]
    seconds: np.ndarray
    devices: np.ndarray
    stream: StreamKernel  # prices what is no product


def fit_experts(data: Path, engine: str) -> list[KernelFit]:
    """One fit per class of kernels that the engine has measured rows of; all follow the first, in every fold."""
    frame, fits = _drawn(data, engine), list[KernelFit]()
    start = dataclasses.replace(published(), **{p.path: p.prior for p in _first(engine)})
    starts: dict[str | None, GroupedKernel] = {None: start}
    for path in CLASSES[engine]:
        moved = CHANGED.get(path, {p.path: p.spread for p in _first(engine)})
        fit, known = _class_fit(_of_class(frame, engine, path), path, starts, moved)
        fits.append(fit)
        if path not in CHANGED:
            starts = known
    return fits


def _first(engine: str) -> tuple[Parameter, ...]:
    """Constants of the first class."""
    return MOVING + (COARSE if engine in TILED_BY_MEAN else ())


def _drawn(data: Path, engine: str) -> Any:
    """The engine's rows of all tables, at most so many of each device, release, kernel and dtype, in random order."""
    import pandas

    frames = [expert_table(folder) for name in FOLDERS if (folder := data / name).is_dir()]
    frame = pandas.concat(frames, ignore_index=True)
    frame = frame[(frame.backend == engine) & frame.gpu.isin(list(ARCHITECTURES)) & frame.version.map(released)]
    held = held_sites(frame.hidden_size.to_numpy(), frame.inter_size.to_numpy(), frame.num_experts.to_numpy())
    frame = frame.assign(held=held).sample(frac=1.0, random_state=0)
    kinds = ["gpu", "version", "kernel_source", "dtype", "held"]
    return frame.groupby(kinds, observed=True, group_keys=False).head(SCORED)


def _of_class(frame: Any, engine: str, path: str) -> Any:
    dtype, patterns = CLASSES[engine][path]
    frame = frame[frame.dtype == dtype]
    chosen = [
        re.search(patterns.get(gpu, patterns[ANY]), kernel) is not None
        for gpu, kernel in zip(frame.gpu, frame.kernel_source, strict=True)
    ]
    return frame[np.asarray(chosen, bool)]


def _class_fit(
    frame: Any, path: str, starts: Mapping[str | None, GroupedKernel], moved: Mapping[str, float]
) -> tuple[KernelFit, dict[str | None, GroupedKernel]]:
    """The fit of one class, and its kernel by the architecture that it has not seen (None: all seen)."""
    seen = frame[~frame.held] if frame.held.nunique() > 1 else frame
    unseen = frame[frame.held] if frame.held.nunique() > 1 else frame
    fitted_groups = _groups(seen.groupby("gpu", observed=True, group_keys=False).head(ROWS))
    stacks, scored = stacked(fitted_groups), stacked(_groups(unseen))
    fit = _fitter(stacks, moved)
    known = {None: fit(starts[None], [np.ones(len(stack.seconds)) for stack in stacks])}
    held_out, blind, ratios, times = {}, {}, [], []
    architectures = {ARCHITECTURES[group.device] for group in fitted_groups}
    for architecture in dict.fromkeys(ARCHITECTURES.values()):
        if architecture not in architectures or len(architectures) == 1:
            known[architecture] = known[None]
            continue
        start, others = starts.get(architecture, starts[None]), [_mask(stack, architecture) for stack in stacks]
        known[architecture] = fit(start, others)
        predicted, measured, devices = predictions(known[architecture], scored)
        for device in np.unique(devices):
            if ARCHITECTURES[device] == architecture:
                mine = devices == device
                held_out[str(device)] = errors_by_length(predicted[mine], measured[mine])
                blind[str(device)] = known[architecture]
                ratios.append(np.log(predicted[mine] / measured[mine]))
                times.append(predicted[mine])
    predicted, measured, _ = predictions(known[None], scored)
    if not ratios:  # one architecture: what is fitted is all there is
        ratios, times = [np.log(predicted / measured)], [predicted]
    return KernelFit(
        path=path,
        kernel=dataclasses.replace(known[None], spread=_spread(np.concatenate(ratios), np.concatenate(times))),
        engine=fitted_groups[0].engine,
        sources=sources(fitted_groups),
        rows=sum(len(group) for group in fitted_groups),
        errors=errors(predicted, measured),
        held_out=held_out,
        blind=blind,
        moved=tuple(moved),
        like="experts.wide" if path in CHANGED else None,
    ), known


def _groups(frame: Any) -> list[KernelGroup]:
    return groups(routed(frame), "experts", LABELS, NUMBERS, expert_call)


def stacked(found: list[KernelGroup]) -> list[Stack]:
    """Groups of one structure as one, with the hardware of every row."""
    by_call: dict[Call, list[KernelGroup]] = {}
    for group in found:
        by_call.setdefault(group.call, []).append(group)
    return [_stack(call, members) for call, members in by_call.items()]


def _stack(call: Call, members: list[KernelGroup]) -> Stack:
    sizes = [len(group) for group in members]
    devices = [hwspaces.hardware(group.device).hardware for group in members]
    shared = set.intersection(*(set(device.matrix) for device in devices))
    alike = [
        dataclasses.replace(
            device,
            matrix={name: device.matrix[name] for name in shared},
            cores=dataclasses.replace(device.cores, matrix_flops_per_clock=None),
            **dict.fromkeys(("links", "price", "energy", "silicon", "costs", "package")),
        )
        for device in devices
    ]
    columns = {name: np.concatenate([group.columns[name] for group in members]) for name in members[0].columns}
    return Stack(
        call=call,
        columns=columns,
        hardware=jax.tree.map(lambda *leaves: np.repeat(np.asarray(leaves, np.float32), sizes), *alike),
        seconds=np.concatenate([group.seconds for group in members]),
        devices=np.repeat([group.device for group in members], sizes),
        stream=RESIDENT if members[0].engine in TILED_BY_MEAN else STREAM,
    )


def call_seconds(kernel: GroupedKernel, stack: Stack) -> jax.Array:
    """Time in s of every call, shape [rows]."""

    def seconds(row: Any, hardware: Hardware) -> Any:
        timings = [
            stream_timing(stack.stream, op, hardware) if op.shape is None else grouped_timing(kernel, op, hardware)
            for op in stack.call(row)
        ]
        return sum(timing.total for timing in timings)

    return jax.vmap(seconds)(stack.columns, jax.tree.map(jnp.asarray, stack.hardware))


def predictions(kernel: GroupedKernel, stacks: list[Stack]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Predicted and measured s, and the device, of every row."""
    predicted = [np.asarray(jax.jit(lambda each, rows=rows: call_seconds(each, rows))(kernel)) for rows in stacks]
    return (
        np.concatenate(predicted),
        np.concatenate([stack.seconds for stack in stacks]),
        np.concatenate([stack.devices for stack in stacks]),
    )


def _fitter(stacks: list[Stack], moved: Mapping[str, float]) -> Callable[..., GroupedKernel]:
    """A function from what the constants start from, and the weights of all rows, to those that fit; compiled once."""
    trust = np.asarray(list(moved.values()))
    shares = [path.rpartition(".")[2] in SHARES for path in moved]

    def kernel(start: GroupedKernel, logarithms: Any) -> GroupedKernel:
        for i, path in enumerate(moved):
            start = _with(start, path, jnp.exp(logarithms[i]))
        return start

    @jax.jit
    def residuals(
        logarithms: jax.Array, start: GroupedKernel, weights: list[jax.Array], priors: jax.Array
    ) -> jax.Array:
        constants = kernel(start, logarithms)
        rows = [
            weight * (jnp.log(call_seconds(constants, stack)) - np.log(stack.seconds)) / ROW_SPREAD
            for stack, weight in zip(stacks, weights, strict=True)
        ]
        return jnp.concatenate([*rows, (logarithms - priors) / trust])

    jacobian = jax.jit(jax.jacfwd(residuals))

    def fit(start: GroupedKernel, weights: list[np.ndarray]) -> GroupedKernel:
        priors = np.log([_constant(start, path) for path in moved])
        low = priors - BOUND * trust
        high = np.minimum(priors + BOUND * trust, np.where(shares, np.log(CEILING), np.inf))
        solution = least_squares(
            lambda x: np.asarray(residuals(x, start, weights, priors), float),
            np.clip(priors, low, high - 1e-6),
            jac=lambda x: np.asarray(jacobian(x, start, weights, priors), float),
            bounds=(low, high),
            loss="soft_l1",
            f_scale=OUTLIER,
            ftol=1e-4,
            xtol=1e-4,
            max_nfev=20,
        )
        return jax.tree.map(float, kernel(start, solution.x))

    return fit


def _with(kernel: GroupedKernel, path: str, value: Any) -> GroupedKernel:
    """`kernel` with one constant replaced: "matrix", or "tensor_memory.matrix" of a class of cores."""
    cores, _, name = path.rpartition(".")
    if not cores:
        return dataclasses.replace(kernel, **{name: value})
    return dataclasses.replace(kernel, **{cores: {**(getattr(kernel, cores) or {}), name: value}})


def _constant(kernel: GroupedKernel, path: str) -> float:
    """One constant; that of a class of cores which has none of its own is the general one."""
    cores, _, name = path.rpartition(".")
    value = (getattr(kernel, cores) or {}).get(name) if cores else None
    value = getattr(kernel, name) if value is None else value
    return FIRST[name] if value is None else float(value)


def _mask(stack: Stack, architecture: str) -> np.ndarray:
    """1 of rows of other architectures, else 0."""
    return np.asarray([ARCHITECTURES[device] != architecture for device in stack.devices], float)


def _spread(ratios: np.ndarray, times: np.ndarray) -> Spread:
    """Of kernels shorter than `SHORT` and of the others; of all where either are too few to say."""

    def width(chosen: np.ndarray) -> float:
        few = np.sum(chosen) < FEW * len(chosen)
        return deviation(np.abs(ratios if few else ratios[chosen]))

    return Spread(short=width(times < SHORT), long=width(times >= SHORT))
