"""Knobs: numbers of a scenario that can be turned, and those among them that come in whole pieces."""

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from hwspaces.quantities.units import nearest
from sweeps.ask.axes import leaf, leaf_paths
from sweeps.ask.laws import law_of
from sweeps.ask.leaves import leaf as leaf_of
from sweeps.ask.leaves import leaf_unit
from sweeps.ask.names import variable

ROOTS = ("hardware", "deployment", "workload")
"""Parts of a scenario whose numbers are asked about where nobody says otherwise."""

OTHER_ROOTS = ("model", "efficiency")

MODEL_SWITCHES = ("untied", "value_projection", "qk_norm", "output_norm")
"""Last names of numbers of a model that are 0 or 1."""

MODEL_COUNTS = (
    *("count", "experts", "top_k", "heads", "kv_heads", "head_dim", "value_dim", "hidden", "vocabulary"),
    *("intermediate", "window"),
)
"""Last names of numbers of a model that count something."""


@dataclasses.dataclass(frozen=True)
class Knob:
    """One number of a scenario."""

    path: str
    value: float  # in the SI unit
    unit: str  # SI unit, as `hwspaces.quantities.units` writes it
    count: bool  # a count, taken as a real number
    whole: bool  # a count that is no use to change by a tenth


def continuous(path: str) -> bool:
    """Whether there are numbers between those of the leaf at `path`: it is no switch, and stands for no words."""
    declared = leaf_of(path)
    return path.rpartition(".")[2] not in MODEL_SWITCHES if declared is None else declared.continuous


def knobs(scenario: Any, wanted: Sequence[str] | None = None) -> tuple[Knob, ...]:
    """Numbers of `scenario` that have an elasticity: those that are not 0, without switches and tables.

    Args:
      wanted: dotted paths, or the parts before them: "hardware.links", "efficiency". None: `ROOTS`.

    Raises:
      ValueError: one line, for a path that names no number here, or one without an elasticity.
    """
    selected = []
    for path in _named(scenario, wanted):
        value, law = float(leaf(scenario, path)), law_of(scenario, path)
        # A number that follows from others by a law is refused where it was named, and else left out.
        if law is not None:
            if wanted is not None and path in wanted:
                raise ValueError(f"{path} follows from a law: {law.text}; it has no elasticity of its own")
            continue
        # A factor does not change 0, and a switch has no values between its own.
        if value == 0.0 or not continuous(path):
            if wanted is not None and path in wanted:
                why = "is a switch" if value else "is 0, which no share of it changes"
                raise ValueError(f"{path} {why}: it has no elasticity")
            continue
        declared, name = leaf_of(path), path.rpartition(".")[2]
        # A leaf without a declaration, as those of a model, is told by its last name.
        counts, few = (name in MODEL_COUNTS, False) if declared is None else (declared.counts, declared.few)
        selected.append(Knob(path, value, leaf_unit(path), counts, few))
    return tuple(selected)


def without_elasticity(scenario: Any, wanted: Sequence[str] | None = None) -> dict[str, str]:
    """Numbers that were left out, by path: "0", "switch", or "unknown" for a figure or level that is None."""
    reasons = {}
    for path in _named(scenario, wanted):
        if float(leaf(scenario, path)) == 0.0:
            reasons[path] = "0"
        elif not continuous(path):
            reasons[path] = "switch"
        elif law_of(scenario, path) is not None:
            reasons[path] = "follows from a law"
    # Numbers that are None are listed only where nobody named any.
    for root in ROOTS if wanted is None else ():
        reasons |= dict.fromkeys(_unknown(getattr(scenario, root), root), "unknown")
    return reasons


def _named(scenario: Any, wanted: Sequence[str] | None) -> Iterator[str]:
    # Leaves that are arrays are tables, not knobs.
    known = [path for path in leaf_paths(scenario) if not getattr(leaf(scenario, path), "ndim", 0)]
    pool = ("prefill.hardware", "prefill.deployment") if getattr(scenario, "prefill", None) is not None else ()
    roots = (*ROOTS, *pool) if wanted is None else tuple(dict.fromkeys(wanted))
    # All wanted paths are checked before the first number is handed out.
    for root in roots:
        below = [path for path in known if path == root or path.startswith(f"{root}.")]
        if not below:
            raise ValueError(f"{root} is not a number of this case{nearest(root, (*ROOTS, *OTHER_ROOTS, *known))}")
    yield from (path for path in known if any(path == root or path.startswith(f"{root}.") for root in roots))


def _unknown(tree: Any, prefix: str) -> Iterator[str]:
    if not dataclasses.is_dataclass(tree):
        return
    for field in dataclasses.fields(tree):
        value, path = getattr(tree, field.name), f"{prefix}.{field.name}"
        if value is None:
            yield path
        else:
            yield from _unknown(value, path)


# Substitutes and complements among knobs: signs and sizes of second derivatives.


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
    candidates = []
    # Each pair once, as the curvatures are symmetric.
    for i, j in itertools.combinations(range(len(knobs)), 2):
        gain = float(table[i, j])
        # NaN where a gradient jumps, 0 where the metric is flat.
        if np.isfinite(gain) and gain != 0.0:
            candidates.append(Pair(knobs[i], knobs[j], float(curvatures[i, j]), gain))
    return sorted(candidates, key=lambda pair: -abs(pair.gain))


def gains(metric: str, elasticities: np.ndarray, curvatures: np.ndarray) -> np.ndarray:
    """Gain of every knob's elasticity per unit of ln of every other one, shape (knobs, knobs), symmetric.

    A knob is turned to the better where it raises a metric that is better high, or lowers one that is better low. With
    u = +-ln x in that direction and g = +-ln y, the gain of a pair is d^2 g / du1 du2: above 0 for complements, below
    for substitutes, 0 where the metric is flat in a knob, NaN where a gradient jumps.
    """
    # A metric without a better direction is taken as better high.
    better = -1.0 if variable(metric).higher_is_better is False else 1.0
    directions = np.sign(better * np.asarray(elasticities))
    return better * np.outer(directions, directions) * curvatures
