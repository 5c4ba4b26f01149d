"""Fits of indexers and of attention to listed keys, on whole attention blocks: which rows, and which constants move."""

import dataclasses
import functools
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import least_squares

import hwspaces
from jaxroof.efficiency.choice import ChoiceKernel, ScoreKernel
from jaxroof.efficiency.kernels import MODELS
from jaxroof.efficiency.selected import SelectedKernel
from jaxroof.hardware import Hardware
from jaxroof.op import AttentionShape, ChoiceShape, Kernel, ScoreShape
from jaxroof.roofline import op_time
from sweeps.measure.kernel_data.group import KernelGroup
from sweeps.measure.kernel_data.modules import block_groups
from sweeps.measure.validate.kernel_errors import learned_name
from tests.evidence.parameters import Parameter

ROWS = 200
"""Rows of one group, drawn at random: groups of one table, device, kernel, model and precisions."""

ROW_SPREAD, INDEPENDENT = 0.15, 150.0
"""As of `tests.evidence.learned_kernels.decode`."""

SITES = 5
"""One of so many shape sites, by the hash of its numbers, is left out of a fit: seen by none of its constants."""

OURS = "ours: of the order of kernels beside it"

NEW = ("selected", "compressed", "blocks", "scores", "wide_scores", "choice")
"""Classes of `Kernels` that are fitted here."""


@dataclasses.dataclass(frozen=True)
class Block:
    """Rows of one group: the ops whose constants are fitted, and the time of all others."""

    group: KernelGroup
    hardware: Hardware
    moved: tuple[tuple[str, Kernel], ...]  # path of the class that prices it, op
    others: np.ndarray  # s of the other ops, by the shipped constants, shape [rows]
    host: np.ndarray  # s that the host takes to launch them all, shape [rows]
    seen: np.ndarray  # bool: of a site that fits may see

    def chosen(self, rows: np.ndarray) -> "Block":
        """Some of the rows, a mask."""
        moved = tuple((path, _rows_of(op, rows)) for path, op in self.moved)
        return Block(self.group.chosen(rows), self.hardware, moved, self.others[rows], self.host[rows], self.seen[rows])

    @property
    def table(self) -> str:
        """Name of its table."""
        return str(self.group.table)


Constants = dict[str, Any]
"""Path of a class, "decode_attention.selected", -> its struct."""


class Fit(NamedTuple):
    """One fit of an engine: the rows that it sees, and what moves."""

    tables: tuple[str, ...]
    paths: tuple[str, ...]  # classes of constants that it writes
    parameters: tuple[Parameter, ...]  # by path of the constant; "a|b": both
    devices: tuple[str, ...] = ()  # empty: all
    own: str | None = None  # "asynchronous", "tensor_memory": constants of a class of cores beside the general ones


def priced_by(op: Kernel) -> str | None:
    """Path of the class that prices an op, where it is one of these; None: another one."""
    shape = op.shape
    if isinstance(shape, ChoiceShape):
        return "elementwise.choice"
    if isinstance(shape, ScoreShape):
        return f"{op.kind}.{'scores' if op.precision == 'fp8' else 'wide_scores'}"
    if isinstance(shape, AttentionShape) and shape.listed is not None:
        return f"{op.kind}.{shape.listed}"
    return None


def blocks(folder: Path, engine: str, tables: Sequence[str] = (), rows: int | None = ROWS) -> list[Block]:
    """Rows of an engine's tables; what a device lacks a precision for, and what the reader names, is left out.

    Args:
      rows: of each group, drawn at random; None: all.
    """
    draw, found = np.random.default_rng(0), []
    efficiency = hwspaces.efficiency(learned_name(engine)).efficiency
    for group in block_groups(folder, tuple(tables)):
        if group.engine != engine:
            continue
        if rows is not None:
            group = group.chosen(np.sort(draw.permutation(len(group))[:rows]))
        hardware = hwspaces.hardware(group.device).hardware
        try:
            ops = group.call(group.columns)
            host = 0.0 if group.host is None else group.host.seconds(ops, group.columns, hardware)
            own = tuple((path, op) for op in ops if (path := priced_by(op)) is not None)
            times = [op.count * op_time(op, hardware, efficiency) for op in ops if priced_by(op) is None]
        except ValueError:
            continue
        there = np.zeros(len(group))
        seen = ~left_out_sites(group)
        found.append(Block(group, hardware, own, sum(times, start=there), host + there, seen))
    return found


def left_out_sites(group: KernelGroup) -> np.ndarray:
    """Mask of one site in `SITES`: a site is the numbers of a row, whatever its device, release and precisions."""
    columns = np.stack([group.columns[name] for name in sorted(group.columns)], axis=1)
    return np.array([zlib.crc32(f"{group.table} {row.tolist()}".encode()) % SITES == 0 for row in columns])


def predicted(block: Block, constants: Constants) -> np.ndarray:
    """s of every row: all of its ops, or the host that launches them where that takes longer."""
    total = block.others
    for path, op in block.moved:
        kernel = constants[path]
        total = total + op.count * MODELS[type(kernel)](kernel, op, block.hardware).total
    return np.maximum(total, block.host)


def with_values(constants: Constants, values: Mapping[str, float], own: str | None) -> Constants:
    """`constants` with some replaced, by path; with `own`, those of that class of cores."""
    changed = dict(constants)
    for paths, value in values.items():
        for path in paths.split("|"):
            place, _, name = path.rpartition(".")
            struct = changed[place]
            update = {name: value} if own is None else {own: {**(getattr(struct, own) or {}), name: value}}
            changed[place] = dataclasses.replace(struct, **update)
    return changed


def fitted(rows: Sequence[Block], start: Constants, fit: Fit) -> Constants:
    """The constants of least robust squares of log ratios, with log-normal priors; those without rows keep theirs."""
    count = sum(len(block.group) for block in rows)
    if not count:
        return start
    width = ROW_SPREAD * max(count / INDEPENDENT, 1.0) ** 0.5
    priors = np.log([parameter.prior for parameter in fit.parameters])
    spreads = np.array([parameter.spread for parameter in fit.parameters])

    def named(logs: np.ndarray) -> dict[str, float]:
        return {parameter.path: float(v) for parameter, v in zip(fit.parameters, np.exp(logs), strict=True)}

    def residuals(logs: np.ndarray) -> np.ndarray:
        constants = with_values(start, named(logs), fit.own)
        parts = [np.log(predicted(block, constants) / block.group.seconds) / width for block in rows]
        return np.concatenate([*parts, (logs - priors) / spreads])

    bounds = np.log([[p.low for p in fit.parameters], [p.high for p in fit.parameters]])
    solution = least_squares(residuals, priors, bounds=bounds, loss="soft_l1", f_scale=2.0, max_nfev=40, x_scale=0.3)
    return with_values(start, named(solution.x), fit.own)


def all_fitted(
    rows: Sequence[Block], fits: Iterable[Fit], start: Constants, seen: Callable[[Block], np.ndarray]
) -> Constants:
    """Every fit of an engine, one after the other, each on the rows of its tables and devices that `seen` leaves."""
    for fit in fits:
        own = [b for b in rows if b.table in fit.tables and (not fit.devices or b.group.device in fit.devices)]
        own = [b.chosen(seen(b)) for b in plain_projections(own)]
        start = fitted([b for b in own if len(b.group)], start, fit)
    return start


def plain_projections(rows: Sequence[Block]) -> list[Block]:
    """Blocks with projections of 16 bits, of those tables and devices that have any: others' errors are not these."""
    plain = {(b.table, b.group.device) for b in rows if " bfloat16 kv" in f" {b.group.precision}"}
    return [b for b in rows if (b.table, b.group.device) not in plain or " bfloat16 kv" in f" {b.group.precision}"]


def _rows_of(op: Kernel, rows: np.ndarray) -> Kernel:
    """An op of the rows that a mask chooses."""
    size = len(rows)

    def part(leaf: Any) -> Any:
        if isinstance(leaf, np.ndarray) and leaf.shape == (size,):
            return leaf[rows]
        if dataclasses.is_dataclass(leaf):
            return dataclasses.replace(leaf, **{f.name: part(getattr(leaf, f.name)) for f in dataclasses.fields(leaf)})
        return leaf

    return part(op)


# What moves: few constants of each class, those of cores with tensor memory apart where their kernels are others.


def _p(path: str, prior: float, spread: float, low: float, high: float, fact: str = OURS) -> Parameter:
    return Parameter(path, prior, spread, low, high, fact)


PREFILL, DECODE, BOTH = ("prefill_attention",), ("decode_attention",), ("prefill_attention", "decode_attention")


def _paths(kinds: Sequence[str], name: str) -> str:
    return "|".join(f"{kind}.{name}" for kind in kinds)


def listed(
    name: str, kinds: Sequence[str] = BOTH, *, low: bool = True, padded: bool = True, more: Sequence[str] = ()
) -> tuple[Parameter, ...]:
    """Constants of attention to listed keys: of prompts and of decoding apart, as other kernels run them.

    Args:
      low: whether a cache of 8 bits has constants of its own.
      padded: whether empty slots of a list are multiplied.
      more: others that move, of `MORE`.
    """
    moved = list(own(name, kinds, low=low, padded=padded, more=more))
    if "prefill_attention" in kinds:
        moved.append(_p(f"prefill_attention.{name}.tail", 0.5, 0.7, 1e-3, 2.0))
    if "decode_attention" in kinds:
        moved.append(_p(f"decode_attention.{name}.scattered", 0.6, 0.3, 0.05, 1.0))
    return tuple(moved)


def own(
    name: str, kinds: Sequence[str] = BOTH, *, low: bool = True, padded: bool = True, more: Sequence[str] = ()
) -> tuple[Parameter, ...]:
    """Those of them that a class of cores has of its own, as its kernels are others."""
    moved = []
    for kind in kinds:
        moved += [
            _p(f"{kind}.{name}.launch_cycles", 1.5e4, 0.7, 300.0, 2e5),
            _p(f"{kind}.{name}.matrix", 0.45, 0.4, 0.02, 1.0, "FlashMLA, README: 410 to 640 TFLOP/s on H800"),
        ]
        if padded:
            moved.append(_p(f"{kind}.{name}.padded", 0.15, 1.5, 1e-3, 1.0))
        if low:
            moved.append(_p(f"{kind}.{name}.low_cache", 1.2, 0.3, 0.4, 4.0))
        moved += [
            dataclasses.replace(MORE[each], path=f"{kind}.{name}.{each}")
            for each in more
            if kind == "prefill_attention" or each not in OF_PROMPTS
        ]
    return tuple(moved)


MORE = {
    "low_padded": _p("", 0.4, 1.5, 1e-3, 1.0),
    "least_rows": _p("", 12.0, 0.4, 1.0, 16.0, "half of the rows of mma.m16n8k16 to all"),
    "least_slots": _p("", 256.0, 0.3, 64.0, 1024.0, "two of FlashMLA's tiles of keys"),
    "sequence_cycles": _p("", 1e3, 1.0, 1.0, 2e4),
}
"""Constants that only some kernels have."""

OF_PROMPTS = ("sequence_cycles", "least_rows")
"""Those of them that decoding does without."""


def indexer(name: str, kinds: Sequence[str] = BOTH, tail: bool = True) -> tuple[Parameter, ...]:
    """Constants of scores, alike in prompts and decoding."""
    moved = [
        _p(_paths(kinds, f"{name}.launch_cycles"), 5e3, 0.5, 500.0, 5e4),
        _p(_paths(kinds, f"{name}.matrix"), 0.5, 0.4, 0.02, 1.0, "DeepGEMM: between its products and attention"),
        _p(_paths(kinds, f"{name}.vector"), 4.0, 0.5, 0.5, 60.0, "rectify, multiply and add, at two per clock"),
        _p(_paths(kinds, f"{name}.tile_cycles"), 1.5e3, 0.5, 50.0, 2e4),
    ]
    return (*moved, *((_p(f"prefill_attention.{name}.tail", 0.9, 0.3, 0.1, 2.0),) if tail else ()))


CHOICE = (
    _p("elementwise.choice.launch_cycles", 4e3, 0.5, 500.0, 5e4),
    _p("elementwise.choice.row_cycles", 3e3, 0.7, 100.0, 1e5),
    _p("elementwise.choice.core_bytes", 10.0, 0.5, 1.0, 100.0),
    _p("elementwise.choice.bandwidth", 0.8, 0.2, 0.2, 1.0),
)

SPARSE = "sparse_attention__"
DSA = (f"{SPARSE}dsa_context_module", f"{SPARSE}dsa_generation_module")
V4 = tuple(f"{SPARSE}dsv4_{kind}_{phase}_module" for kind in ("csa", "hca") for phase in ("context", "generation"))
MSA = ("msa__msa_context_module", "msa__msa_generation_module")
SCORES = (f"{SPARSE}glm5_mqa_logits_module", f"{SPARSE}dsv4_paged_mqa_logits_module")
TOP_K = (f"{SPARSE}glm5_topk_module", f"{SPARSE}dsv4_csa_topk_calib")

HOPPER, BLACKWELL, THREADS = ("h100_sxm", "h200_sxm"), ("b200_sxm",), ("l40s", "rtx_pro_6000_server")


def _both(name: str) -> tuple[str, ...]:
    return tuple(f"{kind}.{name}" for kind in BOTH)


ATTENTION = f"{SPARSE}glm5_dsa_attn_module"
HEAVY = f"{SPARSE}dsv4_hca_attn_module"


DECODED_TAIL = _p("decode_attention.{}.tail", 0.05, 0.7, 1e-3, 2.0)
"""Of engines whose decoding kernels do not split a list over the cores."""


def _tail(name: str) -> tuple[Parameter, ...]:
    return (dataclasses.replace(DECODED_TAIL, path=DECODED_TAIL.path.format(name)),)


def _selected(tables: tuple[str, ...], low: bool = True) -> tuple[Fit, ...]:
    """General constants are those of cores whose threads hold the accumulators: no other cores run such kernels."""
    paths = _both("selected")
    # TensorRT-LLM runs its kernel of prompts for decoding on these cores, and has no cache of 8 bits there.
    general = listed("selected", more=("low_padded",)) if low else (*listed("selected", low=False), *_tail("selected"))
    return (
        Fit(tables, paths, general, HOPPER),
        Fit(tables, paths, own("selected"), BLACKWELL, "tensor_memory"),
    )


def _compressed(tables: tuple[str, ...]) -> Fit:
    moved = listed("compressed", low=False, padded=False, more=("least_slots", "sequence_cycles"))
    return Fit(tables, _both("compressed"), (*moved, *_tail("compressed")))


BLOCKS, OWN_BLOCKS = (
    (*each("blocks", PREFILL, more=("least_rows",)), *each("blocks", DECODE, padded=False)) for each in (listed, own)
)

FITS: dict[str, tuple[Fit, ...]] = {
    "sglang": (
        Fit(SCORES, _both("scores"), indexer("scores")),
        Fit(TOP_K, ("elementwise.choice",), CHOICE),
        *_selected((*DSA, ATTENTION)),
        _compressed(V4),
        Fit(MSA, (*_both("blocks"), *_both("wide_scores")), (*BLOCKS, *indexer("wide_scores")), HOPPER),
        Fit(MSA, _both("blocks"), OWN_BLOCKS, BLACKWELL, "tensor_memory"),
    ),
    "vllm": (
        Fit(SCORES, _both("scores"), indexer("scores", tail=False)),
        *_selected(DSA),
        _compressed((*V4, HEAVY)),
        Fit(MSA, (*_both("blocks"), *_both("wide_scores")), (*BLOCKS, *indexer("wide_scores")), THREADS),
        Fit(MSA, _both("blocks"), OWN_BLOCKS, HOPPER, "asynchronous"),
        Fit(MSA, _both("blocks"), OWN_BLOCKS, BLACKWELL, "tensor_memory"),
    ),
    "trtllm": (
        *_selected(DSA, low=False),
        _compressed(V4),
        Fit(
            MSA,
            ("decode_attention.blocks", "decode_attention.wide_scores"),
            (
                *listed("blocks", DECODE, low=False, padded=False),
                _p("decode_attention.wide_scores.bandwidth", 0.3, 0.7, 0.01, 1.0),
            ),
        ),
    ),
}
"""Engine -> its fits, in their order: later ones see what earlier ones found."""


def starting(engine: str) -> Constants:
    """Constants before any fit: figures of micro-architecture, and round numbers of ours."""
    prefill = SelectedKernel(
        launch_cycles=1.5e4, launch_time=0.0, matrix=0.45, least_rows=64.0, padded=0.05, tail=0.5, scattered=0.6
    )
    # vLLM reads an 8-bit cache by its decoding kernel where it would pad fewer heads than these:
    # vllm/v1/attention/backends/mla/flashmla_sparse.py, MIN_HEADS_FOR_BF16_PREFILL.
    few = dataclasses.replace(prefill, low_rows=32.0) if engine == "vllm" else prefill
    if engine == "sglang":
        # Contexts no longer than a list are attended to densely: SGLANG_NSA_PREFILL_DENSE_ATTN_KV_LEN_THRESHOLD.
        few = dataclasses.replace(few, short_padded=0.0)
    decode = dataclasses.replace(prefill, tail=0.05)
    scores = ScoreKernel(
        launch_cycles=5e3,
        launch_time=0.0,
        matrix=0.5,
        vector=4.0,
        bandwidth=0.8,
        tile_rows=128.0,
        tile_cycles=1.5e3,
        tail=0.9,
    )
    rows = {"least_rows": 16.0}  # CUDA PTX ISA, mma.m16n8k16
    choice = ChoiceKernel(launch_cycles=4e3, launch_time=0.0, row_cycles=3e3, core_bytes=10.0, bandwidth=0.8)
    found: Constants = {"elementwise.choice": choice}
    for kind, kernel in (("prefill_attention", prefill), ("decode_attention", decode)):
        found[f"{kind}.selected"] = few if kind == "prefill_attention" else kernel
        found[f"{kind}.compressed"] = kernel
        found[f"{kind}.blocks"] = dataclasses.replace(kernel, matrix=0.2, **rows)
        found[f"{kind}.scores"] = scores
        found[f"{kind}.wide_scores"] = dataclasses.replace(scores, matrix=0.3)
    return found


@functools.cache
def shared(folder: Path) -> Constants:
    """Constants of an indexer's kernels that only SGLang's tables time alone: all engines run DeepGEMM's."""
    fits = FITS["sglang"][:2]
    rows = blocks(folder, "sglang", (*SCORES, *TOP_K))
    return all_fitted(rows, fits, starting("sglang"), lambda block: block.seen)
