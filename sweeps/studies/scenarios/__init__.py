"""The suite of scenarios: what people ask of models of training and inference, with hand-worked values beside it."""

from sweeps.studies.scenarios.rows import Row, run, table
from sweeps.studies.scenarios.suite import Check, Refusal, ScenarioEntry, names, scenario

__all__ = ["Check", "Refusal", "Row", "ScenarioEntry", "names", "run", "scenario", "table"]
