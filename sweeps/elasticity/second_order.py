"""Which knobs replace each other and which need each other: signs and sizes of second derivatives."""

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np

from sweeps.dataset import variable
from sweeps.elasticity.knobs import Knob


@dataclasses.dataclass(frozen=True)
class Pair:
    """Two knobs, and how much more one of them gains where the other one has been improved."""

    first: Knob
    second: Knob
    curvature: float  # d^2 ln y / d ln x1 d ln x2
    gain: (
        float  # of one knob's elasticity, per unit of ln of the other, both turned to the better; above 0: complements
    )

    @property
    def kind(self) -> str:
        """complements: improving one makes the other worth more. substitutes: it makes it worth less."""
        return "complements" if self.gain > 0.0 else "substitutes"


def pairs(metric: str, knobs: Sequence[Knob], elasticities: np.ndarray, curvatures: np.ndarray) -> list[Pair]:
    """Pairs of different knobs, the strongest first; without those at whose point a gradient jumps, or that are flat.

    Args:
      elasticities: of the metric in the knobs, shape (knobs,).
      curvatures: shape (knobs, knobs).

    A knob is turned to the better where it raises a metric that is better high, or lowers one that is better low. With
    u = +-ln x in that direction and g = +-ln y, the gain of a pair is d^2 g / du1 du2.
    """
    better = -1.0 if variable(metric).higher_is_better is False else 1.0
    directions = np.sign(better * np.asarray(elasticities))
    found = []
    for i, j in itertools.combinations(range(len(knobs)), 2):
        curvature = float(curvatures[i, j])
        gain = better * float(directions[i] * directions[j]) * curvature
        if np.isfinite(curvature) and gain != 0.0:
            found.append(Pair(knobs[i], knobs[j], curvature, gain))
    return sorted(found, key=lambda pair: -abs(pair.gain))
