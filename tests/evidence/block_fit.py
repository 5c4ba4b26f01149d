"""Indexers and attention to listed keys of an engine: `python -m tests.evidence.block_fit --data DIR --engine vllm`."""

import argparse
import dataclasses
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import hwspaces
from hwspaces.performance.efficiency_file import class_lines
from hwspaces.performance.kernel_tables import hull_of
from jaxroof.efficiency.hull import Hull
from jaxroof.numerics.arrays import eager
from sweeps.measure.validate.relative_errors import errors
from tests.evidence.harness import data, fitting, flag
from tests.evidence.hulls import Errors, LeftOut, bound, furthest, growth
from tests.evidence.learned_kernels.blocks import (
    FITS,
    NEW,
    Block,
    Constants,
    all_fitted,
    blocks,
    predicted,
    shared,
    starting,
)

NEW_MODELS = ("GLM-5", "MiniMax", "V4-Flash")
"""Words of models that are left out in turn: each beside others whose blocks have the same kinds of kernels."""

Rows = Callable[[Block], np.ndarray]
"""Mask of a group's rows."""


@fitting(
    data("folder with the tables of attention blocks"),
    flag("--engine", required=True, choices=FITS, help="whose kernels"),
    width=120,
)
def main(options: argparse.Namespace, console: Console) -> str:
    """Fit and print."""
    folder, engine = options.data, options.engine
    rows = blocks(folder, engine)
    if not rows:
        raise ValueError(f"{folder}: no table of attention blocks of {engine} in it")
    start = beginning(folder, engine)
    constants = all_fitted(rows, FITS[engine], start, lambda block: block.seen)
    blind = {
        device: all_fitted(rows, FITS[engine], start, lambda b, d=device: b.seen & (b.group.device != d))
        for device in sorted({block.group.device for block in rows})
    }
    console.print(_error_table(rows, engine, start, constants, blind))
    grows = growth(BLOCKS, unseen(rows, constants, blind))
    paths = sorted({path for fit in FITS[engine] for path in fit.paths} | {"elementwise.choice", *_scores(engine)})
    text = shipped(engine)
    for path in paths:
        text = with_section(text, path, _section(path, rows, constants, engine, grows))
    return text


def beginning(folder: Path, engine: str) -> Constants:
    """Constants before an engine's fits: those of its indexer's kernels from SGLang's tables, which time them alone."""
    start = starting(engine)
    if engine == "sglang":
        return start
    return start | {
        path: kernel for path, kernel in shared(folder).items() if path in _scores(engine) or "choice" in path
    }


def _scores(engine: str) -> tuple[str, str]:
    return ("prefill_attention.scores", "decode_attention.scores")


BLOCKS = "blocks"
"""What the errors of whole blocks are of: they are not told apart by their kernels."""


def unseen(rows: Sequence[Block], constants: Constants, blind: Mapping[str, Constants]) -> list[LeftOut]:
    """Errors of blocks on every device, by constants that were fitted without it."""
    found = []
    for device, held in blind.items():
        here = [block for block in rows if block.group.device == device and block.moved]
        others = [block for block in rows if block.group.device != device]
        if here and others:
            inside = interval_errors(here, constants, rows).spread()
            found.append(LeftOut.of(BLOCKS, device, inside, interval_errors(here, held, others)))
    return found


def interval_errors(rows: Sequence[Block], constants: Constants, known: Sequence[Block]) -> Errors:
    """Errors of blocks as intervals see them: with the datasheet's bound and their distance from what is known.

    A block is as far from the hulls of known ones as the furthest of its kernels that are fitted here.
    """
    paths = {path for block in rows for path, _ in block.moved}
    hulls = {path: _hull(path, known) for path in paths}
    parts = []
    for block in rows:
        n = len(block.group)
        with eager():
            ops = block.group.call(block.group.columns)
        octaves = furthest([(hulls[path], op) for path, op in block.moved], block.hardware, n)
        least = bound(ops, block.hardware, n)
        parts.append(Errors.of(predicted(block, constants), block.group.seconds, least, octaves))
    return Errors.joined(parts)


def _hull(path: str, rows: Iterable[Block], grows: float = 0.0) -> Hull:
    return hull_of(((op, block.hardware) for block in rows for each, op in block.moved if each == path), grows)


def _collected(rows: Sequence[Block], constants: Constants, scored: Rows) -> dict[str, np.ndarray]:
    found: dict[str, list[np.ndarray]] = {}
    for block in rows:
        mask = scored(block)
        if mask.any():
            pair = np.stack([predicted(block, constants), block.group.seconds])[:, mask]
            found.setdefault(f"{block.table} {block.group.device}", []).append(pair)
    return {name: np.concatenate(parts, axis=1) for name, parts in sorted(found.items())}


def _error_table(
    rows: Sequence[Block], engine: str, start: Constants, constants: Constants, blind: Mapping[str, Constants]
) -> Table:
    """Median/MAPE and signed median in %, by table and device: of what was fitted, and of what was left out."""
    columns = {
        "fitted": _collected(rows, constants, lambda block: block.seen),
        "site out": _collected(rows, constants, lambda block: ~block.seen),
        "device out": {},
        "model out": {},
    }
    for device, held in blind.items():
        columns["device out"] |= _collected(rows, held, lambda b, d=device: _all(b, b.group.device == d))
    for word in NEW_MODELS:
        held = all_fitted(rows, FITS[engine], start, lambda b, w=word: b.seen & (w not in b.group.precision))
        columns["model out"] |= _collected(rows, held, lambda b, w=word: _all(b, w in b.group.precision))
    table = Table(title=f"{engine}: median/MAPE (signed median), %; rows", title_justify="left")
    for name in ("table and device", *columns):
        table.add_column(name)
    for name in columns["fitted"]:
        table.add_row(name.removeprefix("sparse_attention__"), *(_words(found.get(name)) for found in columns.values()))
    return table


def _all(block: Block, chosen: bool) -> np.ndarray:
    return np.full(len(block.group), chosen)


def _words(pair: np.ndarray | None) -> str:
    if pair is None:
        return ""
    each = errors(*pair)
    return f"{100 * each.median:.0f}/{100 * each.mape:.0f} ({100 * each.signed:+.0f}) {pair.shape[1]:,}"


def _section(path: str, rows: Sequence[Block], constants: Constants, engine: str, grows: float) -> str:
    """The table of one class: constants, spread on all of its rows, hull and source."""
    own = [b for b in rows if any(path == each for each, _ in b.moved)]
    if not own:  # kernels that another engine's tables time alone
        alone = {path: "as SGLang's, whose tables time the kernel alone"}
        return "\n".join(class_lines(path, constants[path], alone))
    out = np.concatenate([np.stack([predicted(b, constants), b.group.seconds])[:, ~b.seen] for b in own], axis=1)
    seen = np.concatenate([np.stack([predicted(b, constants), b.group.seconds])[:, b.seen] for b in own], axis=1)
    spread = interval_errors(own, constants, rows).spread()
    inside, outside = errors(*seen), errors(*out)
    versions = sorted({b.group.version for b in own})
    source = (
        f"tests.evidence.block_fit: fitted to {seen.shape[1]:,} public rows of {engine} {', '.join(versions)} on "
        f"{', '.join(sorted({b.group.device for b in own}))} (aiconfigurator tables of blocks and of their kernels), "
        f"in sample {inside.median:.0%}/{inside.mape:.0%}; sites left out {outside.median:.0%}/{outside.mape:.0%}"
    )
    model = dataclasses.replace(constants[path], spread=spread, hull=_hull(path, own, grows))
    return "\n".join(class_lines(path, model, {path: source}))


def shipped(engine: str) -> str:
    """Text of the engine's efficiency file."""
    entry = hwspaces.efficiency(f"learned-{engine}")
    return (Path(hwspaces.__file__).parents[1] / entry.file).read_text(encoding="utf-8")


def sections(text: str) -> dict[str, str]:
    """The tables of classes that are fitted here, by their path, as an efficiency file has them."""
    parts = ("\n" + text).split("\n[")[1:]
    named = {part.partition("]")[0]: "[" + part.rstrip("\n") for part in parts}
    return {path: part for path, part in named.items() if path.rpartition(".")[2] in NEW}


def with_section(text: str, path: str, section: str) -> str:
    """The text of an efficiency file with one table replaced, or added at its end where there was none."""
    begin = text.find(f"\n[{path}]\n")
    if begin < 0:
        return text.rstrip("\n") + "\n\n" + section + "\n"
    end = text.find("\n[", begin + 1)
    rest = "" if end < 0 else text[end:]
    return text[: begin + 1] + section + "\n" + rest


def with_sections(text: str, found: Mapping[str, str]) -> str:
    """The text with all of some tables."""
    for path, section in found.items():
        text = with_section(text, path, section)
    return text


if __name__ == "__main__":
    sys.exit(main())
