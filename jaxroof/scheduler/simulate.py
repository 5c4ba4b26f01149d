"""Simulation of a serving engine: `lax.scan` over iterations of fixed shape, then every request's times."""

import dataclasses

from jaxroof.batch import Batch, Decode, Policy, Prefill, Served, Timeline, Traffic, draft_steps, waiting_steps
from jaxroof.deployment import Deployment
from jaxroof.efficiency import Efficiency
from jaxroof.hardware import Hardware
from jaxroof.memory.capacity import kv_cache_blocks
from jaxroof.model import Model
from jaxroof.numerics.arrays import jax, jnp, repeated
from jaxroof.numerics.struct import Array, Scalar
from jaxroof.prices.prices import Price, step_prices
from jaxroof.prices.tables import Limits
from jaxroof.scheduler.advance import MANY
from jaxroof.scheduler.drafts import drafts_of
from jaxroof.scheduler.engine import Drafts, Run, engine
from jaxroof.scheduler.iteration import iterated
from jaxroof.scheduler.outcomes import served, with_first_time
from jaxroof.scheduler.prefixes import PrefixGroups
from jaxroof.scheduler.queues import Waiting
from jaxroof.scheduler.state import FLOATS, NEVER, Record, Slots, State, resting, whole

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
    # Sequences that fit the cache at their full length: a bound on the batch.
    room = blocks * policy.block_size / (isl + osl)
    most = jnp.maximum(jnp.minimum(jnp.minimum(policy.max_sequences, room), count), 1.0)

    def step(sequences: Scalar) -> Array:
        batch = Batch(
            prefill=Prefill(sequences=0.0, tokens=0.0, past=0.0),
            # Mean context half-way through the output.
            decode=Decode(sequences=sequences, context=sequences * (isl + 0.5 * osl)),
            logits=sequences,
        )
        return sum(price(batch, sequences))

    # Closed loop: every client has a request under way.
    if traffic.clients is not None:
        sequences = jnp.minimum(jnp.asarray(traffic.clients, float), most)
    else:
        arrival = jnp.where(there > 0.0, traffic.arrival, 0.0)
        span = jnp.max(arrival) - jnp.min(jnp.where(there > 0.0, traffic.arrival, jnp.max(arrival)))
        some = span > 0.0
        # Observed arrival rate: n - 1 intervals in the span.
        rate = (count - 1.0) / jnp.where(some, span, 1.0)

        def nearer(_: int, sequences: Array) -> Array:
            # Little's law L = lambda W with W = osl t(L): a fixed point, as t depends on L.
            return jnp.clip(jnp.where(some, rate * osl * step(sequences), most), 1.0, most)

        # From one sequence upwards the iteration is monotone and stays at the lowest solution.
        sequences = repeated(nearer, ROUNDS, jnp.ones_like(most))
    return delay + waiting_steps(policy) * step(sequences)


@dataclasses.dataclass(frozen=True)
class Size:
    """Fixed shapes of a simulation: structure, one compiled program each."""

    slots: int  # sequences that are admitted at once, at least the policy's `max_sequences`
    iterations: int  # two to three per request; what is left when they end is reported
    block: int = 16  # the largest block size, in tokens
    rows: int = 8192  # tokens of the largest step
    context: int = 2**17  # tokens of the longest sequence
    groups: int = 0  # of requests that begin alike; 0: no prefix cache
    ranked: bool = False  # whether requests may be turned away, or some go before others


def begin(
    traffic: Traffic,
    policy: Policy,
    blocks: Scalar,
    size: Size,
    delay: Scalar = 0.0,
    longest: Scalar = MANY,
    drafts: Drafts | None = None,
) -> Run:
    """A simulation before its first iteration.

    Args:
      blocks: of KV cache, all attention groups together.
      delay: s between a request and its place in the queue.
      longest: decode steps that an iteration may take together; 1: each on its own.
      drafts: of every decode step; None: nothing is drafted.
    """
    constants, arrival, order = engine(traffic, policy, jnp.asarray(blocks), jnp.asarray(delay), jnp.asarray(longest))
    if drafts is not None:
        constants = constants._replace(drafts=drafts._replace(number=order))
    zero = jnp.int32(0)
    empty = jnp.zeros(size.slots, dtype=jnp.int32)
    requests = constants.isl.shape[0]
    some = jnp.zeros(size.groups, dtype=jnp.int32)
    state = resting(constants.blocks, traffic.encode is not None)._replace(
        slots=Slots(
            empty + NEVER,
            empty,
            empty,
            empty if size.groups else None,
            held=None if drafts is None else empty,
            joins=None if drafts is None else empty > 0,
        ),
        groups=PrefixGroups(some, some, some) if size.groups else None,
        waiting=Waiting(zero, jnp.zeros(requests, dtype=bool) if size.ranked else None, arrival, zero),
        phases=jnp.zeros(size.block + 1 if drafts is None else 0, dtype=jnp.int32),
    )
    return Run(constants, state, order)


def proceed(price: Price, run: Run, traffic: Traffic, policy: Policy, size: Size) -> tuple[Run, Record]:
    """The simulation after `size.iterations` more, and the record of each of them, shapes [iterations]."""
    closed = traffic.clients is not None

    def one(state: State, _: None) -> tuple[State, tuple[Array, Array]]:
        state, record = iterated(run.engine, price, closed, state)
        # Floats and whole numbers are stacked apart: two arrays per iteration instead of sixteen, which scan copies
        # faster.
        parts = [part for part in record if part is not None]
        return state, (jnp.stack(parts[:FLOATS]), jnp.stack(parts[FLOATS:]))

    state, (times, counts) = jax.lax.scan(one, run.state, None, length=size.iterations)
    columns = [array[:, column] for array in (times, counts) for column in range(array.shape[1])]
    return run._replace(state=state), Record(*columns)


def remaining(run: Run) -> Array:
    """Number of requests that have no answer yet and may get one, shape ()."""
    state = run.state
    waiting = run.engine.requests - state.waiting.next
    if state.waiting.waits is not None:
        waiting = waiting + state.waiting.waiting()
    return waiting + state.running + state.lost + whole(state.progress >= 0)


def cache_blocks(hardware: Hardware, model: Model, deployment: Deployment, policy: Policy) -> Array:
    """Blocks of KV cache of all attention groups together, shape (): a whole number, as a float."""
    return kv_cache_blocks(hardware, model, deployment, policy.block_size)


def simulate(
    hardware: Hardware,
    model: Model,
    deployment: Deployment,
    efficiency: Efficiency,
    traffic: Traffic,
    policy: Policy,
    size: Size,
    longest: Scalar = MANY,
) -> tuple[Served, Timeline]:
    """Outcome of every request of `traffic` on one replica of `deployment` under `policy`.

    Pure, of fixed shapes: vmap any leaf, differentiate any time with respect to any leaf of hardware, model, deployment
    and efficiency. The scheduler's decisions are step functions of these and have no gradient; the times of steps have
    one.

    Several decode steps in which nothing changes are one iteration: between two nodes of the price tables their times
    are linear in the context. Where nothing is left to do, iterations do nothing.

    Args:
      traffic: requests, shape [requests].
      size: fixed shapes; requests that `size.iterations` do not suffice for are reported as unfinished.
      longest: decode steps that an iteration may take together; 1: each on its own.

    Returns:
      By request, shape [requests], and by iteration, shape [iterations].
    """
    limits = Limits(rows=size.rows, sequences=size.slots, context=size.context)
    lengths = sorted({0.0, *(tokens for _, tokens in draft_steps(policy))})
    place, beside = (hardware, model, deployment, efficiency), (policy.acceptance, policy.hidden_host)
    tables, price = step_prices(*place, limits, *beside, encode=traffic.encode, lengths=lengths)
    blocks = cache_blocks(hardware, model, deployment, policy)
    # The same tables, without prompts' ops, as a waiting request meets decode steps.
    waits = step_prices(*place, limits, *beside, tables, prompts=False)[1]
    delay = front_delay(waits, traffic, policy, blocks, efficiency.host.request_time)
    run = begin(traffic, policy, blocks, size, delay, longest, drafts_of(deployment, policy))
    outcomes, timeline = served(*proceed(price, run, traffic, policy, size))
    return with_first_time(outcomes, traffic, policy), timeline
