"""Largest load of pairs of pools: steps and waiting of the job of two pools, within limits of the steady state."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxroof.deployment import request_groups
from jaxroof.deployment.acceptance import AcceptanceTable
from jaxroof.jobs.disaggregated import Handover, HandoverCost, disaggregated_cost
from jaxroof.jobs.scenario import Pool
from jaxroof.numerics.arrays import eager
from jaxroof.numerics.tree import mapped, structure
from jaxroof.steady.latencies import mean_ttft
from jaxroof.steady.queue import PromptQueue, prompt_queue, prompt_steps
from jaxroof.steady.steady_state import Demand, SteadyState
from sweeps.studies.compare.candidates import Options
from sweeps.studies.compare.estimate import Estimate, Priced, keeps
from sweeps.studies.compare.pools import LEAST_BATCH, PoolSteps, decoding, together, within
from sweeps.studies.compare.question import ServedQuestion

FULLEST = 0.999
"""Load of a pair at most, over what its pools and the links can do."""

IDLE = 1e-9
"""Requests/s of a pair that can serve none."""

COARSE, FINE = 64, 24
"""Batches that this search looks at, first over all, then between two of these."""


@dataclasses.dataclass(frozen=True, eq=False)
class FirstPass:
    """Results of the first pass of a served comparison; arrays of shape [settings, devices, layouts]."""

    wanted: np.ndarray  # bool: deployments that hold the model and one request
    needs: Sequence[Demand]  # by setting
    prices: Priced  # of the wanted deployments' steps
    estimate: Estimate


@dataclasses.dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of pools of one accelerator each; arrays of shape [pairs]."""

    device: np.ndarray
    prefill: np.ndarray  # (setting, layout) of a prefill replica, shape [pairs, 2]
    decode: np.ndarray  # of a decode replica, shape [pairs, 2]
    replicas: np.ndarray  # that prefill and that decode, shape [pairs, 2]
    devices: np.ndarray  # of a replica of each, shape [pairs, 2]
    transfer: np.ndarray  # s that the cache of one request is on its way
    load: np.ndarray  # requests/s of the whole pair, at most

    @property
    def total(self) -> np.ndarray:
        """Devices of both pools."""
        return (self.replicas * self.devices).sum(axis=1)

    def of(self, chosen: np.ndarray) -> "Pairs":
        """Some of them."""
        return Pairs(*(getattr(self, field.name)[chosen] for field in dataclasses.fields(self)))


def places_of(pairs: Pairs, pool: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Settings, accelerators and layouts of one pool of every pair, "prefill" or "decode"."""
    setting, layout = getattr(pairs, pool).T
    return setting, pairs.device, layout


def _jobs(
    question: ServedQuestion, first_pass: FirstPass, pairs: Pairs, batch: np.ndarray, rate: np.ndarray
) -> HandoverCost:
    """What the job of two pools says of every pair; arguments as of `_job`."""
    costs = []
    # A job has accelerators of one structure: pairs are grouped by it and put back in their order afterwards.
    for devices in _alike(question.options, np.unique(pairs.device)):
        (own,) = np.nonzero(np.isin(pairs.device, devices))
        costs.append((own, _job(question, first_pass, pairs.of(own), batch[own], rate[own])))
    order = np.argsort(np.concatenate([own for own, _ in costs]))
    # Leaves that do not depend on the batch become as wide as the others, to be joined.
    wide = [mapped(lambda leaf, own=own: np.broadcast_to(leaf, (len(own), batch.shape[1])), one) for own, one in costs]
    return mapped(lambda *leaves: np.concatenate(leaves)[order], wide[0], *wide[1:])


def _alike(options: Options, devices: np.ndarray) -> list[list[int]]:
    """Accelerators of one structure each, by position."""
    kinds: dict[Any, list[int]] = {}
    for device in map(int, devices):
        kinds.setdefault(structure(options.hardware(device)), []).append(device)
    return list(kinds.values())


def _column(trees: Sequence[Any]) -> Any:
    """Trees of numbers of one structure as one, leaves of shape [trees, 1]."""
    return mapped(lambda *leaves: np.array(leaves, float)[:, None], trees[0], *trees[1:])


def _acceptance(each: list[Any]) -> Any:
    """Acceptance of all pairs, shape [pairs, 1]; a table is that of all settings."""
    return each[0] if isinstance(each[0], AcceptanceTable) else np.array(each)[:, None]


def _job(
    question: ServedQuestion, first_pass: FirstPass, pairs: Pairs, batch: np.ndarray, rate: np.ndarray
) -> HandoverCost:
    """What `jaxroof disaggregate` says of pairs, their accelerators of one structure, at batches of shape [pairs, n].

    Args:
      rate: requests/s of every pair, shape [pairs, 1]; `IDLE`: nobody waits.
    """
    options, stream = question.options, question.requests.sample
    hardware = _column([options.hardware(int(device)) for device in pairs.device])
    ends = []
    for pool, position in (("prefill", 0), ("decode", 1)):
        # The replicas of a pool are the degree dp of its deployment.
        deployments = [
            dataclasses.replace(options.deployments[setting][layout], dp=float(replicas))
            for (setting, layout), replicas in zip(getattr(pairs, pool), pairs.replicas[:, position], strict=True)
        ]
        ends.append(Pool(hardware=hardware, deployment=_column(deployments), efficiency=options.efficiency))
    # Policies of the decode pool say what is drafted; the prefix cache is that of its setting, too.
    settings, images = pairs.decode[:, 0], first_pass.needs[0].encode
    work = Handover(
        batch=batch,
        isl=float(np.mean(stream.isl)),
        osl=float(np.mean(stream.osl)),
        cached=np.array([first_pass.needs[setting].cached for setting in settings])[:, None],
        acceptance=_acceptance([options.settings[setting].policy.acceptance for setting in settings]),
        prompts=prompts_of(question, first_pass, pairs)[:, None],
        hidden_host=np.array([options.settings[setting].policy.hidden_host for setting in settings])[:, None],
        encoder_tokens=None if images is None else images.tokens,
        encoder_inputs=None if images is None else images.sequences,
        rate=rate,
    )
    with eager():
        return disaggregated_cost(ends[0], ends[1], options.model.model, work)


def prompts_of(question: ServedQuestion, first_pass: FirstPass, pairs: Pairs) -> np.ndarray:
    """Prompts of one prefill step, shape [pairs]: as many as its token budget has room for, and one of every group."""
    options = question.options
    prompts = []
    for setting, layout in pairs.prefill:
        groups = float(request_groups(options.deployments[setting][layout]))
        # Whole prompts within the token budget of one step.
        room = float(options.settings[setting].policy.token_budget) // first_pass.needs[setting].prompt
        prompts.append(max(groups, room))
    return np.array(prompts)


def largest(
    question: ServedQuestion, first_pass: FirstPass, steps: PoolSteps, pairs: Pairs
) -> tuple[np.ndarray, dict[str, np.ndarray], np.ndarray]:
    """Largest load in requests/s, 0 where none; latencies there; and what stops a larger one, shape [pairs] each.

    Steps and waiting are those of the job of two pools, `jaxroof.disaggregated_cost`, their spread that of the steady
    state. Steps between two batches of the ladder are found again from the step of the batch itself.
    """
    nobody = np.full((len(pairs.load), 1), IDLE)  # waits
    job = _jobs(question, first_pass, pairs, steps.ladder[places_of(pairs, "decode")], nobody)
    # First on the ladder; then again with steps scaled by the ratio of the job's TPOT to the interpolated one.
    for last in (False, True):
        load, at, binding = _within_limits(question, first_pass, steps, pairs, job)
        own = _jobs(question, first_pass, pairs, at["batch"][:, None], nobody)
        if not last:
            job = dataclasses.replace(job, tpot=job.tpot * own.tpot / at["tpot_mean"][:, None])
    # At its own batch the job may do less than the steady state: its slowest stage is the limit.
    load = np.minimum(load, FULLEST * own.rate[:, 0])
    own = _jobs(question, first_pass, pairs, at["batch"][:, None], np.maximum(load, IDLE)[:, None])
    return load, at | {"ttft_mean": own.ttft[:, 0], "tpot_mean": own.tpot[:, 0]}, binding


def _within_limits(
    question: ServedQuestion, first_pass: FirstPass, steps: PoolSteps, pairs: Pairs, job: HandoverCost
) -> tuple[np.ndarray, dict[str, np.ndarray], np.ndarray]:
    """As `largest`, from what the job says at the batches of the ladder, that nobody waits for."""
    limits, second = question.limits, places_of(pairs, "decode")
    ladder, most = steps.ladder[second], steps.most[second]
    needs = mapped(lambda *leaves: np.array(leaves)[second[0], None], first_pass.needs[0], *first_pass.needs[1:])
    # Without waiting TTFT = delay + prefill step + rest of a decode step + transfer that is left; shape [pairs, 1].
    first, exposed = job.first[:, :1], job.exposed[:, :1]
    delay = float(question.options.efficiency.host.request_time)
    links = job.transfer_rate[:, 0]
    room, replicas = prompts_of(question, first_pass, pairs)[:, None], pairs.replicas[:, :1]
    # s of a full step of one prefill replica.
    whole = room * replicas / job.prefill_rate[:, :1]
    with eager():
        times = prompt_steps(first, whole, room)

        def state(batch: np.ndarray) -> tuple[np.ndarray, PromptQueue, SteadyState]:
            decodes = decoding(ladder, job.tpot, most, needs, batch)
            load = decodes.load * pairs.replicas[:, 1:]
            prompts = prompt_queue(load / replicas, times, needs.evenness, replicas)
            handover = delay + exposed + within(ladder, job.taken, batch)
            return load, prompts, together(prompts, decodes, handover, first)

        def fine(load: np.ndarray, both: SteadyState) -> np.ndarray:
            return keeps(both, limits) & (load < links[:, None])

        # Batches of the decode pool's replicas, evenly spaced in their logarithm; then between two of them.
        coarse = LEAST_BATCH * (ladder[:, -1:] / LEAST_BATCH) ** np.linspace(0.0, 1.0, COARSE)
        load, _, both = state(coarse)
        best = np.where(fine(load, both), load, -1.0).argmax(axis=1)[:, None]
        low, high = (np.take_along_axis(coarse, np.minimum(best + more, COARSE - 1), axis=1) for more in (0, 1))
        batch = low * (high / low) ** np.linspace(0.0, 1.0, FINE)
        load, prompts, both = state(batch)
        good = np.where(fine(load, both), load, 0.0)
        best = good.argmax(axis=1)[:, None]
        after = np.minimum(best + 1, FINE - 1)
        arrays = {
            "ttft_mean": mean_ttft(both),
            "tpot_mean": both.tpot,
            "batch_mean": both.under_way,
            "batch": np.ceil(both.batch),
            "prefill_use": prompts.use,
        }
        at = {name: np.take_along_axis(array, best, axis=1)[:, 0] for name, array in arrays.items()}
        # What the next larger batch misses first: limits in their order, then the prefill pool, then the links.
        missed = [limit.shortfall(both) > 0.0 for limit in limits] + [prompts.use >= 1.0, load >= links[:, None]]
        stops = np.stack([np.take_along_axis(np.broadcast_to(one, load.shape), after, axis=1)[:, 0] for one in missed])
        # Where nothing is missed the batch is the largest there is: the decode pool is full.
        binding = np.where(stops.any(axis=0), stops.argmax(axis=0), len(missed))
    return np.take_along_axis(good, best, axis=1)[:, 0], at, binding
