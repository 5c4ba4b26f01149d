"""The suite of scenarios: common questions about training and inference, with hand-worked values beside them."""

from sweeps.studies.scenarios.rows import ScenarioRow, outside_by_default, run, table
from sweeps.studies.scenarios.suite import Check, Refusal, ScenarioEntry, names, scenario

__all__ = [
    "Check",
    "Refusal",
    "ScenarioEntry",
    "ScenarioRow",
    "names",
    "outside_by_default",
    "run",
    "scenario",
    "table",
]
