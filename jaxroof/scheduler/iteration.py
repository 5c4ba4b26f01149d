"""One iteration of the simulator: one end, one arrival, one preemption or admission; the engine if nothing is due."""

from typing import NamedTuple

from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.struct import Array
from jaxroof.prices.prices import Price
from jaxroof.scheduler.admission import Admission, admitted
from jaxroof.scheduler.advance import advanced
from jaxroof.scheduler.arriving import completed, received, sent
from jaxroof.scheduler.blocks import begun, evicted, preempted, shortened
from jaxroof.scheduler.engine import Engine
from jaxroof.scheduler.state import NEVER, Record, State, tied, whole, with_parked


def iterated(engine: Engine, price: Price, closed: bool, state: State) -> tuple[State, Record]:
    """The state after one iteration, and what it did.

    At one instant between engine steps, sequences end one by one, then arrivals join the queue, then cache is taken
    away where the next tokens have no room, then prompts are admitted one by one; then the engine runs. An iteration
    does the first thing of each kind that is due, in that order, and runs the engine if nothing is left to do. Thus
    its cost does not depend on how much happens at once, and every decision is the one of a scheduler that does all of
    it between two steps.

    Args:
      closed: structure: whether requests are sent when others end.
    """
    # Idle prefixes give way until no block is missing; then the instant begins, unless prompts have work already.
    owing = state.free < 0
    state = evicted(state)
    fresh = (state.step.prompt == 0) & ~owing

    # 1. Ends.
    state, ended = completed(engine, state, fresh)
    state = state._replace(waiting=sent(engine, state.waiting, state.clock, closed, ended.happened))

    # 2. Arrivals.
    state, coming, rejected = received(engine, state, closed, fresh & ~ended.more)
    settled = ~owing & ~ended.more & ~coming
    state = state._replace(gate=state.gate | (fresh & (state.running == 0) & (state.progress < 0)))

    # 3. and 4. Room for the next tokens, and admissions; then the step.
    decision = decided(engine, state, fresh, settled, ended.next_end)
    admission = decision.admission
    advance = advanced(engine, price, decision.state, decision.next_end, decision.runs)
    state = advance.state
    return state, Record(
        high=state.clock.high,
        low=state.clock.low,
        duration=advance.duration,
        ahead=state.ahead,
        steps=advance.steps,
        count=state.count,
        decoding=advance.decoding,
        prompt=advance.prompt,
        blocks=engine.blocks - jnp.maximum(state.free, 0),
        running=state.running + whole(state.progress >= 0),
        admitted=admission.admitted,
        hit=admission.hit,
        produced=admission.produced,
        last=admission.last,
        preempted=decision.preempted,
        rejected=rejected,
        ended=None if engine.drafts is None else jnp.where(ended.happened, ended.request, -1),
        right=advance.right,
    )


class Decision(NamedTuple):
    """What is done between two steps, and whether the next one may begin."""

    state: State
    admission: Admission
    admits: Array  # bool: prompts may be admitted
    preempted: Array  # request that has lost its cache; -1: none
    gave_way: Array  # bool: one has, or gave up blocks that it shares
    runs: Array  # bool: nothing else is due at this instant
    next_end: Array  # count of decode steps at which the next sequence ends


def decided(engine: Engine, state: State, fresh: Array, settled: Array, next_end: Array) -> Decision:
    """Room for the next tokens, and one preemption or admission.

    Args:
      fresh: bool: no prompt has work yet at this instant.
      settled: bool: all ends and arrivals of this instant are over.
      next_end: count of decode steps at which the next sequence ends.
    """
    # Where room is short, mixed steps admit nothing; prompts that run alone are admitted.
    # Whether the next decode step's new blocks fit is asked before admissions take any.
    need = begun(state, engine, jnp.int32(1))
    if engine.drafts is None:
        need = jnp.where(fresh, need, state.step.need)
    short = fresh & settled & (need > state.free + state.idle)
    alone = with_parked(state, state.running) + whole(state.progress >= 0) == 1
    admits = settled & ~state.preempted & ~(short & engine.mixed) & (state.gate | ~engine.gated)

    # Where nothing is admitted and room is short, a sequence loses its cache; one that is alone keeps it and gives up
    # shared blocks.
    admission = admitted(engine, state, need, admits)
    state = tied(admission.state, state.waiting.arrival_of(admission.admitted), fresh & (admission.admitted >= 0))
    short = short & ~admission.happened & (state.running > 0)
    state, lost = preempted(engine, state, short & ~alone)
    state = shortened(engine, state, short & alone)
    # What it gives up is for its own tokens: where admissions come before room, there are none after it.
    state = state._replace(preempted=state.preempted | (short & alone & ~engine.mixed))

    # Room is looked at again where a sequence has come back from host memory to decode in the coming step.
    returned = admission.happened & (state.step.prompt == 0)
    runs = settled & ~admission.again & ~short & (state.free >= 0) & (engine.mixed | ~returned)
    next_end = jnp.minimum(next_end, jnp.where(returned, admission.last, NEVER))
    return Decision(state, admission, admits, lost, short, runs, next_end)
