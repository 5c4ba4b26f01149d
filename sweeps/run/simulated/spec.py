"""The specification of one simulation: hardware and model, their deployment, the load, and the policy."""

import dataclasses
import json
from typing import Any

from jaxroof.jobs.serve import SERVE
from sweeps.ask.cases import Case, case_of
from sweeps.ask.keys import question_of
from sweeps.ask.offered_load import OfferedLoad
from sweeps.ask.words import ServiceWords
from sweeps.run.simulated.policies import profiled


@dataclasses.dataclass(frozen=True, kw_only=True)
class ServeSpec(ServiceWords, OfferedLoad):
    """Everything that one simulation depends on, as a user writes it."""

    def text(self) -> str:
        """It as JSON with sorted keys, without what was not given: the same text for the same simulation."""
        given = {
            field.name: value
            for field in dataclasses.fields(self)
            if (value := getattr(self, field.name)) not in (None, False) and value != {}
        }
        return json.dumps(given, sort_keys=True, default=str)

    def case(self, check: bool = True) -> Case:
        """Its case without a workload: hardware, model, deployment and efficiency.

        Args:
          check: as `sweeps.ask.cases.case` takes it.

        Raises:
          ValueError: one line that names what is wrong, its value and what is allowed.
        """
        found = case_of(SERVE.name, self, {}, check=check, prefill=self.prefill or None)
        deployment, pool = profiled(found.scenario.deployment, self.policy), found.scenario.prefill
        if pool is not None:
            try:
                pool = dataclasses.replace(pool, deployment=profiled(pool.deployment, self.prefill_policy))
            except ValueError as error:
                raise ValueError(f"prefill_policy: {error}") from None
        scenario = dataclasses.replace(found.scenario, deployment=deployment, prefill=pool)
        return dataclasses.replace(found, scenario=scenario)


def serve_spec(**keys: Any) -> ServeSpec:
    """A `ServeSpec` of these keys; ValueError as of `sweeps.ask.keys.question_of`."""
    return question_of(ServeSpec, **keys)
