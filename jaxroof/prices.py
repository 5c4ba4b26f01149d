"""Prices of the steps of one engine: tables over what most of a step depends on, formulas for the rest of it."""

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp

from jaxroof.batch import Batch, Decode, Prefill
from jaxroof.dependence import output_dependence
from jaxroof.deployment import Deployment, largest_stage
from jaxroof.efficiency import Efficiency
from jaxroof.hardware import Hardware
from jaxroof.memory import layer_count
from jaxroof.model import Model
from jaxroof.overlap import overlapped_ops
from jaxroof.smooth import maximum
from jaxroof.step import HOST, times_of
from jaxroof.struct import Scalar, struct

ROWS, DECODE, CONTEXT, LOGITS = 128, 16, 4, 16
"""Nodes per octave of tables over GEMM rows, decoding sequences, their mean context, and sampled rows. Powers of two:
every whole number up to twice as many is a node."""

LARGEST = 2.0**24
"""Tokens that a float32 counts exactly."""


@dataclasses.dataclass(frozen=True)
class Limits:
    """The largest step that prices are made for: structure of the tables."""

    rows: int  # tokens of one step
    sequences: int  # that decode in one step
    context: int  # tokens of one sequence


@struct
class StepPrices:
    """Times of the parts of a step in s, tabulated over `octaves`; linear between nodes, exact on them."""

    rows: jax.Array  # shape [octaves(rows, ROWS)]
    decode: jax.Array  # shape [octaves(sequences, DECODE), octaves(context, CONTEXT)]
    logits: jax.Array  # shape [octaves(sequences, LOGITS)]
    host: jax.Array  # of the engine, shape [octaves(sequences, LOGITS)]


Price = Callable[[Batch, Scalar], tuple[jax.Array, jax.Array]]
"""Time in s of a step on the device and on its host, of a batch and the rows of its GEMMs."""


def step_prices(
    hardware: Hardware, model: Model, deployment: Deployment, efficiency: Efficiency, limits: Limits
) -> tuple[StepPrices, Price]:
    """Tables of one engine's steps, and the function that reads them.

    Ops that depend on the number of tokens alone, as every GEMM and collective does, are in a table over it; decode
    attention is in one over sequences and mean context; the head and the sampler in one over sampled rows. What
    depends on prompts' lengths, as prefill attention does, is computed where it is asked for. Which op belongs where
    is read off the traced cost model.

    The function takes a `Batch` of numbers, whose parts may have no tokens but are there, and the rows of its GEMMs.
    With pipeline stages as many micro-batches as stages are under way, and a step is the time from one step of a
    micro-batch to its next.

    Returns:
      The tables, and `price(batch, rows) -> (device time, host time)` in s, shapes (). Both are differentiable in
      every leaf of hardware, model, deployment and efficiency.

    Raises:
      ValueError: one line, for what a scheduler cannot price: context parallelism, drafted tokens, and a model that
        does not generate.
    """
    _check(model, deployment)
    parts = 1.0 if deployment.pp is None else deployment.pp
    laps = maximum(parts * largest_stage(deployment, layer_count(model)), 1.0)

    def times(prompt: tuple, decoding: tuple, logits: Scalar, rows: Scalar) -> dict[str, Scalar]:
        batch = Batch(
            prefill=Prefill(sequences=prompt[0] / parts, tokens=prompt[1] / parts, past=prompt[2] / parts),
            decode=Decode(sequences=decoding[0] / parts, context=decoding[1] / parts),
            logits=logits / parts,
        )
        ops = overlapped_ops(model, deployment, batch, rows / parts)
        return {name: laps * t for name, t in times_of(ops, hardware, deployment, batch, efficiency).items()}

    kinds = _kinds(output_dependence(times, *_probe()))

    def table(kind: str, nodes: jax.Array) -> jax.Array:
        def one(n):
            values = {"logits": 1.0, "rows": 1.0} | {kind: n}
            return _sum(times((1.0, 1.0, 0.0), (1.0, 1.0), **values), kinds[kind])

        return jax.vmap(one)(nodes)

    def decode(n: jax.Array) -> jax.Array:
        contexts = n * octaves(limits.context, CONTEXT)
        return jax.vmap(lambda c: _sum(times((1.0, 1.0, 0.0), (n, c), 1.0, 1.0), kinds["decode"]))(contexts)

    sampled = octaves(limits.sequences, LOGITS)
    tables = StepPrices(
        rows=table("rows", octaves(limits.rows, ROWS)),
        decode=jax.vmap(decode)(octaves(limits.sequences, DECODE)),
        logits=table("logits", sampled),
        host=jax.vmap(lambda n: _sum(times((1.0, 1.0, 0.0), (1.0, 1.0), n, 1.0), {HOST}))(sampled),
    )
    return tables, functools.partial(_price, tables, times, kinds["prompt"], kinds["all"])


def _price(
    tables: StepPrices,
    times: Callable[..., dict[str, Scalar]],
    of_prompts: frozenset[str],
    of_all: frozenset[str],
    batch: Batch,
    rows: Scalar,
) -> tuple[jax.Array, jax.Array]:
    prompt, decoding = batch.prefill, batch.decode
    device = at(tables.rows, octave_position(rows, ROWS))
    some = decoding.sequences > 0
    sequences = jnp.where(some, decoding.sequences, 1.0)
    place = octave_position(sequences, DECODE), octave_position(decoding.context / sequences, CONTEXT)
    device = device + jnp.where(some, at_pair(tables.decode, *place), 0.0)
    sampled = octave_position(batch.logits, LOGITS)
    device = device + jnp.where(batch.logits > 0, at(tables.logits, sampled), 0.0)
    if of_prompts:
        work = prompt.tokens > 0
        lengths = [
            jnp.where(work, length, least)
            for length, least in ((prompt.sequences, 1.0), (prompt.tokens, 1.0), (prompt.past, 0.0))
        ]
        device = device + jnp.where(work, _sum(times(lengths, (1.0, 1.0), 1.0, rows), of_prompts), 0.0)
    if of_all:
        lengths = prompt.sequences, prompt.tokens, prompt.past
        found = times(lengths, (decoding.sequences, decoding.context), batch.logits, rows)
        device = device + _sum(found, of_all)
    return device, at(tables.host, sampled)


def octaves(most: int, per_octave: int) -> jax.Array:
    """1 and up to `most`, evenly spaced between powers of two, shape [nodes]."""
    last = max(int(most) - 1, 1).bit_length()
    position = jnp.arange(last * per_octave + 1.0)
    octave = jnp.floor(position / per_octave)
    return jnp.exp2(octave) * (1.0 + position / per_octave - octave)


def octave_position(value: Scalar, per_octave: int) -> jax.Array:
    """Where `value` stands among `octaves`, shape (): whole numbers are nodes; what is below 1 stands at 1."""
    mantissa, exponent = jnp.frexp(jax.lax.stop_gradient(jnp.maximum(value, 1.0)))
    return per_octave * (exponent.astype(mantissa.dtype) - 2.0 + 2.0 * mantissa)


def next_node(context: Scalar) -> jax.Array:
    """The node of the tables' mean context that comes after `context`, shape ()."""
    position = jnp.floor(octave_position(context, CONTEXT)) + 1.0
    octave = jnp.floor(position / CONTEXT)
    return jnp.exp2(octave) * (1.0 + position / CONTEXT - octave)


def at(table: jax.Array, position: jax.Array) -> jax.Array:
    """A table's value between two nodes, shape (); beyond the last node what it is there."""
    below = jnp.clip(jnp.floor(position), 0, table.shape[0] - 2)
    share = jnp.clip(position - below, 0.0, 1.0)
    index = below.astype(jnp.int32)
    return table[index] * (1.0 - share) + table[index + 1] * share


def at_pair(table: jax.Array, first: jax.Array, second: jax.Array) -> jax.Array:
    """A table's value between four nodes, shape ()."""
    flat, width = table.reshape(-1), table.shape[1]
    low = jnp.clip(jnp.floor(first), 0, table.shape[0] - 2)
    left = jnp.clip(jnp.floor(second), 0, width - 2)
    down, right = jnp.clip(first - low, 0.0, 1.0), jnp.clip(second - left, 0.0, 1.0)
    corner = (low * width + left).astype(jnp.int32)
    upper = flat[corner] * (1.0 - right) + flat[corner + 1] * right
    lower = flat[corner + width] * (1.0 - right) + flat[corner + width + 1] * right
    return upper * (1.0 - down) + lower * down


def _check(model: Model, deployment: Deployment) -> None:
    if not model.generates:
        raise ValueError("a model that does not generate tokens has no decode steps to schedule")
    for name in ("cp", "drafts"):
        if getattr(deployment, name) is not None:
            raise ValueError(f"deployment.{name} is set; the scheduler does not price it")


def _probe() -> tuple[tuple, tuple]:
    """Arguments of any size for `times`, and what each of their leaves is called."""
    mark = {name: frozenset((name,)) for name in ("prompt", "decode", "logits", "rows")}
    values = (2.0, 64.0, 16.0), (2.0, 64.0), 3.0, 66.0
    return values, ((mark["prompt"],) * 3, (mark["decode"],) * 2, mark["logits"], mark["rows"])


def _kinds(marks: dict[str, frozenset]) -> dict[str, frozenset[str]]:
    """Names of the ops that depend on rows, decoding or logits alone, on prompts and rows, and on anything else."""
    kinds: dict[str, set[str]] = {kind: set() for kind in ("rows", "decode", "logits", "prompt", "all")}
    for name, mark in marks.items():
        if name == HOST:
            continue
        alone = next((kind for kind in ("rows", "decode", "logits") if mark <= {kind}), None)
        kinds[alone or ("prompt" if mark <= {"prompt", "rows"} else "all")].add(name)
    return {kind: frozenset(names) for kind, names in kinds.items()}


def _sum(times: dict[str, Scalar], names: frozenset[str] | set[str]) -> jax.Array:
    """Sum of the named times in s, shape ()."""
    return jnp.asarray(sum((time for name, time in times.items() if name in names), start=0.0), dtype=float)
