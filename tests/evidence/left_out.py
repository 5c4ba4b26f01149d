"""Left-out gain of a constant: errors of rows that its fit has not seen, from the response of every row to it."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import least_squares

PLACES = np.linspace(0.0, 2.0, 41)
"""Values that are tried, between neutral (0) and today's (1), and beyond."""


class Response(NamedTuple):
    """Predicted over measured of some rows with a constant at several places, 0: neutral, 1: as it is."""

    places: Sequence[float]  # rising
    ratios: np.ndarray  # shape [places, rows]

    def logs(self) -> np.ndarray:
        """Logarithms at `PLACES`, linear between the places and beyond the last, shape [PLACES, rows]."""
        out = np.empty((len(PLACES), self.ratios.shape[1]))
        for column, own in enumerate(self.ratios.T):
            out[:, column] = np.interp(PLACES, self.places, own)
        low, high = self.places[-2:]
        rate = (self.ratios[-1] - self.ratios[-2]) / (high - low)
        beyond = high < PLACES
        out[beyond] = self.ratios[-1] + (PLACES[beyond, None] - high) * rate
        return np.log(np.maximum(out, 1e-3))


class Judged(NamedTuple):
    """Errors in % of rows whose label took no part in the fit, by the label that was left out."""

    labels: int  # different ones
    without: tuple[float, float]  # median, MAPE
    fitted: tuple[float, float]

    @property
    def gain(self) -> float:
        """Points of MAPE that the constant takes away."""
        return self.without[1] - self.fitted[1]


def nearest(logs: np.ndarray) -> int:
    """The place whose mean absolute logarithm is least, of `logs` of shape [places, rows]."""
    return int(np.argmin(np.mean(np.abs(logs), axis=1)))


def judged(response: Response, labels: Sequence[str]) -> Judged | None:
    """The errors of every label's rows at the place that is nearest for all others; None for rows of one label."""
    names, logs = np.asarray(labels), response.logs()
    every = sorted(set(labels))
    if len(every) < 2:
        return None
    found = np.empty(len(names))
    for name in every:
        own = names == name
        found[own] = logs[nearest(logs[:, ~own]), own]
    return Judged(len(every), errors(logs[0]), errors(found))


SPREAD, FREE = 0.07, 0.5
"""Standard deviation of the logarithm of a right prediction, and of a constant's place around today's."""


def together(now: np.ndarray, slopes: np.ndarray, labels: Sequence[str]) -> np.ndarray:
    """Logarithms of every label's rows with all constants fitted to the others' at once, shape [rows].

    Args:
      now: predicted over measured, shape [rows].
      slopes: change of these per place of every constant, shape [rows, constants].
    """
    names, found = np.asarray(labels), np.empty(len(now))

    def logs(places: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return np.log(np.maximum(now[rows] + slopes[rows] @ (places - 1.0), 1e-3))

    for name in sorted(set(labels)):
        own = names == name

        def residuals(places: np.ndarray, rows: np.ndarray = ~own) -> np.ndarray:
            return np.concatenate([logs(places, rows) / SPREAD, (places - 1.0) / FREE])

        fit = least_squares(residuals, np.ones(slopes.shape[1]), bounds=(0.0, 3.0), loss="soft_l1")
        found[own] = logs(fit.x, own)
    return found


def errors(logs: np.ndarray) -> tuple[float, float]:
    """Median and mean of the absolute errors in %."""
    each = 100.0 * np.abs(np.expm1(logs))
    return float(np.median(each)), float(np.mean(each))


def helps(found: Mapping[str, Judged | None], least: float = 0.2) -> bool:
    """Whether a constant takes a point of `least` off the error of some left-out label, and adds none to another."""
    gains = [one.gain for one in found.values() if one is not None]
    return bool(gains) and max(gains) >= least and min(gains) > -least
