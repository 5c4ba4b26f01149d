"""Rows of a saved comparison: one of them, and the simulation that it describes."""

import math
import os
from collections.abc import Mapping
from typing import Any

from hwspaces.files import document

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


def _pools(row: Mapping[str, Any], spec: Mapping[str, Any]) -> dict[str, Any]:
    """Keys of the simulation of a row's pools: all replicas of both, and the load of all of them."""
    prefill = row["prefill"]
    if not isinstance(prefill, Mapping) or not isinstance(prefill.get("deployment"), Mapping):
        raise ValueError(f"prefill = {prefill!r} must be a pool: deployment, replicas, hardware")
    pool = {**prefill["deployment"], "dp": prefill.get("replicas", 1)}
    if prefill.get("hardware") not in (None, spec.get("hardware")):
        pool["hardware"] = prefill["hardware"]
    decodes = row.get("decode_replicas", 1)
    found: dict[str, Any] = {"deployment": {**(spec.get("deployment") or {}), "dp": decodes}, "prefill": pool}
    # The rate of the row's simulation is of one replica that decodes.
    return found | ({"rate": decodes * _number(spec, "rate")} if "rate" in spec else {})


def _number(row: Mapping[str, Any], name: str) -> float:
    value = row.get(name)
    if not isinstance(value, float | int) or not math.isfinite(value):
        raise ValueError(f"the row has no {name}: it is not a row of a served comparison (jaxroof compare --json)")
    return float(value)
