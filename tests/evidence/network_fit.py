"""Constants of libraries that run whole networks, fitted to published times: `python -m tests.evidence.network_fit`.

    python -m tests.evidence.network_fit --engine pytorch -o hwspaces/efficiencies/pytorch.toml

Fitted are rows of some devices and networks; the others judge, as do fits with each device and each network left out.
"""

import argparse
import dataclasses
import datetime
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from rich.console import Console
from scipy.optimize import least_squares

import hwspaces
from hwspaces.performance.efficiency_file import efficiency_text
from hwspaces.performance.kernel_tables import CLASSES
from jaxroof.efficiency import Efficiency, Host, Kernels, KindEfficiency, LinkEfficiency
from jaxroof.numerics.tree import leaf_at, replaced
from jaxroof.op import STAND_INS
from tests.evidence.harness import fitting, flag
from tests.evidence.network_bench import Bench
from tests.evidence.network_rows import ENGINES, Row, is_fitted, rows
from tests.evidence.networks import bench_of

DEVIATION = 0.15
"""Standard deviation of the log ratio that a row of a right model would have."""

OUTLIER = 2.0
"""Residuals beyond this many standard deviations count linearly, not squared."""

STEP = 0.04
"""Difference of logarithms that slopes are taken over: times are stairs of counted tiles."""

NO_HOST = Host(step_time=0.0, sequence_time=0.0, request_time=0.0)


class Parameter(NamedTuple):
    """One constant: where it stands, a log-normal prior, its bounds, and the fact that the prior is."""

    paths: tuple[str, ...]
    prior: float
    spread: float
    low: float
    high: float
    fact: str


class Library(NamedTuple):
    """What runs networks: starting constants, what of them is fitted, and to whose rows."""

    start: Callable[[], Efficiency]
    base: str | None  # whose kernels the others are
    parameters: tuple[Parameter, ...]
    rows: str  # name of the engine in `ENGINES`; other releases and libraries by its constants judge
    engine: str
    version: str
    notes: tuple[str, ...]


def _kinds(field: str, *kinds: str) -> tuple[str, ...]:
    return tuple(f"{kind}.{field}" for kind in kinds)


ALL = ("linear", "elementwise", "convolution", "depthwise")
ALONE = "prefill_attention.wide.launch_cycles"
"""What attention in an engine has beside its kernel: launches of rotations and of writing the cache."""
NOT_SERVING = ("host.step_time", "host.sequence_time", "host.request_time")

LIKE_SHARES = {
    **dict.fromkeys(("prefill_attention", "decode_attention", "elementwise", "depthwise"), "experts"),
    "convolution": "linear",
}
"""Kind -> the other one whose constant shares it has, but for what is fitted: experts are of no network."""

GEMM = "as matrix products of the same sizes reach"
WINOGRAD = (
    "Lavin and Gray, arXiv:1509.09308: 1.5 to 2 times the rate of direct convolutions where 2.25 times less is to do"
)
STREAM = "large copies reach 80 to 92 % of device memory, BabelStream"
ISSUED = "ours: a warp's load of 4 B per thread, two or three in flight"
TAPS = "ours: one product and sum beside loads and address arithmetic"
BOARDS = "STREAM on such boards: 30 to 60 %"

GPU = (
    Parameter(("convolution.wide.matrix",), 0.8, 0.3, 0.3, 1.0, GEMM),
    Parameter(("convolution.wide.winograd",), 0.6, 0.5, 0.1, 1.0, WINOGRAD),
    Parameter(_kinds("wide.bandwidth", "elementwise", "depthwise"), 0.8, 0.1, 0.5, 0.95, STREAM),
    Parameter(("depthwise.wide.vector",), 0.3, 0.7, 0.03, 1.0, TAPS),
)

PYTORCH = (
    *GPU,
    Parameter(("elementwise.wide.core_bytes",), 10.0, 0.5, 3.0, 60.0, ISSUED),
    Parameter(("depthwise.wide.core_bytes",), 6.0, 0.7, 1.0, 60.0, ISSUED),
    Parameter(("host.kernel_time",), 50e-6, 0.5, 5e-6, 200e-6, "ours: Python, dispatch and launch of one operator"),
)

TENSORRT = (
    *GPU,
    Parameter(("convolution.narrow.matrix",), 0.8, 0.3, 0.2, 1.0, GEMM),
    Parameter(
        _kinds("wide.launch_cycles", "convolution") + ("convolution.narrow.launch_cycles",), 4400.0, 0.5, 1000.0, 4e4,
        "kernels in a graph: 2.2 to 2.5 us near 1.8 GHz, NVIDIA's figures of graph launches",
    ),
    Parameter(("linear.wide.matrix",), 0.9, 0.2, 0.3, 1.0, GEMM),
    Parameter(("linear.narrow.matrix",), 0.9, 0.2, 0.3, 1.0, GEMM),
)  # fmt: skip

ARM = (
    Parameter(_kinds("matrix", "convolution", "linear"), 0.7, 0.3, 0.1, 1.0, "ours: sgemm on Arm cores, 60 to 80 %"),
    Parameter(_kinds("matrix_low", "convolution", "linear"), 0.5, 0.4, 0.05, 1.0, "ours: widening products of int8"),
    Parameter(("depthwise.vector",), 0.3, 0.5, 0.03, 1.0, TAPS),
    Parameter(_kinds("bandwidth", "convolution", "depthwise", "elementwise"), 0.5, 0.3, 0.1, 0.95, BOARDS),
    Parameter(("linear.bandwidth",), 0.5, 0.3, 0.1, 0.95, BOARDS),
    Parameter(_kinds("kernel_time", *ALL), 10e-6, 0.7, 1e-6, 100e-6, "ours: one layer's start on all threads"),
)

MOBILE = (
    Parameter(_kinds("matrix", "convolution", "linear"), 0.3, 0.5, 0.05, 1.0, "ours: OpenCL's products of textures"),
    Parameter(("depthwise.vector",), 0.3, 0.5, 0.03, 1.0, TAPS),
    Parameter(_kinds("bandwidth", *ALL), 0.5, 0.3, 0.1, 0.95, "ours: the GPU's share of a phone's memory"),
    Parameter(_kinds("kernel_time", *ALL), 30e-6, 0.7, 2e-6, 3e-4, "ours: one OpenCL kernel in a queue"),
)

NCNN = (*ARM, Parameter(("convolution.winograd",), 0.6, 0.4, 0.1, 1.0, WINOGRAD))

EDGE = (
    Parameter(_kinds("matrix_low", "convolution", "linear"), 0.5, 0.4, 0.02, 1.0, "ours: fill and drain of the array"),
    Parameter(_kinds("vector", "depthwise", "elementwise"), 0.6, 0.6, 0.02, 1.0, "ours"),
    Parameter(_kinds("bandwidth", *ALL), 0.8, 0.2, 0.3, 1.0, "PCIe 2.0 delivers 80 % of its rate after its protocol"),
    Parameter(_kinds("kernel_time", *ALL), 10e-6, 0.7, 1e-6, 2e-4, "ours: one layer's start"),
)


def _gpu(base: str, core_bytes: float | None = None, kernel_time: float | None = None) -> Efficiency:
    """Kernels of an engine that run alone: attention with one launch.

    Args:
      core_bytes: streams are bound by what their cores have in flight, too.
      kernel_time: s that the host takes per launch, one by one.
    """
    own = hwspaces.efficiency(base).efficiency
    unsaid = {"hull": None, "spread": None}
    wide, narrow = (dataclasses.replace(getattr(own.linear, name), tensor_memory=None) for name in ("wide", "narrow"))
    stream = dataclasses.replace(own.elementwise.wide, core_bytes=core_bytes, **unsaid)
    attention = dataclasses.replace(own.prefill_attention.wide, launch_cycles=wide.launch_cycles)
    return dataclasses.replace(
        own,
        linear=Kernels(wide=wide, narrow=narrow),
        prefill_attention=dataclasses.replace(own.prefill_attention, wide=attention, narrow=None),
        convolution=Kernels(
            wide=dataclasses.replace(wide, winograd=0.6, **unsaid), narrow=dataclasses.replace(narrow, **unsaid)
        ),
        elementwise=Kernels(wide=stream),
        depthwise=Kernels(wide=stream),
        host=dataclasses.replace(NO_HOST, kernel_time=kernel_time),
    )


def _shares(winograd: float | None) -> Efficiency:
    """Constant shares of every peak."""
    one = KindEfficiency(matrix=0.7, matrix_low=0.5, vector=0.5, bandwidth=0.5, cache_bandwidth=0.6, kernel_time=10e-6)
    return Efficiency(
        linear=one,
        experts=one,
        prefill_attention=one,
        decode_attention=one,
        elementwise=one,
        collective=LinkEfficiency(losses=0.0),
        host=NO_HOST,
        convolution=dataclasses.replace(one, winograd=winograd),
        depthwise=one,
    )


LIBRARIES: Mapping[str, Library] = {
    "pytorch": Library(
        lambda: _gpu("learned-vllm", core_bytes=10.0, kernel_time=50e-6),
        "learned-vllm",
        PYTORCH,
        "PyTorch",
        "PyTorch and MXNet with cuDNN",
        "2020 to 2022",
        (
            "Operators are launched one by one: with --fusion operators, or framework where norms and activations "
            "are one kernel.",
        ),
    ),
    "tensorrt": Library(
        lambda: _gpu("learned-trtllm"),
        "learned-trtllm",
        TENSORRT,
        "TensorRT",
        "TensorRT",
        "7 and 8",
        ("With --fusion compiler: norms, activations and sums run at the end of products.",),
    ),
    "tflite": Library(
        lambda: _shares(None),
        None,
        ARM,
        "TFLite",
        "TensorFlow Lite on Arm cores",
        "2.1 and XNNPACK",
        ("With --fusion compiler. Convolutions are implicit products: there is no minimal filtering.",),
    ),
    "tflite-gpu": Library(
        lambda: _shares(None),
        None,
        MOBILE,
        "TFLite GPU",
        "TensorFlow Lite on GPUs of phones",
        "2020",
        ("With --fusion compiler.",),
    ),
    "ncnn": Library(
        lambda: _shares(0.6),
        None,
        NCNN,
        "ncnn",
        "ncnn on Arm cores",
        "2022",
        ("With --fusion compiler.",),
    ),
    "edge-tpu": Library(
        lambda: _shares(None),
        None,
        EDGE,
        "Edge TPU",
        "Edge TPU compiler",
        "2020",
        ("With --fusion compiler, for networks of int8.",),
    ),
}
"""File of `hwspaces/efficiencies` -> what it is fitted to."""


def rows_of(name: str) -> list[Row]:
    """All rows of a library."""
    return [row for row in rows() if ENGINES[row.engine][1] == name]


def solution(bench: Bench, library: Library, counted: np.ndarray) -> Efficiency:
    """The constants that are nearest to the counted rows and to their priors.

    residuals: ln(predicted / measured) / DEVIATION per row, ln(value / prior) / spread per constant
    """
    parameters, start = library.parameters, library.start()
    priors = np.log([one.prior for one in parameters])
    spreads = np.array([one.spread for one in parameters])
    bounds = np.log([[one.low for one in parameters], [one.high for one in parameters]])

    def constants(point: np.ndarray) -> Efficiency:
        found = start
        for one, value in zip(parameters, np.exp(point), strict=True):
            for path in one.paths:
                found = replaced(found, path, float(value))
        return found

    def residuals(point: np.ndarray) -> np.ndarray:
        found = constants(point)
        ratio = np.log(bench.times(lambda row: found) / bench.measured)
        return np.concatenate([ratio[counted] / DEVIATION, (point - priors) / spreads])

    def slopes(point: np.ndarray) -> np.ndarray:
        steps = STEP * np.eye(len(point))
        ends = [(np.minimum(point + step, bounds[1]), np.maximum(point - step, bounds[0])) for step in steps]
        rise = [(residuals(high) - residuals(low)) / (high - low).sum() for high, low in ends]
        return np.stack(rise, axis=1)

    begin = np.clip(priors, bounds[0] + 1e-6, bounds[1] - 1e-6)
    best = least_squares(
        residuals, begin, slopes, bounds=tuple(bounds), loss="soft_l1", f_scale=OUTLIER, xtol=1e-3, max_nfev=30
    )
    return constants(best.x)


def _errors(bench: Bench, constants: Efficiency) -> np.ndarray:
    """Relative error of every row."""
    return np.abs(bench.times(lambda row: constants) / bench.measured - 1.0)


def left_out(bench: Bench, library: Library, key: Callable[[Row], str]) -> dict[str, float]:
    """Median error of the rows of every value of `key`, by a fit of all others of this library's inference."""
    values = np.array([key(row) for row in bench.rows])
    own = np.array([row.engine == library.rows and not row.training for row in bench.rows])
    found = {}
    for value in sorted(set(values)):
        out = values == value
        if not (own & ~out).any():
            continue
        found[str(value)] = float(np.median(_errors(bench, solution(bench, library, own & ~out))[out]))
    return found


def refit(name: str, scores: bool = True) -> str:
    """Text of the file of a library's constants; prints what it was judged by."""
    library, bench = LIBRARIES[name], bench_of(rows_of(name))
    counted = np.array([is_fitted(row) for row in bench.rows])
    constants = solution(bench, library, counted)
    errors = _errors(bench, constants)
    words = f"median error {np.median(errors[counted]):.0%} of {counted.sum()} fitted rows"
    words += f", {np.median(errors[~counted]):.0%} of {(~counted).sum()} others"
    if scores:
        for what, key in (("device", lambda row: row.device), ("network", lambda row: row.network)):
            found = left_out(bench, library, key)
            print(what, {one: f"{error:.0%}" for one, error in found.items()})
            if found:
                words += f"; with each {what} left out {np.median(list(found.values())):.0%}"
    print(name, words)
    for one in library.parameters:
        print(f"  {one.paths[0]} {float(leaf_at(constants, one.paths[0])):.4g}, prior {one.prior:g}")
    return _text(name, library, constants, bench.rows, int(counted.sum()), words)


def _text(name: str, library: Library, constants: Efficiency, all_rows: Sequence[Row], fitted: int, words: str) -> str:
    devices = sorted({row.device for row in all_rows})
    sources = _sources(library, constants, f"fitted to {fitted} published times of whole networks")
    heading = {
        "engine": library.engine,
        "version": library.version,
        "date": datetime.date.today().isoformat(),
        "refit": f"python -m tests.evidence.network_fit --engine {name} -o FILE",
        "errors": words,
        "devices": tuple(devices),
    }
    comment = f"Kernels of {library.engine}."
    return efficiency_text(constants, sources, heading, library.notes, comment, library.base, _like(constants))


def _sources(library: Library, constants: Efficiency, fitted: str) -> dict[str, str]:
    """Source of every constant: fitted, or whose kernels it is of."""
    base = {} if library.base is None else hwspaces.efficiency(library.base).sources
    sources: dict[str, str] = {}
    for field in dataclasses.fields(constants):
        entry = getattr(constants, field.name)
        if isinstance(entry, Kernels):
            kind = STAND_INS.get(field.name, field.name)
            for name in CLASSES:
                if getattr(entry, name) is not None:
                    first = next(path for path in base if path.startswith(f"{kind}.{name}."))
                    sources[f"{field.name}.{name}"] = base[first]
        else:
            for own in dataclasses.fields(entry):
                path = f"{field.name}.{own.name}"
                sources[path] = base.get(path, "ours: no network that was fitted depends on it")
    if library.base is not None:
        sources[ALONE] = "attention of a network is one kernel, like a product"
        sources |= dict.fromkeys(NOT_SERVING, "a network is one batch: the host launches kernels and does nothing else")
    fact = "{}; prior {:g}: {}"
    return sources | {
        path: fact.format(fitted, one.prior, one.fact) for one in library.parameters for path in one.paths
    }


def _like(constants: Efficiency) -> dict[str, str]:
    """Tables of the file that stand over another one of it."""
    if isinstance(constants.linear, Kernels):
        kinds = [(kind, other, getattr(constants, kind)) for kind, other in STAND_INS.items()]
        return {
            f"{kind}.{name}": f"{other}.{name}" for kind, other, own in kinds for name in CLASSES if getattr(own, name)
        }
    return LIKE_SHARES


@fitting(flag("--engine", required=True, choices=tuple(LIBRARIES), help="whose constants"), dtype="float32")
def main(options: argparse.Namespace, console: Console) -> str:
    """Fit and print."""
    return refit(options.engine)


if __name__ == "__main__":
    sys.exit(main())
