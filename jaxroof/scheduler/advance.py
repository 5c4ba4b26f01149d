"""Running the engine: one step with prompts in it, as many decode steps as nothing interrupts, or none until someone
arrives."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxroof.batch import Batch, Decode, Prefill
from jaxroof.prices import Price, next_node
from jaxroof.scheduler.arriving import until
from jaxroof.scheduler.blocks import begun, lasting
from jaxroof.scheduler.engine import Engine
from jaxroof.scheduler.state import NEVER, Clock, State, Step, pick, plus

NOTHING = Step(prompt=0, squares=0.0, reaches=0.0, finished=0, joining=0, need=0)
"""A step that has been given nothing yet."""


class Advance(NamedTuple):
    """What the engine did."""

    state: State
    duration: jax.Array  # s, idle time included
    steps: jax.Array
    decoding: jax.Array
    prompt: jax.Array


def advanced(engine: Engine, price: Price, state: State, next_end: jax.Array, happens: jax.Array) -> Advance:
    """The state after the engine has worked or waited, if it does.

    Args:
      next_end: count of decode steps at which the next sequence ends.
    """
    step, running = state.step, state.running
    prompts = step.prompt > 0
    decodes = ~prompts & (running > 0)
    idle = ~prompts & (running == 0)
    members = jnp.where(prompts & ~engine.mixed, 0, running)
    sequences = members + jnp.where(decodes, state.padding, 0)
    context = jnp.where(members > 0, state.offset, 0) + members * state.count + jnp.where(decodes, state.padded, 0)

    wait = until(engine, state.waiting, state.clock, state.waiting.next)
    most = _most_steps(engine, state, next_end)
    tokens = step.prompt.astype(float)
    chunks = tokens * tokens / jnp.where(prompts, step.squares, 1.0)
    prompt = Prefill(sequences=chunks, tokens=tokens, past=chunks * step.reaches / jnp.where(prompts, tokens, 1.0))
    rows = jnp.where(decodes, _padded(engine, sequences), sequences) + step.prompt
    first = _time(engine, price, prompt, sequences, context, step.finished, rows)
    nothing = Prefill(sequences=0.0, tokens=0.0, past=0.0)
    last = _time(engine, price, nothing, sequences, context + (most - 1) * members, step.finished, rows)
    slope = jnp.where(decodes, (last - first) / jnp.maximum(most - 1, 1).astype(float), 0.0)
    steps = jnp.where(decodes, jnp.minimum(most, _steps_until(engine, state, first, slope, wait)), 1)
    runs = steps.astype(float)
    worked = runs * first + slope * (0.5 * runs * (runs - 1.0)) + engine.swap_time * state.moved.astype(float)
    resting = jnp.where(jnp.isfinite(wait), jnp.maximum(wait, 0.0), 0.0)

    blocks = jnp.where(
        prompts, jnp.where(engine.mixed, step.need, 0), jnp.where(decodes, begun(state, engine, steps), 0)
    )
    works, rests = happens & ~idle, happens & idle & jnp.isfinite(wait)
    later = state._replace(
        clock=plus(state.clock, worked),
        count=state.count + jnp.where(decodes | engine.mixed, steps, 0),
        step=jax.tree.map(lambda new, old: jnp.asarray(new, dtype=old.dtype), NOTHING, step),
        running=running + step.finished,
        offset=state.offset + step.joining,
        free=state.free - blocks,
        pace=worked / runs,
        moved=jnp.zeros_like(state.moved),
        preempted=jnp.zeros_like(state.preempted),
        gate=state.gate & prompts,
    )
    waited = state._replace(clock=pick(rests, _arrival(state), state.clock))
    return Advance(
        state=pick(works, later, waited),
        duration=jnp.where(works, worked, jnp.where(rests, resting, 0.0)),
        steps=jnp.where(works, steps, 0),
        decoding=jnp.where(works, members, 0),
        prompt=jnp.where(works, step.prompt, 0),
    )


def _most_steps(engine: Engine, state: State, next_end: jax.Array) -> jax.Array:
    """Decode steps until a sequence ends, the blocks are used up, someone whose cache was taken may come back, or the
    mean context passes a node of the price tables, between which times are linear in it; at least 1."""
    growing = jnp.maximum(state.running, 1).astype(float)
    context = (state.offset + state.running * state.count + state.padded).astype(float)
    mean = context / (growing + state.padding.astype(float))
    steps = (next_node(mean) - mean) * (context / (growing * mean))
    linear = jnp.floor(jnp.minimum(steps, 2.0**30)).astype(jnp.int32) + 1
    most = jnp.minimum(jnp.minimum(next_end - state.count, lasting(state, engine)), jnp.minimum(linear, engine.longest))
    return jnp.where(state.preempted, 1, jnp.maximum(most, 1))


def _steps_until(engine: Engine, state: State, first: jax.Array, slope: jax.Array, wait: jax.Array) -> jax.Array:
    """Decode steps until the next arrival has come, if it could be admitted then.

    The smallest k with k first + slope k (k - 1) / 2 >= wait.
    """
    matters = jnp.isfinite(wait) & (wait > 0.0)
    if state.waiting.waits is None:
        matters = matters & ~engine.gated & (state.lost == 0) & (state.running < engine.sequences)
    first, slope = jax.lax.stop_gradient((first, slope))
    wait = jax.lax.stop_gradient(jnp.where(matters, wait, 0.0))
    half = first - 0.5 * slope
    root = jnp.sqrt(jnp.maximum(half * half + 2.0 * slope * wait, 0.0))
    steps = jnp.ceil(2.0 * wait / jnp.maximum(half + root, 1e-30))
    steps = jnp.maximum(jnp.minimum(steps, 2.0**30), 1.0)
    return jnp.where(matters, steps.astype(jnp.int32), NEVER)


def _arrival(state: State) -> Clock:
    inside = jnp.minimum(state.waiting.next, state.waiting.arrival.high.shape[0] - 1)
    return Clock(state.waiting.arrival.high[inside], state.waiting.arrival.low[inside])


def _padded(engine: Engine, sequences: jax.Array) -> jax.Array:
    """Rows of the CUDA graph that runs a decoding batch."""
    step = jnp.maximum(engine.graph_step, 1)
    small = jnp.where(sequences <= 2, sequences, 4)
    padded = jnp.where(sequences <= 4, small, -(-sequences // step) * step)
    return jnp.where((engine.graph_step > 0) & (sequences <= engine.graph_limit), padded, sequences)


def _time(
    engine: Engine,
    price: Price,
    prompt: Prefill,
    sequences: jax.Array,
    context: jax.Array,
    finished: jax.Array,
    rows: jax.Array,
) -> jax.Array:
    """s of one step on device and host."""
    decoding = Decode(sequences=sequences.astype(float), context=context.astype(float))
    batch = Batch(prefill=prompt, decode=decoding, logits=(sequences + finished).astype(float))
    device, host = price(batch, rows.astype(float))
    return jnp.where(engine.hidden_host, jnp.maximum(device, host), device + host)
