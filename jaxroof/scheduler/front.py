"""Time between a request and its place in the queue: the server's front end, and steps that a request waits for."""

import dataclasses

from jaxroof.arrays import jax
from jaxroof.arrays import jax_numpy as jnp
from jaxroof.batch import Batch, Decode, Prefill
from jaxroof.policy import Policy, waiting_steps
from jaxroof.step_price import Price
from jaxroof.struct import Array, Scalar
from jaxroof.traffic import Served, Traffic

ROUNDS = 12
"""Rounds of the fixed point of an open loop's batch, which begins at one sequence and only rises."""


def front_delay(price: Price | None, traffic: Traffic, policy: Policy, blocks: Scalar, request_time: Scalar) -> Scalar:
    """s between a request and its place in the queue, and between its answer and its client, shape ().

    delay = request_time + front_time + (wait_steps + ahead_steps + (poll_steps - 1) / 2) t

    t is the time of a decode step at the batch that usually runs. Of a closed loop that is every client. Of an open
    one it is n = rate * osl * t(n), by Little's law. Neither is more than the policy's sequences or those that the
    cache has room for. A request comes at any time between two looks for new ones, hence the half.

    Args:
      price: of a step without prompts; None where no steps are waited for.
      blocks: of the KV cache of all attention groups.
      request_time: s of the host per request.
    """
    delay = request_time + policy.front_time
    if price is None:
        return delay
    there = (traffic.osl > 0.0).astype(float)
    count = jnp.maximum(jnp.sum(there), 1.0)
    isl, osl = jnp.sum(traffic.isl * there) / count, jnp.sum(traffic.osl * there) / count
    room = blocks * policy.block_size / (isl + osl)
    most = jnp.maximum(jnp.minimum(jnp.minimum(policy.max_sequences, room), count), 1.0)

    def step(sequences: Scalar) -> Array:
        batch = Batch(
            prefill=Prefill(sequences=0.0, tokens=0.0, past=0.0),
            decode=Decode(sequences=sequences, context=sequences * (isl + 0.5 * osl)),
            logits=sequences,
        )
        return sum(price(batch, sequences))

    if traffic.clients is not None:
        sequences = jnp.minimum(jnp.asarray(traffic.clients, float), most)
    else:
        arrival = jnp.where(there > 0.0, traffic.arrival, 0.0)
        span = jnp.max(arrival) - jnp.min(jnp.where(there > 0.0, traffic.arrival, jnp.max(arrival)))
        some = span > 0.0
        rate = (count - 1.0) / jnp.where(some, span, 1.0)

        def nearer(_: int, sequences: Array) -> Array:
            return jnp.clip(jnp.where(some, rate * osl * step(sequences), most), 1.0, most)

        sequences = jax.lax.fori_loop(0, ROUNDS, nearer, jnp.ones_like(most))
    return delay + waiting_steps(policy) * step(sequences)


def with_first_time(found: Served, traffic: Traffic, policy: Policy) -> Served:
    """Outcomes as the clients of a closed loop see them: their first requests were sent `first_time` earlier.

    The engine builds and loads its kernels in that time, and begins at 0 s.
    """
    if traffic.clients is None:
        return found
    first = jnp.arange(found.arrival.shape[-1]).astype(float) < traffic.clients
    return dataclasses.replace(found, arrival=found.arrival - jnp.where(first, policy.first_time, 0.0))
