"""Two models on the same devices: what each is slowed down by the other, in turns or side by side, and how they fit."""

import dataclasses

import jax
import jax.numpy as jnp

from jaxroof.batch import Batch
from jaxroof.deployment import Deployment
from jaxroof.efficiency import Efficiency
from jaxroof.hardware import Hardware
from jaxroof.memory import activation_bytes, kv_bytes_of_sequence, weight_bytes
from jaxroof.model import Model
from jaxroof.op_time import op_timing
from jaxroof.overlap import overlapped_ops
from jaxroof.request import Requests, decode_batch, prefill_batch, request_cost, tokens_per_step
from jaxroof.smooth import maximum, positive_part
from jaxroof.speculation import Acceptance
from jaxroof.step import step_time
from jaxroof.struct import Scalar, struct

SHARINGS = ("time", "space")
"""How two models share devices, in the order of the codes of `Colocated.sharing`.

time: their steps take turns. space: each has cores of its own, and both the memory's bandwidth.
"""


@struct
class Tenant:
    """One model that runs on the devices: its deployment on them, and its requests."""

    model: Model
    deployment: Deployment
    requests: Requests
    efficiency: Efficiency


@struct
class Colocated:
    """Requests of the first of two tenants, and how it shares with the second."""

    batch: Scalar  # requests at once
    isl: Scalar  # prompt tokens of each
    osl: Scalar  # output tokens of each, at least 1
    cached: Scalar = 0.0  # of the prompt's tokens, how many are in the prefix cache already
    acceptance: Acceptance = 0.0  # probability that a drafted token is right, given that those before it are
    sharing: Scalar = 0.0  # index into SHARINGS
    cores: Scalar = 0.5  # share of the cores that the first has, side by side; the second has the rest
    cache: Scalar = 0.5  # share of the memory that is left for cache that the first has


def colocated_requests(work: Colocated) -> Requests:
    """The first tenant's requests."""
    return Requests(batch=work.batch, isl=work.isl, osl=work.osl, cached=work.cached, acceptance=work.acceptance)


@struct
class TenantCost:
    """What one tenant's requests meet, alone on the devices and beside the other."""

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
    alone = [_alone(hardware, tenant) for tenant in (first, second)]
    turns = _in_turns(first, second, alone), _in_turns(second, first, alone[::-1])
    beside = _side_by_side(hardware, (first, second), (work.cores, 1.0 - work.cores))
    apart = jnp.asarray(work.sharing) > 0.5
    found = []
    for own, turn, side in zip(alone, turns, beside, strict=True):
        ttft, tpot, bandwidth = (jnp.where(apart, b, a) for a, b in zip((*turn, 1.0), side, strict=True))
        found.append(TenantCost(ttft=ttft, tpot=tpot, ttft_alone=own[0], tpot_alone=own[1], bandwidth=bandwidth))
    return found[0], found[1]


def _alone(hardware: Hardware, tenant: Tenant) -> tuple[Scalar, Scalar]:
    cost = request_cost(hardware, tenant.model, tenant.deployment, tenant.requests, tenant.efficiency)
    return cost.ttft, cost.tpot


def _in_turns(own: Tenant, other: Tenant, alone: list[tuple[Scalar, Scalar]]) -> tuple[Scalar, Scalar]:
    """TTFT and TPOT in s; `alone` are those of both, `own`'s first."""
    (ttft, tpot), (_, others) = alone
    between = others * tokens_per_step(other.deployment, other.requests)
    return ttft + 0.5 * between, tpot + between / tokens_per_step(own.deployment, own.requests)


def _side_by_side(
    hardware: Hardware, tenants: tuple[Tenant, Tenant], cores: tuple[Scalar, Scalar]
) -> list[tuple[Scalar, Scalar, Scalar]]:
    """Of each tenant TTFT and TPOT in s, and the share of the bandwidth that its decode steps get."""
    demands = [
        [memory_demand(share_of(hardware, part, 1.0), tenant, step) for step in _steps(tenant)]
        for tenant, part in zip(tenants, cores, strict=True)
    ]
    found = []
    for own, tenant in enumerate(tenants):
        shares = [1.0 / maximum(demand + demands[1 - own][1], 1.0) for demand in demands[own]]
        prompt, token = (_alone(share_of(hardware, cores[own], share), tenant) for share in shares)
        found.append((prompt[0], token[1], shares[1]))
    return found


def _steps(tenant: Tenant) -> tuple[Batch, Batch]:
    place = tenant.requests, tenant.model, tenant.deployment
    return prefill_batch(*place), decode_batch(*place)


def memory_demand(hardware: Hardware, tenant: Tenant, step: Batch) -> Scalar:
    """Share of a step's time in which its kernels keep the device memory busy, shape ()."""
    ops = overlapped_ops(tenant.model, tenant.deployment, step)
    timings = {name: op_timing(op, hardware, tenant.efficiency) for name, op in ops.items()}
    busy = sum(op.count * timings[name].resources.get("hbm", 0.0) for name, op in ops.items())
    return busy / step_time(hardware, tenant.model, tenant.deployment, step, tenant.efficiency)


def share_of(hardware: Hardware, cores: Scalar, bandwidth: Scalar) -> Hardware:
    """A part of a device as a device of its own: `cores` of its cores, caches and power, `bandwidth` of its memory's.

    Energy per operation stays; capacity of the memory is the whole device's, which `cache_left` splits.
    """
    memory, power = hardware.memory, hardware.power
    hbm = dataclasses.replace(memory.hbm, bandwidth=memory.hbm.bandwidth * bandwidth)
    l2 = memory.l2
    if l2 is not None:
        l2 = dataclasses.replace(l2, bandwidth=l2.bandwidth * cores, capacity=l2.capacity * cores)
    drawn = {name: None if getattr(power, name) is None else getattr(power, name) * cores for name in ("tdp", "static")}
    return dataclasses.replace(
        hardware,
        matrix={precision: peak * cores for precision, peak in hardware.matrix.items()},
        cores=dataclasses.replace(hardware.cores, count=hardware.cores.count * cores),
        memory=dataclasses.replace(memory, hbm=hbm, l2=l2),
        power=dataclasses.replace(power, **drawn),
    )


def cache_left(hardware: Hardware, first: Tenant, second: Tenant) -> jax.Array:
    """B per device that are left for the caches of both, shape (), negative where the models do not fit.

    What the first's engine may use, less the reserve, weights and activations of both.
    """
    usable = first.deployment.memory_utilization * hardware.memory.hbm.capacity
    held = [
        tenant.deployment.reserve_bytes
        + weight_bytes(tenant.model, tenant.deployment)
        + activation_bytes(tenant.model, tenant.deployment)
        for tenant in (first, second)
    ]
    return jnp.asarray(usable - held[0] - held[1])


def sequences_left(hardware: Hardware, first: Tenant, second: Tenant, work: Colocated) -> tuple[Scalar, Scalar]:
    """Sequences of each tenant's lengths that fit at once, shapes (): the first has its share of what is left."""
    left = positive_part(cache_left(hardware, first, second))
    counts = []
    for tenant, share in ((first, work.cache), (second, 1.0 - work.cache)):
        length = tenant.requests.isl + tenant.requests.osl
        counts.append(jnp.floor(share * left / kv_bytes_of_sequence(tenant.model, tenant.deployment, length)))
    return counts[0], counts[1]
