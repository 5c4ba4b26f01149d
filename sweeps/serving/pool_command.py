"""The `jaxroof disaggregate` command that prices a disaggregated row of a saved comparison."""

import math
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from jaxroof.batch import Policy
from jaxroof.deployment import Deployment
from jaxroof.numerics.struct import declarations
from sweeps.ask.engines import chosen
from sweeps.run.simulated.load import load
from sweeps.run.simulated.policies import chosen_policy
from sweeps.run.simulated.spec import serve_spec

PLACE = ("weights", "kv", "communication", "efficiency", "prices", "draft")
"""Keys of a row's simulation that are flags of the same name."""


def pool_command(row: Mapping[str, Any]) -> str:
    """The command, whose flags are the row's accelerators, layouts, replicas, batch and load.

    Lengths are the means of the row's requests. The prefill pool has as many prompts in a step as its token budget
    holds, and one of every group of attention data parallelism at least; the decode pool has as many sequences in each
    replica as are under way at the load, rounded up.

    Args:
      row: as of `sweeps.serving.rows.row_of`, with a `prefill` pool.

    Raises:
      ValueError: one line, for a row that lacks something.
    """
    return shlex.join(["jaxroof", "disaggregate", *_words(row)])


def _words(row: Mapping[str, Any]) -> Iterator[str]:
    spec, prefill = row["spec"], row["prefill"]
    if not isinstance(prefill, Mapping) or not isinstance(prefill.get("deployment"), Mapping):
        raise ValueError(f"prefill = {prefill!r} must be a pool: deployment, replicas, hardware")
    asked = serve_spec(**{name: value for name, value in spec.items() if value is not None})
    offered = load(asked)
    isl, osl = (round(float(np.mean(tokens))) for tokens in (offered.stream.isl, offered.stream.osl))
    budget = float(_policy(row).token_budget)
    yield from ("--model", asked.model, "--hardware", asked.hardware)
    yield from _settings({**asked.deployment, "dp": row.get("decode_replicas", 1)})
    for name, value in {**prefill["deployment"], "dp": prefill.get("replicas", 1)}.items():
        yield from ("--prefill", f"{name}={_text(value)}")
    if prefill.get("hardware") not in (None, asked.hardware):
        yield from ("--prefill", f"hardware={prefill['hardware']}")
    text = isl if offered.images is None else isl - round(offered.images.language)
    yield from ("--isl", str(text), "--osl", str(osl))
    for name in ("image", "images"):
        if spec.get(name) is not None:
            yield from (f"--{name}", _text(spec[name]))
    groups = int(prefill["deployment"].get("attention_dp") or 1)
    yield from ("--prompts", str(max(int(budget // isl), groups)))
    yield from ("--batch", str(math.ceil(_number(row, "batch_mean"))))
    yield from ("--rate", f"{_number(row, 'load'):.6g}")
    for name in PLACE:
        if spec.get(name) is not None:
            yield from (f"--{name}", str(spec[name]))
    for path, value in asked.overrides.items():
        yield from ("--set", f"{path}={_text(value)}")


def _policy(row: Mapping[str, Any]) -> Policy:
    """The scheduler of the prefill pool."""
    spec = row["spec"]
    engine = chosen(spec.get("engine"), spec.get("efficiency")).engine
    return chosen_policy(engine.words, {**(spec.get("policy") or {}), **(row["prefill"].get("policy") or {})})


def _settings(deployment: Mapping[str, Any]) -> Iterator[str]:
    """Settings of a deployment as flags, or as --set where they have none."""
    declared = declarations(Deployment)
    for name, value in deployment.items():
        if name in declared and declared[name].flag:
            yield from (f"--{name.replace('_', '-')}", _text(value))
        else:
            yield from ("--set", f"deployment.{name}={_text(value)}")


def _number(row: Mapping[str, Any], name: str) -> float:
    value = row.get(name)
    if not isinstance(value, float | int) or not math.isfinite(value):
        raise ValueError(f"the row has no {name}: it is not a row of a served comparison (jaxroof compare --json)")
    return float(value)


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
