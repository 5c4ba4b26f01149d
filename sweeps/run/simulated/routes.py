"""Ways of requests to replicas, from a user's words: routers, weights, pools, tiers, admission, autoscaling."""

import dataclasses
from collections.abc import Collection
from typing import Any

import numpy as np

from hwspaces import hardware, quantity
from hwspaces.quantities.units import is_zero, nearest
from jaxroof.batch import Policy
from jaxroof.scheduler.service.routing import ROUTERS
from jaxroof.scheduler.service.scaling import ScalingRule
from jaxroof.scheduler.service.tiers import TierRules
from sweeps.ask.cases import Case
from sweeps.ask.deployments import PoolEntry
from sweeps.run.simulated.admission import admission_limits
from sweeps.run.simulated.encoders import EncoderPool, encoder_pool
from sweeps.run.simulated.load import Load, seed_of
from sweeps.run.simulated.objective import parse_slo
from sweeps.run.simulated.scaling import scaling_rule
from sweeps.run.simulated.spec import ServeSpec
from sweeps.run.simulated.tiers import cache_tiers, tier_rules


@dataclasses.dataclass(frozen=True)
class Routes:
    """How requests come to replicas."""

    router: str = "round_robin"
    decode_router: str = "least_requests"
    prefix_weight: float = 1.0
    load_weight: float = 1.0
    seed: int = 0
    layerwise: bool = True  # a layer's cache leaves as soon as it is computed
    tiers: TierRules | None = None  # of every replica's cache, in their order; None: there are none
    tier_names: tuple[str, ...] = ()
    admission: np.ndarray | None = None  # s of expected TTFT above which every request is rejected; None: none is
    scaling: ScalingRule | None = None  # None: all replicas take requests all the time
    encoders: EncoderPool | None = None  # None: images are encoded where prompts are computed


def routes_of(
    asked: ServeSpec, given: Load, case: Case, policy: Policy, also: tuple[PoolEntry, ...] = ()
) -> Routes | None:
    """How requests come to replicas; None where one replica can be simulated on its own.

    Args:
      also: replicas of other kinds.

    Raises:
      ValueError: one line: a router that there is not, weights or tiers that cannot be, or what has no effect.
    """
    needed = (
        bool(asked.prefill or also)
        or any(text is not None for text in (asked.tiers, asked.autoscale, asked.admission, asked.encoders))
        or given.stream.after is not None
        or given.stream.parent is not None
    )
    if asked.router is None and not needed:
        for name in ("decode_router", "router_weights", "whole", "prefill_policy"):
            if getattr(asked, name):
                raise ValueError(f"{name} has no effect without a router or a prefill pool")
        if asked.tier_rules:
            raise ValueError("tier_rules has no effect without tiers")
        return None
    if not asked.prefill:
        for name in ("decode_router", "whole", "prefill_policy"):
            if getattr(asked, name):
                raise ValueError(f"{name} has no effect without a prefill pool")
    require_weights(asked.router_weights, (asked.router, asked.decode_router))
    weights = {"prefix": 1.0, "load": 1.0} | _weights(asked.router_weights)
    names, tiers = ((), None) if asked.tiers is None else _tiers(asked, given, case, policy, also)
    return Routes(
        router=_router("router", asked.router or "round_robin"),
        decode_router=_router("decode_router", asked.decode_router or "least_requests"),
        prefix_weight=weights["prefix"],
        load_weight=weights["load"],
        seed=seed_of(asked),
        layerwise=not asked.whole,
        tiers=tiers,
        tier_names=names,
        admission=_admission(asked, given),
        scaling=_scaling(asked, given, case, also),
        encoders=encoder_pool(asked, given, case),
    )


def _admission(asked: ServeSpec, given: Load) -> np.ndarray | None:
    """Limits of admission control."""
    if asked.admission is None:
        return None
    return admission_limits(str(asked.admission), given.objective(parse_slo(asked.slo)), len(given.stream))


def _scaling(asked: ServeSpec, given: Load, case: Case, also: tuple[PoolEntry, ...]) -> ScalingRule | None:
    """The rule by which replicas start and stop."""
    if asked.autoscale is None:
        return None
    if asked.prefill:
        raise ValueError("autoscale cannot be given with prefill: it starts and stops whole replicas, not pools")
    times = given.stream.arrival[np.isfinite(given.stream.arrival)]
    replicas = int(case.scenario.deployment.dp) + sum(int(kind.pool.deployment.dp) for kind in also)
    return scaling_rule(str(asked.autoscale), replicas, float(np.max(times, initial=0.0)))


TIER_WORDS = ("write", "eviction", "overlap", "known")
"""Words of `tier_rules`."""


def _tiers(
    asked: ServeSpec, given: Load, case: Case, policy: Policy, also: tuple[PoolEntry, ...]
) -> tuple[tuple[str, ...], TierRules]:
    """Names of tiers, and those of the cache of every replica, first of those for prompts."""
    scenario, text = case.scenario, str(asked.tiers)
    if not policy.prefix_caching:
        raise ValueError(f"tiers = {text!r} has no effect without a prefix cache: policy prefix_caching=0")
    pools = [(case.hardware, scenario.deployment), *((kind.hardware, kind.pool.deployment) for kind in also)]
    if scenario.prefill is not None:
        named = asked.prefill.get("hardware")
        pools.insert(0, (case.hardware if named is None else hardware(named), scenario.prefill.deployment))
    engines = [
        each
        for entry, deployment in pools
        for each in [cache_tiers(text, entry, scenario.model, deployment, float(policy.block_size))]
        * int(deployment.dp)
    ]
    words: dict[str, Any] = dict(asked.tier_rules)
    for name, value in words.items():
        if name not in TIER_WORDS:
            raise ValueError(f"there is no tier_rules.{name}{nearest(name, TIER_WORDS)}")
        if name in ("overlap", "known"):
            words[name] = 0.0 if is_zero(value, "1") else quantity(value, "1", f"tier_rules.{name}")
    if given.traffic.path is None and given.traffic.group is None:
        raise ValueError(
            f"tiers = {text!r} has no effect: requests share no part of a prompt, as those of sessions or prefixes do"
        )
    return tuple(tier.name for tier in engines[0]), tier_rules(engines, **words)


def router_names(text: str | None) -> tuple[str, ...]:
    """Routers that a text names, with commas between; ValueError, one line, for one that is none or stands twice."""
    names = () if text is None else tuple(name.strip() for name in str(text).split(","))
    for name in names:
        _router("router", name)
        if names.count(name) > 1:
            raise ValueError(f"router = {text!r}: {name} stands twice")
    return names


def require_weights(text: str | None, routers: Collection[str | None]) -> None:
    """ValueError, one line, for weights that none of these routers has."""
    if text and "prefix" not in routers:
        raise ValueError(f"router_weights = {text!r} has no effect without the router prefix")


def _router(key: str, name: str) -> str:
    """The name of a router; ValueError, one line, where there is none."""
    if name not in ROUTERS:
        names = tuple(ROUTERS)
        raise ValueError(f"{key} = {name!r} must be {', '.join(names[:-1])} or {names[-1]}{nearest(name, names)}")
    return name


def _weights(text: str | None) -> dict[str, float]:
    """Weights of the router `prefix` by name: "prefix=2,load=1"; ValueError, one line, for what is none."""
    found: dict[str, float] = {}
    for part in () if text is None else str(text).split(","):
        name, _, value = part.strip().partition("=")
        if name not in ("prefix", "load"):
            raise ValueError(f"router_weights = {text!r}: {name!r} is no weight; prefix and load are")
        found[name] = quantity(value, "1", f"router_weights: {name}")
    return found
