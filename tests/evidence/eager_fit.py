"""Fit of eager PyTorch's fp32 kernels: `python -m tests.evidence.eager_fit --data DIR -o FILE`."""

import argparse
import datetime
import sys
from pathlib import Path
from statistics import fmean
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from scipy.optimize import least_squares

from hwspaces.performance.efficiency_file import efficiency_text
from jaxroof.efficiency import Efficiency, Host, Kernels, LinkEfficiency
from jaxroof.efficiency.sgemm import SgemmKernel, sgemm_timing
from jaxroof.efficiency.stream import StreamKernel
from jaxroof.hardware import Hardware
from tests.evidence.harness import data, fitting
from tests.evidence.hulls import hull_of_devices, with_hulls
from tests.evidence.label_rows import (
    ARRAYS,
    FILE,
    HOST_TIME,
    OTHER_CALL_TIME,
    PRODUCT_CALL_TIME,
    PRODUCTS,
    kernel_device,
    label_rows,
    op_of_row,
)
from tests.evidence.least_squares import OUTLIER

PRIORS = {
    "matrix": (0.9, 0.1),
    "small": (0.3, 0.7),
    "tile_cycles": (700.0, 1.0),
    "lone": (0.3, 0.7),
    "kept": (0.5, 0.7),
    "flight": (1.0, 0.7),
    "unaligned": (0.2, 0.7),
    "single": (0.08, 0.7),
    "stored": (0.5, 0.7),
    "split_cycles": (40000.0, 0.7),
    "process_energy": (5.0, 0.5),
    "idle_power": (0.7, 0.3),
    "scattered": (3.0, 0.7),
    "far": (10.0, 0.7),
    "reach": (40.0, 0.7),
}
"""Constant of a product -> median of its prior and standard deviation of its logarithm; ours."""

SHARES = ("matrix",)
"""Constants that stay below 1."""

WIDE_WAVES = ("matrix", "small", "tile_cycles", "lone", "kept", "flight", "split_cycles", "process_energy")
"""Those that AMD's kernels have a value of their own for: another library, on matrix units."""

GIVEN = {
    "bandwidth": 0.9,  # large copies reach 85 to 92 % of HBM, BabelStream
    "split_traffic": 2.0,  # a partial sum is written and read
    "launch_cycles": 8000.0,  # about 5 us between kernels of a stream; ours
    "onset_time": 1.2e-4,  # s; boards of 70 W are held to their limit in kernels of a few tenths of a ms
}
"""Constants of a product that are not fitted."""

DEVIATION = 0.12
"""Standard deviation of the log ratio that a row of a right model would have."""

ALIKE = 25.0
"""Rows that tell as much as one independent row would."""

ROWS = 400
"""Rows of one device and kind of product, drawn at random."""

STEP = 1e-3
"""Step of the logarithms in finite differences: one program serves all fits, where a Jacobian of JAX would be compiled
for each."""

STREAMS = ("add", "mul", "div", "gelu", "relu", "tanh")
"""Kernels whose bytes are certain: one reading of each operand, one writing."""

LARGE = 2e7
"""Elements from which on such a kernel shows the bandwidth alone."""


@fitting(data(f"folder with other/{FILE}"), dtype="float32")
def main(options: argparse.Namespace, console: Console) -> str:
    """Fit; nothing is printed."""
    return _text(options.data)


def fitted(rows: Any) -> Efficiency:
    """Constants that fit rows of `label_rows`; of devices and shapes that are not among them nothing is used."""
    products = _sampled(rows)
    amd = _on_amd(products)
    general = _solution(products[~amd], PRIORS, {})
    own = {name: general[name] for name in WIDE_WAVES}
    if amd.any():
        around = {name: (general[name], PRIORS[name][1]) for name in WIDE_WAVES}
        own = _solution(products[amd], around, general)
    product = SgemmKernel(**GIVEN, **general, wide_waves=own)
    stream = StreamKernel(
        launch_cycles=GIVEN["launch_cycles"],
        launch_time=0.0,
        bandwidth=fmean(stream_shares(rows).values()),
        vector=0.5,
        exp=0.085,
        matrix=0.5,
        wide_waves={"vector": 0.186, "exp": 0.046},
    )
    return Efficiency(
        linear=Kernels(wide=product),
        experts=Kernels(wide=product),
        prefill_attention=Kernels(wide=stream),
        decode_attention=Kernels(wide=stream),
        elementwise=Kernels(wide=stream),
        collective=LinkEfficiency(losses=1.0),
        host=Host(step_time=0.0, sequence_time=0.0, request_time=0.0),
    )


def _on_amd(rows: Any) -> Any:
    """Which rows ran on AMD's GPUs."""
    return rows.device.map(lambda name: kernel_device(name).cores.wide_waves > 0.0).astype(bool)


def _sampled(rows: Any) -> Any:
    """Products, the same number of every device and kind; on AMD's GPUs single ones alone.

    rocBLAS takes the tiles of batched products from a table, so that their times say little of other constants.
    """
    import pandas

    products = rows[(rows.op == "linear") | ((rows.op == "bmm") & ~_on_amd(rows))]
    groups = products.groupby(["device", "op"], sort=True)
    return pandas.concat([part.sample(min(len(part), ROWS), random_state=1) for _, part in groups])


@jax.jit
def _log_times(kernel: SgemmKernel, columns: tuple, host: jax.Array, devices: Hardware) -> jax.Array:
    op = op_of_row(PRODUCTS[0])

    def seconds(b, h, m, n, k, floor, device):
        return jnp.maximum(floor, PRODUCT_CALL_TIME + sgemm_timing(kernel, op(b, h, m, n, k), device).total)

    return jnp.log(jax.vmap(seconds)(*columns, host, devices))


def _solution(products: Any, priors: dict[str, tuple[float, float]], around: dict[str, float]) -> dict[str, float]:
    """The constants that fit the rows and the priors best; those of `around` stay."""
    names, target = tuple(priors), np.log(products.seconds.to_numpy())
    columns = tuple(products[name].to_numpy(np.float32) for name in ("B", "H", "M", "N", "K"))
    devices = jax.tree.map(lambda *leaves: np.stack(leaves), *[kernel_device(name) for name in products.device])
    host = products.op.map(HOST_TIME).to_numpy(np.float32)
    medians = np.log([median for median, _ in priors.values()])
    trust = np.array([deviation for _, deviation in priors.values()])

    def residuals(point: np.ndarray) -> np.ndarray:
        values = around | {name: np.float32(value) for name, value in zip(names, np.exp(point), strict=True)}
        kernel = jax.tree.map(np.float32, SgemmKernel(**GIVEN, **values))
        rows = np.asarray(_log_times(kernel, columns, host, devices), float) - target
        return np.concatenate([rows / DEVIATION, (point - medians) * (ALIKE**0.5 / trust)])

    def slopes(point: np.ndarray) -> np.ndarray:
        here = residuals(point)
        return np.stack([(residuals(point + step) - here) / STEP for step in STEP * np.eye(len(point))], axis=1)

    highest = np.minimum(medians + 4.0 * trust, [-1e-3 if name in SHARES else np.inf for name in names])
    bounds = (medians - 4.0 * trust, highest)
    start = np.clip(medians, bounds[0] + 1e-3, bounds[1] - 1e-3)
    found = least_squares(
        residuals, start, slopes, bounds, loss="soft_l1", f_scale=OUTLIER, max_nfev=30, ftol=1e-5, xtol=1e-5
    ).x
    return {name: float(value) for name, value in zip(names, np.exp(found), strict=True)}


def stream_shares(rows: Any) -> dict[str, float]:
    """Share of HBM bandwidth that large element-wise kernels reach by device: the median of its rows."""
    rows = rows[rows.op.isin(STREAMS) & (rows.B * rows.H > LARGE)]
    bandwidth = rows.device.map(lambda name: float(kernel_device(name).memory.hbm.bandwidth))
    clock = rows.device.map(lambda name: float(kernel_device(name).cores.clock))
    busy = rows.seconds - OTHER_CALL_TIME - GIVEN["launch_cycles"] / clock
    moved = 4.0 * rows.B * rows.H * (1.0 + rows.op.map(ARRAYS).fillna(1.0))
    medians = (moved / busy / bandwidth).groupby(rows.device).median()
    return {str(name): float(share) for name, share in medians.items()}


LIKE = {
    "experts.wide": "linear.wide",
    **dict.fromkeys(("prefill_attention.wide", "decode_attention.wide"), "elementwise.wide"),
}
"""Kernels -> those of the file that they are: experts run one after the other, fused attention is not eager mode's."""


def _text(folder: Path) -> str:
    rows = label_rows(folder)
    whole = fitted(rows)
    devices = sorted(rows.device.unique())
    hulls = hull_of_devices(whole, devices, ("fp32",))
    whole = with_hulls(whole, {f"{kind}.wide": hull for kind, hull in hulls.items()})
    products = int(rows.op.isin(PRODUCTS).sum())
    stream = "mean over devices of large kernels' median share: " + ", ".join(
        f"{name} {share:.2f}" for name, share in stream_shares(rows).items()
    )
    sources = {
        "linear.wide": f"fitted to {len(_sampled(rows)):,} of {products:,} public fp32 products of PyTorch 2.1 and 2.4 "
        "(NeuSight, sitar-lab/NeuSight, scripts/asplos/data); wide_waves to AMD's linear layers; errors with every "
        "device and every second shape left out: docs/evidence/training.md",
        "experts.wide": "as linear: experts run one after the other",
        "prefill_attention.wide": f"fused kernels are not eager mode's; {stream}; launch: ours, about 5 us",
        "decode_attention.wide": f"fused kernels are not eager mode's; {stream}; launch: ours, about 5 us",
        "elementwise.wide": f"{stream}; launch: ours, about 5 us",
        "collective.losses": "the links' measured losses apply in full: hwspaces/technology/links.toml",
    }
    sources |= dict.fromkeys(
        ("host.step_time", "host.sequence_time", "host.request_time"),
        "ours: the host runs ahead of kernels of 0.1 ms; it does not bind at the sizes that were measured",
    )
    heading = {
        "engine": "PyTorch eager",
        "version": "2.1",
        "date": datetime.date.today().isoformat(),
        "refit": "python -m tests.evidence.eager_fit --data DIR -o FILE",
        "errors": "kernels: `python -m tests.evidence.label_set --data DIR`; whole models: `jaxroof validate training "
        "--data FILE`",
        "devices": tuple(devices),
    }
    notes = (
        "fp32 with TF32 off: NVIDIA's GPUs multiply on vector units, AMD's on matrix units.",
        "For deployments with attention_kernel = unfused: eager mode has no fused attention.",
    )
    return efficiency_text(
        whole, sources, heading, notes, "Kernels that PyTorch launches one by one in fp32.", like=LIKE
    )


if __name__ == "__main__":
    sys.exit(main())
