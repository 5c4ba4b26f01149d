"""Constants of dense matrix products and of the kernels that quantise their activations, fitted to measured tables."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import least_squares

import hwspaces
from jaxroof.efficiency.gemm import GemmKernel, gemm_timing, published
from jaxroof.efficiency.stream import StreamKernel, stream_timing
from jaxroof.efficiency.timing import SHORT, Spread
from jaxroof.hardware import Hardware, Links
from jaxroof.numerics.struct import Scalar
from jaxroof.op import ProductShape
from sweeps.measure.kernel_data.gemm import FORMATS, gemm_groups
from sweeps.measure.kernel_data.group import Columns, KernelGroup
from sweeps.measure.validate.relative_errors import errors
from tests.evidence.learned_kernels.result import (
    ARCHITECTURES,
    KernelFit,
    all_rows,
    deviation,
    errors_by_length,
    held_sites,
    released,
    sources,
)
from tests.evidence.least_squares import OUTLIER

CLASSES = {"bfloat16": "wide", "fp8": "narrow", "fp8_block": "scaled", "nvfp4": "block4"}
"""dtype of the table -> class of `jaxroof.efficiency.kernels.Kernels`."""

FALLBACKS = ("CutlassFp8BlockScaledMMKernel", "TritonFp8BlockScaledMMKernel", "sglang_triton_w8a8_block_fp8")
"""Kernels that are not fitted: of blocks of 128 where outputs or inputs are no whole number of blocks."""

OLDER_LAYOUT = ("sglang", "0.5.14", "b200_sxm", "fp8_block")
"""Engine, version, device and dtype of rows with a kernel more: it lays out the weights' scales in every call, which
0.5.17 does not. `learned-sglang-0.5.14` is theirs; they are not fitted with the others."""

FITTED_ROWS = 400
SCORED_ROWS = 1200
"""Rows of one device and release, drawn at random, that are fitted and others that are scored."""

DEVIATION = 0.12
"""Standard deviation of the log ratio that a row of a right model would have; weighs rows against priors."""

ALIKE = 25.0
"""Rows that tell as much as one independent row would: neighbours on one device err together."""

TRUST = {
    "matrix": 0.08,
    "tile_cycles": 0.3,
    "small": 0.4,
    "energy": 0.1,
    "launch_cycles": 0.2,
    "bandwidth": 0.06,
    "fetch": 0.5,
    "cache_bandwidth": 0.2,
    "contention": 0.5,
    "activation_residency": 0.25,
    "weight_residency": 0.1,
    "ramp_cycles": 0.5,
    "store_cycles": 0.35,
    "overlap": 0.2,
    "idle_power": 0.3,
    "split_cycles": 0.3,
    "step_cycles": 0.5,
}
"""Constant of products of 16 bits -> standard deviation of its logarithm around the published value."""

LOOP = {
    "tile_cycles": 0.5,
    "row_cycles": 1.5,
    "matrix": 0.2,
    "launch_cycles": 0.3,
    "small": 0.6,
    "ramp_cycles": 0.5,
    "activation_residency": 0.4,
}
"""What kernels with another main loop have of their own: scaling and conversion share the cores."""

FED = {**LOOP, "store_cycles": 0.5, "step_cycles": 0.5, "contention": 0.5, "cache_bandwidth": 0.2, "bandwidth": 0.06}
"""The same of kernels whose operands also arrive in another way."""

CHANGED = {
    "narrow": {**FED, "split_cycles": 1.0},
    "scaled": {**LOOP, "promotion": 0.7, "packing_cycles": 0.5},
    "block4": FED,
}
"""Class -> constants that it moves, and how far from the class that it follows. All others are those of that
class: moving them too (22 to 26 a class) made architectures that were left out worse."""

FOLLOWED = {"narrow": "wide", "scaled": "narrow", "block4": "narrow"}
"""Class -> the one whose constants it has but for `CHANGED`; of an engine without it, that one's."""

FIRST = {"row_cycles": 100.0, "promotion": 0.2, "packing_cycles": 3000.0}
"""Where a constant starts that the followed class lacks."""

QUANTISER = StreamKernel(
    launch_cycles=0.0, launch_time=4e-6, bandwidth=0.6, vector=1.0, matrix=1.0, core_bytes=8.0, residency=0.6
)
"""Priors: two to three small kernels; bytes at a share of HBM, or as one core issues loads of two bytes."""

QUANTISER_TRUST = {
    "wide": {},
    "narrow": {"launch_time": 0.7, "core_bytes": 0.5, "residency": 0.4},
    "scaled": {"launch_time": 0.7, "core_bytes": 0.5},
    "block4": {"launch_time": 0.7, "core_bytes": 0.5, "residency": 0.4},
}
"""Class -> constants of the kernel that quantises activations, likewise."""

BOUND = 4.0
"""Deviations of its prior beyond which no constant moves."""


class Sample(NamedTuple):
    """Rows of several devices. Arrays of shape [rows]."""

    columns: Columns
    hardware: Hardware
    seconds: np.ndarray
    devices: np.ndarray


class Models(NamedTuple):
    """What prices one call."""

    product: GemmKernel
    quantiser: StreamKernel | None  # None: activations are multiplied as they are


def fit_gemm(data: Path, engine: str) -> list[KernelFit]:
    """Fits of every class that the engine's graph-replayed rows cover: products, and quantisers fitted with them.

    Each class follows one before it, in every fold: without an architecture too.
    """
    groups = [group for group in all_rows(gemm_groups, data) if group.engine == engine and _is_fitted(group)]
    fits, known = [], dict[str, dict[str | None, Models]]()
    for dtype, name in CLASSES.items():
        rows = [group for group in groups if group.precision == dtype]
        if rows:
            starts = known.get(FOLLOWED.get(name, ""), known.get("wide", {None: Models(published(), None)}))
            found, known[name] = _fits(rows, dtype, starts)
            fits.extend(found)
    return fits


def _is_fitted(group: KernelGroup) -> bool:
    older = (group.engine, group.version, group.device, group.precision) == OLDER_LAYOUT
    return group.device in ARCHITECTURES and group.kernel not in FALLBACKS and released(group.version) and not older


def _fits(
    groups: Sequence[KernelGroup], dtype: str, starts: Mapping[str | None, Models]
) -> tuple[list[KernelFit], dict[str | None, Models]]:
    """Fits of one class, and its models by the architecture that they have not seen (None: all seen)."""
    seed = np.random.default_rng(0)
    # Sites that no fit sees: what is scored is of them alone.
    held = [held_sites(group.columns["n"], group.columns["k"]) for group in groups]
    orders = [seed.permutation(len(group)) for group in groups]
    fitted = _sample(groups, [order[~out[order]][:FITTED_ROWS] for order, out in zip(orders, held, strict=True)], dtype)
    scored = _sample(groups, [order[out[order]][:SCORED_ROWS] for order, out in zip(orders, held, strict=True)], dtype)
    call, target, trust = groups[0].call, np.log(fitted.seconds), np.asarray(list(_trust(dtype).values()))

    @jax.jit
    def times(point: jax.Array, start: Models, columns: Columns, hardware: Hardware) -> jax.Array:
        models = _models(dtype, start, jnp.exp(point))

        def seconds(row: Columns, device: Hardware) -> Scalar:
            ops = call(row)
            product = next(op for op in ops if isinstance(op.shape, ProductShape))
            total = gemm_timing(models.product, product, device).total
            # What lays out scales for a benchmark's call is a kernel as small as a quantiser.
            others = (op for op in ops if op is not product)
            return total + sum(op.count * stream_timing(models.quantiser, op, device).total for op in others)

        return jax.vmap(seconds)(columns, hardware)

    @jax.jit
    def logs(point: jax.Array, start: Models, columns: Columns, hardware: Hardware) -> jax.Array:
        return jnp.log(times(point, start, columns, hardware))

    slopes = jax.jit(jax.jacfwd(logs))

    def solution(start: Models, weights: np.ndarray) -> Models:
        priors = _priors(dtype, start)

        def residuals(point: np.ndarray) -> np.ndarray:
            rows = np.asarray(logs(point, start, fitted.columns, fitted.hardware), float) - target
            return np.concatenate([rows * weights / DEVIATION, (point - priors) * (ALIKE**0.5 / trust)])

        def jacobian(point: np.ndarray) -> np.ndarray:
            rows = np.asarray(slopes(point, start, fitted.columns, fitted.hardware), float)
            return np.concatenate([rows * weights[:, None] / DEVIATION, np.diag(ALIKE**0.5 / trust)])

        bounds = (priors - BOUND * trust, np.minimum(priors + BOUND * trust, _ceilings(dtype)))
        found = least_squares(
            residuals, priors, jacobian, bounds, loss="soft_l1", f_scale=OUTLIER, max_nfev=60, ftol=1e-5, xtol=1e-5
        )
        return jax.tree.map(float, _models(dtype, start, np.exp(found.x).tolist()))

    def predicted(models: Models) -> np.ndarray:
        point = _priors(dtype, models)
        return np.asarray(times(point, models, scored.columns, scored.hardware), float)

    known: dict[str | None, Models] = {None: solution(starts[None], np.ones(len(target)))}
    errors_held, blind, unseen = {}, {}, np.full(len(scored.seconds), np.nan)
    for left_out in _folds([group.device for group in groups]):
        out = np.isin(fitted.devices, left_out)
        name = ARCHITECTURES[left_out[0]]
        known[name] = solution(starts.get(name, starts[None]), 1.0 - out)
        prediction = predicted(known[name])
        for device in np.unique(fitted.devices[out]):
            rows = scored.devices == device
            unseen[rows] = prediction[rows]
            errors_held[str(device)] = errors_by_length(prediction[rows], scored.seconds[rows])
            blind[str(device)] = _by_path(dtype, known[name])
    for name in ARCHITECTURES.values():  # one that this class has no rows of
        known.setdefault(name, known[None])
    spread, everything = _spread(unseen, scored.seconds), predicted(known[None])
    fits = [
        KernelFit(
            path=path,
            kernel=dataclasses.replace(kernel, spread=spread),
            engine=groups[0].engine,
            sources=sources(groups),
            rows=len(target),
            errors=errors(everything, scored.seconds),
            held_out=errors_held,
            blind={device: models[path] for device, models in blind.items()},
            moved=tuple(QUANTISER_TRUST[CLASSES[dtype]] if path[0] == "e" else _product_trust(dtype)),
            like="linear.wide" if path in ("linear.narrow", "linear.scaled", "linear.block4") else None,
        )
        for path, kernel in _by_path(dtype, known[None]).items()
    ]
    return fits, known


def _by_path(dtype: str, models: Models) -> dict[str, Any]:
    """The structs of a class by where they belong."""
    kernels: dict[str, Any] = {f"linear.{CLASSES[dtype]}": models.product}
    if models.quantiser is not None:
        kernels[f"elementwise.{CLASSES[dtype]}"] = models.quantiser
    return kernels


def _folds(devices: Sequence[str]) -> list[list[str]]:
    """Devices that are left out together: one architecture, or one device where there is but one architecture."""
    architectures = {ARCHITECTURES[device] for device in devices}
    if len(architectures) == 1:
        return [[device] for device in sorted(set(devices))] if len(set(devices)) > 1 else []
    return [[device for device in devices if ARCHITECTURES[device] == name] for name in sorted(architectures)]


def _product_trust(dtype: str) -> Mapping[str, float]:
    """Constants of a product that a class moves, and how far."""
    return CHANGED.get(CLASSES[dtype], TRUST)


def _trust(dtype: str) -> dict[str, float]:
    """All constants that a class moves: of the product, then of the quantiser."""
    return {**_product_trust(dtype), **QUANTISER_TRUST[CLASSES[dtype]]}


def _priors(dtype: str, start: Models) -> np.ndarray:
    """Logarithms of what a class starts from: the constants of the class that it follows."""
    medians = [getattr(start.product, name) or FIRST[name] for name in _product_trust(dtype)]
    medians += [getattr(start.quantiser or QUANTISER, name) for name in QUANTISER_TRUST[CLASSES[dtype]]]
    return np.log(medians)


def _ceilings(dtype: str) -> np.ndarray:
    """Logarithms that shares of a peak stay below: nothing is faster than the datasheet."""
    return np.array([0.0 if name in ("matrix", "bandwidth", "cache_bandwidth") else np.inf for name in _trust(dtype)])


def _models(dtype: str, start: Models, values: Any) -> Models:
    """The structs of a class from its fitted values, in the order of `_trust`, over those that it follows."""
    names = list(_product_trust(dtype))
    product = dataclasses.replace(start.product, **{name: values[i] for i, name in enumerate(names)})
    if dtype == "bfloat16":
        return Models(product, None)
    moved = {name: values[len(names) + i] for i, name in enumerate(QUANTISER_TRUST[CLASSES[dtype]])}
    return Models(product, dataclasses.replace(start.quantiser or QUANTISER, **moved))


def _sample(groups: Sequence[KernelGroup], chosen: Sequence[np.ndarray], dtype: str) -> Sample:
    """The chosen rows of every group, each with its device's figures."""
    parts = [group.chosen(rows) for group, rows in zip(groups, chosen, strict=True)]
    devices = [_device(part.device, FORMATS[dtype].compute) for part in parts]

    def repeated(*figures: float) -> np.ndarray:
        filled = [np.full(len(part), figure, np.float32) for figure, part in zip(figures, parts, strict=True)]
        return np.concatenate(filled)

    return Sample(
        columns={
            name: np.concatenate([part.columns[name] for part in parts]).astype(np.float32) for name in parts[0].columns
        },
        hardware=jax.tree.map(repeated, *devices),
        seconds=np.concatenate([part.seconds for part in parts]),
        devices=np.concatenate([np.full(len(part), part.device) for part in parts]),
    )


def _device(name: str, precision: str) -> Hardware:
    """Only what a product sees of a device, so that devices of all kinds have one structure."""
    hardware = hwspaces.hardware(name).hardware
    unread = {
        "links": Links(scale_up=None, scale_out=None),
        "price": None,
        "energy": None,
        "silicon": None,
        "costs": None,
        "package": None,
        "cores": dataclasses.replace(hardware.cores, matrix_flops_per_clock=None),
    }
    return dataclasses.replace(hardware, matrix={precision: hardware.matrix[precision]}, **unread)


def _spread(predicted: np.ndarray, measured: np.ndarray) -> Spread | None:
    """From the 90 % quantiles of the log errors of rows that were predicted without their architecture."""
    logs = np.abs(np.log(predicted / measured))
    known = np.isfinite(logs)
    if not known.any():
        return None
    short = measured < SHORT
    return Spread(short=deviation(logs[known & short]), long=deviation(logs[known & ~short]))
