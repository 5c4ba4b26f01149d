"""Times outside of engines' steps: from a request to its queue, and of a cache between two pools."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxroof.batch import Policy, Traffic, waiting_steps
from jaxroof.jobs.scenario import Pool
from jaxroof.jobs.splits import transfer_time
from jaxroof.memory.capacity import layer_count
from jaxroof.model import Model
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.struct import Scalar
from jaxroof.prices.prices import Price
from jaxroof.scheduler import front_delay
from jaxroof.scheduler.service.handover import DECODE, PREFILL, Transfer


def link_between(prefill: Pool, decode: Pool, model: Model, traffic: Traffic, layerwise: bool) -> Transfer:
    """The link from an engine of one pool to one of another, leaves of shape ().

    The time of a cache is linear in its tokens: two of them say which line it is.
    """
    longest = jnp.maximum(jnp.max(traffic.isl), 2.0)
    short, long = (transfer_time(prefill, decode, model, tokens) for tokens in (0.5 * longest, longest))
    each = (long - short) / (0.5 * longest)
    return Transfer(
        rate=1.0 / each,
        latency=jnp.maximum(long - each * longest, 0.0),
        layers=jnp.asarray(layer_count(model) if layerwise else 0.0, dtype=float),
    )


def request_delay(
    roles: Sequence[int], price: Price | None, traffic: Traffic, policy: Policy, blocks: Any, host: Scalar
) -> Scalar:
    """s between a request and its delivery: as of one replica, with its part of the requests.

    Engines that compute prompts alone run no decode steps, which a request would wait for.

    Args:
      roles: of all engines, the first one of the kind that is asked about.
      price: of a step without prompts; None: it waits for none.
      blocks: of its KV cache.
      host: s per request.
    """
    if price is None:
        return host + policy.front_time
    share = float(sum(role != DECODE for role in roles))
    clients = None if traffic.clients is None else max(float(traffic.clients) / share, 1.0)
    part = dataclasses.replace(traffic, arrival=np.asarray(traffic.arrival) * share, clients=clients)
    return front_delay(price, part, policy, blocks, host)


def waits_for_steps(role: int, policy: Policy) -> bool:
    """Whether a request waits for steps of an engine with this role before it is in its queue."""
    return role != PREFILL and bool(waiting_steps(policy) > 0.0)
