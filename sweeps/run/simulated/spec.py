"""The specification of one simulation: hardware and model, their deployment, the load, and the policy."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from hwspaces.quantities.units import nearest
from jaxroof.jobs.serve import SERVE
from sweeps.ask.cases import Case, case
from sweeps.ask.offered_load import OfferedLoad
from sweeps.run.simulated.policies import profiled


@dataclasses.dataclass(frozen=True, kw_only=True)
class ServeSpec(OfferedLoad):
    """Everything that one simulation depends on, as a user writes it."""

    hardware: str  # catalogue name or TOML file
    model: str  # catalogue name, config.json or its folder
    deployment: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # degrees and other settings, by name
    weights: str | None = None  # precision in place of the checkpoint's
    draft: str | None = None  # a smaller model that drafts tokens; catalogue name or config.json
    kv: str | None = None  # precision of the KV cache
    communication: str | None = None  # precision of what collectives send
    efficiency: str | None = None  # name or file; None: the engine's own
    prices: str | None = None  # terms or a file of `hwspaces.priced`
    overrides: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # any leaf by dotted path
    engine: str | None = None  # vllm, sglang, trtllm or as vllm@0.24; None: the efficiency's
    policy: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # fields of `jaxroof.batch.Policy`
    slo: str | Mapping[str, Any] | None = None  # "ttft=500ms,tpot=40ms,e2e=10s"

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
        found = case(SERVE.name, workload={}, check=check, **{name: getattr(self, name) for name in PLACE})
        deployment = profiled(found.scenario.deployment, self.policy)
        return dataclasses.replace(found, scenario=dataclasses.replace(found.scenario, deployment=deployment))


KEYS = tuple(field.name for field in dataclasses.fields(ServeSpec))

PLACE = (
    *(
        "hardware",
        "model",
        "deployment",
        "weights",
        "kv",
        "communication",
        "efficiency",
        "prices",
        "overrides",
        "draft",
        "engine",
    ),
)
"""Keys of the case; the others say which requests come, and how the engine schedules them."""


def serve_spec(**keys: Any) -> ServeSpec:
    """A `ServeSpec` of these keys.

    Raises:
      ValueError: one line, for a key that there is not, with the nearest, or one that is needed and missing.
    """
    for key in keys:
        if key not in KEYS:
            raise ValueError(f"there is no key {key}{nearest(key, KEYS)}")
    for key in ("hardware", "model"):
        if not keys.get(key):
            raise ValueError(f"{key} is missing; `jaxroof {key}{'s' * (key == 'model')}` lists the known names")
    return ServeSpec(**keys)
