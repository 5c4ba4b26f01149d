"""Errors of all kernels of a class: the uncertainty where the kernel that an engine runs is unknown."""

import dataclasses
from collections.abc import Iterable
from typing import Any

import jax
import numpy as np

import hwspaces
from jaxroof.efficiency import Efficiency, Kernels, Spread
from jaxroof.efficiency.kernels import class_of
from jaxroof.efficiency.timing import NINETY_PERCENT, SHORT
from jaxroof.op import Op
from sweeps.measure.kernel_data.group import KernelGroup, predicted

ROWS = 400
"""Of each group of rows, drawn with a fixed seed."""

FEW = 100
"""Rows below which a class and regime says nothing of its own."""


def widened(efficiency: Efficiency, groups: Iterable[KernelGroup], engine: str) -> Efficiency:
    """`efficiency` with spreads that hold 90 % of all of the engine's rows, also of kernels that were not fitted.

    A fit leaves out kernels that an engine runs only where another one cannot; whoever predicts does not know which
    it will be. A spread is never less than the one of devices that the fit has not seen.
    """
    errors: dict[tuple[str, str, bool], list[tuple[np.ndarray, np.ndarray]]] = {}
    for group in groups:
        if group.engine != engine:
            continue
        try:
            logs, weights, short = _log_errors(group, efficiency)
        except ValueError:  # the device lacks the precision: there is nothing to predict
            continue
        kind, name = _class(group, efficiency)
        for few in (True, False):
            errors.setdefault((kind, name, few), []).append((logs[short == few], weights[short == few]))
    for kind in ("linear", "experts", "prefill_attention", "decode_attention"):
        kernels = getattr(efficiency, kind)
        changed = {}
        for field in dataclasses.fields(Kernels):
            kernel = getattr(kernels, field.name)
            if kernel is None or kernel.spread is None:
                continue
            own = {few: _deviation(errors.get((kind, field.name, few), [])) for few in (True, False)}
            spread = Spread(short=max(kernel.spread.short, own[True]), long=max(kernel.spread.long, own[False]))
            changed[field.name] = dataclasses.replace(kernel, spread=spread)
        efficiency = dataclasses.replace(efficiency, **{kind: dataclasses.replace(kernels, **changed)})
    return efficiency


def _log_errors(group: KernelGroup, efficiency: Efficiency) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Absolute log errors of some rows, the rows that each stands for, and whether they are short."""
    n = min(len(group), ROWS)
    chosen = group.chosen(np.random.default_rng(0).choice(len(group), n, replace=False))
    seconds, _ = predicted(chosen, hwspaces.hardware(group.device).hardware, efficiency)
    return np.abs(np.log(seconds / chosen.seconds)), np.full(n, len(group) / n), seconds < SHORT


def _class(group: KernelGroup, efficiency: Efficiency) -> tuple[str, str]:
    """Kind and class of what most of the call's time is: its largest product or attention."""
    first: dict[str, Any] = {name: column[0] for name, column in group.columns.items()}
    ops: tuple[Op, ...] = tuple(jax.eval_shape(group.call, first))
    op = next(op for op in ops if op.shape is not None)
    return op.kind, class_of(getattr(efficiency, op.kind), op)


def _deviation(parts: list[tuple[np.ndarray, np.ndarray]]) -> float:
    """Standard deviation whose normal distribution has the same 90 % quantile; 0 of too few rows."""
    if sum(len(logs) for logs, _ in parts) < FEW:
        return 0.0
    logs, weights = (np.concatenate(own) for own in zip(*parts, strict=True))
    order = np.argsort(logs)
    reached = np.cumsum(weights[order]) / weights.sum()
    return float(logs[order][np.searchsorted(reached, 0.9)] / NINETY_PERCENT)
