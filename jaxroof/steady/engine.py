"""One replica's engine in its steady state: times and energies of its steps at the batches of a ladder."""

import dataclasses
from collections.abc import Callable
from typing import Any

from jaxroof.batch import Batch, Policy
from jaxroof.deployment import Deployment, request_groups
from jaxroof.efficiency import Efficiency
from jaxroof.energy.energy import power_known
from jaxroof.hardware import Hardware, on_host
from jaxroof.memory.capacity import kv_capacity_tokens
from jaxroof.model import Model
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.struct import Array, Scalar, struct
from jaxroof.numerics.tree import mapped
from jaxroof.prices.prices import MicroBatch, Price, step_energy, step_price
from jaxroof.steady.steady_state import Demand, SteadyState, StepTimes, steady_state, step_times
from jaxroof.steady.step_costs import step_costs

LADDER = 14
"""Batches at which steps are priced, evenly spaced in their logarithm up to the most sequences; linear between them."""

LEAST_BATCH = 1.0 + 1e-4
"""Batch of an engine that is all but idle."""

FULL = 0.999
"""Batch at most, over the most sequences that may run: a full one waits without end."""

STEP = 1e-3
"""Step of the batch, relative, over which the slope of a step is taken."""


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
        """At batches of shape [..., n], smooth in the batch: TPOT without the steps between its values."""
        state, _ = self.state_at(batch, self.most)
        return dataclasses.replace(state, even=jnp.zeros_like(batch))

    def state_at(self, batch: Array, most: Array) -> tuple[SteadyState, StepTimes]:
        """At batches of shape [..., n], where at most so many sequences run, shape [..., 1]; and the times of steps."""
        times = between(self.times, self.ladder, batch)
        # A finite difference on the ladder: how much one more sequence slows a step for the others.
        longer = between(self.times.decode, self.ladder, batch * (1.0 + STEP))
        slope = jnp.maximum(longer - times.decode, 0.0) / (batch * STEP)
        return steady_state(times, slope, self.demand, self.delay, batch, most), times

    def step_energy(self, batch: Array) -> Array:
        """J of one device beside static power, of a mean step, where it is known.

        It is the step of `steady_state`, with and without prompts, in J in place of s.
        """
        # Energy of the mean step has the same form as its time, so the same formula is run on joules.
        joules = between(self.joules, self.ladder, batch)
        return steady_state(joules, 0.0, self.demand, self.delay, batch, self.most).step

    def power(self, batch: Array, state: SteadyState) -> Array:
        """W of one device, mean, where it is known; `state` is that at these batches.

        No step is under way where no sequence is, which a Poisson number is with probability e^-mean.
        """
        # A device without a step draws static power alone.
        return (1.0 - jnp.exp(-state.under_way)) * self.step_energy(batch) / state.tpot + self.static


def engine(
    hardware: Hardware, model: Model, deployment: Deployment, efficiency: Efficiency, demand: Demand, policy: Policy
) -> SteadyEngine:
    """The engine of one replica for requests of these means; leaves are numbers, or on NumPy columns."""
    tree = hardware, model, deployment, efficiency, demand, policy
    hardware, model, deployment, efficiency, needs, policy = mapped(lambda leaf: jnp.asarray(leaf)[..., None], tree)
    place = hardware, model, deployment
    tokens = kv_capacity_tokens(*place) * request_groups(deployment)
    room = cached_sequences(tokens, policy, needs)
    most = jnp.maximum(jnp.minimum(room, policy.max_sequences), LEAST_BATCH / FULL**2)
    # Geometric ladder: a step's time is flat while weights bind and grows with the batch later.
    ladder = policy.max_sequences ** jnp.linspace(0.0, 1.0, LADDER)
    costs = step_costs(*place, efficiency, needs.context, needs.encode)
    return priced_engine(costs.cost, *place, efficiency, needs, policy, ladder, most)


def cached_sequences(tokens: Scalar, policy: Policy, demand: Demand) -> Array:
    """Sequences for which a cache of so many tokens has room, mean: whole blocks, with the output where reserved.

    The last block of a sequence is half full on average.
    """
    # A running sequence's last block is half full.
    block = 0.5 * policy.block_size
    reserved = demand.cached + demand.prompt + demand.output + block
    return tokens * (1.0 - policy.watermark) / jnp.where(policy.reserve > 0.5, reserved, demand.held + block)


def priced_engine(
    cost: MicroBatch,
    hardware: Hardware,
    model: Model,
    deployment: Deployment,
    efficiency: Efficiency,
    demand: Demand,
    policy: Policy,
    ladder: Array,
    most: Array,
) -> SteadyEngine:
    """The engine whose steps cost so much, at the batches of `ladder`, shape [..., n].

    Args:
      cost: of a micro-batch, `jaxroof.steady.step_costs`.
      most: sequences that may run at once, shape [..., 1].
    """
    place = hardware, model, deployment
    times, joules = times_and_joules(step_times, cost, *place, efficiency, policy, demand, ladder)
    return SteadyEngine(
        times=times,
        joules=joules,
        ladder=ladder,
        demand=demand,
        delay=efficiency.host.request_time,
        static=hardware.power.static if joules is not None else None,
        most=most,
    )


def times_and_joules(
    steps: Callable[..., Any],
    cost: MicroBatch,
    hardware: Hardware,
    model: Model,
    deployment: Deployment,
    efficiency: Efficiency,
    policy: Policy,
    *arguments: Any,
) -> tuple[Any, Any | None]:
    """What `steps(price, policy, *arguments)` gives in s, and in J beside static power where that is known.

    The cost of a micro-batch is computed once for both: they are two lanes of a leading axis.
    """
    place = hardware, model, deployment
    # Time and energy go through the same formulas, as two lanes of one array.
    overlap = on_host(efficiency.host.step_time, hardware), policy.hidden_host
    quantities = (step_price, step_energy) if power_known(hardware) else (step_price,)
    shared = _remembered(cost)
    prices: list[Price] = [quantity(shared, *place, overlap, policy.acceptance) for quantity in quantities]

    def lanes(batch: Batch, rows: Scalar) -> tuple[Array, Array]:
        batch, rows = mapped(lambda leaf: leaf[0] if jnp.ndim(leaf) else leaf, (batch, rows))
        costs = [price(batch, rows) for price in prices]
        device, host = (jnp.stack(jnp.broadcast_arrays(*parts)) for parts in zip(*costs, strict=True))
        return device, host

    priced = steps(lanes, *mapped(lambda leaf: jnp.asarray(leaf)[None], (policy, *arguments)))
    split = [mapped(lambda leaf, i=i: leaf[min(i, len(leaf) - 1)], priced) for i in range(len(prices))]
    return split[0], split[1] if len(split) > 1 else None


def _remembered(cost: MicroBatch) -> MicroBatch:
    """The cost, which keeps its last answer: time and energy of a step are asked for one after the other."""
    last: list[tuple[Batch, Scalar, tuple[Array, Array]]] = []

    def remembered(batch: Batch, rows: Scalar) -> tuple[Array, Array]:
        # Identity of the arguments: both prices ask for the same batch object in turn.
        if not (last and last[0][0] is batch and last[0][1] is rows):
            last[:] = [(batch, rows, cost(batch, rows))]
        return last[0][2]

    return remembered


def between(priced: Any, ladder: Array, batch: Array) -> Any:
    """Step times, or one field of them, at batches of shape [..., n], from the ladder's first one on.

    Linear between those of the ladder, and beyond its last two; level where two of its batches are one.
    """
    widths = ladder[..., 1:] - ladder[..., :-1]
    # The last line goes on beyond the ladder.
    ends = jnp.concatenate([widths[..., :-1], jnp.full_like(widths[..., :1], jnp.inf)], axis=-1)
    covered = jnp.clip(batch[..., None] - ladder[..., None, :-1], 0.0, ends[..., None, :])

    def line(values: Array) -> Array:
        values = jnp.broadcast_to(values, (*values.shape[:-1], ladder.shape[-1]))
        slopes = (values[..., 1:] - values[..., :-1]) / jnp.where(widths > 0.0, widths, 1.0)
        # Piecewise linear as a sum of slopes times covered widths: no look-up, differentiable, batched.
        return values[..., :1] + jnp.sum(covered * slopes[..., None, :], axis=-1)

    return mapped(line, priced)
