"""Constants of the grouped matrix products of experts, per engine, fitted to calls of whole layers of experts."""

import dataclasses
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
from tests.evidence.learned_kernels.result import ARCHITECTURES, KernelFit, deviation, errors_by_length
from tests.evidence.least_squares import OUTLIER
from tests.evidence.parameters import Parameter

CLASSES = {
    "trtllm": {
        "experts.wide": ("bfloat16", r"^moe_torch_flow(?:_cutlass)?$"),
        "experts.narrow": ("fp8", r"^moe_torch_flow_cutlass$"),
        "experts.scaled": ("fp8_block", r"^(?:moe_torch_flow_cutlass|deepgemm)$"),
        "experts.block4": ("nvfp4", r"^moe_torch_flow_cutlass$"),
    },
    "vllm": {
        "experts.wide": ("bfloat16", r""),
        "experts.narrow": ("fp8", r""),
        "experts.scaled": ("fp8_block", r""),
        "experts.block4": ("nvfp4", r""),
    },
    "sglang": {
        "experts.wide": ("bfloat16", r"^sglang_(?:fused_moe_triton|flashinfer_trtllm_moe)$"),
        "experts.scaled": ("fp8_block", r"^sglang_(?:fused_moe_triton|flashinfer_trtllm_moe)$"),
        "experts.block4": ("nvfp4", r""),
    },
}
"""Engine -> class -> dtype of the table, and which kernels: what the engine chooses by itself on each device."""

LEFT_OUT = {("vllm", "experts.narrow"): ("h100_sxm", "h200_sxm")}
"""Devices whose kernel is broken: 7 to 10 times slower than the same one elsewhere."""

ROWS = 500
"""Rows per device that are fitted, and `SCORED` that errors are of; drawn with a fixed seed."""

SCORED = 1500

ROW_SPREAD = 0.2
"""Standard deviation of the log ratio of a row of a right model."""

OLDER = 0.3
"""Weight of a residual of a version that is not the engine's newest."""

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

BLOCKS = (Parameter("promotion", 0.2, 0.7, 0.01, 3.0, TRUST),)
"""Further fields of products whose operands have a scale per block of 128."""

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
    newest: np.ndarray  # whether the engine's version is
    stream: StreamKernel  # prices what is no product


def fit_experts(folder: Path, engine: str) -> list[KernelFit]:
    """One fit per class of kernels that the engine has measured rows of."""
    frame = expert_table(folder)
    fits = []
    for path, (dtype, kernels) in CLASSES.get(engine, {}).items():
        usable = frame[~frame.gpu.isin(LEFT_OUT.get((engine, path), ()))]
        fits.append(_class_fit(usable, engine, path, dtype, kernels))
    return fits


def _class_fit(frame: Any, engine: str, path: str, dtype: str, kernels: str) -> KernelFit:
    fitted_groups = class_groups(frame, engine, dtype, kernels, ROWS, seed=0)
    scored_groups = class_groups(frame, engine, dtype, kernels, SCORED, seed=1)
    stacks, scored = stacked(fitted_groups), stacked(scored_groups)
    fit = _fitter(stacks, moving(engine, path))
    everything = fit([np.ones(len(stack.seconds)) for stack in stacks])
    held_out, blind, ratios, times = {}, {}, [], []
    architectures = sorted({ARCHITECTURES[group.device] for group in fitted_groups})
    for architecture in architectures:
        if len(architectures) == 1:
            break
        others = [_mask(stack, architecture, False) for stack in stacks]
        kernel = fit(others)
        predicted, measured, devices = predictions(kernel, scored)
        for device in np.unique(devices):
            if ARCHITECTURES[device] == architecture:
                mine = devices == device
                held_out[str(device)] = errors_by_length(predicted[mine], measured[mine])
                blind[str(device)] = kernel
                ratios.append(np.log(predicted[mine] / measured[mine]))
                times.append(predicted[mine])
    predicted, measured, devices = predictions(everything, scored)
    if not ratios:  # one architecture: what is fitted is all there is
        ratios, times = [np.log(predicted / measured)], [predicted]
    return KernelFit(
        path=path,
        kernel=dataclasses.replace(everything, spread=_spread(np.concatenate(ratios), np.concatenate(times))),
        engine=engine,
        versions=tuple(sorted({group.version for group in fitted_groups})),
        kernels=tuple(sorted({group.kernel for group in fitted_groups})),
        devices=tuple(sorted({group.device for group in fitted_groups})),
        rows=sum(len(group) for group in fitted_groups),
        errors=errors(predicted, measured),
        held_out=held_out,
        blind=blind,
    )


def moving(engine: str, path: str) -> tuple[Parameter, ...]:
    """Constants of a class that are fitted."""
    blocks = BLOCKS if path == "experts.scaled" else ()
    return MOVING + blocks + (COARSE if engine in TILED_BY_MEAN else ())


def class_groups(frame: Any, engine: str, dtype: str, kernels: str, rows: int, seed: int) -> list[KernelGroup]:
    """Up to `rows` rows per device of one engine's kernels whose names match the pattern `kernels`."""
    import pandas

    mine = (frame.backend == engine) & (frame.dtype == dtype) & frame.kernel_source.str.contains(kernels, regex=True)
    by_device = frame[mine & frame.gpu.isin(list(ARCHITECTURES))].groupby("gpu", observed=True)
    drawn = [part.sample(min(rows, len(part)), random_state=seed) for _, part in by_device]
    return groups(routed(pandas.concat(drawn)), "experts", LABELS, NUMBERS, expert_call)


def stacked(found: list[KernelGroup]) -> list[Stack]:
    """Groups of one structure as one, with the hardware of every row."""
    newest = max((group.version for group in found), key=_release)
    by_call: dict[Call, list[KernelGroup]] = {}
    for group in found:
        by_call.setdefault(group.call, []).append(group)
    return [_stack(call, members, newest) for call, members in by_call.items()]


def _release(version: str) -> tuple[int, ...]:
    return tuple(int("".join(filter(str.isdigit, part)) or 0) for part in version.split("rc")[0].split("."))


def _stack(call: Call, members: list[KernelGroup], newest: str) -> Stack:
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
        newest=np.repeat([group.version == newest for group in members], sizes),
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


def _fitter(stacks: list[Stack], moving: tuple[Parameter, ...] = MOVING) -> Any:
    """A function from the weights of all rows to the constants that fit them; compiled once."""
    priors = np.log([parameter.prior for parameter in moving])
    trust = np.asarray([parameter.spread for parameter in moving])
    bounds = np.log([[parameter.low for parameter in moving], [parameter.high for parameter in moving]])

    def kernel(logarithms: Any) -> GroupedKernel:
        return dataclasses.replace(published(), **{p.path: jnp.exp(logarithms[i]) for i, p in enumerate(moving)})

    @jax.jit
    def residuals(logarithms: jax.Array, weights: list[jax.Array]) -> jax.Array:
        constants = kernel(logarithms)
        rows = [
            weight * (jnp.log(call_seconds(constants, stack)) - np.log(stack.seconds)) / ROW_SPREAD
            for stack, weight in zip(stacks, weights, strict=True)
        ]
        return jnp.concatenate([*rows, (logarithms - priors) / trust])

    jacobian = jax.jit(jax.jacfwd(residuals))

    def fit(weights: list[np.ndarray]) -> GroupedKernel:
        weights = [w * np.where(stack.newest, 1.0, OLDER) for w, stack in zip(weights, stacks, strict=True)]
        solution = least_squares(
            lambda x: np.asarray(residuals(x, weights), float),
            priors,
            jac=lambda x: np.asarray(jacobian(x, weights), float),
            bounds=(bounds[0], bounds[1]),
            loss="soft_l1",
            f_scale=OUTLIER,
            ftol=1e-4,
            xtol=1e-4,
            max_nfev=20,
        )
        return jax.tree.map(float, kernel(solution.x))

    return fit


def _mask(stack: Stack, architecture: str, kept: bool) -> np.ndarray:
    return np.asarray([(ARCHITECTURES[device] == architecture) == kept for device in stack.devices], float)


def _spread(ratios: np.ndarray, times: np.ndarray) -> Spread:
    """Of kernels shorter than `SHORT` and of the others; of all where either are too few to say."""

    def width(chosen: np.ndarray) -> float:
        few = np.sum(chosen) < FEW * len(chosen)
        return deviation(np.abs(ratios if few else ratios[chosen]))

    return Spread(short=width(times < SHORT), long=width(times >= SHORT))
