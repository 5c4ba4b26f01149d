"""Price of one engine's step from that of a micro-batch: pipeline stages, electrical power, drafted tokens."""

import dataclasses
import functools
from collections.abc import Callable, Sequence

from jaxroof.batch import Batch, Encode, Prefill, divided, prompts_and_decoding
from jaxroof.deployment import Deployment, degree, drafted_tokens, largest_stage, pipelined_parts
from jaxroof.deployment.speculation import Acceptance, accepted, drafting, expected_tokens, matched
from jaxroof.efficiency import Efficiency
from jaxroof.energy.energy import Joules
from jaxroof.energy.governor import PowerLimit, limited_energy, power_limit, time_within
from jaxroof.hardware import Hardware, on_host
from jaxroof.memory.capacity import layer_count
from jaxroof.model import Model
from jaxroof.numerics.arrays import bits, entry, jnp
from jaxroof.numerics.smooth import maximum, minimum
from jaxroof.numerics.struct import Array, Scalar, given
from jaxroof.numerics.tree import mapped
from jaxroof.prices.tables import CONTEXT, DECODE, LOGITS, ROWS, Limits, Parts, StepPrices, price_tables

MicroBatch = Callable[[Batch, Scalar], tuple[Array, Array]]
"""Cost of a micro-batch in all stages, shape [..., quantities], and s of its host: of a batch and rows of its GEMMs."""

Price = Callable[[Batch, Scalar], tuple[Array, Array]]
"""Time in s of a step on the device, and what its host adds, of a batch and the rows of its GEMMs."""


def step_price(
    micro_batch: MicroBatch,
    hardware: Hardware,
    model: Model,
    deployment: Deployment,
    overlap: tuple[Scalar, Scalar],
    acceptance: Acceptance = 0.0,
    others: Sequence[tuple[float, MicroBatch]] = (),
) -> Price:
    """The function that prices a whole step, which takes the sum of both times.

    With pipeline stages as many micro-batches as stages are under way, or one per sequence where these are fewer, and
    a step is the time from one step of a micro-batch to its next. The time is the one under the limit of electrical
    power: `limited_time`. With drafted tokens a step adds one token to every sequence, as without them, and takes its
    share of a step that adds several: `_share_of_drafting_step`. Where the batch says how many tokens are drafted
    (`Decode.drafted`), it takes the time of the whole step: `_drafting_step`.

    Args:
      micro_batch: its cost, for example from tables (`jaxroof.prices.prices`).
      overlap: s of the host per step of a micro-batch, whatever is in it, and 1 where its work for every sequence runs
        beside the device, 0 where after it: `visible_host_time`.
      acceptance: probability that a drafted token is right, given that those before it are.
      others: drafts per sequence, increasing, and cost of a micro-batch of a step with so many; where there are none,
        every step drafts what the deployment does.
    """

    def price(micro_batch: MicroBatch) -> Price:
        return functools.partial(_step_price, micro_batch, power_limit(hardware), model, deployment, overlap)

    # Drafting changes what a step yields, not what it costs: it is wrapped around the price of a plain step.
    priced = [(drafted_tokens(drafting(deployment, each)), price(other)) for each, other in others]
    return _of_one_token(price(micro_batch), deployment, acceptance, priced)


def step_energy(
    micro_batch: MicroBatch,
    hardware: Hardware,
    model: Model,
    deployment: Deployment,
    overlap: tuple[Scalar, Scalar],
    acceptance: Acceptance = 0.0,
) -> Price:
    """The function that gives a step's energy in J on one device beside static power, and 0; arguments as `step_price`.

    Under the limit of electrical power: `jaxroof.energy.governor.limited_energy`. Needs hardware of which
    `power_known`.
    """

    def energy(batch: Batch, rows: Scalar) -> tuple[Array, Array]:
        device, visible, spent = _unlimited(micro_batch, model, deployment, overlap, batch, rows)
        joules = limited_energy(device + visible, _joules(spent), hardware)
        return joules, jnp.zeros_like(joules)

    return _of_one_token(energy, deployment, acceptance)


def _of_one_token(
    price: Price, deployment: Deployment, acceptance: Acceptance, others: Sequence[tuple[Scalar, Price]] = ()
) -> Price:
    """The price of a step that adds one token to every sequence, where a step with drafts adds several.

    Of a batch that says how many tokens it drafts it is that of the whole step.
    """
    if deployment.drafts is None:
        return price

    def of(batch: Batch, rows: Scalar) -> tuple[Array, Array]:
        decoding = given(batch.decode, "decode part of the step")
        if decoding.drafted is None:
            sequences = jnp.where(decoding.sequences > 0.0, decoding.sequences, 1.0)
            right = accepted(acceptance, decoding.sequences, decoding.context / sequences)
            expected = expected_tokens(deployment, right)
            return _share_of_drafting_step(price, drafted_tokens(deployment), expected, batch, rows)
        alike = dataclasses.replace(batch, decode=dataclasses.replace(decoding, drafted=None))
        prices = [*others, (drafted_tokens(matched(deployment)), price)]
        return _drafting_step(prices, alike, rows, decoding.drafted)

    return of


def _drafting_step(
    prices: Sequence[tuple[Scalar, Price]], batch: Batch, rows: Scalar, drafted: Scalar
) -> tuple[Array, Array]:
    """Time in s of a step that verifies `drafted` more tokens of every decoding sequence, on the device and its host.

    It is that of steps with as many, or linear between those with fewer and with more, where the mean of all sequences
    is no whole number. The rows of GEMMs are the step's own in any case.

    Args:
      prices: of steps that verify so many more tokens of every sequence, increasing; of one alone all steps do.
    """
    sequences = given(batch.decode, "decode part of the step").sequences
    most, price = prices[-1]
    if len(prices) == 1:
        return price(batch, rows + most * sequences)
    # The drafting model works on prompts in any case.
    drafted = jnp.where(sequences > 0.0, drafted, most)
    times = [(verified, each(batch, rows + drafted * sequences)) for verified, each in prices]
    below, (device, host) = times[0]
    for above, longer in times[1:]:
        # 0 up to the fewer drafts, 1 from the more ones on; a deployment may draft less than other steps would.
        width = jnp.where(above > below, above - below, 1.0)
        share = jnp.where(
            above > below, jnp.clip((drafted - below) / width, 0.0, 1.0), jnp.where(drafted >= above, 1.0, 0.0)
        )
        device, host = (one * (1.0 - share) + other * share for one, other in zip((device, host), longer, strict=True))
        below = above
    return device, host


def _share_of_drafting_step(
    price: Price, drafted: Scalar, kept: Scalar, batch: Batch, rows: Scalar
) -> tuple[Array, Array]:
    """Time in s that one token of every sequence and all prompt tokens of a step take, on the device and its host.

    A step with `drafted` tokens per sequence adds `kept` to each on average: one of them takes 1 / kept of the step's
    time without its prompts, and the prompts what they add to it. Exact in the mean over many steps; that tokens come
    several at a time, and to each sequence in its own number, is left out.

    Source: ours.
    """
    decoding = given(batch.decode, "decode part of the step")
    # Zero tokens, not None: the structure of the batch must not depend on numbers.
    nothing = jnp.zeros_like(decoding.sequences)
    further = drafted * decoding.sequences
    alone = Batch(
        prefill=Prefill(sequences=nothing, tokens=nothing, past=nothing), decode=decoding, logits=decoding.sequences
    )
    # Two prices, with prompts and without: the difference is what the prompts add.
    with_prompts, without = price(batch, rows + further), price(alone, decoding.sequences + further)
    # A drafting step yields `kept` tokens per sequence, and a caller counts one: the decode part counts 1 / kept.
    spared = jnp.where(decoding.sequences > 0, 1.0 - 1.0 / kept, 0.0)
    device, host = (time - spared * other for time, other in zip(with_prompts, without, strict=True))
    return device, host


def _step_price(
    micro_batch: MicroBatch,
    limit: PowerLimit | None,
    model: Model,
    deployment: Deployment,
    overlap: tuple[Scalar, Scalar],
    batch: Batch,
    rows: Scalar,
) -> tuple[Array, Array]:
    """Time in s of a step of all micro-batches on the device, under the limit of its power, and what the host adds."""
    device, visible, spent = _unlimited(micro_batch, model, deployment, overlap, batch, rows)
    if limit is None:
        return device, visible
    # Power is averaged over device and host time together: idle time of the device counts as rest.
    return time_within(limit, device + visible, _joules(spent)) - visible, visible


def _unlimited(
    micro_batch: MicroBatch,
    model: Model,
    deployment: Deployment,
    overlap: tuple[Scalar, Scalar],
    batch: Batch,
    rows: Scalar,
) -> tuple[Array, Array, Array]:
    """Time in s of a step of all micro-batches at full clock, what the host adds, and one device's other quantities."""
    per_step, hidden_host = overlap
    if deployment.pp is None:
        spent, host = micro_batch(batch, rows)
        device, each = spent[..., 0], 1.0
    else:
        prompts, decoding = prompts_and_decoding(batch)
        # Continuous pipeline: p micro-batches in flight, so that every stage has one at any time.
        parts = pipelined_parts(deployment, maximum(prompts.sequences + decoding.sequences, 1.0))
        spent, host = micro_batch(divided(batch, parts), rows / parts)
        # A round of all micro-batches passes the slowest stage one after the other, and takes at least one
        # micro-batch's way.
        laps = maximum(parts * largest_stage(deployment, layer_count(model)), 1.0)
        device, host, per_step = spent[..., 0] * laps, host * laps, per_step * laps
        # Energy of one device: 1 / pp of what all micro-batches take in all stages.
        each = jnp.asarray(parts / degree(deployment.pp))[..., None]
    visible = visible_host_time(device, per_step, host - per_step, hidden_host)
    return device, visible, spent[..., 1:] * each


def _joules(spent: Array) -> Joules:
    """Energy of a step from the quantities beside its time."""
    return Joules(spent[..., 0], spent[..., 1])


def visible_host_time(device: Scalar, per_step: Scalar, of_sequences: Scalar, hidden_host: Scalar) -> Array:
    """Time in s that the host adds to a step of `device` s, shape ().

    visible = per_step + of_sequences - hidden_host min(of_sequences, device)

    Engines that overlap sample, detokenise and schedule for the sequences of one step while the device works on the
    next: a step takes per_step + max(device, of_sequences). What is done once per step, such as launching it and
    reading its tokens, stays between two steps.

    Args:
      device: s of the kernels.
      per_step: s of the host whatever is in the step.
      of_sequences: s of the host for all sequences that sample a token.
      hidden_host: 1: overlapped; 0: one after the other.

    Source: TensorRT-LLM's overlap scheduler (nvidia.github.io/TensorRT-LLM/features/overlap-scheduler.html) and vLLM's
    asynchronous scheduling; that per_step stays visible is ours, from measured steps.
    """
    # Work per sequence hides behind the device as far as that is busy; launches stay on the critical path.
    return jnp.asarray(per_step + of_sequences - hidden_host * minimum(of_sequences, device), dtype=float)


# Prices of one engine's steps: tables over most of what a step depends on, formulas for the rest.


ONE_BITS, MANTISSA = 127 << 23, 2.0**23
"""Bits of the float32 1.0, and how many an octave has: IEEE 754."""


def step_prices(
    hardware: Hardware,
    model: Model,
    deployment: Deployment,
    efficiency: Efficiency,
    limits: Limits,
    acceptance: Acceptance = 0.0,
    hidden_host: Scalar = 0.0,
    tables: StepPrices | None = None,
    prompts: bool = True,
    encode: Encode | None = None,
    lengths: Sequence[float] = (),
) -> tuple[StepPrices, Price]:
    """Tables of one engine's steps, and the function that reads them.

    Ops that depend on the number of tokens alone, as every GEMM and collective does, are in a table over it; decode
    attention is in one over sequences and mean context; the head and the sampler in one over sampled rows; the encoder
    in one over the requests whose images it works on. What depends on prompts' lengths, as prefill attention does, is
    computed where it is asked for. Which op belongs where is read off the traced cost model. Energy is tabulated like
    time, and the time of a whole step is the one under the limit of electrical power: `limited_time`.

    The function takes a `Batch` of numbers, whose parts may have no tokens but are there, and the rows of its GEMMs.
    Pipeline stages and drafted tokens are as in `jaxroof.prices.prices`.

    Args:
      acceptance: probability that a drafted token is right, given that those before it are.
      hidden_host: 1 where the host's work for every sequence runs beside the device,
        `jaxroof.prices.prices.visible_host_time`; 0: after it.
      tables: where they are known already; None: they are computed.
      prompts: False: batches have none, and nothing that depends on their lengths is traced.
      encode: of every request, of which a batch with `encode` has some; None: no batch has.
      lengths: numbers of drafts, increasing, of steps that draft fewer tokens than the deployment, where it drafts
        some; of `tables` that are known they are read off.

    Returns:
      The tables, and `price(batch, rows) -> (device time, host time)` in s, shapes (): the step takes their sum. Both
      are differentiable in every leaf of hardware, model, deployment and efficiency.

    Raises:
      ValueError: one line, for a model that does not generate, which a scheduler cannot price.
    """
    every = matched(deployment)
    parts = Parts(hardware, model, every, efficiency)
    # Tables depend on the place alone and may be shared by many simulations.
    lengths = tables.lengths if tables is not None else lengths if deployment.drafts is not None else ()
    fewer = [drafting(deployment, each) for each in lengths]
    parts_of = [Parts(hardware, model, each, efficiency) for each in fewer]
    if tables is None:
        tables = price_tables(parts, every, limits, encode)
        if fewer:
            pairs = zip(parts_of, fewer, strict=True)
            others = tuple(price_tables(part, each, limits, encode) for part, each in pairs)
            tables = dataclasses.replace(tables, others=others, lengths=tuple(lengths))
    tables = mapped(jnp.asarray, tables)

    def micro_batch(tables: StepPrices, parts: Parts) -> MicroBatch:
        return functools.partial(_micro_batch_price, tables, parts, prompts, encode)

    priced = zip(lengths, map(micro_batch, tables.others or (), parts_of), strict=True)
    overlap = on_host(efficiency.host.step_time, hardware), hidden_host
    price = step_price(micro_batch(tables, parts), hardware, model, deployment, overlap, acceptance, list(priced))
    return tables, price


def _micro_batch_price(
    tables: StepPrices, parts: Parts, prompts: bool, encode: Encode | None, batch: Batch, rows: Scalar
) -> tuple[Array, Array]:
    """Cost of one micro-batch's step in all stages, shape [quantities], and s of its host, shape ()."""
    decoding, step_rows = given(batch.decode, "decode part of the step"), parts.rows(batch, rows)
    # GEMMs and collectives: one read of a table over rows, linear in between (nodes are dense, 128 per octave).
    spent = _between(*_read(tables.rows, rows, ROWS))
    # Context-parallel devices have a part of the prompts' rows in their layers, but experts see those of all.
    if tables.split is not None:
        spent = spent + _between(*_read(tables.split, step_rows.each, ROWS))
    some = decoding.sequences > 0
    # A division by zero sequences would be nan even where it is not selected.
    sequences = jnp.where(some, decoding.sequences, 1.0)
    # Attention of decoding depends on sequences and mean context: bilinear in a cell of its table.
    attention = _read_cell(tables.decode, sequences, decoding.context / sequences)
    spent = spent + jnp.where(some, attention, 0.0)
    sampled = _between(*_read(tables.logits, batch.logits, LOGITS))
    # Of micro-batches of which some sample no token, those pass without the head.
    spent = spent + sampled[:-1] * jnp.minimum(batch.logits, 1.0)
    if batch.encode is not None:  # of micro-batches, too, some begin no prompt
        begun = batch.encode.tokens / given(encode, "encoder's work of a request").tokens
        spent = spent + _between(*_read(tables.encoder, begun, LOGITS)) * jnp.minimum(begun, 1.0)
    if not prompts:
        return spent, sampled[-1]
    prompt = given(batch.prefill, "prefill part of the step")
    if parts.has("prompt"):
        work = prompt.tokens > 0
        lengths = tuple(
            jnp.where(work, length, least)
            for length, least in ((prompt.sequences, 1.0), (prompt.tokens, 1.0), (prompt.past, 0.0))
        )
        # Prompts' attention depends on lengths in more ways than a table holds: the op is priced on the spot.
        spent = spent + jnp.where(work, parts.sums("prompt", prompt=lengths, rows=step_rows), 0.0)
    # Ops of several dependences at once, such as overlap's saved time, have no table at all.
    if parts.has("all"):
        lengths = prompt.sequences, prompt.tokens, prompt.past
        context = decoding.sequences, decoding.context
        spent = spent + parts.sums("all", prompt=lengths, decoding=context, logits=batch.logits, rows=step_rows)
    return spent, sampled[-1]


def octave_interval(value: Scalar, per_octave: int, intervals: int) -> tuple[Array, Array]:
    """The interval of `octaves` that has `value`, and the place in it, shapes (): whole numbers are nodes.

    Values below 1 are at 1, those beyond the last interval at its end. The bits of a float32 are exponent and mantissa,
    in that order: read as a whole number, they are the position.
    """
    step = int(MANTISSA) // per_octave
    # IEEE 754: bits of a positive float, as a whole number, grow like its logarithm, linear between powers of two. So
    # the lookup needs no log.
    position = _bits(value) - ONE_BITS
    below = jnp.minimum(jnp.right_shift(position, step.bit_length() - 1), intervals - 1)
    return below, jnp.minimum((position - below * step).astype(float) * (1.0 / step), 1.0)


def _bits(value: Scalar) -> Array:
    return bits(jnp.asarray(jnp.maximum(value, 1.0), jnp.float32), jnp.int32)


def next_node(context: Scalar) -> Array:
    """The node of the tables' mean context that comes after `context`, shape ()."""
    step = int(MANTISSA) // CONTEXT
    # Bits shifted right and left again: the next node's float, without rounding errors.
    nodes = jnp.right_shift(_bits(context), step.bit_length() - 1)
    return bits((nodes + 1) * step, jnp.float32).astype(float)


def _read(table: Array, value: Scalar, per_octave: int) -> tuple[Array, Array]:
    """Both ends of the interval of a table that has `value`, shape [2, quantities], and the place in it."""
    # One gather fetches both ends of the interval.
    below, share = octave_interval(value, per_octave, table.shape[0])
    return entry(table, below), share


def _between(ends: Array, share: Array) -> Array:
    return ends[0] * (1.0 - share) + ends[1] * share


def _read_cell(table: Array, sequences: Scalar, context: Scalar) -> Array:
    """The values of a table of cells, shape [quantities]."""
    left, right = octave_interval(context, CONTEXT, table.shape[0])
    low, down = octave_interval(sequences, DECODE, table.shape[1])
    corners = entry(table, left, low)
    return _between(corners[:2], right) * (1.0 - down) + _between(corners[2:], right) * down
