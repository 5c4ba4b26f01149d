"""Dense matrix products: `aic_gemm.parquet`. Low precisions include the kernel that quantises activations."""

import dataclasses
import functools
from pathlib import Path
from typing import Any

import numpy as np

import hwspaces
from jaxroof.layers.linear import Matrix, elementwise, projection
from jaxroof.model import WeightFormat
from jaxroof.op import AnyOp
from sweeps.measure.kernel_data.group import Call, Columns, KernelGroup, groups
from sweeps.measure.kernel_data.releases import kernel_table

FILE = "aic_gemm.parquet"

FORMATS = {
    "bfloat16": WeightFormat(bytes=2.0, compute="bf16"),
    "fp8": WeightFormat(bytes=1.0, compute="fp8"),
    # B per weight with its scale: 4 B per block of 128 x 128; 1 B per 16 weights; further below 2 B per 128 weights.
    "fp8_block": WeightFormat(bytes=1.0 + 4.0 / 128**2, compute="fp8", scaled=True),
    "nvfp4": WeightFormat(bytes=0.5 + 1.0 / 16, compute="fp4"),
    "sq": WeightFormat(bytes=1.0, compute="int8"),
    "int8_wo": WeightFormat(bytes=1.0, compute="bf16", dequantised=True),
    "int4_wo": WeightFormat(bytes=0.5 + 2.0 / 128, compute="bf16", dequantised=True),
}
"""dtype of the table -> how weights are stored and multiplied."""

COPIES = 6.0
"""Weights that the benchmark of most engines reads in turn, so that they are cold: the pack's README says 5 to 6."""

TRTLLM_COPIES = 5.0
"""The same of TensorRT-LLM's at most: it takes no more copies than exceed L2."""

EAGER = ("vllm", "0.27.1", "fp8_block")
"""Engine, version and dtype of rows that the host launched one by one, which their table does not say: a floor of 145
us on a B200 where 0.25 takes 7."""

LAYOUTS = {("vllm", "fp8_block"): 2.0}
"""Engine and dtype -> small kernels in every call of the benchmark that lay out the weights' scales for cores with a
tensor memory, which an engine does once: products inside of attention blocks (`modules`) take 9,000 cycles less."""

SCALES = 128.0**2
"""Weights per scale of them."""

ACTIVATION_BYTES = 2.0


def gemm_groups(folder: Path) -> list[KernelGroup]:
    """Rows that a CUDA graph replayed; eager ones measure the host's launches."""
    columns = ("gpu", "backend", "version", "kernel_source", "dtype", "n", "k", "m", "latency_us")
    frame = kernel_table(folder, FILE, columns)
    if "timing" in frame.columns:
        frame = frame[frame.timing != "eager"]
    eager = (frame.backend == EAGER[0]) & (frame.version == EAGER[1]) & (frame.dtype == EAGER[2])
    frame = frame[~eager]
    frame = frame[frame.dtype.isin(list(FORMATS))]
    frame = frame.assign(copies=_copies(frame), layouts=_layouts(frame))
    return groups(frame, "GEMM", {"dtype": "{}"}, ("m", "n", "k", "copies", "layouts"), gemm_call)


@functools.cache
def gemm_call(dtype: str) -> Call | None:
    """The ops of one product at `dtype`; None where the dtype is not modelled."""
    weights = FORMATS.get(dtype)
    if weights is None:
        return None

    def call(row: Columns) -> tuple[AnyOp, ...]:
        ops = projection("gemm", row["m"], Matrix(row["k"], row["n"], weights), ACTIVATION_BYTES, 1.0)
        # B that pass through L2 between two readings of the same copy of the weights.
        rotated = row["copies"] * row["k"] * row["n"] * weights.bytes
        product = tuple(dataclasses.replace(op, reuse_bytes=rotated) for op in ops.values())
        layouts = row.get("layouts")
        if layouts is None or not weights.scaled:
            return product
        scales = layouts * row["k"] * row["n"] / SCALES
        laid = elementwise(scales, reads=1.0, writes=1.0, element_bytes=4.0, flops=0.0, count=1.0, kernels=layouts)
        return (*product, laid)

    return call


def _copies(frame: Any) -> np.ndarray:
    """Copies of its weights that the benchmark of each row reads in turn, shape [rows]."""
    caches = {device: _cache_bytes(device) for device in frame.gpu.unique()}
    sizes = {dtype: float(weights.bytes) for dtype, weights in FORMATS.items()}
    bytes_ = frame.n.to_numpy(float) * frame.k.to_numpy(float) * frame.dtype.astype(str).map(sizes).to_numpy(float)
    # Copies of each row's weights that fill L2.
    needed = np.ceil(frame.gpu.astype(str).map(caches).to_numpy(float) / bytes_)
    return np.where(frame.backend == "trtllm", np.minimum(TRTLLM_COPIES, needed), COPIES)


def _layouts(frame: Any) -> np.ndarray:
    """Kernels of every row that lay out scales of weights, shape [rows]."""
    tensor_memory = {device: _has_tensor_memory(device) for device in frame.gpu.unique()}
    kernels = [LAYOUTS.get(key, 0.0) for key in zip(frame.backend.astype(str), frame.dtype.astype(str), strict=True)]
    return np.array(kernels) * frame.gpu.astype(str).map(tensor_memory).to_numpy(float)


def _has_tensor_memory(device: str) -> bool:
    """Whether the matrix units of a device of the table have a memory of their own; no, if it is unknown."""
    try:
        return bool(hwspaces.hardware(device).hardware.cores.tensor_memory)
    except ValueError:  # whoever prices the rows says so
        return False


def _cache_bytes(device: str) -> float:
    """L2 of a device of the table in B; 0 where it, or the device, is unknown."""
    try:
        l2 = hwspaces.hardware(device).hardware.memory.l2
    except ValueError:  # whoever prices the rows says so
        return 0.0
    return 0.0 if l2 is None else float(l2.capacity)
