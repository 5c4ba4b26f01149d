"""Replicas beside the first ones in one service, of other hardware or layout, from a user's words."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from jaxroof.batch import Policy
from jaxroof.scheduler import cache_blocks
from sweeps.ask.cases import Case, require_precisions
from sweeps.ask.deployments import PoolEntry, pool_of, require_legal
from sweeps.ask.flag_text import pairs
from sweeps.run.simulated.policies import no_cache
from sweeps.run.simulated.spec import ServeSpec


def unlike_replicas(asked: ServeSpec, case: Case) -> tuple[PoolEntry, ...]:
    """Kinds of replicas beside those of the deployment, in their order.

    Raises:
      ValueError: one line that names the setting, its value and what is allowed.
    """
    if not asked.also:
        return ()
    if asked.prefill:
        raise ValueError("also cannot be given with prefill: replicas of other kinds serve requests to their end")
    listed = [asked.also] if isinstance(asked.also, str | Mapping) else list(asked.also)
    return tuple(_kind(_settings(each), asked, case) for each in listed)


def _settings(each: Any) -> Mapping[str, Any]:
    """Settings by name, from a table or from text such as hardware=L40S,tp=2,dp=4."""
    if isinstance(each, Mapping):
        return each
    return {name: value for name, value, _ in pairs("also", str(each).split(","), "NAME=VALUE,..", "tp=2")}


def _kind(settings: Mapping[str, Any], asked: ServeSpec, case: Case) -> PoolEntry:
    """One kind, whose replicas can hold the model and compute in its precisions."""
    entry, scenario = case.model, case.scenario
    # The host's constants are those that the engine has been found to have beside the first replicas.
    constants = dataclasses.replace(case.efficiency, efficiency=scenario.efficiency)
    found = pool_of(settings, entry, case.hardware, constants, scenario.deployment, asked.prices, "also")
    require_precisions(found.hardware, entry, found.pool.deployment)
    require_legal(found, entry, "also")
    return found


def require_caches(kinds: tuple[PoolEntry, ...], case: Case, policy: Policy) -> None:
    """ValueError, one line, for a kind whose weights leave no cache."""
    for kind in kinds:
        place = kind.pool.hardware, case.scenario.model, kind.pool.deployment
        if float(cache_blocks(*place, policy)) < 1.0:
            raise ValueError(f"also: {no_cache(case.model.name, kind.hardware.name, *place)}; use more devices (tp)")
