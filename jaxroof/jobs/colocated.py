"""Job of two models on the same devices: the slowdown of each by the other, and their fit in memory."""

import dataclasses
from collections.abc import Iterator
from typing import Any

from jaxroof.batch import Batch
from jaxroof.deployment import devices
from jaxroof.deployment.rule import Rule
from jaxroof.deployment.speculation import Acceptance, acceptance_number
from jaxroof.efficiency import Efficiency
from jaxroof.energy.energy import joules_of, power_known
from jaxroof.energy.governor import limited_time
from jaxroof.hardware import Hardware
from jaxroof.jobs.composition import (
    EqualRequests,
    Requests,
    decode_batch,
    device_energy,
    e2e_latency,
    pipelined_latency,
    pipelined_times,
    prefill_batch,
    tokens_per_step,
)
from jaxroof.jobs.job import Job, deployment_rules
from jaxroof.jobs.scenario import Metric, Scenario, Tenant, higher, lower
from jaxroof.memory.capacity import kv_bytes_of_sequence, reserved_bytes, weight_bytes
from jaxroof.memory.legality import holds, rules, told_of
from jaxroof.memory.reserve import memory_share
from jaxroof.numerics.arrays import jnp, scanned, stacked
from jaxroof.numerics.smooth import floor, maximum, positive_part
from jaxroof.numerics.struct import Array, Scalar, given, number, share, struct
from jaxroof.op import AnyOp
from jaxroof.roofline import op_timing
from jaxroof.step.overlap import computing_hardware, hidden_time
from jaxroof.step.placed import device_ops
from jaxroof.step.step import Terms, host_time, in_step
from jaxroof.tracing import of_each, traced_once

SHARINGS = ("time", "space")
"""How two models share devices, in the order of the codes of `Colocated.sharing`.

time: their steps take turns. space: each has cores of its own, and both the memory's bandwidth.
"""


METRICS = {
    "ttft_alone": lower("s", "time to first token without the neighbour"),
    "tpot_alone": lower("s", "time per output token without the neighbour"),
    "neighbour_ttft": lower("s", "time to first token of the neighbour"),
    "neighbour_tpot": lower("s", "time per output token of the neighbour"),
    "neighbour_e2e": lower("s", "end-to-end latency of the neighbour"),
    "neighbour_ttft_alone": lower("s", "time to first token of the neighbour on its own"),
    "neighbour_tpot_alone": lower("s", "time per output token of the neighbour on its own"),
    "neighbour_tokens_per_second": higher("1/s", "output tokens per second of the neighbour"),
    "neighbour_weight_bytes": Metric("B", "weights of the neighbour per device"),
    "neighbour_sequence_capacity": higher("1", "the neighbour's sequences whose KV cache fits in its share"),
    "bandwidth_share": higher("1", "share of the memory bandwidth that decode steps get beside the neighbour's"),
    "cache_left": higher("B", "memory per device that both models leave for KV cache"),
}
"""Metrics of two models beside those of requests."""


@struct
class Colocated(EqualRequests):
    """Requests of the first of two tenants, and how it shares with the second."""

    acceptance: Acceptance = acceptance_number()
    sharing: Scalar = number(
        "1", "whether two models take turns or run side by side", codes=SHARINGS, default=0.0, flag="KIND"
    )
    cores: Scalar = share(
        "share of the cores that the first model has",
        "side by side; the second has the rest",
        open=True,
        default=0.5,
        flag="SHARE",
    )
    cache: Scalar = share(
        "share of the memory for KV cache that the first model has", open=True, default=0.5, flag="SHARE"
    )


def colocated_requests(work: Colocated) -> Requests:
    """The first tenant's requests."""
    return Requests(batch=work.batch, isl=work.isl, osl=work.osl, cached=work.cached, acceptance=work.acceptance)


@struct
class TenantCost:
    """Latencies of one tenant's requests, alone on the devices and beside the other."""

    ttft: Scalar  # s, together
    tpot: Scalar  # s per output token, together
    ttft_alone: Scalar  # s
    tpot_alone: Scalar  # s
    bandwidth: Scalar  # share of the memory's bandwidth that is left to its decode steps, side by side; in turns 1


def colocated_cost(hardware: Hardware, first: Tenant, second: Tenant, work: Colocated) -> tuple[TenantCost, TenantCost]:
    """Latencies of both tenants, each while the other decodes all the time. Differentiable in every leaf.

    In turns, one step of each after the other: tpot = (own step + other's step) / tokens per step; a prompt waits for
    half a step of the other, on average, and is then computed without being interrupted.

    Side by side, each has its share of the cores, of the caches and of the power: a device as `share_of` makes it.
    While both together want more of the memory than it has, each gets as much less of its bandwidth as they want
    beyond it. Links are as fast as alone: messages of both at once are left out.

    Args:
      hardware: of the devices that both run on.
      first, second: of the same number of devices.
      work: how the first shares with the second; the requests in it are those of `first`.

    Source: ours; what side by side shares is that of NVIDIA's Multi-Process Service with limited thread percentages.
    """
    tenants = first, second
    # Side by side is a partition of the cores, as MPS with thread percentages makes it.
    parts = stacked([work.cores, 1.0 - work.cores], axis=0)

    def one(bandwidths: Array, whole: Array) -> tuple[Array, tuple[Any, ...]]:
        """Costs of all phases on the whole device, or on parts of it with these bandwidths; bandwidths for next."""
        # Alone on the whole device, or each on its part of it.
        cores = jnp.where(whole, 1.0, parts)
        phase_costs = [
            _phases([share_of(hardware, cores[i], bandwidths[i, phase]) for phase in range(2)], tenant)
            for i, tenant in enumerate(tenants)
        ]
        latencies, demands = (stacked([number for one in phase_costs for number in one[k]], axis=0) for k in range(2))
        latencies, demands = (jnp.reshape(each, (2, 2, *jnp.shape(each)[1:])) for each in (latencies, demands))
        # Own prompts and tokens beside the other's tokens.
        # Where both together want more than the memory has, each gets as much less as they want beyond it.
        shares = 1.0 / maximum(demands + demands[::-1, 1:], 1.0)
        return jnp.where(whole, 1.0, shares), (latencies, bandwidths)

    # Three times the same: alone, on parts of the device, on them with what is left of the bandwidth. A loop, so that
    # all of it is compiled once.
    _, (latencies, bandwidths) = scanned(one, jnp.ones((2, 2)), jnp.array([True, False, False]))
    apart = jnp.asarray(work.sharing) > 0.5
    costs = []
    for own, tenant in enumerate(tenants):
        # In turns: between two own steps stands one of the neighbour.
        (ttft, tpot), other = latencies[0][own], latencies[0][1 - own, 1]
        # The neighbour's step in s is its TPOT times the tokens that a step adds.
        between = other * tokens_per_step(tenants[1 - own].deployment, tenants[1 - own].requests)
        # An arriving prompt meets a neighbour's step at a random moment, half of which is left on average.
        turns = ttft + 0.5 * between, tpot + between / tokens_per_step(tenant.deployment, tenant.requests)
        beside = latencies[2][own]
        costs.append(
            TenantCost(
                ttft=jnp.where(apart, beside[0], turns[0]),
                tpot=jnp.where(apart, beside[1], turns[1]),
                ttft_alone=ttft,
                tpot_alone=tpot,
                bandwidth=jnp.where(apart, bandwidths[2][own, 1], 1.0),
            )
        )
    return costs[0], costs[1]


def _phases(places: list[Hardware], tenant: Tenant) -> tuple[list[Array], list[Array]]:
    """TTFT and TPOT in s, and the share of their steps' time in which each keeps the memory busy.

    Args:
      places: devices that prompts and tokens are worked on by.
    """
    model, deployment, requests = tenant.model, tenant.deployment, tenant.requests
    times, demands, energies = [], [], []
    for device, step in zip(places, _steps(tenant), strict=True):
        time, demand = _step_time_and_demand(device, tenant, step)
        times.append(time)
        demands.append(jnp.asarray(demand))
        if power_known(device):
            energies.append(joules_of(device_ops(device, model, deployment, step), device))
    prefill, decode = times
    prefill, decode = pipelined_times(prefill, decode, model, deployment, requests)
    # Each part of a device has its own share of TDP, so the limit is applied per tenant.
    if energies:
        spent = [device_energy(energy, deployment, requests) for energy in energies]
        prefill, decode = (limited_time(*one) for one in zip((prefill, decode), spent, places, strict=True))
    cost = pipelined_latency(prefill, decode, deployment, requests, tenant.efficiency)
    return [jnp.asarray(cost.ttft), jnp.asarray(cost.tpot)], demands


def _steps(tenant: Tenant) -> tuple[Batch, Batch]:
    place = tenant.requests, tenant.model, tenant.deployment
    return prefill_batch(*place), decode_batch(*place)


def memory_demand(hardware: Hardware, tenant: Tenant, step: Batch) -> Scalar:
    """Share of a step's time in which its kernels keep the device memory busy, shape ()."""
    return _step_time_and_demand(hardware, tenant, step)[1]


def _step_time_and_demand(hardware: Hardware, tenant: Tenant, step: Batch) -> tuple[Scalar, Scalar]:
    """`step_time` in s, and `memory_demand`."""
    deployment, efficiency = tenant.deployment, in_step(tenant.efficiency, step, tenant.deployment)
    ops = device_ops(hardware, tenant.model, deployment, step)
    device = computing_hardware(hardware, deployment)
    timings = of_each(_op_times, ops, device, efficiency)
    times = {name: op.count * timings[name][0] for name, op in ops.items()}
    # Memory is busy for the HBM time of each op, whatever binds the op: a compute-bound step leaves bandwidth to the
    # other.
    busy = sum(op.count * timings[name][1] for name, op in ops.items())
    time = sum((times | hidden_time(ops, times, deployment)).values()) + host_time(device, step, deployment, efficiency)
    return time, busy / time


@traced_once
def _op_times(op: AnyOp, hardware: Hardware, efficiency: Efficiency) -> tuple[Scalar, Scalar]:
    """s of one run, and of it what the device memory alone would take."""
    timing = op_timing(op, hardware, efficiency)
    # Ops without device memory, such as collectives, ask for none.
    return timing.total, jnp.asarray(timing.resources.get("hbm", 0.0), dtype=float)


def share_of(hardware: Hardware, cores: Scalar, bandwidth: Scalar) -> Hardware:
    """A part of a device as a device of its own: `cores` of its cores, caches and power, `bandwidth` of its memory's.

    Energy per operation stays; capacity of the memory is the whole device's, which `cache_left` splits.
    """
    memory, power = hardware.memory, hardware.power
    hbm = dataclasses.replace(memory.hbm, bandwidth=memory.hbm.bandwidth * bandwidth)
    l2 = memory.l2
    if l2 is not None:
        # Caches are shared by address, not partitioned: a share of the cores is taken to use the same share of the L2.
        l2 = dataclasses.replace(l2, bandwidth=l2.bandwidth * cores, capacity=l2.capacity * cores)
    drawn = {name: None if getattr(power, name) is None else getattr(power, name) * cores for name in ("tdp", "static")}
    return dataclasses.replace(
        hardware,
        matrix={precision: peak * cores for precision, peak in hardware.matrix.items()},
        cores=dataclasses.replace(hardware.cores, count=hardware.cores.count * cores),
        memory=dataclasses.replace(memory, hbm=hbm, l2=l2),
        power=dataclasses.replace(power, **drawn),
    )


def cache_left(hardware: Hardware, first: Tenant, second: Tenant) -> Array:
    """B per device that are left for the caches of both, shape (), negative where the models do not fit.

    What the first's engine may use, less weights of both and what else each engine's share holds.
    """
    # Weights of both are resident all the time; what is left of the engine's share is for both caches.
    usable = memory_share(hardware, first.deployment) * hardware.memory.hbm.capacity
    held = [
        weight_bytes(tenant.model, tenant.deployment) + reserved_bytes(hardware, tenant.model, tenant.deployment)
        for tenant in (first, second)
    ]
    return jnp.asarray(usable - held[0] - held[1])


def sequences_left(hardware: Hardware, first: Tenant, second: Tenant, work: Colocated) -> tuple[Scalar, Scalar]:
    """Sequences of each tenant's lengths that fit at once, shapes (): the first has its share of what is left."""
    left = positive_part(cache_left(hardware, first, second))
    counts = []
    for tenant, part in ((first, work.cache), (second, 1.0 - work.cache)):
        length = tenant.requests.isl + tenant.requests.osl
        counts.append(floor(part * left / kv_bytes_of_sequence(tenant.model, tenant.deployment, length)))
    return counts[0], counts[1]


def colocated_metrics(scenario: Scenario, sums: dict[str, Scalar], tables: dict[str, Terms]) -> dict[str, Scalar]:
    """Metrics of both models, each beside the other, by name, from terms that are summed over ops."""
    work, hardware, second = scenario.workload, scenario.hardware, given(scenario.neighbour, "neighbour")
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
    split = holds(colocated_rules(scenario))
    return {
        "ttft": own.ttft,
        "tpot": own.tpot,
        "e2e": e2e_latency(own.ttft, own.tpot, first.requests.osl),
        "ttft_alone": own.ttft_alone,
        "tpot_alone": own.tpot_alone,
        **_neighbour(other, second),
        "bandwidth_share": own.bandwidth,
        "devices": devices(first.deployment),
        "tokens_per_second": first.requests.batch / own.tpot * first.deployment.dp,
        "weight_bytes": weight_bytes(first.model, first.deployment),
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
        "neighbour_e2e": e2e_latency(cost.ttft, cost.tpot, tenant.requests.osl),
        "neighbour_ttft_alone": cost.ttft_alone,
        "neighbour_tpot_alone": cost.tpot_alone,
        "neighbour_tokens_per_second": tenant.requests.batch / cost.tpot * tenant.deployment.dp,
        "neighbour_weight_bytes": weight_bytes(tenant.model, tenant.deployment),
    }


def colocated_rules(scenario: Scenario) -> Iterator[Rule]:
    """Rules of both deployments on the devices that they share."""
    yield from deployment_rules(scenario)
    other = scenario.neighbour
    if other is not None:
        yield from told_of("neighbour", rules(scenario.hardware, other.model, other.deployment))


COLOCATED = Job("colocated", Colocated, colocated_metrics, rules=colocated_rules)
"""Steps of the one depend on those of the other, so nothing is a sum over ops that axes could be kept apart in."""
