"""The command that answers for a saved row of disaggregated pools in closed form."""

import math
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from jaxroof.batch import Policy
from jaxroof.deployment import Deployment
from jaxroof.numerics.struct import declarations
from sweeps.ask.engines import chosen
from sweeps.ask.layouts import groups_of
from sweeps.ask.words import NAMED
from sweeps.run.simulated.load import load
from sweeps.run.simulated.policies import chosen_policy
from sweeps.run.simulated.spec import serve_spec

PLACE = tuple(name for name in NAMED if name not in ("hardware", "model", "engine"))
"""Keys of a row's simulation that are flags of the same name."""


def pool_command(row: Mapping[str, Any]) -> str:
    """`jaxroof disaggregate`, whose flags are the row's accelerators, layouts, replicas, batch and load.

    Lengths are the means of the row's requests. The prefill pool has as many prompts in a step as its token budget
    holds, and one of every group of attention data parallelism at least; the decode pool has as many sequences in each
    replica as are under way at the load, rounded up.

    Args:
      row: as of `sweeps.serving.rows.row_of`, with a `prefill` pool.
    """
    return shlex.join(["jaxroof", "disaggregate", *_words(row)])


def _words(row: Mapping[str, Any]) -> Iterator[str]:
    spec, prefill = row["spec"], row["prefill"]
    simulation_spec = serve_spec(**{name: value for name, value in spec.items() if value is not None})
    # The load is drawn for the mean lengths of its prompts and outputs, in tokens.
    offered = load(simulation_spec)
    isl, osl = (round(float(np.mean(tokens))) for tokens in (offered.stream.isl, offered.stream.osl))
    budget = float(_policy(row).token_budget)
    # Flags of the decode pool, of the prefill pool, of the requests, then of the load.
    yield from ("--model", simulation_spec.model, "--hardware", simulation_spec.hardware)
    yield from _settings({**simulation_spec.deployment, "dp": row.get("decode_replicas", 1)})
    for name, value in {**prefill["deployment"], "dp": prefill.get("replicas", 1)}.items():
        yield from ("--prefill", f"{name}={_text(value)}")
    if prefill.get("hardware") not in (None, simulation_spec.hardware):
        yield from ("--prefill", f"hardware={prefill['hardware']}")
    # Tokens of images are added by their own flags.
    text = isl if offered.images is None else isl - round(offered.images.language)
    yield from ("--isl", str(text), "--osl", str(osl))
    for name in ("image", "images"):
        if spec.get(name) is not None:
            yield from (f"--{name}", _text(spec[name]))
    # Every group of attention data parallelism works on one prompt at least.
    groups = groups_of(prefill["deployment"])
    yield from ("--prompts", str(max(int(budget // isl), groups)))
    yield from ("--batch", str(math.ceil(row["batch_mean"])))
    yield from ("--rate", f"{row['load']:.6g}")
    for name in PLACE:
        if spec.get(name) is not None:
            yield from (f"--{name}", str(spec[name]))
    for path, value in simulation_spec.overrides.items():
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


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
