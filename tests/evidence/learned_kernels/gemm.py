"""Constants of dense matrix products and of the kernels that quantise their activations, fitted to measured tables."""

import dataclasses
from collections.abc import Sequence
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
from sweeps.measure.kernel_data.gemm import FORMATS, gemm_groups
from sweeps.measure.kernel_data.group import Columns, KernelGroup
from sweeps.measure.validate.relative_errors import errors
from tests.evidence.learned_kernels.result import ARCHITECTURES, KernelFit, deviation, errors_by_length
from tests.evidence.least_squares import OUTLIER

CLASSES = {"bfloat16": "wide", "fp8": "narrow", "fp8_block": "scaled", "nvfp4": "block4"}
"""dtype of the table -> class of `jaxroof.efficiency.kernels.Kernels`."""

FITTED_ROWS = 600
SCORED_ROWS = 3000
"""Rows of one device, drawn at random, that are fitted and others that are scored."""

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
    "row_cycles": 1.5,
    "software": 1.0,
    "promotion": 0.7,
    "packing_cycles": 1.5,
    "software_row_cycles": 2.0,
    "store_cycles": 0.35,
    "overlap": 0.2,
    "idle_power": 0.3,
    "split_cycles": 0.3,
    "step_cycles": 0.5,
}
"""Constant of a product that is fitted -> standard deviation of its logarithm around the published value."""

BLOCKS = ("software", "software_row_cycles", "promotion", "packing_cycles")
"""Constants of products whose operands have a scale per block of 128."""

LOW_PRIORS = {
    "matrix": 0.87,
    "tile_cycles": 2500.0,
    "split_cycles": 8000.0,
    "row_cycles": 300.0,
    "software": 0.5,
    "promotion": 0.2,
    "packing_cycles": 2000.0,
    "software_row_cycles": 1000.0,
}
"""Priors of low precisions that are not the published ones: scaling and type conversion share the cores."""

QUANTISER = StreamKernel(
    launch_cycles=0.0, launch_time=4e-6, bandwidth=0.6, vector=1.0, matrix=1.0, core_bytes=8.0, residency=0.6
)
"""Priors: two to three small kernels; bytes at a share of HBM, or as one core issues loads of two bytes."""

QUANTISER_TRUST = {"launch_time": 0.7, "bandwidth": 0.15, "core_bytes": 0.3, "residency": 0.4}

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


def fit_gemm(folder: Path, engine: str) -> list[KernelFit]:
    """Fits of every class that the engine's graph-replayed rows cover: products, and quantisers fitted with them."""
    groups = [group for group in gemm_groups(folder) if group.engine == engine and group.device in ARCHITECTURES]
    fits = []
    for dtype in CLASSES:
        rows = [group for group in groups if group.precision == dtype]
        if rows:
            fits.extend(_fits(rows, dtype))
    return fits


def _fits(groups: Sequence[KernelGroup], dtype: str) -> list[KernelFit]:
    seed = np.random.default_rng(0)
    orders = [seed.permutation(len(group)) for group in groups]
    fitted = _sample(groups, [order[:FITTED_ROWS] for order in orders], dtype)
    scored = _sample(groups, [order[FITTED_ROWS : FITTED_ROWS + SCORED_ROWS] for order in orders], dtype)
    priors, trust = _priors(dtype)
    call = groups[0].call

    @jax.jit
    def times(logarithms: jax.Array, columns: Columns, hardware: Hardware) -> jax.Array:
        models = _models(dtype, jnp.exp(logarithms))

        def seconds(row: Columns, device: Hardware) -> Scalar:
            *quantisers, product = call(row)
            total = gemm_timing(models.product, product, device).total
            return total + sum(stream_timing(models.quantiser, op, device).total for op in quantisers)

        return jax.vmap(seconds)(columns, hardware)

    target = np.log(fitted.seconds)

    @jax.jit
    def logs(point: jax.Array, columns: Columns, hardware: Hardware) -> jax.Array:
        return jnp.log(times(point, columns, hardware))

    slopes = jax.jit(jax.jacfwd(logs))

    def solution(weights: np.ndarray) -> np.ndarray:
        def residuals(point: np.ndarray) -> np.ndarray:
            rows = np.asarray(logs(point, fitted.columns, fitted.hardware), float) - target
            return np.concatenate([rows * weights / DEVIATION, (point - priors) * (ALIKE**0.5 / trust)])

        def jacobian(point: np.ndarray) -> np.ndarray:
            rows = np.asarray(slopes(point, fitted.columns, fitted.hardware), float)
            return np.concatenate([rows * weights[:, None] / DEVIATION, np.diag(ALIKE**0.5 / trust)])

        bounds = (priors - BOUND * trust, np.minimum(priors + BOUND * trust, _ceilings(dtype)))
        found = least_squares(
            residuals, priors, jacobian, bounds, loss="soft_l1", f_scale=OUTLIER, max_nfev=60, ftol=1e-5, xtol=1e-5
        )
        return found.x

    def predicted(point: np.ndarray) -> np.ndarray:
        return np.asarray(times(point, scored.columns, scored.hardware), float)

    point = solution(np.ones(len(target)))
    held, blind, unseen = {}, {}, np.full(len(scored.seconds), np.nan)
    for left_out in _folds([group.device for group in groups]):
        out = np.isin(fitted.devices, left_out)
        others = solution(1.0 - out)
        prediction, models = predicted(others), _by_path(dtype, others)
        for device in np.unique(fitted.devices[out]):
            rows = scored.devices == device
            unseen[rows] = prediction[rows]
            held[str(device)] = errors_by_length(prediction[rows], scored.seconds[rows])
            blind[str(device)] = models
    spread = _spread(unseen, scored.seconds)
    return [
        KernelFit(
            path=path,
            kernel=dataclasses.replace(kernel, spread=spread),
            engine=groups[0].engine,
            versions=tuple(sorted({group.version for group in groups})),
            kernels=tuple(sorted({group.kernel for group in groups})),
            devices=tuple(sorted({group.device for group in groups})),
            rows=len(target),
            errors=errors(predicted(point), scored.seconds),
            held_out=held,
            blind={device: models[path] for device, models in blind.items()},
        )
        for path, kernel in _by_path(dtype, point).items()
    ]


def _by_path(dtype: str, point: np.ndarray) -> dict[str, Any]:
    """The structs of a class by where they belong, from logarithms of its constants."""
    models = _models(dtype, np.exp(point).tolist())
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


def _priors(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Logarithms of the medians of all priors of a class, and their standard deviations."""
    kernel = published() if dtype == "bfloat16" else dataclasses.replace(published(), **LOW_PRIORS)
    names = _names(dtype)
    medians = [getattr(kernel, name) for name in names]
    trust = [TRUST[name] for name in names]
    if dtype != "bfloat16":
        medians += [getattr(QUANTISER, name) for name in QUANTISER_TRUST]
        trust += QUANTISER_TRUST.values()
    return np.log(medians), np.asarray(trust)


def _names(dtype: str) -> list[str]:
    """Constants of a product that are fitted: rows cost what quantises them, software what scales blocks."""
    names = [name for name in TRUST if dtype != "bfloat16" or name != "row_cycles"]
    return [name for name in names if dtype == "fp8_block" or name not in BLOCKS]


def _ceilings(dtype: str) -> np.ndarray:
    """Logarithms that shares of a peak stay below: nothing is faster than the datasheet."""
    names = [*_names(dtype), *(QUANTISER_TRUST if dtype != "bfloat16" else ())]
    return np.array([0.0 if name in ("matrix", "bandwidth", "cache_bandwidth") else np.inf for name in names])


def _models(dtype: str, values: Any) -> Models:
    """The structs of a class from its fitted values, in the order of `_priors`."""
    product = dataclasses.replace(published(), **{name: values[i] for i, name in enumerate(_names(dtype))})
    if dtype == "bfloat16":
        return Models(product, None)
    moved = {name: values[len(_names(dtype)) + i] for i, name in enumerate(QUANTISER_TRUST)}
    return Models(product, dataclasses.replace(QUANTISER, **moved))


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
