"""Kernels that an engine does not choose by default: `other_kernels --data DIR --engine sglang --maker triton -o FILE`.

Their constants are those of the engine's default kernels but for a few, each times a factor that is fitted here.
"""

import argparse
import dataclasses
import datetime
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.optimize import least_squares

import hwspaces
from hwspaces.performance.efficiency_file import class_lines
from hwspaces.performance.kernel_tables import hull_of
from jaxroof.efficiency import Efficiency
from jaxroof.efficiency.kernels import MODELS, class_of
from jaxroof.numerics.arrays import eager
from jaxroof.op import Kernel
from jaxroof.roofline import op_time
from sweeps.measure.kernel_data.group import KernelGroup
from sweeps.measure.validate.relative_errors import errors, grouped
from tests.evidence.harness import data, fitting, flag
from tests.evidence.hulls import Errors, bound, furthest
from tests.evidence.learned_fit import KERNELS, all_groups
from tests.evidence.learned_kernels.result import ARCHITECTURES, released, unseen_sites

ROWS = 250
"""Of each group: one device, release, kernel and precision."""

ROW_SPREAD, INDEPENDENT = 0.15, 150.0
"""As of `tests.evidence.learned_kernels.decode`."""

FACTOR = 0.7
"""Standard deviation of the logarithm of a factor before any row; ours: kernels of two makers differ by two or so."""

LARGEST = 20.0
"""Of a factor either way."""

ATTENTION = ("matrix", "tile_cycles", "launch_cycles", "vector", "wide")
DECODING = ("launch_cycles", "unit_cycles", "bandwidth", "matrix", "conversions", "cache_bandwidth")
EXPERTS = ("matrix", "launch_cycles", "bandwidth", "tile_cycles", "copy_cycles", "step_time")
"""Constants that have a factor, of prompts' attention, of decoding attention and of products of experts."""


class Maker(NamedTuple):
    """Kernels of one maker beside an engine's own."""

    title: str
    names: tuple[str, ...]  # parts of the names that the engine has for them
    moved: Mapping[str, tuple[str, ...]]  # path of a class -> constants that have a factor
    cores: Mapping[str, tuple[str, ...]] = {}  # class -> classes of cores whose constants move; else: all of its own
    known: Mapping[str, Mapping[str, float]] = {}  # class -> constants that are known from its code


ON_BLACKWELL = ("tensor_memory",)
TRITON_EXPERTS = {"experts.wide": EXPERTS, "experts.scaled": EXPERTS}
MAKERS = {
    ("sglang", "triton"): Maker(
        "Triton",
        ("triton",),
        {"prefill_attention.wide": ATTENTION, "prefill_attention.narrow": ATTENTION}
        | {"prefill_attention.latent": ATTENTION, "decode_attention.latent": DECODING}
        | TRITON_EXPERTS,
        dict.fromkeys(TRITON_EXPERTS, ON_BLACKWELL),
        dict.fromkeys(("prefill_attention.wide", "prefill_attention.narrow"), {"unskipped": 1.0}),
    ),
    ("vllm", "triton"): Maker(
        "Triton",
        ("triton", "vllm_fused_moe"),
        {"prefill_attention.wide": ATTENTION, "experts.narrow": EXPERTS} | TRITON_EXPERTS,
        dict.fromkeys((*TRITON_EXPERTS, "experts.narrow"), ON_BLACKWELL),
    ),
    ("sglang", "cutlass"): Maker(
        "FlashInfer's CUTLASS", ("flashinfer_cutlass",), {"experts.wide": EXPERTS}, {"experts.wide": ("asynchronous",)}
    ),
    ("vllm", "cutlass"): Maker(
        "FlashInfer's CUTLASS",
        ("flashinfer_cutlass",),
        {"experts.wide": EXPERTS, "experts.narrow": EXPERTS},
        {"experts.wide": ON_BLACKWELL, "experts.narrow": ("asynchronous", "tensor_memory")},
    ),
    ("trtllm", "cutlass"): Maker(
        "CUTLASS", ("cutlass", "nongated"), {"experts.block4": EXPERTS}, {"experts.block4": ON_BLACKWELL}
    ),
}
"""Engine and name of the maker -> its kernels."""

CORES = {"Hopper": "asynchronous", "Blackwell": "tensor_memory"}
"""Architecture -> the class of cores that it belongs to; the others have no class."""


@dataclasses.dataclass(frozen=True)
class Rows:
    """Rows of one group whose class is fitted, with the ops that are priced by it."""

    path: str
    group: KernelGroup
    moved: tuple[Kernel, ...]
    others: np.ndarray  # s of the ops of other classes, shape [rows]

    @property
    def seen(self) -> np.ndarray:
        """Mask of rows whose site a fit may see."""
        return ~unseen_sites(self.group)


@fitting(
    data("folder with kernels/ and kernels3/"),
    KERNELS,
    flag("--maker", required=True, choices=sorted({name for _, name in MAKERS}), help="whose kernels"),
    width=140,
)
def main(options: argparse.Namespace, console: Console) -> str:
    """Fit and print."""
    engine, name = options.engine, options.maker
    if (engine, name) not in MAKERS:
        known = ", ".join(f"{one} of {other}" for other, one in MAKERS)
        raise ValueError(f"--maker {name}: no rows of it under {engine}; known: {known}")
    maker, base = MAKERS[engine, name], hwspaces.efficiency(f"learned-{engine}")
    by_path = grouped(rows_of(options.data, engine, maker, base.efficiency), lambda one: one.path)
    table = Table(title=f"{engine}, {maker.title}: median/MAPE (signed median), %", title_justify="left")
    for head in ("class", "device", "rows", "as the default ones", "fitted", "site left out", "architecture left out"):
        table.add_column(head)
    tables = []
    for path, rows in by_path.items():
        start = _start(base.efficiency, maker, path)
        kernel = fitted(rows, start, maker, path)
        held = {
            name: fitted([one for one in rows if _architecture(one) != name], start, maker, path)
            for name in sorted({_architecture(one) for one in rows})
        }
        for device, own in grouped(rows, lambda one: one.group.device).items():
            blind = held[ARCHITECTURES[device]]
            parts = ((_class(base.efficiency, path), None), (kernel, True), (kernel, False), (blind, None))
            words = (_error_words(own, each, seen) for each, seen in parts)
            table.add_row(path, device, f"{sum(len(one.group) for one in own):,}", *words)
        tables.append(_table(path, kernel, _class(base.efficiency, path), rows))
    console.print(table)
    return "\n".join([*_head(engine, name, maker, by_path), *tables])


def rows_of(folder: Path, engine: str, maker: Maker, efficiency: Efficiency) -> Iterator[Rows]:
    """A sample of the maker's rows, by the class of the engine's constants that prices them."""
    draw = np.random.default_rng(0)
    for group in all_groups(folder):
        of_maker = any(name in group.kernel for name in maker.names) and released(group.version)
        if group.engine != engine or group.table is not None or not of_maker or group.device not in ARCHITECTURES:
            continue
        hardware = hwspaces.hardware(group.device).hardware
        part = group.chosen(np.sort(draw.permutation(len(group))[:ROWS]))
        with eager():
            ops = [op for op in part.call(part.columns) if isinstance(op, Kernel)]
            first = next(op for op in ops if op.shape is not None)
            path = f"{first.kind}.{class_of(getattr(efficiency, first.kind), first)}"
            if path not in maker.moved or first.precision not in hardware.matrix:
                continue
            cores = maker.cores.get(path)
            if cores is not None and CORES.get(ARCHITECTURES[group.device]) not in cores:
                continue
            own = tuple(op for op in ops if op.kind == first.kind and op.shape is not None)
            others = [op.count * op_time(op, hardware, efficiency) for op in ops if not any(op is one for one in own)]
        yield Rows(path, part, own, sum(others, start=np.zeros(len(part))))


def _architecture(rows: Rows) -> str:
    return ARCHITECTURES[rows.group.device]


def _class(efficiency: Efficiency, path: str) -> Any:
    kind, _, name = path.partition(".")
    return getattr(getattr(efficiency, kind), name)


def _start(efficiency: Efficiency, maker: Maker, path: str) -> Any:
    return dataclasses.replace(_class(efficiency, path), **maker.known.get(path, {}))


def predicted(rows: Rows, kernel: Any) -> np.ndarray:
    """s of every row."""
    hardware = hwspaces.hardware(rows.group.device).hardware
    with eager():
        times = [op.count * MODELS[type(kernel)](kernel, op, hardware).total for op in rows.moved]
    return rows.others + sum(times)


def fitted(rows: Sequence[Rows], start: Any, maker: Maker, path: str) -> Any:
    """`start` with its constants times the factors of least robust squares of log ratios, on sites that may be seen."""
    seen = [(one, one.seen) for one in rows]
    count = sum(int(mask.sum()) for _, mask in seen)
    if not count:
        return start
    names = places(start, maker, path, {CORES.get(_architecture(one)) for one in rows})
    width = ROW_SPREAD * max(count / INDEPENDENT, 1.0) ** 0.5

    def residuals(logs: np.ndarray) -> np.ndarray:
        kernel = times(start, dict(zip(names, np.exp(logs), strict=True)))
        parts = [np.log(predicted(one, kernel) / one.group.seconds)[mask] / width for one, mask in seen]
        return np.concatenate([*parts, logs / FACTOR])

    bound = np.log(LARGEST)
    solution = least_squares(
        residuals, np.zeros(len(names)), bounds=(-bound, bound), loss="soft_l1", f_scale=2.0, max_nfev=30, x_scale=0.3
    )
    return times(start, dict(zip(names, np.exp(solution.x), strict=True)))


def places(kernel: Any, maker: Maker, path: str, cores: set[str | None]) -> list[str]:
    """Dotted paths of the constants that move: of all cores, and of classes that the rows are of."""
    given = maker.cores.get(path)
    if given is not None:
        return [f"{one}.{name}" for one in given if one in cores for name in maker.moved[path]]
    found = []
    for name in maker.moved[path]:
        if getattr(kernel, name, None) is not None:
            found.append(name)
        # Shares of the matrix peak differ by class of cores, whose instructions are others.
        if name == "matrix" or getattr(kernel, name, None) is None:
            found += [one for one in class_places(kernel, name) if one.split(".")[-2] in cores | {"synchronous"}]
    return found


def class_places(kernel: Any, name: str) -> list[str]:
    """Dotted paths of a constant in the structs and mappings of classes of cores."""
    found = []
    for group in ("synchronous", "asynchronous", "tensor_memory"):
        inner = getattr(kernel, group, None)
        if isinstance(inner, Mapping) and name in inner:
            found.append(f"{group}.{name}")
        elif dataclasses.is_dataclass(inner):
            found += [f"{group}.{name}"] * hasattr(inner, name) + [
                f"{group}.{one}" for one in class_places(inner, name)
            ]
    return found


def times(kernel: Any, factors: Mapping[str, float]) -> Any:
    """The struct with constants at dotted paths times factors; classes of cores begin at the general ones."""
    for path, factor in factors.items():
        kernel = _times(kernel, path.split("."), float(factor))
    return kernel


def _times(struct: Any, path: Sequence[str], factor: float) -> Any:
    name, *rest = path
    if not rest:
        return dataclasses.replace(struct, **{name: getattr(struct, name) * factor})
    inner = getattr(struct, name)
    if dataclasses.is_dataclass(inner):
        return dataclasses.replace(struct, **{name: _times(inner, rest, factor)})
    known = dict(inner or {})
    value = known.get(rest[0], getattr(struct, rest[0]))
    return dataclasses.replace(struct, **{name: {**known, rest[0]: value * factor}})


def _error_words(rows: Sequence[Rows], kernel: Any, seen: bool | None) -> str:
    pair = _pair(rows, kernel, seen)
    if not len(pair[0]):
        return ""
    each = errors(*pair)
    return f"{100 * each.median:.0f}/{100 * each.mape:.0f} ({100 * each.signed:+.0f})"


def _pair(rows: Sequence[Rows], kernel: Any, seen: bool | None) -> tuple[np.ndarray, np.ndarray]:
    """Predicted and measured s of rows that a fit may see, of those that it may not, or of all (None)."""
    masks = [np.full(len(one.group), True) if seen is None else one.seen == seen for one in rows]
    priced = np.concatenate([predicted(one, kernel)[mask] for one, mask in zip(rows, masks, strict=True)])
    return priced, np.concatenate([one.group.seconds[mask] for one, mask in zip(rows, masks, strict=True)])


def _table(path: str, kernel: Any, start: Any, rows: Sequence[Rows]) -> str:
    """The class's table in the file: what is not as in the base."""
    parts = []
    hull = hull_of(
        ((op, hwspaces.hardware(one.group.device).hardware) for one in rows for op in one.moved), start.hull.growth
    )
    for one in rows:
        hardware = hwspaces.hardware(one.group.device).hardware
        n = len(one.group)
        least = one.others + bound(one.moved, hardware, n)
        octaves = furthest([(hull, op) for op in one.moved], hardware, n)
        parts.append(Errors.of(predicted(one, kernel), one.group.seconds, least, octaves))
    spread = Errors.joined(parts).spread()
    engine = rows[0].group.engine
    versions, names, devices = (
        ", ".join(sorted({getattr(one.group, name) for one in rows})) for name in ("version", "kernel", "device")
    )
    seen, unseen = (_pair(rows, kernel, mask) for mask in (True, False))
    words = f"in sample {_percent(seen)}" + (f"; sites left out {_percent(unseen)}" if len(unseen[0]) else "")
    source = (
        f"base times factors that are fitted to {len(seen[0]):,} public rows of {engine} {versions} ({names}) on "
        f"{devices} (aiconfigurator tables), {words}: tests.evidence.other_kernels"
    )
    model = dataclasses.replace(kernel, spread=spread, hull=hull)
    base = class_lines(path, start, {path: ""})
    lines = [line for line in class_lines(path, model, {path: source}) if line not in base[1:]]
    return "\n".join([*lines, ""])


def _percent(pair: tuple[np.ndarray, np.ndarray]) -> str:
    each = errors(*pair)
    return f"{each.median:.0%}/{each.mape:.0%}"


def _head(engine: str, name: str, maker: Maker, by_path: Mapping[str, Sequence[Rows]]) -> list[str]:
    rows = [one for own in by_path.values() for one in own]
    devices = sorted({hwspaces.hardware(one.group.device).name for one in rows})
    title = hwspaces.engine(engine).title
    return [
        f"# {maker.title} kernels under {title}, where they run in place of those that it chooses by default.",
        "",
        f'base = "learned-{engine}"',
        "format = 1",
        f'engine = "{title}"',
        f'version = "{", ".join(sorted({one.group.version for one in rows}))}"',
        f"date = {datetime.date.today().isoformat()}",
        f'refit = "python -m tests.evidence.other_kernels --data DIR --engine {engine} --maker {name}"',
        'errors = "docs/evidence/kernels.md"',
        f"devices = {devices!r}".replace("'", '"'),
        "",
    ]


if __name__ == "__main__":
    sys.exit(main())
