"""Prices of one engine's steps: tables over most of what a step depends on, formulas for the rest."""

import functools

from jaxroof.arrays import entry, jax
from jaxroof.arrays import jax_numpy as jnp
from jaxroof.batch import Batch, Encode
from jaxroof.deployment import Deployment
from jaxroof.efficiency import Efficiency
from jaxroof.hardware import Hardware
from jaxroof.model import Model
from jaxroof.price_tables import CONTEXT, DECODE, LOGITS, ROWS, Limits, Parts, StepPrices, price_tables
from jaxroof.step_price import Price, step_price
from jaxroof.struct import Array, Scalar
from jaxroof.tree import mapped

ONE_BITS, MANTISSA = 127 << 23, 2.0**23
"""Bits of the float32 1.0, and how many an octave has: IEEE 754."""


def step_prices(
    hardware: Hardware,
    model: Model,
    deployment: Deployment,
    efficiency: Efficiency,
    limits: Limits,
    acceptance: Scalar = 0.0,
    hidden_host: Scalar = 0.0,
    tables: StepPrices | None = None,
    prompts: bool = True,
    encode: Encode | None = None,
) -> tuple[StepPrices, Price]:
    """Tables of one engine's steps, and the function that reads them.

    Ops that depend on the number of tokens alone, as every GEMM and collective does, are in a table over it; decode
    attention is in one over sequences and mean context; the head and the sampler in one over sampled rows; the encoder
    in one over the requests whose images it works on. What depends on prompts' lengths, as prefill attention does, is
    computed where it is asked for. Which op belongs where is read off the traced cost model. Energy is tabulated like
    time, and the time of a whole step is the one under the limit of electrical power: `limited_time`.

    The function takes a `Batch` of numbers, whose parts may have no tokens but are there, and the rows of its GEMMs.
    Pipeline stages and drafted tokens are as in `jaxroof.step_price`.

    Args:
      acceptance: probability that a drafted token is right, given that those before it are.
      hidden_host: 1 where the host's work for every sequence runs beside the device,
        `jaxroof.step_price.visible_host_time`; 0: after it.
      tables: where they are known already; None: they are computed.
      prompts: False: batches have none, and nothing that depends on their lengths is traced.
      encode: of every request, of which a batch with `encode` has some; None: no batch has.

    Returns:
      The tables, and `price(batch, rows) -> (device time, host time)` in s, shapes (): the step takes their sum. Both
      are differentiable in every leaf of hardware, model, deployment and efficiency.

    Raises:
      ValueError: one line, for what a scheduler cannot price: context parallelism, and a model that does not generate.
    """
    parts = Parts(hardware, model, deployment, efficiency)
    made = price_tables(parts, deployment, limits, encode) if tables is None else tables
    tables = mapped(jnp.asarray, made)
    micro_batch = functools.partial(_micro_batch_price, tables, parts, prompts, encode)
    overlap = efficiency.host.step_time, hidden_host
    return tables, step_price(micro_batch, hardware, model, deployment, overlap, acceptance)


def _micro_batch_price(
    tables: StepPrices, parts: Parts, prompts: bool, encode: Encode | None, batch: Batch, rows: Scalar
) -> tuple[Array, Array]:
    """Cost of one micro-batch's step in all stages, shape [quantities], and s of its host, shape ()."""
    prompt, decoding = batch.prefill, batch.decode
    spent = _between(*_read(tables.rows, rows, ROWS))
    some = decoding.sequences > 0
    sequences = jnp.where(some, decoding.sequences, 1.0)
    attention = _read_cell(tables.decode, sequences, decoding.context / sequences)
    spent = spent + jnp.where(some, attention, 0.0)
    sampled = _between(*_read(tables.logits, batch.logits, LOGITS))
    # Of micro-batches of which some sample no token, those pass without the head.
    spent = spent + sampled[:-1] * jnp.minimum(batch.logits, 1.0)
    if batch.encode is not None:  # of micro-batches, too, some begin no prompt
        begun = batch.encode.tokens / encode.tokens
        spent = spent + _between(*_read(tables.encoder, begun, LOGITS)) * jnp.minimum(begun, 1.0)
    if prompts and parts.has("prompt"):
        work = prompt.tokens > 0
        lengths = tuple(
            jnp.where(work, length, least)
            for length, least in ((prompt.sequences, 1.0), (prompt.tokens, 1.0), (prompt.past, 0.0))
        )
        spent = spent + jnp.where(work, parts.sums("prompt", prompt=lengths, rows=rows), 0.0)
    if prompts and parts.has("all"):
        lengths = prompt.sequences, prompt.tokens, prompt.past
        context = decoding.sequences, decoding.context
        spent = spent + parts.sums("all", prompt=lengths, decoding=context, logits=batch.logits, rows=rows)
    return spent, sampled[-1]


def octave_interval(value: Scalar, per_octave: int, intervals: int) -> tuple[Array, Array]:
    """The interval of `octaves` that has `value`, and the place in it, shapes (): whole numbers are nodes.

    Values below 1 are at 1, those beyond the last interval at its end. The bits of a float32 are exponent and mantissa,
    in that order: read as a whole number, they are the position.
    """
    step = int(MANTISSA) // per_octave
    position = _bits(value) - ONE_BITS
    below = jnp.minimum(jnp.right_shift(position, step.bit_length() - 1), intervals - 1)
    return below, jnp.minimum((position - below * step).astype(float) * (1.0 / step), 1.0)


def _bits(value: Scalar) -> Array:
    return jax.lax.bitcast_convert_type(jnp.maximum(value, 1.0).astype(jnp.float32), jnp.int32)


def next_node(context: Scalar) -> Array:
    """The node of the tables' mean context that comes after `context`, shape ()."""
    step = int(MANTISSA) // CONTEXT
    nodes = jnp.right_shift(_bits(context), step.bit_length() - 1)
    return jax.lax.bitcast_convert_type((nodes + 1) * step, jnp.float32).astype(float)


def _read(table: Array, value: Scalar, per_octave: int) -> tuple[Array, Array]:
    """Both ends of the interval of a table that has `value`, shape [2, quantities], and the place in it."""
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
