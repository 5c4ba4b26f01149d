"""Run of the engine: one step with prompts, all decode steps until something happens, or a wait for an arrival."""

import functools
from typing import NamedTuple

from jaxroof.batch import Batch, Decode, Encode, Prefill
from jaxroof.numerics.arrays import entry, jax, jnp
from jaxroof.numerics.struct import Array
from jaxroof.numerics.tree import mapped
from jaxroof.prices.prices import Price, next_node
from jaxroof.scheduler.blocks import begun, lasting
from jaxroof.scheduler.drafts import Progress, mean_drafted, progress
from jaxroof.scheduler.engine import Engine
from jaxroof.scheduler.state import NEVER, Clock, Slots, State, Step, pick, plus, with_parked

NOTHING = Step(prompt=0, squares=0.0, reaches=0.0, finished=0, joining=0, need=0)
"""A step that has been given nothing yet."""

MANY = 2.0**30
"""Decode steps that are as good as no limit, and still an int32."""


class Advance(NamedTuple):
    """Result of one run of the engine."""

    state: State
    duration: Array  # s, idle time included
    steps: Array
    decoding: Array
    prompt: Array
    right: Array | None  # drafts; None: there are none


class Steps(NamedTuple):
    """The next step, or the next decode steps, shapes ()."""

    prompts: Array  # bool: a step with prompts
    decodes: Array  # bool: decode steps alone
    members: Array  # decoding sequences that take part
    number: Array  # of steps
    first: Array  # s of the first one
    slope: Array  # s by which each is longer than the one before

    @property
    def duration(self) -> Array:
        """s of all of them."""
        # Arithmetic series: step k takes first + k slope.
        runs = self.number.astype(float)
        return runs * self.first + self.slope * (0.5 * runs * (runs - 1.0))


def advanced(engine: Engine, price: Price, state: State, next_end: Array, happens: Array) -> Advance:
    """The state after the engine has worked or waited, if it does.

    Args:
      next_end: count of decode steps at which the next sequence ends.
    """
    wait = state.waiting.until(engine, state.clock, state.waiting.next)
    # All decode steps until something happens are one iteration: an event-driven simulation, not a step-driven one.
    matters = joins(engine, state, wait, in_order=state.waiting.waits is None)
    taken = planned(engine, price, state, next_end, wait, matters)
    # Nothing to do: time jumps to the next arrival.
    idle = ~taken.prompts & (state.running == 0)
    works, rests = happens & ~idle, happens & idle & jnp.isfinite(wait)
    later, worked = after(engine, state, taken)
    resting = jnp.where(jnp.isfinite(wait), jnp.maximum(wait, 0.0), 0.0)
    waited = state._replace(clock=pick(rests, _arrival(state), state.clock))
    return Advance(
        state=pick(works, later, waited),
        duration=jnp.where(works, worked, jnp.where(rests, resting, 0.0)),
        steps=jnp.where(works, taken.number, 0),
        decoding=jnp.where(works, taken.members, 0),
        prompt=jnp.where(works, state.step.prompt, 0),
        # Tokens that decoding sequences are ahead of one per step.
        right=None if engine.drafts is None else jnp.where(works, later.offset - state.offset - state.step.joining, 0),
    )


def after(engine: Engine, state: State, taken: Steps, together: bool = False) -> tuple[State, Array]:
    """The state after these steps, and the s that they have taken, with cache that is moved before them.

    Args:
      together: structure: whether there may be several with drafts.
    """
    step = state.step
    # Swapping moves cache over the host link before the step runs.
    worked = step_time(engine, state, taken.duration)
    slots, offset, blocks = _decoded(engine, state, taken, together)
    nothing = NOTHING._replace(encodes=None if step.encodes is None else 0)
    return state._replace(
        clock=plus(state.clock, worked),
        slots=slots,
        # `count` is the number of decode steps so far: ends are counts, so that running sequences need no update.
        count=state.count + jnp.where(taken.decodes | engine.mixed, taken.number, 0),
        step=jax.tree.map(lambda new, old: jnp.asarray(new, dtype=old.dtype), nothing, step),
        running=state.running + step.finished,
        offset=offset + step.joining,
        free=state.free - blocks,
        # Kept for gradients: time of one step at this moment.
        pace=worked / taken.number.astype(float),
        moved=jnp.zeros_like(state.moved),
        preempted=jnp.zeros_like(state.preempted),
        gate=state.gate & taken.prompts,
        loading=None if state.loading is None else jnp.zeros_like(state.loading),
    ), worked


def _decoded(engine: Engine, state: State, taken: Steps, together: bool) -> tuple[Slots, Array, Array]:
    """Slots and `State.offset` after these steps, and the blocks that decoding sequences have begun in them."""
    if engine.drafts is not None:

        def further(so_far: tuple[Array, Progress]) -> tuple[Array, Progress]:
            number, before = so_far
            one = state._replace(slots=before.slots, count=state.count + number)
            made = progress(engine, one, taken.decodes | engine.mixed)
            return number + 1, Progress(made.slots, before.right + made.right, before.begun + made.begun)

        made = progress(engine, state, taken.decodes | engine.mixed)
        if together:
            ends = taken.number
            _, made = jax.lax.while_loop(lambda so_far: so_far[0] < ends, further, (jnp.int32(1), made))
        return made.slots, state.offset + made.right, made.begun
    # In a step with prompts they were counted when these were admitted.
    beside_prompts = jnp.where(engine.mixed, state.step.need, 0)
    decoding_alone = jnp.where(taken.decodes, begun(state, engine, taken.number), 0)
    return state.slots, state.offset, jnp.where(taken.prompts, beside_prompts, decoding_alone)


def swap_time(engine: Engine, state: State) -> Array:
    """s that cache takes to or from host memory before the coming step."""
    return engine.swap_time * state.moved.astype(float)


def step_time(engine: Engine, state: State, duration: Array) -> Array:
    """s of the coming steps with the cache that is moved and loaded for them.

    Args:
      duration: s of their work.
    """
    time = duration + swap_time(engine, state)
    if state.loading is None:
        return time
    # One after the other, or side by side.
    return time + (state.loading - engine.tiers.overlap * jnp.minimum(duration, state.loading))


def planned(
    engine: Engine, price: Price, state: State, next_end: Array, wait: Array | None, matters: Array | None
) -> Steps:
    """One step with prompts in it, or decode steps until something happens.

    Between two nodes of the price tables a decode step's time is linear in the context. So of n steps, the first of
    `first` s and each `slope` s longer than the one before, the time is n first + slope n (n - 1) / 2.

    Args:
      next_end: count of decode steps at which the next sequence ends.
      wait: s until the next arrival; None: none is known.
      matters: bool: it ends a run of decode steps.
    """
    work = step_work(engine, state, next_end)
    prompts, decodes = state.step.prompt > 0, (state.step.prompt <= 0) & (state.running > 0)
    # Rematerialised in the backward pass, which finds again what it needs: a scan keeps little per iteration.
    times = jax.checkpoint(functools.partial(step_times, price), prevent_cse=False)
    each = times(work)
    first, last, most = each[0], each[-1], work.most
    slope = jnp.where(decodes, (last - first) / jnp.maximum(most - 1, 1).astype(float), 0.0)
    if wait is not None and matters is not None:
        most = jnp.minimum(most, steps_until(first, slope, wait - swap_time(engine, state), matters))
    members = jnp.where(prompts & ~engine.mixed, 0, state.running)
    return Steps(prompts, decodes, members, jnp.where(decodes, most, 1), first, slope)


class Work(NamedTuple):
    """What the coming steps are priced for, shapes ()."""

    prompt: Prefill
    sequences: Array  # that decode
    context: Array  # tokens of all of them in the first step
    last: Array  # and in the last one that is planned
    finished: Array  # prompts that it completes
    rows: Array
    encode: Encode | None  # None: there are no images
    drafted: Array | None  # per sequence, float; None: nothing is drafted
    most: Array  # decode steps that are planned


def step_work(engine: Engine, state: State, next_end: Array) -> Work:
    """What the coming step is priced for, or the first and the last of the coming decode steps."""
    step, running = state.step, state.running
    prompts = step.prompt > 0
    decodes = ~prompts & (running > 0)
    members = jnp.where(prompts & ~engine.mixed, 0, running)
    sequences = members + jnp.where(decodes, state.padding, 0)
    # Sum of contexts = offset + running x count: every decode step adds one token per sequence, without touching them.
    context = jnp.where(members > 0, state.offset, 0) + members * state.count + jnp.where(decodes, state.padded, 0)
    # Drafts come at random: every step is one of its own.
    drafts = engine.drafts is not None
    most = jnp.int32(1) if drafts else _most_steps(engine, state, next_end)
    return Work(
        prompt=_prompt(step, prompts),
        sequences=sequences,
        context=context,
        last=context + (most - 1) * members,
        finished=step.finished,
        # CUDA graphs: decoding batches run at the next captured size.
        rows=jnp.where(decodes, _padded(engine, sequences), sequences) + step.prompt,
        encode=_encode(engine, step),
        drafted=mean_drafted(engine, state, members) if drafts else None,
        most=most,
    )


def step_times(price: Price, work: Work) -> Array:
    """s of the first and of the last of the coming steps, shape [2]: the device, and what its host adds.

    Two contexts suffice, as time is linear in between. With drafts there is one step, shape [1].
    """

    def of(context: Array) -> Array:
        decoding = Decode(sequences=work.sequences.astype(float), context=context, drafted=work.drafted)
        logits = (work.sequences + work.finished).astype(float)
        batch = Batch(prefill=work.prompt, decode=decoding, logits=logits, encode=work.encode)
        device, host = price(batch, work.rows.astype(float))
        return device + host

    contexts = [work.context] if work.drafted is not None else [work.context, work.last]
    return jax.vmap(of)(jnp.stack(contexts).astype(float))


def _prompt(step: Step, prompts: Array) -> Prefill:
    """The step's chunks as equal ones with the same tokens and the same query-key pairs.

    n = tokens^2 / sum of chunk^2 chunks of equal length, each after a past of sum of chunk * past / tokens.
    """
    tokens = step.prompt.astype(float)
    # The same tokens and the same sum of squares: equal chunks with as many causal pairs.
    chunks = tokens * tokens / jnp.where(prompts, step.squares, 1.0)
    return Prefill(sequences=chunks, tokens=tokens, past=chunks * step.reaches / jnp.where(prompts, tokens, 1.0))


def _encode(engine: Engine, step: Step) -> Encode | None:
    """The images of the prompts that a step begins, as vLLM encodes them in the step of the chunk that needs them.

    Source: vllm-project/vllm, vllm/v1/core/sched/scheduler.py, `_try_schedule_encoder_inputs`.
    """
    if step.encodes is None:
        return None
    begun = step.encodes.astype(float)
    return mapped(lambda each: begun * each, engine.encode)


def _most_steps(engine: Engine, state: State, next_end: Array) -> Array:
    """Decode steps until the first of four events, at least 1.

    A sequence ends; the blocks are used up; a sequence that lost its cache at this instant may come back (after one
    step); the mean context passes a node of the price tables, between which times are linear in it.
    """
    growing = jnp.maximum(state.running, 1).astype(float)
    context = (state.offset + state.running * state.count + state.padded).astype(float)
    # Mean context decides which interval of the price table holds.
    mean = context / (growing + state.padding.astype(float))

    # A step adds a token to each growing sequence; those that pad a static batch count in the mean, and do not grow.
    to_node = (next_node(mean) - mean) * (context / (growing * mean))
    linear = jnp.floor(jnp.minimum(to_node, MANY)).astype(jnp.int32) + 1
    # The first event ends the run: an end, a shortage of blocks, a node of the table, or a user's limit.
    most = jnp.minimum(jnp.minimum(next_end - state.count, lasting(state, engine)), jnp.minimum(linear, engine.longest))
    return jnp.where(state.preempted, 1, jnp.maximum(most, 1))


def joins(engine: Engine, state: State, wait: Array, in_order: bool) -> Array:
    """Whether an arrival, `wait` s from now, could be admitted during decode steps.

    Args:
      in_order: structure: the queue is as requests came, and never full.
    """
    matters = jnp.isfinite(wait) & (wait > 0.0)
    if in_order:
        # An arrival only matters if it could be admitted at once.
        running = with_parked(state, state.running)
        matters = matters & ~engine.gated & (state.lost == 0) & (running < engine.sequences)
    return matters


def steps_until(first: Array, slope: Array, wait: Array, matters: Array) -> Array:
    """Decode steps until `wait` s are over, where that `matters`; else NEVER.

    The smallest k with k first + slope k (k - 1) / 2 >= wait: with half = first - slope / 2, the positive root is
    2 wait / (half + sqrt(half^2 + 2 slope wait)), rounded up.
    """
    # The number of steps is a decision without a gradient.
    first, slope = jax.lax.stop_gradient((first, slope))
    wait = jax.lax.stop_gradient(jnp.where(matters, jnp.maximum(wait, 0.0), 0.0))
    # k first + slope k (k - 1) / 2 = wait, solved in the form that does not cancel for small slopes.
    half = first - 0.5 * slope
    root = jnp.sqrt(jnp.maximum(half * half + 2.0 * slope * wait, 0.0))
    steps = jnp.ceil(2.0 * wait / jnp.maximum(half + root, 1e-30))
    steps = jnp.maximum(jnp.minimum(steps, MANY), 1.0)
    return jnp.where(matters, steps.astype(jnp.int32), NEVER)


def _arrival(state: State) -> Clock:
    """Time of the next arrival."""
    inside = jnp.minimum(state.waiting.next, state.waiting.arrival.high.shape[0] - 1)
    return Clock(*(entry(part, inside) for part in state.waiting.arrival))


def _padded(engine: Engine, sequences: Array) -> Array:
    """Rows of the CUDA graph that runs a decoding batch: 1, 2, 4, then multiples of `graph_step`."""
    step = jnp.maximum(engine.graph_step, 1)
    small = jnp.where(sequences <= 2, sequences, 4)
    padded = jnp.where(sequences <= 4, small, -(-sequences // step) * step)
    return jnp.where((engine.graph_step > 0) & (sequences <= engine.graph_limit), padded, sequences)
