"""Substitutes and complements among knobs: signs and sizes of second derivatives."""

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np

from sweeps.ask.names import variable
from sweeps.studies.elasticity.knobs import Knob


@dataclasses.dataclass(frozen=True)
class Pair:
    """Two knobs, and how much more one of them gains where the other one has been improved."""

    first: Knob
    second: Knob
    curvature: float  # d^2 ln y / d ln x1 d ln x2
    gain: float  # of one's elasticity per unit of ln of the other, both turned to the better; above 0: complements

    @property
    def kind(self) -> str:
        """complements: improving one makes the other worth more. substitutes: it makes it worth less."""
        return "complements" if self.gain > 0.0 else "substitutes"


def pairs(metric: str, knobs: Sequence[Knob], elasticities: np.ndarray, curvatures: np.ndarray) -> list[Pair]:
    """Pairs of different knobs, the strongest first; without those at whose point a gradient jumps, or that are flat.

    Args:
      elasticities: of the metric in the knobs, shape (knobs,).
      curvatures: shape (knobs, knobs).
    """
    table = gains(metric, elasticities, curvatures)
    found = []
    for i, j in itertools.combinations(range(len(knobs)), 2):
        gain = float(table[i, j])
        if np.isfinite(gain) and gain != 0.0:
            found.append(Pair(knobs[i], knobs[j], float(curvatures[i, j]), gain))
    return sorted(found, key=lambda pair: -abs(pair.gain))


def gains(metric: str, elasticities: np.ndarray, curvatures: np.ndarray) -> np.ndarray:
    """Gain of every knob's elasticity per unit of ln of every other one, shape (knobs, knobs), symmetric.

    A knob is turned to the better where it raises a metric that is better high, or lowers one that is better low. With
    u = +-ln x in that direction and g = +-ln y, the gain of a pair is d^2 g / du1 du2: above 0 for complements, below
    for substitutes, 0 where the metric is flat in a knob, NaN where a gradient jumps.
    """
    better = -1.0 if variable(metric).higher_is_better is False else 1.0
    directions = np.sign(better * np.asarray(elasticities))
    return better * np.outer(directions, directions) * curvatures
