"""Kernels of NeuSight's label set: rows of its table as ops on accelerators, and their predicted times."""

import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxroof.efficiency import Efficiency
from jaxroof.hardware import Hardware
from jaxroof.layers.attention_kernels import UNFUSED_SOFTMAX_FLOPS, softmax_readings
from jaxroof.layers.linear import elementwise, linear
from jaxroof.model import WeightFormat
from jaxroof.op import Kernel
from jaxroof.roofline import op_time
from sweeps.measure.kernel_data.group import table
from sweeps.measure.validate.training_passes import GPUS, device

FILE = "neusight_kernels_fp32.parquet"

COLUMNS = ("op", "latency_us", "gpu", "B", "H", "M", "N", "K")

PRODUCTS = ("bmm", "linear")

FP32 = WeightFormat(bytes=4.0, compute="fp32")

NORM_READINGS = 2.0
"""Times that layer normalisation reads a row: for its mean and variance, and for its result. PyTorch, aten
layer_norm_kernel.cu."""

NORM_FLOPS = 8.0
"""Vector FLOP per element that it normalises: running mean and variance, subtract, scale, weight and bias."""

POWER_FLOPS = 70.0
"""Vector FLOP of a general power: logarithm, product and exponential in more than single precision; ours."""

ARRAYS = {"add": 2.0, "mul": 2.0, "div": 2.0, "pow": 2.0}
"""Element-wise operations on two arrays; the others read one."""

FLOPS = {"div": 8.0, "divu": 8.0, "gelu": 20.0, "tanh": 20.0, "pow": POWER_FLOPS, "powu": POWER_FLOPS}
"""Vector FLOP per element, where it is not one; ours."""

HOST_TIME = {"bmm": 40e-6, "linear": 62e-6}
"""s between two events around one call, however short its kernel: Python, dispatch and the library's choice of a
kernel. The host's, so no accelerator says it; means over devices of the shortest calls: bmm 30 to 50, linear 52 to 90
us. Others are never that short."""

PRODUCT_CALL_TIME = 17e-6
"""s between those events that no kernel of a product fills, launch excepted: median over devices of the intercepts of
time against bytes and operations."""

OTHER_CALL_TIME = 10e-6
"""The same of kernels that are no products."""


def label_rows(folder: Path) -> Any:
    """The table of all kernels of devices that the catalogue knows: `device`, its name there, and numbers as floats.

    In the table a product is (M, N) @ (N, K): N are its inputs and K its outputs.

    Raises:
      ValueError: one line: the file cannot be read, or a column is missing.
    """
    frame = table(folder / "other" / FILE, COLUMNS)
    names = {gpu: GPUS.get(gpu.replace(" ", "_")) for gpu in frame.gpu.unique()}
    frame = frame.assign(device=frame.gpu.map(names))
    frame = frame[frame.device.notna()].reset_index(drop=True)
    numbers = frame[["B", "H", "M", "N", "K"]].astype("float64").fillna(1.0)
    return frame.assign(**{name: numbers[name] for name in numbers}, seconds=frame.latency_us.astype(float) * 1e-6)


def op_of_row(name: str) -> Callable[[Any, Any, Any, Any, Any], Kernel]:
    """What the operation `name` of the table runs, from its columns B, H, M, N and K."""
    if name in PRODUCTS:
        return lambda b, h, m, n, k: linear(b * m, n, k, FP32, 4.0, 1.0, matrices=b)
    if name == "softmax":
        return lambda b, h, m, n, k: _softmax(b, h)
    if name == "ln":
        return lambda b, h, m, n, k: elementwise(
            b, reads=NORM_READINGS * h, writes=h, element_bytes=4.0, flops=NORM_FLOPS * h, count=1.0
        )
    reads, flops = ARRAYS.get(name, 1.0), FLOPS.get(name, 1.0)
    return lambda b, h, m, n, k: elementwise(
        b, reads=reads * h, writes=h, element_bytes=4.0, flops=flops * h, count=1.0
    )


def _softmax(rows: Any, width: Any) -> Kernel:
    readings = softmax_readings(width) * width
    return elementwise(
        rows,
        reads=readings,
        writes=width,
        element_bytes=4.0,
        flops=UNFUSED_SOFTMAX_FLOPS * width,
        count=1.0,
        exps=readings,
    )


@functools.lru_cache(maxsize=64)
def _timer(name: str) -> Callable[..., jax.Array]:
    """Compiled: s of rows of one operation, as one call of PyTorch takes them on a host that takes no time for it."""
    op = op_of_row(name)
    call_time = PRODUCT_CALL_TIME if name in PRODUCTS else OTHER_CALL_TIME

    def seconds(columns: tuple, hardware: Hardware, efficiency: Efficiency) -> jax.Array:
        return call_time + op_time(op(*columns), hardware, efficiency)

    return jax.jit(jax.vmap(seconds, in_axes=(0, None, None)))


def predicted(rows: Any, efficiency: Efficiency) -> np.ndarray:
    """s of every row of the table, in its order."""
    found = np.empty(len(rows))
    places = np.arange(len(rows))
    for (name, gpu), part in rows.assign(place=places).groupby(["op", "device"], sort=False):
        columns = tuple(part[column].to_numpy(np.float32) for column in ("B", "H", "M", "N", "K"))
        found[part.place.to_numpy()] = np.asarray(_timer(name)(columns, kernel_device(gpu), efficiency))
    return np.maximum(found, rows.op.map(HOST_TIME).fillna(0.0).to_numpy())


@functools.cache
def kernel_device(name: str) -> Hardware:
    """Only what such kernels see of a device, numbers as float32, so that all devices compile once."""
    found = device(name)
    return jax.tree.map(
        np.float32, dataclasses.replace(found, cores=dataclasses.replace(found.cores, matrix_flops_per_clock=None))
    )
