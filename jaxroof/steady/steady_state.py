"""Steady state of an engine that batches continuously, in closed form: load, latencies and their spread.

An engine that decodes B sequences at once completes B / (output - 1) of them per step, and as many prompts enter. So
the mean step, the load and every latency follow from B without a simulation.
"""

import math

from jaxroof.batch import ORDERS, Batch, Decode, Encode, Policy, Prefill
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.struct import Array, Scalar, struct
from jaxroof.numerics.tree import mapped
from jaxroof.prices.prices import Price

LEAST_STEPS = 0.5
"""Decode steps of a request at least: one of a single output token has none."""

ALIKE = 1.0 + 1e-9
"""Unevenness of lengths up to which all are equal."""

BUSIEST = 0.9
"""Share of the time that prompts take, at most, in what they do to each other's number."""

LENGTHS = (-2.85697, -1.35563, 0.0, 1.35563, 2.85697), (0.011257, 0.222076, 0.533333, 0.222076, 0.011257)
"""Standard deviations from the middle of a normal distribution, and their weights: Gauss-Hermite quadrature."""

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
    room = jnp.maximum(policy.token_budget - jnp.where(mixed, batch, 0.0), 1.0)
    part = jnp.where(chunked, jnp.minimum(prompt, room), prompt)
    most = jnp.where(chunked, jnp.maximum(room, part), jnp.maximum(jnp.floor(room / prompt), 1.0) * prompt)

    def time(tokens: Scalar, decoding: Scalar, rows: Scalar) -> Array:
        """s of a step with these prompt tokens and decoding sequences."""
        prompts = tokens / prompt
        chunks = jnp.where(part < prompt, 1.0, jnp.maximum(prompts, 1.0) * demand.evenness)
        past = demand.cached + 0.5 * jnp.maximum(prompt - tokens / chunks, 0.0)
        work = Batch(
            prefill=Prefill(sequences=chunks, tokens=tokens, past=jnp.where(tokens > 0, chunks * past, 0.0)),
            decode=Decode(sequences=decoding, context=decoding * demand.context),
            logits=decoding + prompts,
            encode=mapped(lambda each: prompts * each, demand.encode),  # of a prompt in several steps, a part in each
        )
        device, host = price(work, rows + tokens)
        return device + host

    # A decoding batch runs in a CUDA graph of the next larger size, half an interval larger on average.
    graph = (policy.graph_step > 0) & (batch > 4.0) & (batch <= policy.graph_limit)
    alone = time(jnp.zeros_like(prompt * batch), batch, batch + jnp.where(graph, 0.5 * (policy.graph_step - 1.0), 0.0))
    beside = jnp.where(mixed, batch, 0.0)
    base = jnp.where(mixed, alone, 0.0)
    one, all_of_them = time(part, beside, beside), time(most, beside, beside)
    parts = prompt / part
    first = (one - base) * parts
    more = most > part * (1.0 + 1e-9)
    further = jnp.where(more, (all_of_them - one) * prompt / jnp.where(more, most - part, 1.0), first)
    steps = jnp.where(chunked, whole_steps(prompt / room, demand.evenness), 1.0)
    return StepTimes(decode=alone, first=first, further=further, steps=steps, full=most / prompt, filled=all_of_them)


def whole_steps(parts: Scalar, evenness: Scalar) -> Array:
    """Steps that a prompt takes, mean of a whole number, where a step has room for a part of it.

    1 + sum over k of the share of prompts that are longer than k steps' room; lengths are lognormal. The last part of a
    prompt takes a step of its own, however short it is.

    Args:
      parts: mean prompt over the room of a step.
      evenness: as of `Demand`.
    """
    spread = jnp.maximum(jnp.sqrt(jnp.log(1.0 / jnp.minimum(evenness, 1.0))), SHARPEST)
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
    step, load, added = _rates(times, (batch - 1.0) / steps)

    # Sequences under way are Poisson; a slower step, and prompts that come in a row, keep them longer, which makes the
    # spread larger.
    busy = jnp.clip(load * added, 0.0, BUSIEST)
    gain = jnp.clip(batch * slope / (step * (1.0 - busy)), 0.0, 0.9)
    uneven = (1.0 + (busy / (1.0 - busy)) ** 2 / demand.evenness) / (1.0 - gain)  # variance over mean
    sequences_spread = jnp.sqrt(batch * uneven)

    # The room above the mean, in standard deviations; who finds none waits for a sequence to end.
    room = jnp.maximum(most - batch, 1e-3)
    far = jnp.minimum(room / sequences_spread, 8.0)
    waits = jnp.where(most > batch, 1.0 / (1.0 + far * normal_share(far) / _density(far)), 1.0)
    held = 0.5 * demand.briefness * steps * step / room

    # A sequence finds more than the mean of all times, as it is there itself; not in a full batch, which does not vary.
    under_way = batch * (batch - 1.0 + waits) / (batch - 1.0 + waits + (1.0 - waits) * uneven)
    entering = under_way / steps
    step, load, added = _rates(times, entering)
    busy = jnp.clip(load * added, 0.0, BUSIEST)

    # TPOT: arrivals of the time before and while a request decodes, by what each adds to its steps. Prompts make the
    # decoding longer, in which more prompts come.
    grown = slope * steps
    jump = added / demand.evenness / (1.0 - busy) ** 2 / steps
    varied = (1.0 - waits) * under_way * (2.0 / 3.0 * grown**2 + grown * added) / (1.0 - gain) / steps**2
    jumps = under_way * jump * added / steps / (1.0 - gain)

    # TTFT: the rest of the step under way, of which longer ones are met more often, in proportion to their length; the
    # queue for room; the steps with the prompt itself and with those that came during the same step. A step with many
    # prompts is long, so that many come for the next one.
    occupied = 1.0 - jnp.exp(-under_way)
    second, third = _step_moments(times.decode, added, entering, demand.evenness, busy)
    met, met_variance = second / step, third / step - (second / step) ** 2
    rest = 0.5 * met * occupied
    rest_variance = occupied * third / step / 3.0 - rest**2
    use, servers = load * times.filled / times.full, jnp.maximum(times.full, 1.0)
    taken, service = jnp.clip(use, 0.0, FULLEST), times.filled / times.full
    wait = taken ** jnp.sqrt(2.0 * (servers + 1.0)) * service / (2.0 * (1.0 - taken))
    wait_variance = wait * service / (1.0 - taken)
    others = jnp.minimum(load * met, servers - 1.0)
    others_variance = others + load**2 * met_variance
    own = times.decode * times.steps + times.first + others * times.further
    slow = slope * sequences_spread * (0.5 + times.steps)  # s by which it all is longer or shorter with the batch
    ttft_variance = (
        rest_variance
        + wait_variance
        + times.first**2 * (1.0 / demand.evenness - 1.0)
        + times.further**2 * (others_variance + others * (1.0 / demand.evenness - 1.0))
        + times.further * load * met_variance  # a longer step has more arrivals, and a longer rest
        + slow**2
    )

    # Who meets no prompt in the step under way waits for the rest of a step that only decodes.
    alone = delay + 0.5 * times.decode * occupied + times.decode * times.steps + times.first
    alone_variance = (
        times.decode**2 * (occupied / 3.0 - 0.25 * occupied**2)
        + times.first**2 * (1.0 / demand.evenness - 1.0)
        + slow**2
    )
    return SteadyState(
        batch=batch,
        under_way=under_way,
        load=load,
        step=step,
        use=use,
        ttft=delay + rest + wait + own,
        ttft_spread=jnp.sqrt(ttft_variance),
        meets=jnp.clip(1.0 - jnp.exp(-entering) * times.decode / step, 1e-6, 1.0),
        ttft_alone=alone,
        ttft_alone_spread=jnp.sqrt(alone_variance),
        tpot=step,
        tpot_varied=jnp.sqrt(varied),
        tpot_jumps=jnp.sqrt(jumps),
        tpot_jump=jump,
        even=jnp.where(demand.briefness / demand.evenness < ALIKE, jumps / jnp.maximum(jumps + varied, 1e-30), 0.0),
        briefness=demand.briefness,
        held_back=waits,
        wait=held,
        decode_steps=steps,
        output_evenness=demand.output_evenness,
    )


def _rates(times: StepTimes, entering: Scalar) -> tuple[Array, Array, Array]:
    """Mean step in s, load in requests/s, and s that one more prompt adds, where so many prompts enter per step."""
    none = jnp.exp(-entering)
    step = times.decode + (1.0 - none) * times.first + (entering - 1.0 + none) * times.further
    return step, entering / step, none * times.first + (1.0 - none) * times.further


def _step_moments(fixed: Scalar, each: Scalar, mean: Scalar, evenness: Scalar, busy: Scalar) -> tuple[Array, Array]:
    """Second and third moment of a step: `fixed`, and a number of prompts, of this mean, that are `each` on average.

    Squares of prompts are each^2 / evenness on average, cubes each^3 / evenness^3, as of a lognormal distribution.
    The number is Poisson for the length of the step before, of which prompts are the share `busy`. So its variance is v
    = 1 + busy^2 v times its mean, and its third cumulant w = 1 + 3 busy^2 v + busy^3 w times.
    """
    second = 1.0 / (1.0 - busy**2)
    third = (1.0 + 3.0 * busy**2 * second) / (1.0 - busy**3)
    square, cube = each**2 / evenness * second, (each / evenness) ** 3 * third
    first = mean * each
    second = mean * square + first**2
    third = mean * cube + 3.0 * first * mean * square + first**3
    return fixed**2 + 2.0 * fixed * first + second, fixed**3 + 3.0 * fixed**2 * first + 3.0 * fixed * second + third


def mean_ttft(state: SteadyState) -> Array:
    """Mean TTFT in s, with the wait of those that are held back."""
    return state.ttft + state.held_back * state.wait


def ttft_share(state: SteadyState, limit: Scalar) -> Array:
    """Share of requests whose TTFT is at most `limit` s: of those that meet other prompts, and of the others.

    The first have the mean and the spread that are left for them of all requests'.
    """
    more = jnp.maximum(state.ttft - state.ttft_alone, 1e-6 * state.ttft)
    square = jnp.maximum(state.ttft_spread**2 - state.ttft_alone_spread**2 + more**2, 0.0) / state.meets
    more = more / state.meets
    spread = jnp.sqrt(jnp.maximum(square - more**2, 1e-3 * more**2) + state.ttft_alone_spread**2)
    alone = gamma_share(limit, state.ttft_alone, state.ttft_alone_spread)
    kept = state.meets * gamma_share(limit, state.ttft_alone + more, spread) + (1.0 - state.meets) * alone
    slack = jnp.maximum(limit - state.ttft, 0.0) / state.wait
    return kept * (1.0 - state.held_back * jnp.exp(-slack))


def tpot_share(state: SteadyState, limit: Scalar) -> Array:
    """Share of requests whose TPOT is at most `limit` s.

    Outputs are lognormal, by five lengths. Each has the distribution of a Poisson number of equal jumps with the mean,
    the spread and the third moment of its TPOT. Where all lengths are equal the jumps are real: TPOT has no values
    between them.

    Source: ours; Gauss-Hermite quadrature for the lengths.
    """
    deviation = jnp.sqrt(jnp.log(jnp.maximum(state.briefness, 1.0)))
    share = 0.0
    for place, weight in zip(*LENGTHS, strict=True):
        length = jnp.exp(place * deviation - 0.5 * deviation**2)  # over the mean
        share = share + weight * _jumps_share(state, limit, length)
    return share


def _jumps_share(state: SteadyState, limit: Scalar, length: Scalar) -> Array:
    """Share of requests of one length, over the mean, whose TPOT is at most `limit` s."""
    jumps = state.tpot_jumps**2 / length
    variance = jnp.maximum(jumps + state.tpot_varied**2, 1e-30)
    jump = jnp.maximum(state.tpot_jump / length * jumps / variance, 1e-3 * jnp.sqrt(variance))
    number = variance / jump**2
    most = (limit - state.tpot) / jump + number  # jumps within the limit
    most = most - 0.5 + state.even * (jnp.floor(most + 1e-6) - most + 0.5)
    shape = jnp.maximum(most + 1.0, 0.25)
    return jnp.where(most > -0.5, 1.0 - gamma_share(number, shape, jnp.sqrt(shape)), 0.0)


def tpot_spread(state: SteadyState) -> Array:
    """Standard deviation of TPOT over requests, in s."""
    return jnp.sqrt(state.tpot_varied**2 + state.briefness * state.tpot_jumps**2)


def e2e_share(state: SteadyState, limit: Scalar) -> Array:
    """Share of requests whose end-to-end latency is at most `limit` s, of a gamma distribution."""
    waits = state.held_back * state.wait
    decoding = state.decode_steps * state.tpot
    mean = state.ttft + waits + decoding
    lengths = decoding**2 * (1.0 / jnp.asarray(state.output_evenness) - 1.0)
    spread = jnp.sqrt(state.ttft_spread**2 + waits**2 + (state.decode_steps * tpot_spread(state)) ** 2 + lengths)
    return gamma_share(limit, mean, spread)


def normal_share(distance: Scalar) -> Array:
    """Share of a normal distribution below `distance` standard deviations above its mean, to 0.0003.

    Source: Page, Applied Statistics 26(1), 1977: 1 / (1 + e^-2y), y = sqrt(2 / pi) (x + 0.044715 x^3).
    """
    y = math.sqrt(2.0 / math.pi) * (distance + 0.044715 * distance**3)
    return 0.5 * (1.0 + jnp.tanh(jnp.clip(y, -20.0, 20.0)))


def _density(distance: Scalar) -> Array:
    return jnp.exp(-0.5 * distance**2) / math.sqrt(2.0 * math.pi)


def gamma_share(value: Scalar, mean: Scalar, spread: Scalar) -> Array:
    """Share of a gamma distribution of this mean and standard deviation that lies below `value`.

    Source: Wilson & Hilferty, PNAS 17(12), 1931: the cube root is normal.
    """
    variation = (spread / mean) ** 2
    root = jnp.cbrt(jnp.maximum(value, 0.0) / mean)
    return normal_share((root - 1.0 + variation / 9.0) / jnp.sqrt(variation / 9.0))
