"""Knobs: numbers of a scenario that can be turned, and those among them that come in whole pieces."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from hwspaces.quantities.units import nearest
from sweeps.ask.laws import law_of
from sweeps.ask.leaves import leaf as leaf_of
from sweeps.ask.leaves import leaf_unit
from sweeps.ask.paths import leaf, leaf_paths

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
    found = []
    for path in _named(scenario, wanted):
        value, law = float(leaf(scenario, path)), law_of(scenario, path)
        if law is not None:
            if wanted is not None and path in wanted:
                raise ValueError(f"{path} follows from a law: {law.text}; it has no elasticity of its own")
            continue
        if value == 0.0 or not continuous(path):
            if wanted is not None and path in wanted:
                why = "is a switch" if value else "is 0, which no share of it changes"
                raise ValueError(f"{path} {why}: it has no elasticity")
            continue
        declared, name = leaf_of(path), path.rpartition(".")[2]
        counts, few = (name in MODEL_COUNTS, False) if declared is None else (declared.counts, declared.few)
        found.append(Knob(path, value, leaf_unit(path), counts, few))
    return tuple(found)


def without_elasticity(scenario: Any, wanted: Sequence[str] | None = None) -> dict[str, str]:
    """Numbers that were left out, by path: "0", "switch", or "unknown" for a figure or level that is None."""
    found = {}
    for path in _named(scenario, wanted):
        if float(leaf(scenario, path)) == 0.0:
            found[path] = "0"
        elif not continuous(path):
            found[path] = "switch"
        elif law_of(scenario, path) is not None:
            found[path] = "follows from a law"
    for root in ROOTS if wanted is None else ():
        found |= dict.fromkeys(_unknown(getattr(scenario, root), root), "unknown")
    return found


def _named(scenario: Any, wanted: Sequence[str] | None) -> Iterator[str]:
    known = [path for path in leaf_paths(scenario) if not getattr(leaf(scenario, path), "ndim", 0)]
    roots = ROOTS if wanted is None else tuple(dict.fromkeys(wanted))
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
