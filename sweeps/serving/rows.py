"""Rows of a saved comparison: one of them, and the simulation that it describes."""

import math
import os
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from hwspaces.files import document
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
    yield from ("--batch", str(math.ceil(_number(row, "batch_mean"))))
    yield from ("--rate", f"{_number(row, 'load'):.6g}")
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


def _number(row: Mapping[str, Any], name: str) -> float:
    value = row.get(name)
    if not isinstance(value, float | int) or not math.isfinite(value):
        raise ValueError(f"the row has no {name}: it is not a row of a served comparison (jaxroof compare --json)")
    return float(value)


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _pools(row: Mapping[str, Any], spec: Mapping[str, Any]) -> dict[str, Any]:
    """Keys of the simulation of a row's pools: all replicas of both, and the load of all of them."""
    prefill = row["prefill"]
    if not isinstance(prefill, Mapping) or not isinstance(prefill.get("deployment"), Mapping):
        raise ValueError(f"prefill = {prefill!r} must be a pool: deployment, replicas, hardware")
    pool = {**prefill["deployment"], "dp": prefill.get("replicas", 1)}
    if prefill.get("hardware") not in (None, spec.get("hardware")):
        pool["hardware"] = prefill["hardware"]
    found: dict[str, Any] = {
        "deployment": {**(spec.get("deployment") or {}), "dp": row.get("decode_replicas", 1)},
        "prefill": pool,
    }
    # The rate of the row's simulation is of one replica that decodes.
    return found | ({"rate": _number(row, "load")} if "rate" in spec else {})


LARGEST_FILE = 16 * 2**20
"""B of a file of rows."""

MOST_ENTRIES = 500_000
"""Values and keys of a file of rows."""

NAMED = ("deployment", "policy", "overrides", "prefill")
"""Keys of a simulation that are settings by name."""

LOADS = ({"trace"}, {"rate"}, {"arrivals"}, {"concurrency"})
"""Keys that say when requests come, of which a simulation has one; a trace may have a rate beside it."""


def row_of(path: str | os.PathLike[str], number: int = 1) -> dict[str, Any]:
    """One row of a file that `jaxroof compare --json` wrote.

    Args:
      path: the file.
      number: the row's rank, from 1.

    Raises:
      ValueError: one line: no such file, no comparison, no such row, or a row that no simulation is told of.
    """
    content = document.json_value(os.fspath(path), LARGEST_FILE, MOST_ENTRIES)
    rows = content.get("rows") if isinstance(content, Mapping) else None
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise ValueError(f"{path} is not a result of jaxroof compare --json: it has no list of rows")
    if not rows:
        raise ValueError(f"{path} has no rows")
    if not 1 <= number <= len(rows):
        raise ValueError(f"{path} has rows 1 to {len(rows)}, not {number}")
    # By its rank where rows have one, else by its place in the file.
    row = next((row for row in rows if row.get("rank") == number), rows[number - 1])
    if not isinstance(row.get("spec"), Mapping):
        raise ValueError(f"{path}: row {number} has no spec: it is of a static batch, which has no engine settings")
    for name in NAMED:
        value = row["spec"].get(name)
        if value is not None and not isinstance(value, Mapping):
            raise ValueError(f"{path}: row {number}: spec.{name} = {value!r} must be settings by name")
    return {"rank": number} | dict(row)


def row_spec(row: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Keys of the `ServeSpec` that simulates a row, with a user's own in place of the row's.

    Args:
      row: as of `row_of`.
      given: keys of `sweeps.run.simulated.spec.ServeSpec`; settings of the deployment, the policy and overrides are
        added to the row's.

    Raises:
      ValueError: one line, for a row of pools that lacks something.
    """
    spec = {name: value for name, value in row["spec"].items() if value is not None}
    if row.get("prefill") is not None:
        spec |= _pools(row, spec)
    # A load of the user takes the place of the row's, but a rate beside a trace only stretches it.
    timed = [keys for keys in LOADS if keys & given.keys()]
    if timed and not (timed == [{"rate"}] and "trace" in spec):
        lengths = {"isl", "osl"} if "trace" in given else set()
        spec = {name: value for name, value in spec.items() if name not in set.union(lengths, *LOADS)}
    # Settings by name are added to the row's one by one.
    settings = {name: dict(spec.get(name) or {}) | dict(given.get(name) or {}) for name in NAMED}
    return spec | dict(given) | settings
