"""The suite of scenarios: common questions about training and inference, with hand-worked values beside them."""

from sweeps.studies.scenarios.rows import ScenarioRow, expected_text, outside_by_default, run, table, value_text
from sweeps.studies.scenarios.suite import Check, Refusal, ScenarioEntry, names, scenario

__all__ = [
    "Check",
    "Refusal",
    "ScenarioEntry",
    "ScenarioRow",
    "expected_text",
    "names",
    "outside_by_default",
    "run",
    "scenario",
    "table",
    "value_text",
]
