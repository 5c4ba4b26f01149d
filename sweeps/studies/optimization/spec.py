"""A design problem as a user writes it: a sweep's specification whose ranges are bounds, with goals beside them."""

import dataclasses
import os
import pathlib
from collections.abc import Mapping
from typing import Any

from jaxroof.jobs import JOBS
from sweeps.ask import spec as sweep_spec
from sweeps.ask.question import attributes, unsampled
from sweeps.studies.optimization.goals import FITS, Constraint, Goal, constraints, objectives
from sweeps.studies.optimization.problem import Problem
from sweeps.studies.optimization.variables import variables_of

MOST = {"starts": 10**6, "steps": 10**6, "grid": 10**8, "seed": sweep_spec.LARGEST_INTEGER}
"""How hard a search may be asked to look: its designs are in memory."""

OWN = ("optimize", "constraints")
FOREIGN = ("mode", "sample", "output", "engine", "policy", "slo")
"""Keys of a sweep's specification that an optimisation has no use for."""


@dataclasses.dataclass(frozen=True)
class Effort:
    """Effort of a search."""

    starts: int = 512  # designs that gradient descent starts from
    steps: int = 150  # of the descent
    grid: int = 100_000  # points of the grid that starts are taken from
    seed: int = 0


@dataclasses.dataclass(frozen=True)
class Design:
    """A checked specification: the sweep's part of it, the goals, and how to search."""

    spec: sweep_spec.Spec
    objectives: tuple[Goal, ...]
    constraints: tuple[Constraint, ...]
    search: Effort


def read(source: str | os.PathLike | Mapping[str, Any]) -> Design:
    """The design problem in a TOML file, or in a dictionary with its content.

    Raises:
      ValueError: one line that names the file, the key, its value and what is allowed.
    """
    if isinstance(source, Mapping):
        return design(source)
    path = pathlib.Path(source)
    content = sweep_spec.content(path)
    try:
        return design(content)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def design(source: Mapping[str, Any]) -> Design:
    """Check a design problem given as a dictionary; ValueError as `read`."""
    for key in FOREIGN:
        if key in source:
            raise ValueError(f"{key} = {source[key]!r} is not read by an optimisation")
    tables = {}
    for key in OWN:
        tables[key] = source.get(key, {})
        if not isinstance(tables[key], Mapping):
            raise ValueError(f"{key} = {tables[key]!r} must be a table")
    sweep_spec.require_known(tables["optimize"], ("minimize", "maximize", *MOST), "optimize.")
    goals = objectives(tables["optimize"])
    limits = constraints(tables["constraints"])
    counts = {
        name: sweep_spec.integer(tables["optimize"][name], f"optimize.{name}", 0 if name == "seed" else 1, most)
        for name, most in MOST.items()
        if name in tables["optimize"]
    }
    rest = {key: value for key, value in source.items() if key not in OWN}
    job = rest.get("job", "request")
    if job in JOBS and JOBS[job].simulated:
        raise ValueError(f'job = "{job}": simulations cannot be optimised yet; a request has TTFT and TPOT at a batch')
    checked = sweep_spec.spec({**rest, "mode": "sample"})
    checked = dataclasses.replace(checked, source=dict(source))
    return Design(checked, goals, (*limits, FITS), Effort(**counts))


def problem(source: str | os.PathLike | Mapping[str, Any]) -> Problem:
    """A design problem as arrays, for any optimiser: batches of designs to objectives, constraints and gradients.

    Args:
      source: a TOML specification, or its content as a dictionary: a sweep's, with [optimize] and [constraints].

    Raises:
      ValueError: one line that names the key, its value and what is allowed.

    Example:
      problem({"hardware": "H100-SXM", "model": "Llama-3.1-8B",
               "workload": {"batch": 16, "isl": 1024, "osl": 256},
               "axes": {"hardware.memory.hbm.bandwidth": {"from": "2TB/s", "to": "8TB/s"}},
               "optimize": {"minimize": "tpot"}})
    """
    return made(read(source))


def made(asked: Design) -> Problem:
    """The problem of a checked specification."""
    base, axes, notes = unsampled(asked.spec)
    recorded = attributes(asked.spec, base)
    for key in ("mode", "method", "seed"):
        recorded.pop(key, None)
    title = f"optimum of {', '.join(goal.name for goal in asked.objectives)}: {recorded['title']}"
    recorded |= {"title": title.replace(" sweep", ""), "notes": " | ".join(notes)}
    return Problem(
        asked.spec.job,
        base.scenario,
        variables_of(asked.spec, axes),
        asked.objectives,
        asked.constraints,
        recorded,
    )
