"""The question of one simulation: hardware and model, their deployment, the load, and the policy."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from hwspaces.units import nearest


@dataclasses.dataclass(frozen=True, kw_only=True)
class Question:
    """Everything that one simulation depends on, as a user writes it: names, numbers in SI units, or text with units.

    The load is one of: a `trace`; an open loop of `rate` or `arrivals` with `isl` and `osl`; a closed loop of
    `concurrency` clients with `isl` and `osl` or with the lengths of a `trace`.
    """

    hardware: str  # catalogue name or TOML file
    model: str  # catalogue name, config.json or its folder
    deployment: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # degrees and other settings, by name
    weights: str | None = None  # precision in place of the checkpoint's
    draft: str | None = None  # a smaller model that drafts tokens; catalogue name or config.json
    kv: str | None = None  # precision of the KV cache
    communication: str | None = None  # precision of what collectives send
    efficiency: str | None = None  # name or file
    overrides: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # any leaf by dotted path
    trace: str | None = None  # file of requests
    format: str | None = None  # of the trace; None: as it looks
    sort: bool = False  # put rows of the trace in order that are not, instead of refusing them
    drop: bool = False  # leave out rows of the trace without tokens, instead of refusing them
    rate: float | str | None = None  # requests per s, of all replicas; with a trace its times are scaled to it
    arrivals: str | None = None  # in place of `rate`: "gamma:rate=8,cv=3", "stages:8x60,16x30"
    concurrency: int | str | None = None  # clients of a closed loop, of all replicas
    think: float | str = 0.0  # s between an answer and its client's next request
    isl: float | str | None = None  # prompt tokens: 1024, "lognormal:mean=1024,sigma=0.8"
    osl: float | str | None = None  # output tokens
    requests: int | str | None = None  # how many, or the first ones of a trace
    duration: float | str | None = None  # s in which requests arrive
    prefixes: str | None = None  # system prompts: "groups=10,tokens=1000,zipf=1"
    sessions: str | None = None  # conversations: "turns=2..8,think=30"
    seed: int | str = 0  # of what is drawn
    engine: str | None = None  # vllm, sglang or trtllm; None: the one whose constants the efficiency holds
    policy: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # fields of `jaxroof.policy.Policy`
    slo: str | Mapping[str, Any] | None = None  # "ttft=500ms,tpot=40ms,e2e=10s"

    def text(self) -> str:
        """The question as JSON with sorted keys, without what was not given: the same text for the same question."""
        given = {
            field.name: value
            for field in dataclasses.fields(self)
            if (value := getattr(self, field.name)) not in (None, False) and value != {}
        }
        return json.dumps(given, sort_keys=True, default=str)


KEYS = tuple(field.name for field in dataclasses.fields(Question))


def question(**keys: Any) -> Question:
    """A `Question` of these keys.

    Raises:
      ValueError: one line, for a key that there is not, with the nearest, or one that is needed and missing.
    """
    for key in keys:
        if key not in KEYS:
            raise ValueError(f"there is no key {key}{nearest(key, KEYS)}")
    for key in ("hardware", "model"):
        if not keys.get(key):
            raise ValueError(f"{key} is missing; `jaxroof {key}{'s' * (key == 'model')}` lists the known names")
    return Question(**keys)
