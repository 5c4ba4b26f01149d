"""Ranking of knobs at one point: elasticities, real changes beside them, and second derivatives of pairs of knobs."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from jaxroof.jobs import Scenario
from sweeps.studies.sensitivity.knobs import Knob
from sweeps.studies.sensitivity.point import Sensitivities, curvatures, sensitivity_at
from sweeps.studies.sensitivity.turns import Turn, reasoned, turns_of

PAIRED = 8
"""Knobs of a metric whose pairs are derived, the largest ones."""


@dataclasses.dataclass(frozen=True)
class Ranking:
    """All that one call finds."""

    heading: str
    notes: Sequence[str]
    point: Sensitivities
    checks: Mapping[str, Sequence[Turn]]
    curvatures: Mapping[str, tuple[Sequence[Knob], np.ndarray]]


def ranking(
    job: str,
    scenario: Scenario,
    metrics: Sequence[str] | None = None,
    knobs: Sequence[str] | None = None,
    smoothing: float | None = None,
    pairs_of: int = 0,
    heading: str = "",
    notes: Sequence[str] = (),
) -> Ranking:
    """Sensitivities of a job at a scenario.

    Args:
      job: step, request or train.
      metrics, knobs, smoothing: as of `sensitivity_at`.
      pairs_of: second derivatives of pairs among so many knobs with the largest elasticities; 0: none.
      heading, notes: the question in words, and what a reader should know.
    """
    point = sensitivity_at(job, scenario, metrics, knobs, smoothing)
    checked = reasoned(scenario, point, turns_of(scenario, point))
    second = {}
    for name in point.metrics if pairs_of else ():
        # Whole numbers that are no use to change by a tenth have no second derivatives worth showing.
        turned = [knob for knob in point.top(pairs_of, [name]) if not knob.whole][:PAIRED]
        second[name] = turned, curvatures(scenario, point, turned, name)
    return Ranking(heading, notes, point, checked, second)
