"""Prices of one engine's steps: tables over most of what a step depends on, formulas for the rest."""

import dataclasses
import functools
import math
from collections.abc import Callable

from jaxroof.arrays import jax
from jaxroof.arrays import jax_numpy as jnp
from jaxroof.batch import Batch, Decode, Prefill, divided
from jaxroof.dependence import example, output_dependence
from jaxroof.deployment import Deployment, degree, drafted_tokens, largest_stage, pipelined_parts
from jaxroof.efficiency import Efficiency
from jaxroof.energy import energies_of, limited_time, power_known
from jaxroof.hardware import Hardware
from jaxroof.memory import layer_count
from jaxroof.model import Model
from jaxroof.overlap import overlapped_ops
from jaxroof.smooth import maximum
from jaxroof.speculation import expected_tokens
from jaxroof.step import HOST, times_of
from jaxroof.struct import Array, Scalar, struct
from jaxroof.tree import mapped

ROWS, DECODE, CONTEXT, LOGITS = 128, 16, 4, 16
"""Nodes per octave of tables over GEMM rows, decoding sequences, their mean context, and sampled rows. Powers of two:
every whole number up to twice as many is a node."""

ONE_BITS, MANTISSA = 127 << 23, 2.0**23
"""Bits of the float32 1.0, and how many an octave has: IEEE 754."""

MOST_DRAFTED = 16
"""Drafted tokens per sequence and step that the tables of rows have room for."""


@dataclasses.dataclass(frozen=True)
class Limits:
    """The largest step that prices are made for: structure of the tables."""

    rows: int  # tokens of one step
    sequences: int  # that decode in one step
    context: int  # tokens of one sequence


@struct
class StepPrices:
    """Times of the parts of one micro-batch's step over `octaves`; linear between nodes, exact on them.

    The axis before the last has the values at both ends of an interval, or at all corners of a cell, so that one read
    fetches all. The last is over quantities: time in s, and energy in J where the hardware's is known.
    """

    rows: Array  # shape [octaves(rows, ROWS) - 1, 2, quantities]
    decode: Array  # shape [octaves(sequences, DECODE) - 1, octaves(context, CONTEXT) - 1, 4, quantities]
    logits: Array  # the host's time comes last, shape [octaves(sequences, LOGITS) - 1, 2, quantities + 1]


Price = Callable[[Batch, Scalar], tuple[Array, Array]]
"""Time in s of a step on the device and on its host, of a batch and the rows of its GEMMs."""

Terms = list[dict[str, Scalar]]
"""Time in s of every op of a micro-batch's step by name, and of the host; then energy in J where that is known."""

OpKinds = dict[str, frozenset[str]]
"""Names of the ops that depend on rows, decoding or logits alone, on prompts and rows, and on anything else."""

Kinds = list[OpKinds]
"""For every quantity of `Terms`."""


def step_prices(
    hardware: Hardware,
    model: Model,
    deployment: Deployment,
    efficiency: Efficiency,
    limits: Limits,
    acceptance: Scalar = 0.0,
    hidden_host: Scalar = 0.0,
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
      hidden_host: 1 where the host works while the device does: the limit is then over the device's time alone.

    Returns:
      The tables, and `price(batch, rows) -> (device time, host time)` in s, shapes (). Both are differentiable in
      every leaf of hardware, model, deployment and efficiency.

    Raises:
      ValueError: one line, for what a scheduler cannot price: context parallelism, and a model that does not generate.
    """
    _check(model, deployment)

    place = hardware, model, deployment, efficiency
    terms = functools.partial(_terms, place)
    kinds = [_kinds(marks) for marks in output_dependence(_terms, *_probe(place))]
    tables = _tables(terms, kinds, limits, deployment)
    micro_batch = functools.partial(_micro_batch_price, tables, terms, kinds)
    price = functools.partial(_step_price, micro_batch, hardware, model, deployment, hidden_host)
    if deployment.drafts is None:
        return tables, price
    kept = expected_tokens(deployment, acceptance)
    return tables, functools.partial(_share_of_drafting_step, price, drafted_tokens(deployment), kept)


def _terms(place: tuple, prompt: tuple, decoding: tuple, logits: Scalar, rows: Scalar) -> Terms:
    """Of a micro-batch's step in a place: hardware, model, deployment, efficiency."""
    hardware, model, deployment, efficiency = place
    batch = Batch(
        prefill=Prefill(sequences=prompt[0], tokens=prompt[1], past=prompt[2]),
        decode=Decode(sequences=decoding[0], context=decoding[1]),
        logits=logits,
    )
    ops = overlapped_ops(model, deployment, batch, rows)
    found = [times_of(ops, hardware, deployment, batch, efficiency)]
    return [*found, energies_of(ops, hardware)] if power_known(hardware) else found


def _tables(terms: Callable[..., Terms], kinds: Kinds, limits: Limits, deployment: Deployment) -> StepPrices:
    """Sums of the terms that depend on one thing alone, at all nodes of it; everything else is 1 token or sequence.

    Args:
      terms: of a micro-batch's step: of its prompt (sequences, tokens, past), its decoding (sequences, context), the
        rows with logits, and the rows of its GEMMs.
    """

    def table(kind: str, nodes: Array) -> Array:
        def one(n):
            values = {"logits": 1.0, "rows": 1.0} | {kind: n}
            return _sums(terms((1.0, 1.0, 0.0), (1.0, 1.0), **values), kinds, kind)

        return jax.vmap(one)(nodes)

    def decode(n: Array) -> Array:
        contexts = n * octaves(limits.context, CONTEXT)
        return jax.vmap(lambda c: _sums(terms((1.0, 1.0, 0.0), (n, c), 1.0, 1.0), kinds, "decode"))(contexts)

    def host(n: Array) -> Array:
        return _sum(terms((1.0, 1.0, 0.0), (1.0, 1.0), n, 1.0)[0], {HOST})

    most_rows = limits.rows + (0 if deployment.drafts is None else MOST_DRAFTED * limits.sequences)
    sampled = octaves(limits.sequences, LOGITS)
    return StepPrices(
        rows=_intervals(table("rows", octaves(most_rows, ROWS))),
        decode=_cells(jax.vmap(decode)(octaves(limits.sequences, DECODE))),
        logits=_intervals(jnp.concatenate([table("logits", sampled), jax.vmap(host)(sampled)[:, None]], axis=1)),
    )


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
    hidden_host: Scalar,
    batch: Batch,
    rows: Scalar,
) -> tuple[Array, Array]:
    """Time in s of a step of all micro-batches on the device, under the limit of its power, and on the host.

    Args:
      micro_batch: from a batch and its rows to time and energy of one micro-batch in all stages, and the host's time.
    """
    if deployment.pp is None:
        spent, host = micro_batch(batch, rows)
        parts = 1.0
    else:
        parts = pipelined_parts(deployment, maximum(batch.prefill.sequences + batch.decode.sequences, 1.0))
        spent, host = micro_batch(divided(batch, parts), rows / parts)
        laps = maximum(parts * largest_stage(deployment, layer_count(model)), 1.0)
        spent, host = spent.at[0].multiply(laps), host * laps
    device = spent[0]
    if not power_known(hardware):
        return device, host
    beside = host * (1.0 - jnp.asarray(hidden_host, dtype=float))
    energy = spent[1] * (parts / degree(deployment.pp))
    return limited_time(device + beside, energy, hardware) - beside, host


def _micro_batch_price(
    tables: StepPrices, terms: Callable[..., Terms], kinds: Kinds, batch: Batch, rows: Scalar
) -> tuple[Array, Array]:
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
    if any(of["prompt"] for of in kinds):
        work = prompt.tokens > 0
        lengths = [
            jnp.where(work, length, least)
            for length, least in ((prompt.sequences, 1.0), (prompt.tokens, 1.0), (prompt.past, 0.0))
        ]
        spent = spent + jnp.where(work, _sums(terms(lengths, (1.0, 1.0), 1.0, rows), kinds, "prompt"), 0.0)
    if any(of["all"] for of in kinds):
        lengths = prompt.sequences, prompt.tokens, prompt.past
        found = terms(lengths, (decoding.sequences, decoding.context), batch.logits, rows)
        spent = spent + _sums(found, kinds, "all")
    return spent, sampled[-1]


def octaves(most: int, per_octave: int) -> Array:
    """1 and up to `most`, evenly spaced between powers of two, shape [nodes]."""
    places = (divmod(place, per_octave) for place in range(max(int(most) - 1, 1).bit_length() * per_octave + 1))
    return jnp.asarray([math.ldexp(1.0 + place / per_octave, octave) for octave, place in places], dtype=float)


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


def _intervals(values: Array) -> Array:
    """Values on nodes, shape [nodes, quantities], as pairs, shape [nodes - 1, 2, quantities]."""
    return jnp.stack([values[:-1], values[1:]], axis=-2)


def _cells(values: Array) -> Array:
    """Values on a grid as corners of cells, shape [rows - 1, columns - 1, 4, quantities]."""
    upper, lower = values[:-1], values[1:]
    return jnp.stack([upper[:, :-1], upper[:, 1:], lower[:, :-1], lower[:, 1:]], axis=-2)


def _check(model: Model, deployment: Deployment) -> None:
    if not model.generates:
        raise ValueError("a model that does not generate tokens has no decode steps to schedule")
    if deployment.cp is not None:
        raise ValueError("deployment.cp is set; the scheduler does not price it")


def _probe(place: tuple) -> tuple[tuple, tuple]:
    """Arguments of any size for `_terms`, and what each of their leaves is called; those of `place` have no name."""
    mark = {name: frozenset((name,)) for name in ("prompt", "decode", "logits", "rows")}
    values = (2.0, 64.0, 16.0), (2.0, 64.0), 3.0, 66.0
    marks = (mark["prompt"],) * 3, (mark["decode"],) * 2, mark["logits"], mark["rows"]
    return (example(place), *values), (mapped(lambda _: frozenset(), place), *marks)


def _kinds(marks: dict[str, frozenset]) -> OpKinds:
    """Names of the ops that depend on rows, decoding or logits alone, on prompts and rows, and on anything else."""
    kinds: dict[str, set[str]] = {kind: set() for kind in ("rows", "decode", "logits", "prompt", "all")}
    for name, mark in marks.items():
        if name == HOST:
            continue
        alone = next((kind for kind in ("rows", "decode", "logits") if mark <= {kind}), None)
        kinds[alone or ("prompt" if mark <= {"prompt", "rows"} else "all")].add(name)
    return {kind: frozenset(names) for kind, names in kinds.items()}


def _sums(terms: Terms, kinds: Kinds, kind: str) -> Array:
    """Sums of all quantities over the ops of one kind, shape [quantities]."""
    return jnp.stack([_sum(found, of[kind]) for found, of in zip(terms, kinds, strict=True)])


def _sum(terms: dict[str, Scalar], names: frozenset[str] | set[str]) -> Array:
    """Sum of the named terms, shape ()."""
    return jnp.asarray(sum((term for name, term in terms.items() if name in names), start=0.0), dtype=float)
