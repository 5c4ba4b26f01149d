"""Fit of eager PyTorch's fp32 kernels: `python -m tests.evidence.eager_fit --data DIR -o FILE`."""

import dataclasses
import datetime
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import least_squares

import hwspaces
from hwspaces.efficiency_file import efficiency_text
from jaxroof.efficiency import Efficiency, Host, Kernels, LinkEfficiency
from jaxroof.efficiency.gemm import GemmKernel, gemm_timing, published
from jaxroof.efficiency.stream import StreamKernel
from jaxroof.hardware import Hardware, Links
from jaxroof.layers.linear import linear
from jaxroof.model import WeightFormat
from jaxroof.op import KINDS
from sweeps.measure.kernel_data.group import table
from tests.evidence.fit_command import exit_status, fit_parser
from tests.evidence.hulls import hull_of_devices
from tests.evidence.least_squares import OUTLIER

FILE = "neusight_kernels_fp32.parquet"

DEVICES = {
    "Tesla P4": "P4",
    "Tesla P100-PCIE-16GB": "P100-PCIe",
    "Tesla T4": "T4",
    "Tesla V100-PCIE-32GB": "V100-PCIe",
    "NVIDIA A100-PCIE-40GB": "A100-PCIe-40GB",
    "AMD Instinct MI100": "MI100",
    "AMD Instinct MI210": "MI210",
}
"""GPU of the table -> accelerator of the catalogue."""

FP32 = WeightFormat(bytes=4.0, compute="fp32")

PRIORS = {
    "matrix": (0.92, 0.1),
    "tile_cycles": (2000.0, 0.7),
    "small": (0.3, 0.7),
    "process_energy": (8.0, 0.3),
    "idle_power": (0.7, 0.3),
    "launch_cycles": (8000.0, 0.3),
    "bandwidth": (0.8, 0.1),
    "cache_bandwidth": (0.4, 0.4),
    "softness": (0.7, 0.3),
    "contention": (3.0, 0.7),
    "store_cycles": (1500.0, 0.7),
    "ramp_cycles": (2000.0, 0.5),
    "shared_issue": (0.2, 0.5),
}
"""Constant of a product -> median of its prior and standard deviation of its logarithm. Ours, around the published
constants of 16-bit products; process_energy: a T4 is held to half of its peak by 70 W."""

SHARES = ("matrix", "bandwidth", "cache_bandwidth", "softness")
"""Constants that stay below 1."""

DEVIATION = 0.12
"""Standard deviation of the log ratio that a row of a right model would have."""

ALIKE = 25.0
"""Rows that tell as much as one independent row would."""

ROWS = 220
"""Rows of one device and kind of product, drawn at random."""

OVERLAP = 0.0
"""Vector units fetch no operands by themselves, whatever the matrix units beside them do."""

COOL = {"P4": 0.3}
"""Weight of devices that whole models heat up: a P4 takes 2.3 times as long for 16 sequences as for 8, lone kernels
of its table do not slow down."""

WEIGHTS = {"linear": 1.3, "bmm": 0.7}
"""Products with weights take most of a model's time; lone batched products choose among more kernels."""

STREAMS = ("add", "mul", "div", "gelu", "relu", "tanh")
"""Kernels whose bytes are certain: one reading of each operand, one writing."""

OPERANDS = {"add": 3.0, "mul": 3.0, "div": 3.0, "gelu": 2.0, "relu": 2.0, "tanh": 2.0}
"""Arrays that such a kernel reads and writes."""

GDDR = ("P4", "T4")
"""Devices whose memory is not HBM."""

LAUNCH_CYCLES = 8000.0
"""Clock cycles of a small kernel between others in a stream: about 5 us; ours, no row of the table is that small."""


def main(words: list[str] | None = None) -> int:
    """Fit, print and write; returns the exit status."""
    options = fit_parser("eager_fit", __doc__, f"folder with other/{FILE}").parse_args(words)
    return exit_status(
        "eager_fit", options.output, lambda: refit(options.data / "other" / FILE), options.data, options.force
    )


def refit(file: Path) -> str:
    """Text of the efficiency file that the table's rows give; prints errors with each device left out."""
    frame = table(file, ("op", "latency_us", "gpu", "B", "H", "M", "N", "K", "origin"))
    frame = frame.astype(dict.fromkeys("BHMNK", "float64"))
    products = product_rows(frame)
    point = solution(products, np.ones(len(products)))
    inside = log_errors(products, point)
    held = {}
    for gpu, name in DEVICES.items():
        rows = (products.gpu == gpu).to_numpy()
        error = log_errors(products, solution(products, np.where(rows, 0.0, 1.0)))[rows]
        own = inside[rows]
        linears = (products.op[rows] == "linear").to_numpy()
        held[name] = [float(np.median(np.abs(part))) for part in (own[linears], error[linears], error[~linears])]
        print(name, "linear in sample {:.0%}, left out {:.0%}; batched left out {:.0%}".format(*held[name]))
    share, shares = stream_share(frame)
    print("bandwidth of element-wise kernels", {name: f"{value:.2f}" for name, value in shares.items()})
    return _text(kernel(np.exp(point)), len(products), held, share, shares)


def product_rows(frame: Any) -> Any:
    """Products of the sizes that models have, of 0.1 ms and more; the same number of every device and kind.

    Dimensions are multiples of 16: kernels for others are slower, by up to five times on Pascal.
    """
    frame = frame[frame.op.isin(["linear", "bmm"]) & frame.origin.str.contains("test")]
    frame = frame.assign(B=frame.B.fillna(1.0))
    sizes = frame[["M", "N", "K"]]
    chosen = (sizes % 16 == 0).all(axis=1) & (frame[["N", "K"]] < 20000).all(axis=1)
    frame = frame[chosen & frame.latency_us.between(1e2, 3e5)]
    picked = [rows.sample(min(len(rows), ROWS), random_state=1) for _, rows in frame.groupby(["gpu", "op"], sort=True)]
    import pandas

    return pandas.concat(picked)


def device(name: str) -> Hardware:
    """Only what a product sees of a device, so that all devices have one structure."""
    found = hwspaces.hardware(name).hardware
    energy = dataclasses.replace(
        found.energy, matrix={"fp32": found.energy.matrix["fp32"]}, scale_up=None, scale_out=None, cluster=None
    )
    return Hardware(
        matrix={"fp32": found.matrix["fp32"]},
        cores=dataclasses.replace(found.cores, shared_issue=found.cores.shared_issue or 0.0),
        memory=found.memory,
        links=Links(scale_up=None, scale_out=None),
        power=found.power,
        price=None,
        energy=energy,
    )


def kernel(values: Sequence[Any]) -> GemmKernel:
    """The constants of a product in the order of `PRIORS`, the others as published."""
    return dataclasses.replace(published(), overlap=OVERLAP, step_cycles=None, **dict(zip(PRIORS, values, strict=True)))


@jax.jit
def _log_times(point: jax.Array, columns: tuple, devices: Hardware) -> jax.Array:
    constants = kernel([jnp.exp(point[index]) for index in range(len(PRIORS))])

    def seconds(copies, rows, outputs, inputs, hardware):
        op = linear(copies * rows, inputs, outputs, FP32, 4.0, 1.0, matrices=copies)
        return gemm_timing(constants, op, hardware).total

    return jnp.log(jax.vmap(seconds)(*columns, devices))


_slopes = jax.jit(jax.jacfwd(_log_times))


def _arguments(products: Any) -> tuple[tuple, Hardware]:
    columns = tuple(products[name].to_numpy(np.float32) for name in ("B", "M", "N", "K"))
    places = products.gpu.map({gpu: index for index, gpu in enumerate(DEVICES)}).to_numpy()
    stacked = [device(name) for name in DEVICES.values()]
    return columns, jax.tree.map(lambda *leaves: np.asarray(leaves, np.float32)[places], *stacked)


def log_errors(products: Any, point: np.ndarray) -> np.ndarray:
    """ln(predicted / measured) of every row."""
    predicted = np.asarray(_log_times(point, *_arguments(products)), float)
    return predicted - np.log(products.latency_us.to_numpy() * 1e-6)


def solution(products: Any, weights: np.ndarray) -> np.ndarray:
    """Logarithms of the constants that fit the weighted rows and the priors best."""
    arguments, target = _arguments(products), np.log(products.latency_us.to_numpy() * 1e-6)
    cool = products.gpu.map(DEVICES).map(COOL).fillna(1.0).to_numpy()
    weights = weights * cool * products.op.map(WEIGHTS).to_numpy() / DEVIATION
    priors, trust = np.log([median for median, _ in PRIORS.values()]), np.array([s for _, s in PRIORS.values()])
    stiffness = ALIKE**0.5 / trust

    def residuals(point: np.ndarray) -> np.ndarray:
        rows = np.asarray(_log_times(point, *arguments), float) - target
        return np.concatenate([rows * weights, (point - priors) * stiffness])

    def jacobian(point: np.ndarray) -> np.ndarray:
        return np.concatenate([np.asarray(_slopes(point, *arguments)) * weights[:, None], np.diag(stiffness)])

    highest = np.minimum(priors + 4.0 * trust, [-1e-3 if name in SHARES else np.inf for name in PRIORS])
    bounds = (priors - 4.0 * trust, highest)
    return least_squares(
        residuals, priors, jacobian, bounds, loss="soft_l1", f_scale=OUTLIER, max_nfev=40, ftol=1e-5, xtol=1e-5
    ).x


def stream_share(frame: Any) -> tuple[float, dict[str, float]]:
    """Share of HBM bandwidth that element-wise kernels reach: the mean over devices with HBM, and all their medians."""
    rows = frame[frame.op.isin(STREAMS) & (frame.B * frame.H > 2e7)]
    rows = rows[rows.gpu.isin(list(DEVICES))]
    bandwidth = rows.gpu.map({gpu: device(name).memory.hbm.bandwidth for gpu, name in DEVICES.items()})
    reached = 4.0 * rows.B * rows.H * rows.op.map(OPERANDS) / (rows.latency_us * 1e-6) / bandwidth
    shares = {DEVICES[gpu]: float(value) for gpu, value in reached.groupby(rows.gpu).median().items()}
    stacked = [value for name, value in shares.items() if name not in GDDR]
    return sum(stacked) / len(stacked), shares


def _text(product: GemmKernel, rows: int, held: dict, share: float, shares: dict) -> str:
    stream = StreamKernel(
        launch_cycles=LAUNCH_CYCLES, launch_time=0.0, bandwidth=share, vector=0.5, matrix=0.5, residency=None
    )
    product = jax.tree.map(float, product)
    whole = Efficiency(
        linear=Kernels(wide=product),
        experts=Kernels(wide=product),
        prefill_attention=Kernels(wide=stream),
        decode_attention=Kernels(wide=stream),
        elementwise=Kernels(wide=stream),
        collective=LinkEfficiency(losses=1.0),
        host=Host(step_time=0.0, sequence_time=0.0, request_time=0.0),
    )
    for kind, hull in hull_of_devices(DEVICES.values(), KINDS, ("fp32",)).items():
        wide = dataclasses.replace(getattr(whole, kind).wide, hull=hull)
        whole = dataclasses.replace(whole, **{kind: Kernels(wide=wide)})
    left_out = "; ".join(f"{name} {own:.0%}, {out:.0%}, {batched:.0%}" for name, (own, out, batched) in held.items())
    reached = ", ".join(f"{name} {value:.2f}" for name, value in shares.items())
    streams = f"mean over devices with HBM of large kernels' median share: {reached}; launch: ours, about 5 us"
    sources = {
        "linear.wide": f"fitted to {rows:,} public fp32 products of PyTorch 2.1 and 2.4 (NeuSight, sitar-lab/NeuSight, "
        "scripts/asplos/data): dimensions that are multiples of 16, 0.1 ms and more. Median error of linear layers in "
        f"sample and with the device left out, and of batched products with it left out: {left_out}",
        "experts.wide": "as linear: experts run one after the other",
        "prefill_attention.wide": f"fused kernels are not eager mode's; {streams}",
        "decode_attention.wide": f"fused kernels are not eager mode's; {streams}",
        "elementwise.wide": streams,
        "collective.losses": "the links' measured losses apply in full: hwspaces/technology/links.toml",
        "collective.share": "ours: as alone",
        "collective.two_shot": "ours: as alone",
        "collective.wait_time": "ours: none",
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
        "errors": "whole models: `jaxroof validate training --data FILE`",
        "devices": tuple(DEVICES.values()),
    }
    notes = (
        "fp32 with TF32 off: NVIDIA's GPUs multiply on vector units, AMD's on matrix units.",
        "For deployments with attention_kernel = unfused: eager mode has no fused attention.",
    )
    return efficiency_text(whole, sources, heading, notes, "Kernels that PyTorch launches one by one in fp32.")


if __name__ == "__main__":
    sys.exit(main())
