"""Indexers and attention to listed keys of an engine: `python -m tests.evidence.block_fit --data DIR --engine vllm`."""

import argparse
import dataclasses
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import hwspaces
from hwspaces.performance.efficiency_file import class_lines
from hwspaces.performance.kernel_tables import hull_of
from jaxroof.efficiency import Spread
from jaxroof.efficiency.timing import SHORT
from sweeps.measure.validate.relative_errors import errors
from tests.evidence.harness import data, fitting, flag
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
from tests.evidence.learned_kernels.result import deviation

GROWTH = 0.2
"""Standard deviation per octave outside of what was fitted; ours: of the order of latent decode's, 0.15 to 0.19."""

FEW = 20
"""Rows up to which the spread of short or of long ones is that of all."""

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
    console.print(_error_table(rows, engine, start, constants))
    paths = sorted({path for fit in FITS[engine] for path in fit.paths} | {"elementwise.choice", *_scores(engine)})
    text = shipped(engine)
    for path in paths:
        text = with_section(text, path, _section(path, rows, constants, engine))
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


def held_out(rows: Sequence[Block], engine: str, start: Constants, seen: Rows, scored: Rows) -> dict[str, np.ndarray]:
    """By table and device: predicted and measured s, shape [2, rows], of rows that the fit did not see."""
    constants = all_fitted(rows, FITS[engine], start, seen)
    return _collected(rows, constants, scored)


def _collected(rows: Sequence[Block], constants: Constants, scored: Rows) -> dict[str, np.ndarray]:
    found: dict[str, list[np.ndarray]] = {}
    for block in rows:
        mask = scored(block)
        if mask.any():
            pair = np.stack([predicted(block, constants), block.group.seconds])[:, mask]
            found.setdefault(f"{block.table} {block.group.device}", []).append(pair)
    return {name: np.concatenate(parts, axis=1) for name, parts in sorted(found.items())}


def _error_table(rows: Sequence[Block], engine: str, start: Constants, constants: Constants) -> Table:
    """Median/MAPE and signed median in %, by table and device: of what was fitted, and of what was left out."""
    devices = sorted({block.group.device for block in rows})
    columns = {
        "fitted": _collected(rows, constants, lambda block: block.seen),
        "site out": _collected(rows, constants, lambda block: ~block.seen),
        "device out": {},
        "model out": {},
    }
    for device in devices:
        columns["device out"] |= held_out(
            rows,
            engine,
            start,
            lambda b, d=device: b.seen & (b.group.device != d),
            lambda b, d=device: _all(b, b.group.device == d),
        )
    for word in NEW_MODELS:
        columns["model out"] |= held_out(
            rows,
            engine,
            start,
            lambda b, w=word: b.seen & (w not in b.group.precision),
            lambda b, w=word: _all(b, w in b.group.precision),
        )
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


def _section(path: str, rows: Sequence[Block], constants: Constants, engine: str) -> str:
    """The table of one class: constants, spread on sites that were left out, hull and source."""
    own = [b for b in rows if any(path == each for each, _ in b.moved)]
    if not own:  # kernels that another engine's tables time alone
        alone = {path: "as SGLang's, whose tables time the kernel alone"}
        return "\n".join(class_lines(path, constants[path], alone))
    out = np.concatenate([np.stack([predicted(b, constants), b.group.seconds])[:, ~b.seen] for b in own], axis=1)
    seen = np.concatenate([np.stack([predicted(b, constants), b.group.seconds])[:, b.seen] for b in own], axis=1)
    logs, long = np.abs(np.log(out[0] / out[1])), out[1] >= SHORT
    short, rest = (deviation(logs[mask] if mask.sum() > FEW else logs) for mask in (~long, long))
    spread = Spread(short=short, long=rest)
    hull = hull_of(((op, b.hardware) for b in own for each, op in b.moved if each == path), GROWTH)
    inside, outside = errors(*seen), errors(*out)
    versions = sorted({b.group.version for b in own})
    source = (
        f"tests.evidence.block_fit: fitted to {seen.shape[1]:,} public rows of {engine} {', '.join(versions)} on "
        f"{', '.join(sorted({b.group.device for b in own}))} (aiconfigurator tables of blocks and of their kernels), "
        f"in sample {inside.median:.0%}/{inside.mape:.0%}; sites left out {outside.median:.0%}/{outside.mape:.0%}"
    )
    model = dataclasses.replace(constants[path], spread=spread, hull=hull)
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
