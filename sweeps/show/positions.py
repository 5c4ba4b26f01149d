"""Positions of a sweep's axis along an axis of a picture: on a log or linear scale, or one by one."""

import dataclasses
from typing import Any

import numpy as np
import xarray as xr

from sweeps.data import labels
from sweeps.show import style

SHOWN_TICKS = 12
"""Positions up to which each gets a tick of its own."""


@dataclasses.dataclass(frozen=True)
class Positions:
    """Numbers to plot at, in SI units or counted, and how to label them."""

    name: str
    label: str
    unit: str
    kind: str  # "log", "linear", or "index": names, and numbers without a rule between them
    at: np.ndarray  # shape (n,): where each position is drawn
    texts: tuple[str, ...]  # of each position, without its unit

    @property
    def edges(self) -> np.ndarray:
        """Borders between neighbours, and around the first and last, shape (n + 1,)."""
        at = np.log(self.at) if self.kind == "log" else self.at
        if len(at) == 1:
            half = np.array([0.5])
            borders = np.concatenate([at - half, at + half])
        else:
            middle = (at[1:] + at[:-1]) / 2
            borders = np.concatenate([[2 * at[0] - middle[0]], middle, [2 * at[-1] - middle[-1]]])
        return np.exp(borders) if self.kind == "log" else borders

    def applied(self, axes: Any, side: str) -> None:
        """Scale, ticks and label of the `side` ("x" or "y") of a matplotlib Axes."""
        axis = getattr(axes, f"{side}axis")
        getattr(axes, f"set_{side}label")(self.label)
        if self.kind == "log":
            getattr(axes, f"set_{side}scale")("log")
        if self.kind != "index":
            style.scaled_ticks(axis, self.at, self.unit, self.kind == "log")
        if self.kind == "index" or len(self.at) <= 8:
            shown = spread(len(self.at))
            texts = [self.texts[i] for i in shown]
            axis.set_minor_locator(style.matplotlib().ticker.NullLocator())
            getattr(axes, f"set_{side}ticks")(self.at[shown], texts, **(turned(texts, 36) if side == "x" else {}))


def turned(texts: list[str], most: int) -> dict[str, Any]:
    """How texts below an axis stand, as matplotlib takes it: aslant where they have more than `most` letters."""
    return {"rotation": 30, "ha": "right", "rotation_mode": "anchor"} if sum(map(len, texts)) > most else {}


def spread(n: int) -> np.ndarray:
    """Positions of `n` that get a tick: all of a few, else every second, third, ..."""
    return np.arange(0, n, -(-n // SHOWN_TICKS))


def positions(dataset: xr.Dataset, name: str) -> Positions:
    """Positions of the coordinate `name` of `dataset`."""
    values, unit = dataset[name].values, labels.unit(dataset, name)
    label = style.quantity_label(labels.title(dataset, name), unit, values)
    if labels.is_text(dataset[name]):
        return Positions(name, label, unit, "index", np.arange(len(values)), tuple(map(str, values)))
    values = values.astype(float)
    scale = style.prefix(values, unit)[1]
    texts = tuple(style.tick_text(_rounded(value / scale)) for value in values)
    kind = _kind(values)
    return Positions(name, label, unit, kind, np.arange(len(values)) if kind == "index" else values, texts)


def _rounded(value: float) -> float:
    """A number to three digits; one that is whole but for rounding errors, exactly."""
    return round(value) if abs(value - round(value)) <= 1e-6 * abs(value) else float(f"{value:.3g}")


def _kind(values: np.ndarray) -> str:
    if len(values) < 2:
        return "index"
    if (values > 0).all() and np.allclose(np.diff(np.log(values)), np.log(values[1] / values[0]), rtol=0.02):
        return "log"
    return "linear" if np.allclose(np.diff(values), values[1] - values[0], rtol=0.02) else "index"
