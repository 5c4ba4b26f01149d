"""Axes that move a prefill pool, or a neighbour on the same devices, together with the deployment beside it.

`sweeps.ask.deployments` says what both have in common at one point. An axis over that moves both.
"""

import dataclasses
from typing import Any

from jaxroof.jobs import Scenario
from sweeps.ask.axes import Axis, Choice, replaced
from sweeps.ask.deployments import OBJECTS, PREFIX, SEPARATE, SHARED
from sweeps.ask.leaves import leaf_number
from sweeps.ask.spec import Spec


def followed(axes: tuple[Axis, ...], spec: Spec, base: Scenario) -> tuple[Axis, ...]:
    """The axes, which move what follows as well: nothing of a job of one deployment alone.

    What the specification says of the pool or the neighbour itself, as a setting or an axis, stays as it says.
    """
    if spec.job not in _FOLLOWERS:
        return axes
    own = {*spec.fixed, *spec.axes}
    moved = []
    for axis in axes:
        columns = {}
        for path, column in axis.columns.items():
            other = _FOLLOWERS[spec.job](axis, path, spec)
            if other is not None and other not in own:
                columns[other] = _column(column, other, spec, base)
        moved.append(dataclasses.replace(axis, columns=axis.columns | columns))
    return tuple(moved)


def _of_pool(axis: Axis, path: str, spec: Spec) -> str | None:
    """The leaf or struct of the prefill pool that is as the one of the decode pool at `path`."""
    # Hardware and constants are those of the decode pool unless the prefill pool names its own.
    root = path.partition(".")[0]
    if root in OBJECTS:
        return None if root in spec.prefill else f"prefill.{path}"
    # Degrees, stages and drafts (SEPARATE) are each pool's own; other settings follow unless given.
    name = path.removeprefix(PREFIX).partition(".")[0]
    follows = path == "deployment" or (path.startswith(PREFIX) and name not in (*SEPARATE, *spec.prefill))
    return f"prefill.{path}" if follows else None


def _of_neighbour(axis: Axis, path: str, spec: Spec) -> str | None:
    """The leaf or struct of the neighbour that is as the one of the first model at `path`."""
    name = path.removeprefix(PREFIX)
    shared = (*SHARED, *(("kv_bytes",) if axis.name == "kv" else ()))  # --kv is of both models
    # Whole constants and deployments follow, and single leaves of the deployment where both models share them.
    follows = path.partition(".")[0] in ("efficiency", "deployment") and "." not in path
    follows |= path.startswith("efficiency.") or (path.startswith(PREFIX) and name in set(shared) - set(spec.neighbour))
    return f"neighbour.{path}" if follows else None


_FOLLOWERS = {"disaggregated": _of_pool, "colocated": _of_neighbour}
"""Job -> from an axis, a path of it and the specification to the path that follows it."""


def _column(column: Any, other: str, spec: Spec, base: Scenario) -> Any:
    """The values along an axis of what follows at the path `other`."""
    if not isinstance(column, Choice):
        return column
    root = other.partition(".")[0]
    items = column.items
    # Along an axis of whole deployments only the shared settings are copied; the rest stays the other's own.
    if other.endswith(".deployment"):
        first = getattr(base, root).deployment
        own = {path.split(".")[2] for path in (*spec.fixed, *spec.axes) if path.startswith(f"{other}.")}
        names = SHARED if root == "neighbour" else [f.name for f in dataclasses.fields(first) if f.name not in SEPARATE]
        names = [name for name in names if name not in {*own, *getattr(spec, root)}]
        items = tuple(
            dataclasses.replace(first, **{name: getattr(item, name) for name in names}) for item in column.items
        )
    else:
        # Items of another kind follow whole, but with the numbers that the specification fixes for the follower.
        for path, value in spec.fixed.items():
            if path.startswith(f"{other}."):
                name, number = path.removeprefix(f"{other}."), leaf_number(path, value)
                items = tuple(replaced(item, name, number) for item in items)
    return Choice(items, column.index)
