"""A sweep of simulations: from a specification with job = "serve" to its axes, its variables and the points' values."""

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

import workloads
from hwspaces.quantities.units import nearest
from jaxroof.batch import Traffic
from jaxroof.jobs import Scenario
from jaxroof.jobs.serve import METRICS as SERVED
from jaxroof.jobs.serve import SERVE, Objective, Service
from jaxroof.numerics.arrays import jax
from sweeps.ask.axes import Axis
from sweeps.ask.cases import Case
from sweeps.ask.effects import facts, require_effect
from sweeps.ask.engines import policy as engine_policy
from sweeps.ask.leaves import leaf_number
from sweeps.ask.offered_load import LOAD
from sweeps.ask.question import AskedSweep, attributes, resolved
from sweeps.ask.spec import Spec
from sweeps.data.pieces import Box, Output, Piece, corners, gathered, part_lengths
from sweeps.run.asked import names_at, refusal, values_at
from sweeps.run.points import scenario_at
from sweeps.run.simulated.grid import bounds, outcomes
from sweeps.run.simulated.load import load
from sweeps.run.simulated.objective import parse_slo
from sweeps.run.simulated.policies import (
    FIELDS,
    chosen_policy,
    number_along,
    policy_value,
    policy_values,
    profiled,
    require_priced,
)
from sweeps.run.simulated.spec import ServeSpec

TIMES = ("workload.think", "workload.duration")

IMAGE = "workload.image"

LOT = 256
"""Simulations that are run together, whether a sweep stays in memory or is cut into shards."""

FLAGS = ("fits", "legal", "feasible")

VARIABLES = (
    *("devices", "tokens_per_second", "tokens_per_second_per_device", "tokens_per_joule_at_tdp"),
    *("usd_per_million_tokens", *SERVED, "weight_bytes", "kv_capacity_tokens", *FLAGS),
)
"""What every point has."""


def planned(spec: Spec) -> tuple[AskedSweep, "ServePlan"]:
    """Resolve every name and number of `spec`, and what its sweep will compute.

    Raises:
      ValueError: one line: an unknown name or key, a value that cannot be, a split that is not possible.
    """
    if spec.breakdown:
        raise ValueError("output.breakdown = true: a simulation has no table of ops; ask for a step or a request")
    for name in spec.variables or ():
        if name not in VARIABLES:
            raise ValueError(f"output.variables: a {SERVE.name} has no {name}{nearest(name, VARIABLES)}")
    for path in (*spec.fixed, *spec.axes):
        _require_known(path)
    own = {path: _parsed for path in spec.axes if _is_own(path)}
    fixed = {path: value for path, value in spec.fixed.items() if not _is_own(path)}
    base, axes, notes = resolved(dataclasses.replace(spec, fixed=fixed), own)
    engine = base.engine.words
    given = {path: value for path, value in spec.fixed.items() if _is_own(path)}
    computed = ServePlan(base, axes, given, engine, spec)
    _require_effect(spec, base, axes, engine)
    record = attributes(spec, base) | {"engine": engine}
    return AskedSweep(None, axes, base, record, tuple(dict.fromkeys((*notes, *computed.notes)))), computed


class ServePlan:
    """A sweep of simulations. `outputs` is known at once; `pieces` computes, as those of `sweeps.run.engine.Plan` do.

    Every variable has every dimension. Results are stored as the specification's dtype and computed in float64.
    """

    compiled = True
    software: Mapping[str, str] = MappingProxyType({})

    def __init__(self, base: Case, axes: tuple[Axis, ...], given: Mapping[str, Any], engine: str, spec: Spec):
        self.axes, self._engine, self._base = axes, engine, base
        self._given, self._spec = MappingProxyType(dict(given)), spec
        self._objective = parse_slo(spec.source.get("slo"))
        self._shape = tuple(axis.size for axis in axes)
        self.points = math.prod(self._shape)
        self.notes: list[str] = []
        names = [name for name in VARIABLES if spec.variables is None or name in spec.variables]
        dims = tuple(axis.name for axis in axes)
        types = {name: np.dtype(bool if name in FLAGS else spec.dtype) for name in names}
        self.outputs = {name: Output(name, dims, self._shape, types[name], (), False) for name in names}
        self._traffic = functools.cache(self._sent)
        self._simulations = [self._point(number) for number in range(self.points)]
        self._require_legal()

    def boxes(self, points: int = 1) -> Iterator[Box]:
        """The sweep in boxes of about `points` points, at least a lot of `LOT` each."""
        names = frozenset(self.outputs)
        for corner, lots in gathered(self._lots, max(1, points // math.prod(self._lengths))):
            yield Box(0, corner, lots, self._positions(corner, lots), names)

    def pieces(
        self, progress: Callable[[int], None] = lambda points: None, boxes: Iterable[Box] | None = None
    ) -> Iterator[Piece]:
        """Simulate every point, lot by lot, the same ones whether all are asked for or a few boxes.

        Args:
          progress: called with the number of points that each chunk adds.
          boxes: what to simulate; by default everything.
        """
        for box in self.boxes() if boxes is None else boxes:
            for corner in corners(box):
                yield from self._simulated(self._positions(corner, (1,) * len(corner)), progress)

    def _simulated(self, positions: tuple[np.ndarray, ...], progress: Callable[[int], None]) -> Iterator[Piece]:
        """Every variable over positions along every axis."""
        shape = tuple(map(len, positions))
        numbers = np.ravel_multi_index(np.ix_(*positions), self._shape).ravel() if shape else [0]
        values = outcomes([self._simulations[number] for number in numbers], progress)
        place = tuple(slice(int(along[0]), int(along[-1]) + 1) for along in positions)
        for name, output in self.outputs.items():
            found = values.get(name, np.full(len(numbers), np.nan)).astype(output.dtype)
            yield Piece(name, place, found.reshape(shape))

    @property
    def _lengths(self) -> list[int]:
        """Positions of a lot along every axis."""
        return part_lengths(list(self._shape), LOT)

    @property
    def _lots(self) -> tuple[int, ...]:
        """Lots along every axis."""
        return tuple(math.ceil(size / length) for size, length in zip(self._shape, self._lengths, strict=True))

    def _positions(self, corner: tuple[int, ...], lots: tuple[int, ...]) -> tuple[np.ndarray, ...]:
        """Positions along every axis of a box of lots."""
        sides = zip(corner, lots, self._lengths, self._shape, strict=True)
        return tuple(np.arange(low * length, min((low + n) * length, size)) for low, n, length, size in sides)

    def _point(self, number: int) -> Scenario:
        """The simulation at one point of the grid."""
        values = dict(values_at(self.axes, self._place(number)))
        own = self._given | {path: value for path, value in values.items() if _is_own(path)}
        scenario = scenario_at(self._base.scenario, [{path: v for path, v in values.items() if path not in own}])
        names = names_at(self._base, self.axes, self._place(number))
        require_priced(names["model"], scenario.model, scenario.deployment)
        policy = {path.partition(".")[2]: value for path, value in own.items() if path.startswith("policy.")}
        words = tuple((path.partition(".")[2], value) for path, value in own.items() if path.startswith("workload."))
        model = self._models[names["model"]] if own.get(IMAGE) is not None else ""
        traffic, objective = self._traffic(words, int(scenario.deployment.dp), model)
        work = Service(traffic=traffic, policy=chosen_policy(self._engine, policy), objective=objective)
        deployment = jax.tree.map(float, profiled(scenario.deployment, policy))
        return dataclasses.replace(scenario, deployment=deployment, workload=work)

    def _place(self, number: int) -> tuple[int, ...]:
        """Position along every axis of one point of the grid."""
        return tuple(map(int, np.unravel_index(number, self._shape))) if self._shape else ()

    @functools.cached_property
    def _models(self) -> dict[str, str]:
        """What the user calls each model, by its name."""
        return {workloads.model(one).name: one for one in self._spec.objects["model"]}

    def _sent(self, words: tuple[tuple[str, Any], ...], replicas: int, model: str) -> tuple[Traffic, Objective]:
        """Requests of one replica and their limits; the same objects for the same words.

        Args:
          model: of requests with images.
        """
        found = load(ServeSpec(hardware="", model=model, **dict(words)))
        self.notes += found.stream.notes
        one = found.replica(replicas)
        return one.traffic, one.objective(self._objective)

    def _require_legal(self) -> None:
        if self._spec.illegal != "refuse":
            return
        legal = bounds(self._simulations)["legal"]
        if legal.all():
            return
        first = int(np.argmin(legal))
        raise refusal(SERVE, self._simulations[first], names_at(self._base, self.axes, self._place(first)))


def _require_effect(spec: Spec, base: Case, axes: tuple[Axis, ...], engine: str) -> None:
    """ValueError, one line, for a number of the policy that changes nothing at any point."""
    fixed = {path: value for path, value in spec.fixed.items() if path.startswith("policy.")}
    numbers = {path.partition(".")[2]: policy_value(path.partition(".")[2], value) for path, value in fixed.items()}
    varied = [path for path in spec.axes if path.startswith("policy.")]
    others = policy_values(engine_policy(engine, **numbers))
    others = {path: value for path, value in others.items() if path not in varied}
    require_effect((*fixed, *varied), facts(base.scenario, axes, others))


def _is_own(path: str) -> bool:
    return path.startswith(("workload.", "policy."))


def _require_known(path: str) -> None:
    for root, names in (("workload", LOAD), ("policy", FIELDS)):
        name = path.removeprefix(f"{root}.")
        if path.startswith(f"{root}.") and name not in names:
            raise ValueError(f"there is no {path} for a {SERVE.name} job{nearest(name, names)}")


def _parsed(path: str, value: Any) -> float | str:
    """One value along an axis: a number, or words that are read where the point is made."""
    root, _, name = path.partition(".")
    if root == "policy":
        found = number_along(name, value)
        return value if name in ("order", "queue") else found
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"{path} = {value!r} must be a number or text")
    if isinstance(value, str) and path not in TIMES:
        return value
    return leaf_number(path, value)
