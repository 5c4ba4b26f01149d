"""Prices of one engine's steps: tables over most of what a step depends on, formulas for the rest."""

import functools
from collections.abc import Callable

from jaxroof.arrays import jax
from jaxroof.arrays import jax_numpy as jnp
from jaxroof.batch import Batch, Prefill, divided
from jaxroof.deployment import Deployment, degree, drafted_tokens, largest_stage, pipelined_parts
from jaxroof.efficiency import Efficiency
from jaxroof.energy import limited_time, power_known
from jaxroof.hardware import Hardware
from jaxroof.memory import layer_count
from jaxroof.model import Model
from jaxroof.price_tables import CONTEXT, DECODE, LOGITS, ROWS, Limits, Parts, StepPrices, price_tables
from jaxroof.smooth import maximum, minimum
from jaxroof.speculation import expected_tokens
from jaxroof.struct import Array, Scalar
from jaxroof.tree import mapped

ONE_BITS, MANTISSA = 127 << 23, 2.0**23
"""Bits of the float32 1.0, and how many an octave has: IEEE 754."""

Price = Callable[[Batch, Scalar], tuple[Array, Array]]
"""Time in s of a step on the device, and what its host adds, of a batch and the rows of its GEMMs."""


def step_prices(
    hardware: Hardware,
    model: Model,
    deployment: Deployment,
    efficiency: Efficiency,
    limits: Limits,
    acceptance: Scalar = 0.0,
    hidden_host: Scalar = 0.0,
    tables: StepPrices | None = None,
) -> tuple[StepPrices, Price]:
    """Tables of one engine's steps, and the function that reads them.

    Ops that depend on the number of tokens alone, as every GEMM and collective does, are in a table over it; decode
    attention is in one over sequences and mean context; the head and the sampler in one over sampled rows. What
    depends on prompts' lengths, as prefill attention does, is computed where it is asked for. Which op belongs where
    is read off the traced cost model. Energy is tabulated like time, and the time of a whole step is the one under
    the limit of electrical power: `limited_time`.

    The function takes a `Batch` of numbers, whose parts may have no tokens but are there, and the rows of its GEMMs.
    With pipeline stages as many micro-batches as stages are under way, or one per sequence where these are fewer, and
    a step is the time from one step of a micro-batch to its next.

    With drafted tokens a step of the scheduler adds one token to every sequence, as without them, and takes its share
    of a step that adds several: `_share_of_drafting_step`.

    Args:
      acceptance: probability that a drafted token is right, given that those before it are.
      hidden_host: 1 where the host's work for every sequence runs beside the device, `visible_host_time`; 0: after it.
      tables: where they are known already; None: they are computed.

    Returns:
      The tables, and `price(batch, rows) -> (device time, host time)` in s, shapes (): the step takes their sum. Both
      are differentiable in every leaf of hardware, model, deployment and efficiency.

    Raises:
      ValueError: one line, for what a scheduler cannot price: context parallelism, and a model that does not generate.
    """
    parts = Parts(hardware, model, deployment, efficiency)
    tables = mapped(jnp.asarray, price_tables(parts, deployment, limits) if tables is None else tables)
    micro_batch = functools.partial(_micro_batch_price, tables, parts)
    overlap = efficiency.host.step_time, hidden_host
    price = functools.partial(_step_price, micro_batch, hardware, model, deployment, overlap)
    if deployment.drafts is None:
        return tables, price
    kept = expected_tokens(deployment, acceptance)
    return tables, functools.partial(_share_of_drafting_step, price, drafted_tokens(deployment), kept)


def _share_of_drafting_step(
    price: Price, drafted: Scalar, kept: Scalar, batch: Batch, rows: Scalar
) -> tuple[Array, Array]:
    """Time in s that one token of every sequence and all prompt tokens of a step take, on the device and its host.

    A step with `drafted` tokens per sequence adds `kept` to each on average: one of them takes 1 / kept of the step's
    time without its prompts, and the prompts what they add to it. Exact in the mean over many steps; that tokens come
    several at a time, and to each sequence in its own number, is left out.

    Source: ours.
    """
    decoding = batch.decode
    nothing = jnp.zeros_like(decoding.sequences)
    further = drafted * decoding.sequences
    alone = Batch(
        prefill=Prefill(sequences=nothing, tokens=nothing, past=nothing), decode=decoding, logits=decoding.sequences
    )
    whole, without = price(batch, rows + further), price(alone, decoding.sequences + further)
    spared = jnp.where(decoding.sequences > 0, 1.0 - 1.0 / kept, 0.0)
    device, host = (time - spared * other for time, other in zip(whole, without, strict=True))
    return device, host


def _step_price(
    micro_batch: Callable[[Batch, Scalar], tuple[Array, Array]],
    hardware: Hardware,
    model: Model,
    deployment: Deployment,
    overlap: tuple[Scalar, Scalar],
    batch: Batch,
    rows: Scalar,
) -> tuple[Array, Array]:
    """Time in s of a step of all micro-batches on the device, under the limit of its power, and what the host adds.

    Args:
      micro_batch: from a batch and its rows to time and energy of one micro-batch in all stages, and the host's time.
      overlap: s of the host per step of a micro-batch, whatever is in it, and `hidden_host`.
    """
    per_step, hidden_host = overlap
    if deployment.pp is None:
        spent, host = micro_batch(batch, rows)
        parts = 1.0
    else:
        parts = pipelined_parts(deployment, maximum(batch.prefill.sequences + batch.decode.sequences, 1.0))
        spent, host = micro_batch(divided(batch, parts), rows / parts)
        laps = maximum(parts * largest_stage(deployment, layer_count(model)), 1.0)
        spent, host, per_step = spent.at[0].multiply(laps), host * laps, per_step * laps
    device = spent[0]
    visible = visible_host_time(device, per_step, host - per_step, hidden_host)
    if not power_known(hardware):
        return device, visible
    energy = spent[1] * (parts / degree(deployment.pp))
    return limited_time(device + visible, energy, hardware) - visible, visible


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
    return jnp.asarray(per_step + of_sequences - hidden_host * minimum(of_sequences, device), dtype=float)


def _micro_batch_price(tables: StepPrices, parts: Parts, batch: Batch, rows: Scalar) -> tuple[Array, Array]:
    """Cost of one micro-batch's step in all stages, shape [quantities], and s of its host, shape ()."""
    prompt, decoding = batch.prefill, batch.decode
    spent = _between(*_read(tables.rows, octave_position(rows, ROWS)))
    some = decoding.sequences > 0
    sequences = jnp.where(some, decoding.sequences, 1.0)
    attention = _read_cell(tables.decode, octave_position(sequences, DECODE), decoding.context / sequences)
    spent = spent + jnp.where(some, attention, 0.0)
    sampled = _between(*_read(tables.logits, octave_position(batch.logits, LOGITS)))
    # Of micro-batches of which some sample no token, those pass without the head.
    spent = spent + sampled[:-1] * jnp.minimum(batch.logits, 1.0)
    if parts.has("prompt"):
        work = prompt.tokens > 0
        lengths = tuple(
            jnp.where(work, length, least)
            for length, least in ((prompt.sequences, 1.0), (prompt.tokens, 1.0), (prompt.past, 0.0))
        )
        spent = spent + jnp.where(work, parts.sums("prompt", prompt=lengths, rows=rows), 0.0)
    if parts.has("all"):
        lengths = prompt.sequences, prompt.tokens, prompt.past
        context = decoding.sequences, decoding.context
        spent = spent + parts.sums("all", prompt=lengths, decoding=context, logits=batch.logits, rows=rows)
    return spent, sampled[-1]


def octave_position(value: Scalar, per_octave: int) -> Array:
    """Position of `value` among `octaves`, shape (): whole numbers are nodes; values below 1 are at 1.

    The bits of a float32 are exponent and mantissa, in that order: read as a whole number, they are the position.
    """
    return (_bits(value) - ONE_BITS).astype(float) * (per_octave / MANTISSA)


def _bits(value: Scalar) -> Array:
    return jax.lax.bitcast_convert_type(jnp.maximum(value, 1.0).astype(jnp.float32), jnp.int32)


def next_node(context: Scalar) -> Array:
    """The node of the tables' mean context that comes after `context`, shape ()."""
    step = int(MANTISSA) // CONTEXT
    return jax.lax.bitcast_convert_type((_bits(context) // step + 1) * step, jnp.float32).astype(float)


def _read(table: Array, position: Array) -> tuple[Array, Array]:
    """The interval of a table that has `position`, shape [2, quantities], and the place in it; beyond the last: 1."""
    below = jnp.clip(jnp.floor(position), 0.0, table.shape[0] - 1.0)
    return table[below.astype(jnp.int32)], jnp.clip(position - below, 0.0, 1.0)


def _between(ends: Array, share: Array) -> Array:
    return ends[0] * (1.0 - share) + ends[1] * share


def _read_cell(table: Array, first: Array, context: Array) -> Array:
    """The values of a table of cells, shape [quantities]."""
    second = octave_position(context, CONTEXT)
    low = jnp.clip(jnp.floor(first), 0.0, table.shape[0] - 1.0)
    left = jnp.clip(jnp.floor(second), 0.0, table.shape[1] - 1.0)
    down, right = jnp.clip(first - low, 0.0, 1.0), jnp.clip(second - left, 0.0, 1.0)
    corners = table[low.astype(jnp.int32), left.astype(jnp.int32)]
    return _between(corners[:2], right) * (1.0 - down) + _between(corners[2:], right) * down
