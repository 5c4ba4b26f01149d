"""Steady state of an engine that batches continuously, in closed form: load, latencies and their spread.

An engine that decodes B sequences at once completes B / (output - 1) of them per step, and as many prompts enter. So
the mean step, the load and every latency follow from B without a simulation.
"""

import math
from typing import NamedTuple

from jaxroof.batch import ORDERS, Batch, Decode, Encode, Policy, Prefill
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.struct import Array, Scalar, struct
from jaxroof.numerics.tree import mapped
from jaxroof.prices.prices import Price
from jaxroof.steady.distributions import normal_density, normal_share

LEAST_STEPS = 0.5
"""Decode steps of a request at least: one of a single output token has none."""

ALIKE = 1.0 + 1e-9
"""Unevenness of lengths up to which all are equal."""

BUSIEST = 0.9
"""Share of the time that prompts take, at most, in what they do to each other's number."""

CHUNKS = 8
"""Steps of a prompt up to which they are counted one by one; more are half a step above their mean."""

SHARPEST = 0.002
"""Spread of the logarithm of prompt lengths at least, in the number of steps that they take; four of these longer than
the room of whole steps is not longer."""

FULLEST = 0.995
"""Utilisation of the prompts' share of a step at most: a queue that is fuller has no steady state."""


@struct
class Demand:
    """Means of the requests that a replica is sent; tokens per request."""

    prompt: Scalar  # new prompt tokens, without those that the prefix cache has
    cached: Scalar  # prompt tokens that the prefix cache has
    evenness: Scalar  # mean^2 / mean of the squares of `prompt`: 1 where all prompts are equally long
    output: Scalar  # output tokens
    briefness: Scalar  # mean of the decode steps x mean of their reciprocals: 1 where all outputs are equally long
    context: Scalar  # tokens that a decoding sequence attends to, mean over all decode steps
    held: Scalar  # tokens of KV cache that a running sequence holds, mean over time
    output_evenness: Scalar = 1.0  # mean^2 / mean of the squares of the decode steps: 1 where all are equally many
    encode: Encode | None = None  # of every request; None: the encoder has no work
    classes: tuple["Demand", ...] = ()  # means of every class of these requests


@struct
class StepTimes:
    """Times in s of an engine's steps at a batch of decoding sequences."""

    decode: Scalar  # a step without prompts
    first: Scalar  # what the first prompt of a step adds to it
    further: Scalar  # what every other prompt adds
    steps: Scalar  # that one prompt takes, a whole number, mean; 1 where it fits into a step
    full: Scalar  # prompts that one step has room for
    filled: Scalar  # a step that is full of prompts


@struct
class SteadyState:
    """Load and latencies of an engine at a batch."""

    batch: Scalar  # sequences that decode, as one of them finds it
    under_way: Scalar  # sequences that decode, mean over time
    load: Scalar  # requests/s
    step: Scalar  # s, mean of the steps with and without prompts
    use: Scalar  # share of the room for prompts that is taken
    ttft: Scalar  # s, mean
    ttft_spread: Scalar  # s, standard deviation
    meets: Scalar  # share of requests that come during a step with prompts
    ttft_alone: Scalar  # s, mean of the others
    ttft_alone_spread: Scalar  # s, standard deviation of the others
    tpot: Scalar  # s, mean
    tpot_varied: Scalar  # s, standard deviation over requests, by the sequences that decode beside
    tpot_jumps: Scalar  # s, by the prompts that come meanwhile, of a request of mean length
    tpot_jump: Scalar  # s that one prompt more adds
    even: Scalar  # share of TPOT's variance that is of equal jumps
    briefness: Scalar  # of `Demand`
    held_back: Scalar  # share of requests that wait because the most sequences run already
    wait: Scalar  # s, mean wait of those
    decode_steps: Scalar  # of a request
    output_evenness: Scalar  # of `Demand`
    classes: tuple["SteadyState", ...] = ()  # as the requests of every class see it, `jaxroof.steady.queue`


def step_times(price: Price, policy: Policy, demand: Demand, batch: Scalar) -> StepTimes:
    """Times in s of steps with no prompt, one prompt, and as many as fit, at `batch` decoding sequences.

    Args:
      price: of a step, `jaxroof.prices.prices.step_price`.
      batch: decoding sequences, mean; from 1.
    """
    prompt = demand.prompt
    mixed = jnp.asarray(policy.order) == ORDERS.index("mixed")
    chunked = jnp.asarray(policy.chunked) > 0.5

    # Room for prompt tokens in a step, the part of a prompt that one step takes, and the whole prompts that fit.
    # Chunked prefill (Sarathi): decoding sequences take one token of the budget each, prompts share the rest.
    room = jnp.maximum(policy.token_budget - jnp.where(mixed, batch, 0.0), 1.0)
    part = jnp.where(chunked, jnp.minimum(prompt, room), prompt)
    # Without chunks only whole prompts fit, at least one even if it exceeds the budget.
    most = jnp.where(chunked, jnp.maximum(room, part), jnp.maximum(jnp.floor(room / prompt), 1.0) * prompt)

    def time(tokens: Scalar, decoding: Scalar, rows: Scalar) -> Array:
        """s of a step with these prompt tokens and decoding sequences."""
        prompts = tokens / prompt
        # Prompts of uneven length are priced as fewer equal ones, with the same sum of squares.
        chunks = jnp.where(part < prompt, 1.0, jnp.maximum(prompts, 1.0) * demand.evenness)
        # On average a chunk in the middle of a prompt sees half of what precedes it.
        past = demand.cached + 0.5 * jnp.maximum(prompt - tokens / chunks, 0.0)
        # A step without prompt tokens has no prompt sequence that a pipeline could take as a micro-batch.
        chunks = jnp.where(tokens > 0, chunks, 0.0)
        prefill = Prefill(sequences=chunks, tokens=tokens, past=chunks * past)
        return _step_time(price, demand, prefill, prompts, decoding, rows + tokens)

    # The differences between three steps: without prompts, with one (a part of one), and with as many as fit.
    alone = time(jnp.zeros_like(prompt * batch), batch, _graph_rows(policy, batch))
    beside = jnp.where(mixed, batch, 0.0)
    base = jnp.where(mixed, alone, 0.0)
    one, all_of_them = time(part, beside, beside), time(most, beside, beside)
    parts = prompt / part
    first = (one - base) * parts
    more = most > part * (1.0 + 1e-9)
    # One more prompt of a full step against one alone: weights are read once for both, so it adds less.
    further = jnp.where(more, (all_of_them - one) * prompt / jnp.where(more, most - part, 1.0), first)
    steps = jnp.where(chunked, whole_steps(prompt / room, demand.evenness), 1.0)
    return StepTimes(decode=alone, first=first, further=further, steps=steps, full=most / prompt, filled=all_of_them)


def decode_step_time(price: Price, policy: Policy, demand: Demand, batch: Scalar) -> Array:
    """Time in s of a step without prompts, of an engine that only decodes, at `batch` sequences."""
    none = jnp.zeros_like(demand.prompt * batch)
    prefill = Prefill(sequences=none, tokens=none, past=none)
    return _step_time(price, demand, prefill, none, batch, _graph_rows(policy, batch))


def _graph_rows(policy: Policy, batch: Scalar) -> Array:
    """Rows of a decoding batch, which runs in a CUDA graph of the next larger size: half an interval more on average.

    Graphs of up to four sequences are of every size; batches above the limit run without one.
    """
    in_graph = (policy.graph_step > 0) & (batch > 4.0) & (batch <= policy.graph_limit)
    return batch + jnp.where(in_graph, 0.5 * (policy.graph_step - 1.0), 0.0)


def _step_time(
    price: Price, demand: Demand, prefill: Prefill, prompts: Scalar, decoding: Scalar, rows: Scalar
) -> Array:
    """Time in s of one step, device and host.

    Args:
      prompts: that are worked on, in number; a prompt in several steps is a part of one in each.
      decoding: sequences.
      rows: of the step's GEMMs.
    """
    work = Batch(
        prefill=prefill,
        decode=Decode(sequences=decoding, context=decoding * demand.context),
        # Every decoding sequence and every completed prompt samples one token.
        logits=decoding + prompts,
        encode=mapped(lambda each: prompts * each, demand.encode),
    )
    device, host = price(work, rows)
    return device + host


def whole_steps(parts: Scalar, evenness: Scalar) -> Array:
    """Steps that a prompt takes, mean of a whole number, where a step has room for a part of it.

    1 + sum over k of the share of prompts that are longer than k steps' room; lengths are lognormal. The last part of a
    prompt takes a step of its own, however short it is.

    Args:
      parts: mean prompt over the room of a step.
      evenness: as of `Demand`.
    """
    # Lengths are lognormal: mean^2 / mean of squares = e^(-spread^2).
    spread = jnp.maximum(jnp.sqrt(jnp.log(1.0 / jnp.minimum(evenness, 1.0))), SHARPEST)
    # Median below the mean; a length at exactly k rooms counts as k steps.
    middle = jnp.log(parts) - 0.5 * spread**2 - 4.0 * SHARPEST
    longer = sum(normal_share((middle - math.log(k)) / spread) for k in range(1, CHUNKS))
    return jnp.where(parts < CHUNKS - 1.0, 1.0 + longer, parts + 0.5)


def steady_state(
    times: StepTimes, slope: Scalar, demand: Demand, delay: Scalar, batch: Scalar, most: Scalar
) -> SteadyState:
    """Load and latencies where `batch` sequences decode on average and requests arrive as a Poisson stream.

    a = batch / (output - 1) prompts enter per step: their number is Poisson. The step is on average

        T = decode + (1 - e^-a) first + (a - 1 + e^-a) further,      load = a / T

    TPOT is T; its spread is that of the requests that arrive while one is decoded: each adds its prompt's time and,
    as long as it decodes, the slope of a step in the batch. TTFT is the rest of the step under way, the wait for room
    (M/D/n), and the step, or steps, with the prompt. Sequences under way are a Poisson number; where more would run
    than may, requests wait for one to end, as in a queue of many servers.

    Args:
      times: at `batch`.
      slope: s that a step without prompts gains per decoding sequence.
      delay: s from a request to its place in the queue.
      most: sequences that may run at once.

    Source: ours; Little, Operations Research 9(3), 1961; Sakasegawa, Annals of the Institute of Statistical Mathematics
    29(1), 1977, for the wait for one of several servers; Halfin & Whitt, Operations Research 29(3), 1981, for the share
    that waits for one of many.
    """
    steps = jnp.maximum(demand.output - 1.0, LEAST_STEPS)
    decoding = _decoding(times, slope, demand, batch, most, steps)
    # Little's law per step: of B sequences with n steps each B / n end per step, and as many begin.
    flow = _flow(times, decoding.under_way / steps)
    varied, jumps, jump = _tpot_variances(slope, demand, decoding, flow, steps)

    # s by which a first token is later, or earlier, with one standard deviation more, or fewer, sequences.
    occupied = 1.0 - jnp.exp(-decoding.under_way)  # share of the time in which a step is under way
    slow = slope * decoding.spread * (0.5 + times.steps)
    ttft, ttft_variance, use = _ttft(times, demand, delay, flow, occupied, slow)
    alone, alone_variance = _ttft_alone(times, demand, delay, occupied, slow)
    return SteadyState(
        batch=batch,
        under_way=decoding.under_way,
        load=flow.load,
        step=flow.step,
        use=use,
        ttft=ttft,
        ttft_spread=jnp.sqrt(ttft_variance),
        # Requests arrive in proportion to time, so a step with prompts, which is longer, is met more often.
        meets=jnp.clip(1.0 - jnp.exp(-flow.entering) * times.decode / flow.step, 1e-6, 1.0),
        ttft_alone=alone,
        ttft_alone_spread=jnp.sqrt(alone_variance),
        tpot=flow.step,
        tpot_varied=jnp.sqrt(varied),
        tpot_jumps=jnp.sqrt(jumps),
        tpot_jump=jump,
        even=jnp.where(demand.briefness / demand.evenness < ALIKE, jumps / jnp.maximum(jumps + varied, 1e-30), 0.0),
        briefness=demand.briefness,
        held_back=decoding.waits,
        wait=decoding.wait,
        decode_steps=steps,
        output_evenness=demand.output_evenness,
    )


class _Flow(NamedTuple):
    """Prompts that enter an engine's steps."""

    entering: Array  # per step, mean of a Poisson number
    step: Array  # s, mean
    load: Array  # requests/s
    added: Array  # s that one more prompt adds to a step
    busy: Array  # share of the time that prompts take, at most `BUSIEST`


def _flow(times: StepTimes, entering: Scalar) -> _Flow:
    """T = decode + (1 - e^-a) first + (a - 1 + e^-a) further, load = a / T, dT/da, where a prompts enter per step."""
    # P(no prompt) = e^-a: only then is the step a pure decode step.
    none = jnp.exp(-entering)
    step = times.decode + (1.0 - none) * times.first + (entering - 1.0 + none) * times.further
    # One more prompt adds `first` where there is none and `further` where others are.
    load, added = entering / step, none * times.first + (1.0 - none) * times.further
    return _Flow(entering, step, load, added, jnp.clip(load * added, 0.0, BUSIEST))


class _Decoding(NamedTuple):
    """Sequences that decode at once."""

    under_way: Array  # mean over time
    spread: Array  # standard deviation
    gain: Array  # relative change of the step's time, over the relative change of the sequences that makes it
    waits: Array  # share of requests that find no room
    wait: Array  # s that those wait


def _decoding(times: StepTimes, slope: Scalar, demand: Demand, batch: Scalar, most: Scalar, steps: Scalar) -> _Decoding:
    """The number of sequences over time, where each finds `batch` on average, itself among them.

    Their number is Poisson, of variance B. It varies more where a step that is longer keeps sequences longer:

        variance / B = (1 + (busy / (1 - busy))^2 / evenness) / (1 - gain)

    the first factor by prompts that come in a row, the second by the sequences themselves.
    """
    flow = _flow(times, (batch - 1.0) / steps)
    # Feedback: more sequences, longer steps, longer stays, more sequences. A loop gain below 1 is stable; at most 0.9
    # here.
    gain = jnp.clip(batch * slope / (flow.step * (1.0 - flow.busy)), 0.0, 0.9)
    uneven = (1.0 + (flow.busy / (1.0 - flow.busy)) ** 2 / demand.evenness) / (1.0 - gain)  # variance over mean
    spread = jnp.sqrt(batch * uneven)

    # Halfin and Whitt: share = 1 / (1 + b N(b) / n(b)), with the room b above the mean in standard deviations.
    # Erlang-C in the limit of many servers: square-root staffing.
    room = jnp.maximum(most - batch, 1e-3)
    beta = jnp.minimum(room / spread, 8.0)
    waits = jnp.where(most > batch, 1.0 / (1.0 + beta * normal_share(beta) / normal_density(beta)), 1.0)
    # Mean wait of those that wait, M/D/n: half of a service time over the servers that are free on average.
    wait = 0.5 * demand.briefness * steps * flow.step / room

    # A sequence finds more than the mean of all times, as it is there itself; not in a full batch, which does not vary.
    under_way = batch * (batch - 1.0 + waits) / (batch - 1.0 + waits + (1.0 - waits) * uneven)
    return _Decoding(under_way, spread, gain, waits, wait)


def _tpot_variances(
    slope: Scalar, demand: Demand, decoding: _Decoding, flow: _Flow, steps: Scalar
) -> tuple[Array, Array, Array]:
    """Variance of TPOT by sequences that decode beside a request, and by prompts, in s^2; s that one prompt adds.

    Each arrival of the time before and while a request decodes adds to its steps what its prompt takes, and `slope` as
    long as it decodes itself. Prompts make the decoding longer, by 1 / (1 - busy), in which more prompts come.
    """
    # A sequence that decodes beside another one slows each step by `slope`, as long as both are there.
    grown = slope * steps
    jump = flow.added / demand.evenness / (1.0 - flow.busy) ** 2 / steps
    by_sequences = 2.0 / 3.0 * grown**2 + grown * flow.added
    # Variance of a mean over the request's steps; nothing varies where the batch is full.
    varied = (1.0 - decoding.waits) * decoding.under_way * by_sequences / (1.0 - decoding.gain) / steps**2
    jumps = decoding.under_way * jump * flow.added / steps / (1.0 - decoding.gain)
    return varied, jumps, jump


def _ttft(
    times: StepTimes, demand: Demand, delay: Scalar, flow: _Flow, occupied: Scalar, slow: Scalar
) -> tuple[Array, Array, Array]:
    """TTFT without the wait of those that are held back, in s; its variance, in s^2; and the use of room for prompts.

    It is the delay, the rest of the step under way, the queue for room in a step, and the steps of the prompt itself.

    Args:
      occupied: share of the time in which a step is under way.
      slow: s, standard deviation by the number of sequences that decode.
    """
    # The step that an arrival meets is longer than the mean, as longer ones are met in proportion to their length:
    # E[T^2] / E[T]. A half of it is left.
    second, third = _step_moments(times.decode, flow.added, flow.entering, demand.evenness, flow.busy)
    met, met_variance = second / flow.step, third / flow.step - (second / flow.step) ** 2
    rest = 0.5 * met * occupied
    # Uniform position within the step: E[rest^2] = E[T^3] / (3 E[T]).
    rest_variance = occupied * third / flow.step / 3.0 - rest**2

    # The queue of n servers, the prompts that a step has room for, by Sakasegawa: u^sqrt(2 (n + 1)) s / (2 (1 - u)).
    use, servers = flow.load * times.filled / times.full, jnp.maximum(times.full, 1.0)
    taken, service = jnp.clip(use, 0.0, FULLEST), times.filled / times.full
    wait = taken ** jnp.sqrt(2.0 * (servers + 1.0)) * service / (2.0 * (1.0 - taken))
    wait_variance = wait * service / (1.0 - taken)

    # The prompt's own steps, and the prompts that came during the same step: a long one has many.
    others = jnp.minimum(flow.load * met, servers - 1.0)
    others_variance = others + flow.load**2 * met_variance
    own = times.decode * times.steps + times.first + others * times.further
    variance = (
        rest_variance
        + wait_variance
        # Variances of independent parts add; the term of `flow.load` is their covariance.
        + times.first**2 * (1.0 / demand.evenness - 1.0)
        + times.further**2 * (others_variance + others * (1.0 / demand.evenness - 1.0))
        + times.further * flow.load * met_variance  # a longer step has more arrivals, and a longer rest
        + slow**2
    )
    return delay + rest + wait + own, variance, use


def _ttft_alone(times: StepTimes, demand: Demand, delay: Scalar, occupied: Scalar, slow: Scalar) -> tuple[Array, Array]:
    """TTFT in s, and its variance in s^2, of those that meet no prompt: they wait for a step that only decodes.

    The rest of that step is uniform from 0 to its length d: its mean is d / 2, the mean of its squares d^2 / 3.
    """
    alone = delay + 0.5 * times.decode * occupied + times.decode * times.steps + times.first
    variance = (
        times.decode**2 * (occupied / 3.0 - 0.25 * occupied**2)
        + times.first**2 * (1.0 / demand.evenness - 1.0)
        + slow**2
    )
    return alone, variance


def _step_moments(fixed: Scalar, each: Scalar, mean: Scalar, evenness: Scalar, busy: Scalar) -> tuple[Array, Array]:
    """Second and third moment of a step: `fixed`, and a number of prompts, of this mean, that are `each` on average.

    Squares of prompts are each^2 / evenness on average, cubes each^3 / evenness^3, as of a lognormal distribution.
    The number is Poisson for the length of the step before, of which prompts are the share `busy`. So its variance is v
    = 1 + busy^2 v times its mean, and its third cumulant w = 1 + 3 busy^2 v + busy^3 w times.
    """
    # A branching process: prompts that come during a step are served in the next one, which is longer for them.
    second = 1.0 / (1.0 - busy**2)
    third = (1.0 + 3.0 * busy**2 * second) / (1.0 - busy**3)
    square, cube = each**2 / evenness * second, (each / evenness) ** 3 * third
    first = mean * each
    # Moments of a compound Poisson sum from its cumulants.
    second = mean * square + first**2
    third = mean * cube + 3.0 * first * mean * square + first**3
    return fixed**2 + 2.0 * fixed * first + second, fixed**3 + 3.0 * fixed**2 * first + 3.0 * fixed * second + third
