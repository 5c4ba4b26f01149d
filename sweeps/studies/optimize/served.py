"""Served streams as a problem's scenario: the means of the requests, the engine's policy and the limits."""

import dataclasses
from typing import Any

from hwspaces import quantity
from jaxroof.jobs.steady import SteadyStream
from sweeps.ask.axes import Axis
from sweeps.ask.cases import Case
from sweeps.ask.offered_load import LOAD
from sweeps.ask.question import unsampled
from sweeps.ask.spec import Spec
from sweeps.run.simulated.objective import LIMITS, SHARE, parse_target
from sweeps.run.simulated.policies import chosen_policy, number_along, profiled, require_priced
from sweeps.studies.compare.requests import ServedRequests

RATE = "workload.rate"

NOT_STEADY = ("traffic", "arrivals", "concurrency", "think", "duration")
"""Keys of a load that the steady state of one Poisson stream does not know."""

IN_STREAM = "workload."
"""What stands before the path of a policy's number in a stream."""


@dataclasses.dataclass(frozen=True)
class ServedCase:
    """A served stream: its case with a `SteadyStream` for a workload, its axes, and what a simulation of it takes."""

    case: Case
    axes: tuple[Axis, ...]
    notes: tuple[str, ...]
    requests: ServedRequests  # without their rate
    engine: str


def served_case(spec: Spec) -> ServedCase:
    """The case of a specification with job = "serve", for the closed form.

    Raises:
      ValueError: one line: what the closed form does not know, or a value that cannot be.
    """
    # The load and the policy are read here, the rest of the specification as that of a sweep.
    own = {path: value for path, value in spec.fixed.items() if path.startswith(("workload.", "policy."))}
    for path in (*own, *spec.axes):
        root, _, name = path.partition(".")
        if root == "workload" and name not in LOAD:
            raise ValueError(f"there is no {path} for a serve job; known: {', '.join(LOAD)}")
        if root == "workload" and name in NOT_STEADY:
            raise ValueError(f"{path} is not known to the closed form of a served stream; give rate, isl and osl")
        if path == "policy.queue" and path in spec.axes:
            raise ValueError("policy.queue cannot vary: the closed form serves requests in their order")
        if root == "workload" and path in spec.axes and path != RATE:
            raise ValueError(f"{path} cannot vary: of a stream only workload.rate can; use [[scenarios]] or [[mix]]")
    rest = dataclasses.replace(spec, fixed={path: v for path, v in spec.fixed.items() if path not in own})
    # The load and the policy are no part of the base case: values along their axes need a parser.
    parsers = {path: _number for path in spec.axes if path == RATE or path.startswith("policy.")}
    base, axes, notes = unsampled(rest, parsers)
    require_priced(base.model.name, base.scenario.model, base.scenario.deployment)
    changes = {path.partition(".")[2]: value for path, value in own.items() if path.startswith("policy.")}
    policy = chosen_policy(base.engine.words, changes)
    load = {path.partition(".")[2]: value for path, value in own.items() if path.startswith("workload.")}
    rate = load.pop("rate", None)
    if load.get("image") is not None and len(spec.objects["model"]) > 1:
        raise ValueError(f"workload.image = {load['image']!r}: images are not the same tokens to several models")
    requests = ServedRequests(load, spec.objects["model"][0])
    target = parse_target(spec.source["slo"], SHARE) if spec.source.get("slo") else None
    limits = None
    if target is not None:
        limits = {name: value for name in LIMITS if (value := getattr(target.objective, name)) < float("inf")}
        limits |= target.limits
        for name in limits:
            if name.partition("_")[0] not in LIMITS:
                raise ValueError(f"slo {name}: the closed form knows limits of ttft, tpot and e2e")
    varies = RATE in spec.axes
    if rate is None and not varies and limits is None:
        raise ValueError("workload.rate is missing: give requests/s, or slo, for the largest rate that keeps it")
    stream = SteadyStream(
        # Means over the requests, without those tokens that a shared prefix saves if the policy caches it.
        demand=requests.demand(bool(policy.prefix_caching)),
        policy=policy,
        # An axis replaces the rate; without a rate, the stream takes the largest one that keeps the limits.
        rate=1.0 if varies else None if rate is None else quantity(rate, "1", RATE),
        limits=limits,
        share=SHARE,
    )
    deployment = profiled(base.scenario.deployment, changes)
    scenario = dataclasses.replace(base.scenario, deployment=deployment, workload=stream)
    steady = dataclasses.replace(base, scenario=scenario)
    return ServedCase(steady, tuple(map(_in_stream, axes)), notes, requests, base.engine.words)


def _number(path: str, value: Any) -> float:
    """A value along an axis."""
    if path.startswith("policy."):
        return float(number_along(path.partition(".")[2], value))
    return quantity(value, "1", path)


def _in_stream(axis: Axis) -> Axis:
    """The axis with a policy's numbers where the stream has them."""
    columns = {IN_STREAM + path if path.startswith("policy.") else path: v for path, v in axis.columns.items()}
    return dataclasses.replace(axis, columns=columns)
