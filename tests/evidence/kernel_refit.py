"""Refit of products and experts in a shipped file: `python -m tests.evidence.kernel_refit --data DIR --engine vllm`.

What other fits own, and all other kinds of kernels, stay as they are in the file.
"""

import argparse
import dataclasses
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

import hwspaces
from hwspaces.performance.efficiency_file import class_lines
from hwspaces.performance.kernel_tables import CLASSES, written_unit
from jaxroof.efficiency import Efficiency
from jaxroof.efficiency.hull import FittedRange, Hull
from jaxroof.numerics.struct import declaration
from sweeps.measure.kernel_data.experts import expert_groups
from sweeps.measure.kernel_data.gemm import gemm_groups
from sweeps.measure.kernel_data.group import KernelGroup
from tests.evidence.harness import data, fitting, several
from tests.evidence.hulls import hulls, measured
from tests.evidence.learned_fit import KERNELS, fit_source, fit_table
from tests.evidence.learned_kernels.experts import fit_experts
from tests.evidence.learned_kernels.gemm import fit_gemm
from tests.evidence.learned_kernels.result import KernelFit, all_rows
from tests.evidence.spreads import with_spreads

KINDS: dict[str, tuple[Callable[[Path, str], list[KernelFit]], Callable[[Path], list[KernelGroup]]]] = {
    "products": (fit_gemm, gemm_groups),
    "experts": (fit_experts, expert_groups),
}
"""What may be refitted -> its fit, and the rows that its spreads and hulls hold."""

ROWS = 3000
"""Of each group of rows, drawn with a fixed seed, whose spread and hull are looked at."""


@fitting(data("folder with kernels/ and kernels3/"), KERNELS, several("--kind", list(KINDS), "only this"), width=160)
def main(options: argparse.Namespace, console: Console) -> str:
    """Fit and print."""
    engine, kinds = options.engine, options.kind or list(KINDS)
    fits = [fit for kind in kinds for fit in KINDS[kind][0](options.data, engine)]
    console.print(fit_table(fits))
    groups = [
        _drawn(group) for kind in kinds for group in all_rows(KINDS[kind][1], options.data) if group.engine == engine
    ]
    entry = hwspaces.efficiency(f"learned-{engine}")
    text = (Path(hwspaces.__file__).parents[1] / entry.file).read_text(encoding="utf-8")
    shipped = tomllib.loads(text)

    def assembled(own: Sequence[KernelFit]) -> Efficiency:
        return over(entry.efficiency, own, shipped)

    fits = [dataclasses.replace(fit, kernel=_owned(fit, entry.efficiency, shipped)) for fit in fits]
    everything = with_spreads(assembled(fits), fits, measured(groups, engine, assembled(fits)))
    found = hulls(fits, groups, engine, assembled, console)
    kernels = {}
    for fit in fits:
        kind, _, name = fit.path.partition(".")
        kernel = getattr(getattr(everything, kind), name)
        before = getattr(getattr(entry.efficiency, kind), name, None)
        hull = found[fit.path] if before is None else _union(found[fit.path], before.hull)
        kernels[fit.path] = dataclasses.replace(kernel, hull=hull)
    for fit in fits:
        kind, _, name = fit.path.partition(".")
        own = shipped.get(kind, {}).get(name, {}).get("sources", {})
        lines = class_lines(fit.path, kernels[fit.path], {fit.path: fit_source(fit), **_paths(fit.path, own)})
        if fit.like is not None:
            theirs = _sources(shipped, fit.like)
            like = class_lines(fit.like, kernels[fit.like], {fit.like: "", **_paths(fit.like, theirs)})
            head = [*lines[:2], f'like = "{fit.like}"', *_gone(kernels[fit.path], kernels[fit.like], theirs, own)]
            lines = [*head, *(line for line in lines[2:] if line not in like)]
        text = with_table(text, fit.path, lines)
    return text


def over(efficiency: Efficiency, fits: Sequence[KernelFit], shipped: Mapping[str, Any]) -> Efficiency:
    """`efficiency` with fitted classes in place of its own; constants that other fits own stay."""
    for fit in fits:
        kind, _, name = fit.path.partition(".")
        kernels = dataclasses.replace(getattr(efficiency, kind), **{name: _owned(fit, efficiency, shipped)})
        efficiency = dataclasses.replace(efficiency, **{kind: kernels})
    return efficiency


def with_table(text: str, path: str, lines: Sequence[str]) -> str:
    """The text of a file of constants with one table replaced, or put behind those of its kind that come before it."""
    body = "\n".join(lines).strip("\n") + "\n"
    start = text.find(f"\n[{path}]\n")
    if start < 0:
        kind, _, name = path.partition(".")
        before = [each for each in CLASSES[: CLASSES.index(name)] if f"\n[{kind}.{each}]\n" in text]
        start = text.find("\n[", text.find(f"\n[{kind}.{before[-1]}]\n") + 1)
        end = start
    else:
        end = text.find("\n[", start + 1)
    return f"{text[: start + 1]}{body}{text[end:]}"


def _owned(fit: KernelFit, efficiency: Efficiency, shipped: Mapping[str, Any]) -> Any:
    """The fitted struct with the constants that other fits own: those with a source of their own."""
    kind, _, name = fit.path.partition(".")
    before = getattr(getattr(efficiency, kind), name, None)
    names = [*_sources(shipped, fit.path)]
    if fit.like and before is not None:  # what the shipped class has of the one below
        below = getattr(getattr(efficiency, kind), fit.like.partition(".")[2])
        names += [
            each
            for each in _sources(shipped, fit.like)
            if each not in names and getattr(before, each) == getattr(below, each)
        ]
    return dataclasses.replace(fit.kernel, **{each: getattr(before, each) for each in names})


def _gone(kernel: Any, like: Any, sources: Mapping[str, str], own: Mapping[str, str]) -> list[str]:
    """Lines that leave out what other fits own of the class below and this class does not have of it."""
    other = [name for name in sources if not own.get(name) and getattr(kernel, name) != getattr(like, name)]
    lines = [f"{_key(kernel, name)} = false" for name in other if getattr(kernel, name) is None]
    return [*lines, *(f"sources.{name} = false" for name in other if name not in own)]


def _key(kernel: Any, name: str) -> str:
    """A constant's key in a file, which ends in its unit."""
    return name + written_unit(declaration(type(kernel), name))[0]


def _sources(shipped: Mapping[str, Any], path: str) -> Mapping[str, str]:
    kind, _, name = path.partition(".")
    return shipped.get(kind, {}).get(name, {}).get("sources", {})


def _paths(path: str, sources: Mapping[str, str]) -> dict[str, str]:
    return {f"{path}.{name}": text for name, text in sources.items()}


def _drawn(group: KernelGroup) -> KernelGroup:
    return group.chosen(np.random.default_rng(0).permutation(len(group))[:ROWS])


def _union(new: Hull, before: Hull) -> Hull:
    """The ranges of both: rows are a sample, and those of `before` were all."""
    ranges = {one.feature: one for one in before.ranges}
    for one in new.ranges:
        known = ranges.get(one.feature, one)
        ranges[one.feature] = FittedRange(one.feature, min(one.low, known.low), max(one.high, known.high))
    precisions = tuple(sorted({*before.precisions, *new.precisions}))
    return dataclasses.replace(new, ranges=tuple(ranges.values()), precisions=precisions)


if __name__ == "__main__":
    sys.exit(main())
