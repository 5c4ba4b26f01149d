"""The suite of scenarios: common questions about training and inference, with hand-worked values beside them."""

from sweeps.studies.scenarios.rows import ScenarioRow, run, table
from sweeps.studies.scenarios.suite import Check, Refusal, ScenarioEntry, names, scenario

__all__ = ["Check", "Refusal", "ScenarioRow", "ScenarioEntry", "names", "run", "scenario", "table"]
