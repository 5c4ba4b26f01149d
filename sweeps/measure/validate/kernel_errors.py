"""Predicted times of measured kernels and how far they are off, by kind, precision, engine and device."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

import hwspaces
from jaxroof.efficiency import Efficiency
from jaxroof.efficiency.timing import NINETY_PERCENT, SHORT
from jaxroof.hardware import Hardware
from sweeps.measure.kernel_data.attention import (
    decode_groups,
    latent_context_groups,
    latent_decode_groups,
    prefill_groups,
)
from sweeps.measure.kernel_data.experts import expert_groups
from sweeps.measure.kernel_data.gemm import gemm_groups
from sweeps.measure.kernel_data.group import KernelGroup, predicted
from sweeps.measure.kernel_data.modules import block_groups
from sweeps.measure.validate.relative_errors import error_summary, grouped

LABELS = ("family", "precision", "engine", "version", "kernel", "device")
"""What rows are told apart by: fields of `KernelGroup`."""

FAMILIES: dict[str, Callable[[Path], Iterable[KernelGroup]]] = {
    "gemm": gemm_groups,
    "prefill": prefill_groups,
    "decode": decode_groups,
    "mla_prefill": latent_context_groups,
    "mla_decode": latent_decode_groups,
    "experts": expert_groups,
    "blocks": block_groups,
}
"""Kind of table -> its rows."""

LEARNED = "learned"
"""Name of the constants that every engine has its own of."""

OWN = f"{LEARNED}, of each row's engine"
"""The constants in words where every engine has its own."""


@dataclasses.dataclass(frozen=True)
class ScoredKernels:
    """A group with what was predicted for its rows."""

    group: KernelGroup
    seconds: np.ndarray  # predicted, shape [rows]
    spread: np.ndarray  # standard deviation of the log error that the prediction claims; NaN where it claims none


@dataclasses.dataclass(frozen=True)
class KernelErrors:
    """Every group that was scored, and why others were not."""

    scored: tuple[ScoredKernels, ...]
    left_out: tuple[tuple[str, int], ...]  # reason, rows
    efficiency: str  # name of the constants, or that every engine has its own

    def errors(self, *labels: str, long: bool = False) -> dict[tuple[str, ...], dict[str, float]]:
        """Errors by the values of some of `LABELS`, over all rows or, with `long`, over those of 30 us and more."""
        members = grouped(self.scored, lambda scored: tuple(getattr(scored.group, label) for label in labels))
        summaries = {key: _summary(groups, long) for key, groups in sorted(members.items())}
        return {key: errors for key, errors in summaries.items() if errors["rows"]}


def kernel_errors(
    folder: str | Path, efficiency: str | None = None, device: str | None = None, only: tuple[str, ...] = ()
) -> KernelErrors:
    """Score the tables of a folder.

    Args:
      folder: with tables of kernels, older (`aic_*.parquet`) or newer ones; those that it lacks are skipped.
      efficiency: a name or a file; None or "learned": the learned constants of each row's own engine and release.
      device: score rows of this device only, by any of its names.
      only: families to score; empty: all.

    Raises:
      ValueError: one line, for a folder without tables, an unknown device or family, a table with a column missing.
    """
    # The catalogue's name, so that any alias selects the device.
    folder, wanted = Path(folder), device and hwspaces.hardware(device).name
    if not folder.is_dir():
        raise ValueError(f"{folder}: no such folder")
    for name in only:
        if name not in FAMILIES:
            raise ValueError(f"{name!r} is not a family of kernels; known: {', '.join(FAMILIES)}")
    # None: each row is predicted with the constants of its own engine.
    constants = None if efficiency in (None, LEARNED) else hwspaces.efficiency(efficiency)
    chosen = constants and constants.efficiency
    scored, left_out, seen = [], dict[str, int](), False
    for group in measured_groups(folder, only):
        seen = True
        try:
            entry = hwspaces.hardware(group.device)
            if wanted is not None and entry.name != wanted:
                continue
            # Blocks, all of recent releases, have nothing of what lone products of older ones do in every call.
            release = "" if group.table else group.version
            scored.append(score(group, entry.hardware, chosen or released(group.engine, release, group.kernel)))
        except ValueError as error:
            # A device that is unknown or lacks a precision leaves its rows out, not the others.
            left_out[str(error)] = left_out.get(str(error), 0) + len(group)
    if not seen:
        raise ValueError(f"{folder}: no table of kernels in it, such as aic_gemm.parquet or gemm__gemm.parquet")
    return KernelErrors(tuple(scored), tuple(left_out.items()), constants.name if constants else OWN)


def score(group: KernelGroup, hardware: Hardware, efficiency: Efficiency) -> ScoredKernels:
    """Predictions for one group; ValueError when the device lacks a precision."""
    seconds, deviations = predicted(group, hardware, efficiency)
    # Relative to the time, a standard deviation is that of the log error; 0 says that none is claimed.
    return ScoredKernels(group, seconds, np.where(deviations > 0.0, deviations / seconds, math.nan))


def released(engine: str, version: str, kernel: str = "") -> Efficiency:
    """The learned constants of an engine's release; those of its newest one where the version is no release.

    Args:
      kernel: the engine's name of it; kernels that it does not choose by default have constants of their own.
    """
    if engine not in hwspaces.engine_names():
        return hwspaces.efficiency(learned_name(engine)).efficiency
    entry = hwspaces.engine(f"{engine}@{version}" if version[:1].isdigit() else engine)
    return hwspaces.efficiency(entry.constants_of(kernel)).efficiency


def learned_name(engine: str) -> str:
    """The learned constants of an engine's kernels, or of the default engine where it has none of its own."""
    name = f"{LEARNED}-{engine}"
    return name if name in hwspaces.efficiencies() else LEARNED


def measured_groups(folder: Path, only: tuple[str, ...] = ()) -> Iterator[KernelGroup]:
    """Rows of every table of a folder, or of some families; tables that it lacks are skipped."""
    for name, load in FAMILIES.items():
        if only and name not in only:
            continue
        try:
            # A missing table is passed over; anything else that is wrong with one is an error.
            yield from load(folder)
        except ValueError as error:
            if not str(error).endswith("no such file"):
                raise


def _summary(groups: list[ScoredKernels], long: bool) -> dict[str, float]:
    measured = np.concatenate([scored.group.seconds for scored in groups])
    seconds = np.concatenate([scored.seconds for scored in groups])
    spread = np.concatenate([scored.spread for scored in groups])
    if long:
        long_rows = measured >= SHORT
        measured, seconds, spread = measured[long_rows], seconds[long_rows], spread[long_rows]
    if not len(measured):
        return {"rows": 0}
    known = ~np.isnan(spread)
    # Calibrated spreads hold nine of ten measurements within 90 % bounds of the log error.
    inside = np.abs(np.log(seconds[known] / measured[known])) <= NINETY_PERCENT * spread[known]
    coverage = float(np.mean(inside)) if known.any() else math.nan
    return error_summary(seconds, measured) | {"coverage_90": coverage}
