"""The question of two models on the same devices: its metrics."""

import jax.numpy as jnp

from jaxroof.colocation import (
    Colocated,
    Tenant,
    TenantCost,
    cache_left,
    colocated_cost,
    colocated_requests,
    sequences_left,
)
from jaxroof.deployment import devices
from jaxroof.legality import legal
from jaxroof.memory import weight_bytes
from jaxroof.smooth import positive_part
from jaxroof.step import Terms
from jaxroof.struct import Scalar
from sweeps.job import Job, Scenario


def _metrics(scenario: Scenario, sums: dict[str, Scalar], tables: dict[str, Terms]) -> dict[str, Scalar]:
    work, hardware, second = scenario.workload, scenario.hardware, scenario.neighbour
    first = Tenant(
        model=scenario.model,
        deployment=scenario.deployment,
        requests=colocated_requests(work),
        efficiency=scenario.efficiency,
    )
    own, other = colocated_cost(hardware, first, second, work)
    left = cache_left(hardware, first, second)
    capacities = sequences_left(hardware, first, second, work)
    fits = (left > 0.0) & (capacities[0] >= first.requests.batch) & (capacities[1] >= second.requests.batch)
    split = legal(hardware, first.model, first.deployment) & legal(hardware, second.model, second.deployment)
    return {
        "ttft": own.ttft,
        "tpot": own.tpot,
        "e2e": own.ttft + positive_part(first.requests.osl - 1.0) * own.tpot,
        "ttft_alone": own.ttft_alone,
        "tpot_alone": own.tpot_alone,
        **_neighbour(other, second),
        "bandwidth_share": own.bandwidth,
        "devices": jnp.asarray(devices(first.deployment)),
        "tokens_per_second": first.requests.batch / own.tpot * first.deployment.dp,
        "weight_bytes": jnp.asarray(weight_bytes(first.model, first.deployment)),
        "cache_left": left,
        "sequence_capacity": capacities[0],
        "neighbour_sequence_capacity": capacities[1],
        "fits": fits,
        "legal": split,
        "feasible": fits & split,
    }


def _neighbour(cost: TenantCost, tenant: Tenant) -> dict[str, Scalar]:
    return {
        "neighbour_ttft": cost.ttft,
        "neighbour_tpot": cost.tpot,
        "neighbour_e2e": cost.ttft + positive_part(tenant.requests.osl - 1.0) * cost.tpot,
        "neighbour_ttft_alone": cost.ttft_alone,
        "neighbour_tpot_alone": cost.tpot_alone,
        "neighbour_tokens_per_second": tenant.requests.batch / cost.tpot * tenant.deployment.dp,
        "neighbour_weight_bytes": jnp.asarray(weight_bytes(tenant.model, tenant.deployment)),
    }


COLOCATED = Job("colocated", Colocated, sums=lambda scenario: {}, tables=lambda scenario: {}, metrics=_metrics)
"""Steps of the one depend on those of the other, so nothing is a sum over ops that axes could be kept apart in."""
