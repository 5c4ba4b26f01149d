"""Replicas that only prefill or only decode: times of their steps, latencies and largest loads at every deployment."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxroof.batch import Policy
from jaxroof.numerics.arrays import eager
from jaxroof.numerics.struct import Array, Scalar
from jaxroof.numerics.tree import mapped
from jaxroof.steady.engine import STEP, between, times_and_joules
from jaxroof.steady.queue import PromptQueue, prompt_queue, prompt_rate, prompt_times
from jaxroof.steady.steady_state import Demand, SteadyState, StepTimes, decode_step_time, steady_state
from sweeps.studies.compare.candidates import Options
from sweeps.studies.compare.estimate import LADDER, Estimate, Limit, Priced, keeps

LEAST_BATCH = 0.05
"""Batch at which searches begin. A sequence finds at least itself, so one below 1 has no load and is never chosen."""

USES = np.concatenate([np.linspace(0.03, 0.75, 25), np.linspace(0.77, 0.99, 12)])
"""Uses of a prefill replica that are looked at."""

COARSE = 48
"""Batches of a decode replica that are looked at, evenly spaced in their logarithm."""

IDLE = 1e-6
"""Latency in s of a pool that is left out, so that limits bind by the other alone."""


@dataclasses.dataclass(frozen=True, eq=False)
class PoolSteps:
    """Steps of replicas with one kind of work; arrays of shape [settings, devices, layouts], NaN where none can serve.

    Joules are those of one device beside static power; NaN where they are unknown.
    """

    prompt: StepTimes  # s, of steps of prompts alone
    prompt_joules: np.ndarray  # J that one prompt of a full step takes
    most: np.ndarray  # sequences that may decode at once
    ladder: np.ndarray  # decoding sequences, shape [..., LADDER]
    decode: np.ndarray  # s of a step at these, shape [..., LADDER]
    decode_joules: np.ndarray  # J of it, shape [..., LADDER]
    same: np.ndarray  # of every setting, the first one that decodes as it does, shape [settings]


def pool_steps(
    options: Options, wanted: np.ndarray, needs: Sequence[Demand], prices: Priced, estimates: Estimate
) -> PoolSteps:
    """`PoolSteps` of every wanted deployment, from the prices of the first pass.

    Args:
      needs: by setting.
      prices: of `sweeps.studies.compare.estimate.priced`.
      estimates: whose room for sequences it is.
    """
    shape = wanted.shape
    prompt = StepTimes(**{field.name: np.full(shape, np.nan) for field in dataclasses.fields(StepTimes)})
    joules, most = np.full(shape, np.nan), np.full(shape, np.nan)
    ladders, decode, decode_joules = (np.full((*shape, LADDER), np.nan) for _ in range(3))
    same = np.arange(shape[0])
    with eager():
        for group, costs in prices:
            place = group.hardware, options.model.model, group.deployment, options.efficiency
            every = list(group.settings)
            where = np.ix_(every, range(len(group.device)))
            # Settings by rows and deployments by columns, as positions in arrays of all deployments.
            where = where[0], group.device[where[1]], group.layout[where[1]]  # shape [settings, deployments]
            there = wanted[where]

            def filled(values: Array, there: np.ndarray = there) -> np.ndarray:
                """Values of shape [deployments, settings], or broadcast to it, as [settings, deployments]."""
                return np.where(there, np.broadcast_to(values, there.shape[::-1]).T, np.nan)

            # Prompts alone, all settings at once.
            policy = _columns([options.settings[setting].policy for setting in every])
            demand = _columns([needs[setting] for setting in every])
            times, energies = times_and_joules(prompt_times, costs.cost, *place, policy, demand)
            for field in dataclasses.fields(StepTimes):
                getattr(prompt, field.name)[where] = filled(getattr(times, field.name))
            if energies is not None:
                # A full step's energy per prompt is what a further prompt adds.
                joules[where] = filled(energies.further)

            # Steps that only decode: once for all settings in which they are the same.
            for setting in every:
                own, policy = (setting, group.device, group.layout), options.settings[setting].policy
                most[own] = np.where(wanted[own], np.minimum(estimates.cache[own], float(policy.max_sequences)), np.nan)
                # From one sequence to the most, evenly spaced in the logarithm.
                ladders[own] = np.maximum(most[own], 1.0)[:, None] ** np.linspace(0.0, 1.0, LADDER)
                # `same` points at an earlier setting, whose steps are there already.
                same[setting] = first = _same_decoding(options, every, setting)
                if first != setting:
                    decode[own], decode_joules[own] = (array[first, *own[1:]] for array in (decode, decode_joules))
                    continue
                steps = times_and_joules(decode_step_time, costs.cost, *place, policy, needs[setting], ladders[own])
                decode[own] = steps[0]
                if steps[1] is not None:
                    decode_joules[own] = steps[1]
    return PoolSteps(prompt, joules, most, ladders, decode, decode_joules, same)


def _columns(structs: Sequence[Any]) -> Any:
    """Structs of numbers as one whose leaves have shape [1, structs]."""
    return mapped(lambda *numbers: np.array(numbers, float).reshape(1, -1), structs[0], *structs[1:])


def _same_decoding(options: Options, settings: Sequence[int], setting: int) -> int:
    """The first of the settings in which steps without prompts are those of `setting`."""

    def decoding_part(policy: Policy) -> Policy:
        # Token budget, order and chunking only act on prompts: without prompts they change nothing.
        return dataclasses.replace(policy, token_budget=1.0, order=0.0, chunked=1.0)

    own = decoding_part(options.settings[setting].policy)
    return next(i for i in settings if decoding_part(options.settings[i].policy) == own)


def within(ladder: np.ndarray, values: np.ndarray, batch: np.ndarray) -> np.ndarray:
    """Values at batches as of `between`; beyond an end of the ladder, those of that end."""
    return between(values, ladder, np.clip(batch, 1.0, ladder[:, -1:]))


def decoding(ladder: np.ndarray, decode: np.ndarray, most: np.ndarray, needs: Demand, batch: np.ndarray) -> SteadyState:
    """A decode replica at batches of shape [deployments, n]; its TTFT is that of no prefill at all.

    Args:
      ladder, decode: shape [deployments, LADDER].
      most: shape [deployments].
      needs: leaves of shape [deployments, 1].
    """
    # A finite difference: how much one more sequence slows a step for the others, in s.
    times, longer = (within(ladder, decode, batch * (1.0 + step)) for step in (0.0, STEP))
    slope = np.maximum(longer - times, 0.0) / (batch * STEP)
    times = within(ladder, decode, np.ceil(batch))  # a replica decodes a whole number of sequences
    # Prompts come computed, so that they add nothing to a step, which has room for any number of them.
    steps = StepTimes(decode=times, first=0.0, further=0.0, steps=1.0, full=np.inf, filled=times)
    state = steady_state(steps, slope, needs, 0.0, batch, most[:, None])
    # TTFT is all but 0, with a spread that keeps its distribution regular.
    idle, all_of_them = np.full(batch.shape, IDLE), np.ones(batch.shape)
    state = dataclasses.replace(state, ttft=idle, ttft_alone=idle, meets=all_of_them)
    return dataclasses.replace(state, ttft_spread=0.1 * idle, ttft_alone_spread=0.1 * idle)


def together(prompts: PromptQueue, decode: SteadyState, handover: Scalar, alone: Scalar) -> SteadyState:
    """Latencies of requests that pass through both pools; TTFT has `handover` s beside the prefill pool's.

    Args:
      alone: s of a prefill step, which a request takes that waits for nothing.
    """
    # A distribution needs some spread: at least a millionth of the mean.
    spread = np.maximum(prompts.spread, 1e-6 * prompts.ttft)
    return dataclasses.replace(
        decode,
        step=np.maximum(decode.step, alone),
        ttft=prompts.ttft + handover,
        ttft_spread=spread,
        ttft_alone=np.minimum(alone, prompts.ttft) + handover,
        ttft_alone_spread=np.minimum(np.maximum(prompts.alone_spread, 1e-3 * alone), spread),
        meets=prompts.meets,
        use=np.maximum(prompts.use, decode.use),
    )


def no_decoding(load: np.ndarray) -> SteadyState:
    """A decode pool that takes no time at all at these loads, so that limits bind by the prefill pool alone."""
    nothing, none = np.full(load.shape, IDLE), np.zeros(load.shape)
    return SteadyState(
        batch=nothing,
        under_way=nothing,
        load=load,
        step=nothing,
        use=none,
        ttft=nothing,
        ttft_spread=nothing,
        meets=np.ones(load.shape),
        ttft_alone=nothing,
        ttft_alone_spread=nothing,
        tpot=nothing,
        tpot_varied=nothing,
        tpot_jumps=none,
        tpot_jump=none,
        even=none,
        briefness=np.ones(load.shape),
        held_back=none,
        wait=nothing,
        decode_steps=nothing,
        output_evenness=np.ones(load.shape),
    )


def prefill_loads(steps: PoolSteps, needs: Demand, limits: Sequence[Limit], delay: float) -> np.ndarray:
    """Requests/s of a prefill replica within the limits were the decode pool and the links infinitely fast.

    Args:
      needs: leaves of shape [settings, 1, 1].
      delay: s from a request to its place in the queue.

    Returns:
      Shape [settings, devices, layouts]; 0 where there is none.
    """
    there, own = _serving(steps, needs)
    with eager():
        times = mapped(lambda leaf: leaf[there][:, None], steps.prompt)
        # Loads as shares of the most that full steps do, shape [deployments, len(USES)].
        load = prompt_rate(times) * USES
        prompts = prompt_queue(load, times, own.evenness)
        return _largest(steps, there, load, together(prompts, no_decoding(load), delay, times.first), limits)


def decode_loads(steps: PoolSteps, needs: Demand, limits: Sequence[Limit]) -> np.ndarray:
    """Requests/s of a decode replica within the limits were the prefill pool and the links infinitely fast.

    Args, returns: as of `prefill_loads`.
    """
    # Settings that decode alike are searched once, by the first of them.
    firsts = np.isin(np.arange(len(steps.same)), steps.same)[:, None, None]
    there, own = _serving(steps, needs, firsts)
    ladder = steps.ladder[there]
    with eager():
        batch = LEAST_BATCH * (ladder[:, -1:] / LEAST_BATCH) ** np.linspace(0.0, 1.0, COARSE)
        state = decoding(ladder, steps.decode[there], steps.most[there], own, batch)
        return _largest(steps, there, state.load, state, limits)[steps.same]


def _serving(steps: PoolSteps, needs: Demand, among: np.ndarray | bool = True) -> tuple[tuple[Any, ...], Demand]:
    """Deployments that can serve, as positions, and the means of their requests, leaves of shape [deployments, 1]."""
    there = np.nonzero(np.isfinite(steps.most) & among)
    return there, mapped(lambda leaf: leaf[there[0], 0], needs)


def _largest(
    steps: PoolSteps, there: tuple[Any, ...], load: np.ndarray, state: SteadyState, limits: Sequence[Limit]
) -> np.ndarray:
    loads = np.zeros(steps.most.shape)
    loads[there] = np.max(np.where(keeps(state, limits), load, 0.0), axis=1)
    return loads
