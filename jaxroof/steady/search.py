"""Steady state of one engine at a load, or at the largest load that keeps limits on its latencies; pure.

Batches are looked at on a grid, then between two of its nodes, and the last line between two is followed by one step of
Newton's method. That step alone has a derivative: the one of the implicit function.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

from jaxroof.batch import Batch, Policy
from jaxroof.deployment import Deployment, request_groups
from jaxroof.efficiency import Efficiency
from jaxroof.energy.energy import power_known
from jaxroof.hardware import Hardware
from jaxroof.memory.capacity import kv_capacity_tokens
from jaxroof.model import Model
from jaxroof.numerics.arrays import is_traced, jax, jnp
from jaxroof.numerics.struct import Array, Scalar, existing, struct
from jaxroof.numerics.tree import mapped
from jaxroof.prices.prices import MicroBatch, step_energy, step_price
from jaxroof.prices.tables import Parts
from jaxroof.steady.steady_state import (
    Demand,
    SteadyState,
    StepTimes,
    e2e_share,
    mean_ttft,
    steady_state,
    step_times,
    tpot_share,
    ttft_share,
)

ROWS = (
    *(2.0**octave for octave in range(6)),
    *(2.0 ** (6.0 + 0.25 * quarter) for quarter in range(24)),
    *(2.0**octave for octave in range(12, 18)),
)
"""Rows of a step's GEMMs: closest where a GEMM goes from reading weights to computing."""

SEQUENCES = tuple(2.0**octave for octave in range(13))
"""Sequences that decode, or that sample a token."""

LADDER = 14
"""Batches at which steps are priced, evenly spaced in their logarithm up to the most sequences; linear between them."""

COARSE, FINE = 48, 24
"""Numbers that a search looks at: over the whole range, and between two of these."""

LEAST_BATCH = 1.0 + 1e-4
"""Batch of an engine that is all but idle."""

FULL = 0.999
"""Batch at most, over the most sequences that may run: a full one waits without end."""

STEP = 1e-3
"""Step of the batch, relative, over which the slope of a step is taken."""

WIDE = 0.02, 60.0
"""Percentiles of a latency, over its mean, lie between."""

SHARES = {"ttft": ttft_share, "tpot": tpot_share, "e2e": e2e_share}

MEANS = {
    "ttft": mean_ttft,
    "tpot": lambda state: state.tpot,
    "e2e": lambda state: mean_ttft(state) + state.decode_steps * state.tpot,
}
"""Latencies in s of a steady state: the share of requests within a limit, and the mean."""


@struct
class SteadyEngine:
    """One replica's engine: times and energies of its steps at the batches of a ladder; leaves of shape [..., n]."""

    times: StepTimes  # s, at the ladder
    joules: StepTimes | None  # J of one device beside static power; None where it is unknown
    ladder: Array  # batches, shape [..., LADDER]
    demand: Demand
    delay: Scalar  # s from a request to its place in the queue
    static: Scalar | None  # W
    most: Array  # sequences that may run at once, shape [..., 1]

    def state(self, batch: Array) -> SteadyState:
        """At batches of shape [..., n]."""
        times = _between(self.times, self.ladder, batch)
        near = _between(self.times.decode, self.ladder, batch * (1.0 + STEP))
        slope = jnp.maximum(near - times.decode, 0.0) / (batch * STEP)
        found = steady_state(times, slope, self.demand, self.delay, batch, self.most)
        return dataclasses.replace(found, even=jnp.zeros_like(batch))  # TPOT without the steps between its values

    def power(self, batch: Array, found: SteadyState) -> Array:
        """W of one device, mean, where it is known; `found` is the state at these batches."""
        joules = _between(self.joules, self.ladder, batch)
        energy = steady_state(joules, 0.0, self.demand, self.delay, batch, self.most).step
        return (1.0 - jnp.exp(-found.under_way)) * energy / found.tpot + self.static


def engine(
    hardware: Hardware, model: Model, deployment: Deployment, efficiency: Efficiency, demand: Demand, policy: Policy
) -> SteadyEngine:
    """The engine of one replica for requests of these means; leaves are numbers, or on NumPy columns."""
    tree = hardware, model, deployment, efficiency, demand, policy
    hardware, model, deployment, efficiency, needs, policy = mapped(lambda leaf: jnp.asarray(leaf)[..., None], tree)
    place = hardware, model, deployment

    # Sequences for which engine and cache have room, mean: whole blocks, or the whole output where it is reserved.
    held = needs.held + 0.5 * policy.block_size
    whole = needs.cached + needs.prompt + needs.output + 0.5 * policy.block_size
    tokens = kv_capacity_tokens(*place) * request_groups(deployment) * (1.0 - policy.watermark)
    room = tokens / jnp.where(policy.reserve > 0.5, whole, held)
    most = jnp.maximum(jnp.minimum(room, policy.max_sequences), LEAST_BATCH / FULL**2)

    # Steps with and without prompts at the batches of a ladder.
    ladder = policy.max_sequences ** jnp.linspace(0.0, 1.0, LADDER)
    known = power_known(hardware)
    cost = _kept(micro_batch_cost(hardware, model, deployment, efficiency, needs))
    overlap = efficiency.host.step_time, policy.hidden_host
    time = step_price(cost, *place, overlap, policy.acceptance)
    energy = step_energy(cost, *place, overlap, policy.acceptance)

    def both(batch: Batch, rows: Scalar) -> tuple[Array, Array]:
        """s, and J where they are known, along a leading axis, of all that `step_times` asks for."""
        batch, rows = mapped(lambda leaf: leaf[0] if jnp.ndim(leaf) else leaf, (batch, rows))
        found = [price(batch, rows) for price in ((time, energy) if known else (time,))]
        device, host = (jnp.stack(jnp.broadcast_arrays(*parts)) for parts in zip(*found, strict=True))
        return device, host

    priced = step_times(both, *mapped(lambda leaf: leaf[None], (policy, needs, ladder)))
    split = [mapped(lambda leaf, i=i: leaf[min(i, len(leaf) - 1)], priced) for i in range(1 + known)]
    return SteadyEngine(
        times=split[0],
        joules=split[1] if known else None,
        ladder=ladder,
        demand=needs,
        delay=efficiency.host.request_time,
        static=hardware.power.static if known else None,
        most=most,
    )


def micro_batch_cost(
    hardware: Hardware, model: Model, deployment: Deployment, efficiency: Efficiency, demand: Demand
) -> MicroBatch:
    """Cost of a micro-batch of these requests: lines between few nodes, and prompts' own ops where they are asked for.

    GEMMs are priced at `ROWS`, and what depends on the number of sequences at `SEQUENCES`, each once.
    """
    parts = Parts(hardware, model, deployment, efficiency)
    rows_table = parts.sums("rows", rows=jnp.asarray(ROWS))
    sequences = jnp.asarray(SEQUENCES)
    decode_table = parts.sums("decode", decoding=(sequences, sequences * demand.context))
    logits_table, host_table = parts.sums("logits", logits=sequences), parts.host(sequences)
    encoder_table = None
    if demand.encode is not None:
        encoder_table = parts.encoder(sequences, demand.encode)

    def cost(batch: Batch, rows: Scalar) -> tuple[Array, Array]:
        prompt, decoding = existing(batch.prefill), existing(batch.decode)
        some, work = decoding.sequences > 0, prompt.tokens > 0
        spent = _read(ROWS, rows_table, rows)
        spent = spent + jnp.where(some[..., None], _read(SEQUENCES, decode_table, decoding.sequences), 0.0)
        spent = spent + _read(SEQUENCES, logits_table, batch.logits) * jnp.minimum(batch.logits, 1.0)[..., None]
        if batch.encode is not None:
            begun = batch.encode.tokens / existing(demand.encode).tokens
            spent = spent + _read(SEQUENCES, encoder_table, begun) * jnp.minimum(begun, 1.0)[..., None]
        numbers = (prompt.sequences, 1.0), (prompt.tokens, 1.0), (prompt.past, 0.0)
        lengths = tuple(jnp.where(work, length, least) for length, least in numbers)
        if parts.has("prompt"):
            spent = spent + jnp.where(work[..., None], parts.sums("prompt", prompt=lengths, rows=rows), 0.0)
        if parts.has("all"):
            together = decoding.sequences, decoding.context
            spent = spent + parts.sums("all", prompt=lengths, decoding=together, logits=batch.logits, rows=rows)
        return spent, _read(SEQUENCES, host_table, batch.logits)[..., 0]

    return cost


def _kept(cost: MicroBatch) -> MicroBatch:
    """The cost, which keeps its last answer: time and energy of a step are asked for one after the other."""
    last: list[tuple[Batch, Scalar, tuple[Array, Array]]] = []

    def kept(batch: Batch, rows: Scalar) -> tuple[Array, Array]:
        if not (last and last[0][0] is batch and last[0][1] is rows):
            last[:] = [(batch, rows, cost(batch, rows))]
        return last[0][2]

    return kept


def _read(nodes: tuple[float, ...], table: Array, values: Array) -> Array:
    """A table, shape [..., nodes, quantities], at values of shape [..., n], linear between nodes and level beyond."""
    table = jnp.broadcast_to(table, (*table.shape[:-2], len(nodes), table.shape[-1]))
    ends = jnp.asarray(nodes, dtype=float)
    widths = ends[1:] - ends[:-1]
    wide, below = (part.reshape((1,) * values.ndim + (-1,)) for part in (widths, ends[:-1]))
    covered = jnp.clip(values[..., None] - below, 0.0, wide)  # [..., n, nodes - 1]
    slopes = (table[..., 1:, :] - table[..., :-1, :]) / widths.reshape((1,) * (table.ndim - 2) + (-1, 1))
    return table[..., :1, :] + covered @ slopes


def batch_at(of: SteadyEngine, load: Scalar) -> tuple[Array, SteadyState, Array]:
    """The batch at which an engine answers `load` requests/s, shape [..., 1], the state, and the use of the engine.

    Where the use is above 1, no batch answers as many: the batch is then the largest.
    """
    load = jnp.asarray(load)[..., None]
    top, still, wanted = of.most * FULL, _constant(of), _constant(load)
    batch, slope = _root(lambda batch: still.state(batch).load - wanted, _idle(of), _constant(top))
    found = of.state(batch)
    batch = batch - (found.load - load) / slope
    batch = jnp.clip(batch, LEAST_BATCH, top)
    found = of.state(batch)
    return batch, found, jnp.maximum(load / of.state(top).load, found.use)


def largest_batch(of: SteadyEngine, limits: Mapping[str, Scalar], share: Scalar) -> Array:
    """The largest batch at which an engine keeps limits, shape [..., 1]; the least there is where it keeps none.

    Args:
      limits: s of ttft, tpot and e2e, for a `share` of the requests; of their percentiles and means, ttft_p99,
        tpot_mean, for the run.
    """
    top = of.most * FULL

    def short(of: SteadyEngine, batch: Array) -> Array:
        """How far from being kept the limit is that is missed most: > 0 where one is missed."""
        found = of.state(batch)
        missed = [found.use - 1.0]
        for name, limit in limits.items():
            latency, wanted = wanted_share(name, share)
            if wanted is None:
                missed.append(MEANS[latency](found) / limit - 1.0)
            else:
                missed.append(wanted - SHARES[latency](found, limit))
        return functools.reduce(jnp.maximum, missed)  # a reduction over an axis has no slope where XLA rounds twice

    still = _constant(of)
    batch, slope = _root(lambda batch: short(still, batch), _idle(of), _constant(top))
    return jnp.clip(batch - jnp.where(batch < top, short(of, batch) / slope, 0.0), LEAST_BATCH, top)


def wanted_share(limit: str, share: Scalar) -> tuple[str, Scalar | None]:
    """The latency of a limit's name, and the share of requests that has to keep it; None: its mean has to."""
    latency, _, of = limit.rpartition("_")
    if not latency:
        return limit, share
    return latency, None if of == "mean" else float(of.removeprefix("p")) / 100.0


def percentile(state: SteadyState, latency: str, share: Scalar) -> Array:
    """The latency in s within which a share of the requests stays, shape [..., 1]."""
    still, within = _constant(state), SHARES[latency]
    mean = MEANS[latency](still)
    ends = (jnp.log(WIDE[0] * mean), jnp.log(WIDE[1] * mean))
    place, slope = _root(lambda place: within(still, jnp.exp(place)) - share, *ends)
    return jnp.exp(place - (within(state, jnp.exp(place)) - share) / slope)


def _root(function: Callable[[Array], Array], low: Array, high: Array) -> tuple[Array, Array]:
    """Where an increasing function is 0 between two ends, and its slope there.

    The end that is nearer where it is not 0 in between; the slope is then endless where the function is level.

    Args:
      function: of numbers of shape [..., n], without derivatives.
      low, high: shape [..., 1].
    """
    for number, power in ((COARSE, 2.0), (FINE, 1.0)):  # closer where the numbers are small
        nodes = low + (high - low) * jnp.linspace(0.0, 1.0, number) ** power
        values = function(nodes)
        above = jnp.clip(_first(values >= 0.0), 1, number - 1)
        ends = [(_entry(nodes, above - 1), _entry(values, above - 1)), (_entry(nodes, above), _entry(values, above))]
        (low, under), (high, over) = ends
    slope = (over - under) / (high - low)
    slope = jnp.where(slope > 0.0, slope, jnp.inf)
    return jnp.clip(low - under / slope, low, high), slope


def _first(condition: Array) -> Array:
    """Place of the first that is true along the last axis, the last one where none is, shape [..., 1]."""
    last = condition.shape[-1] - 1
    return jnp.where(condition.any(axis=-1), jnp.argmax(condition, axis=-1), last)[..., None]


def _entry(values: Array, place: Array) -> Array:
    """Entries at places of the last axis, shape [..., 1]."""
    return jnp.sum(jnp.where(jnp.arange(values.shape[-1]) == place, values, 0.0), axis=-1, keepdims=True)


def _constant(tree: Any) -> Any:
    """A tree without derivatives, so that nothing is traced for them."""
    return mapped(jax.lax.stop_gradient, tree) if is_traced() else tree


def _idle(of: SteadyEngine) -> Array:
    return jnp.full_like(of.most, LEAST_BATCH)


def _between(priced: Any, ladder: Array, batch: Array) -> Any:
    """Step times, or one field of them, at batches of shape [..., n] between those of the ladder."""
    widths = ladder[..., 1:] - ladder[..., :-1]
    covered = jnp.clip(batch[..., None] - ladder[..., None, :-1], 0.0, widths[..., None, :])

    def line(values: Array) -> Array:
        values = jnp.broadcast_to(values, (*values.shape[:-1], LADDER))
        slopes = (values[..., 1:] - values[..., :-1]) / widths
        return values[..., :1] + jnp.sum(covered * slopes[..., None, :], axis=-1)

    return mapped(line, priced)
