"""Disaggregated pools as rows of a served comparison: prompts on some replicas, decoding on others, as estimated."""

import dataclasses
import math
from collections.abc import Iterator

import numpy as np

from hwspaces.accelerators.prices import charged_devices
from jaxroof.deployment import on_one_device, replica_devices
from jaxroof.jobs.scenario import Pool
from jaxroof.jobs.splits import lane_time, transfer_bytes
from jaxroof.numerics.arrays import eager
from jaxroof.numerics.tree import mapped
from jaxroof.steady.steady_state import LEAST_STEPS, Demand
from sweeps.ask.layouts import label, reach
from sweeps.studies.compare.estimate import LADDER, sequences
from sweeps.studies.compare.figures import figures_of
from sweeps.studies.compare.pairs import FirstPass, Pairs, largest, places_of, prompts_of
from sweeps.studies.compare.pools import PoolSteps, decode_loads, pool_steps, prefill_loads, within
from sweeps.studies.compare.question import ServedQuestion
from sweeps.studies.compare.ranking import ascending
from sweeps.studies.compare.rows import Row, limit_text, ranked_row

MOST_REPLICAS = 8
"""Replicas of one pool at most."""

RATIOS = np.array(
    [(p, d) for p in range(1, MOST_REPLICAS + 1) for d in range(1, MOST_REPLICAS + 1) if math.gcd(p, d) == 1]
)
"""Replicas that prefill and that decode: whole numbers without a common factor, which would be two such units."""

CANDIDATES = 24
"""Pairs of an accelerator whose load is searched with both pools and the links together."""


def pool_rows(
    question: ServedQuestion,
    first_pass: FirstPass,
    metric: str,
    rate: float | None = None,
    headroom: float = 0.0,
    each: int = 1,
) -> tuple[Row, ...]:
    """The best pairs of pools of every accelerator that serve within the limits, best first; none is simulated.

    Both pools have the same accelerator and precision of the cache, each its own layout and number of replicas;
    together at most as many devices as the largest replica that was asked for, and as its links connect.

    Args:
      metric, rate, headroom: as of `sweeps.compare`.
      each: pairs of an accelerator at most.
    """
    options = question.options
    # Means of the requests by setting, leaves of shape [settings, 1, 1].
    needs = mapped(lambda *leaves: np.array(leaves).reshape(-1, 1, 1), first_pass.needs[0], *first_pass.needs[1:])
    steps = pool_steps(options, first_pass.wanted, first_pass.needs, first_pass.prices, first_pass.estimate)
    output = float(np.mean(question.requests.sample.osl))
    candidates = []
    # A bound on the load first: the least of what either pool and the links can do alone.
    for pairs in _pairs(question, first_pass, steps, needs):
        joules = _joules(question, first_pass, steps, pairs, pairs.load)
        values = ascending(_figures(question, pairs, pairs.load, joules, output, rate, headroom)[metric], metric)
        # Of equal values the pair of fewer devices first.
        best = np.lexsort((pairs.total, values))[:CANDIDATES]
        candidates.append(pairs.of(best[np.isfinite(values[best])]))
    if not candidates:
        return ()
    every = Pairs(
        *(
            np.concatenate([getattr(pairs, field.name) for pairs in candidates])
            for field in dataclasses.fields(candidates[0])
        )
    )
    # The search proper, for all accelerators at once: both pools and the links together.
    load, state, binding = largest(question, first_pass, steps, every)
    joules = _joules(question, first_pass, steps, every, load)
    rows = []
    # Bounds may order pairs otherwise than their loads do, so that each accelerator's best is chosen again.
    for device in np.unique(every.device):
        (own,) = np.nonzero(every.device == device)
        figures = _figures(question, every.of(own), load[own], joules[own], output, rate, headroom)
        values = ascending(figures[metric], metric)
        for i in np.lexsort((every.total[own], values))[:each]:
            if np.isfinite(values[i]):
                chosen = {name: float(array[i]) for name, array in figures.items()}
                rows.append(_row(question, first_pass, steps, every, own[i], chosen, load, state, binding))
    return tuple(sorted(rows, key=lambda row: _order(row, metric)))


def with_pools(rows: tuple[Row, ...], pools: tuple[Row, ...], metric: str) -> tuple[Row, ...]:
    """Ranked rows of both kinds, simulated ones first; of equal ones the replica that does both comes first."""
    return tuple(
        sorted((*rows, *pools), key=lambda row: (not row.simulated, _order(row, metric), row.prefill is not None))
    )


def _order(row: Row, metric: str) -> float:
    return float(ascending(np.array(row.metrics[metric]), metric))


def _pairs(question: ServedQuestion, first_pass: FirstPass, steps: PoolSteps, needs: Demand) -> Iterator[Pairs]:
    """Of every accelerator, each number of devices of both pools at its best layout, in every ratio."""
    options = question.options
    if not first_pass.prices:  # no deployment holds the model
        return
    # Layouts are the same in all settings, and so are their devices.
    used = np.array([int(replica_devices(deployment)) for deployment in options.deployments[0]])
    sizes = np.unique(used)
    first = prefill_loads(steps, needs, question.limits, float(options.efficiency.host.request_time))
    second = decode_loads(steps, needs, question.limits)
    transfer = _transfers(question, first_pass, sizes)
    # Both pools need one precision of the cache: a pair is made within settings of equal deployments.
    alike = list(dict.fromkeys(group.settings for group, _ in first_pass.prices))  # of the same precisions
    for device in range(len(options.devices)):
        most = min(float(used.max()), reach(options.devices[device].hardware))
        columns_by_settings: list[list[np.ndarray]] = []
        for settings in alike:
            # For every number of devices the best layout and setting of either pool by itself.
            best = [_best_of_sizes(loads[list(settings), device], used, sizes) for loads in (first, second)]
            # Every size of a prefill replica with every size of a decode replica, in every ratio of their numbers.
            p, d, r = (axis.ravel() for axis in np.indices((len(sizes), len(sizes), len(RATIOS))))
            loads = np.stack([best[0][0][p], best[1][0][d]], axis=1) * RATIOS[r]
            # As many lanes as the smaller replica has devices: `sizes` rises, so that its index is the lower one.
            sent = transfer[settings[0], device, np.minimum(p, d)]
            # Requests/s of the unit: the slower pool, or the links, of which each pair of replicas has its own.
            load = np.minimum(loads.min(axis=1), RATIOS[r].min(axis=1) / sent)
            counts = np.stack([sizes[p], sizes[d]], axis=1)
            can = (load > 0.0) & ((counts * RATIOS[r]).sum(axis=1) <= most)
            places = [np.stack([np.array(settings)[s], w], axis=1) for _, s, w in best]
            columns = (places[0][p], places[1][d], RATIOS[r], counts, sent, load)
            columns_by_settings.append([column[can] for column in columns])
        joined = [np.concatenate(parts) for parts in zip(*columns_by_settings, strict=True)]
        if len(joined[0]):
            yield Pairs(np.full(len(joined[0]), device), *joined)


def _best_of_sizes(loads: np.ndarray, used: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, ...]:
    """Largest load, its setting and its layout for every number of devices, from loads of shape [settings, layouts]."""
    best = [(0.0, 0, 0)] * len(sizes)
    for i, size in enumerate(sizes):
        # -1 is below every load, so that only layouts of this size are chosen from.
        of = np.where(used == size, loads, -1.0)
        setting, layout = np.unravel_index(int(of.argmax()), of.shape)
        best[i] = float(of[setting, layout]), int(setting), int(layout)
    return tuple(np.array(column) for column in zip(*best, strict=True))


def _transfers(question: ServedQuestion, first_pass: FirstPass, sizes: np.ndarray) -> np.ndarray:
    """s that one request's cache is on its way over so many links, [settings, devices, sizes]; NaN without links."""
    options = question.options
    tokens = float(np.mean(question.requests.sample.isl))
    seconds = np.full((len(options.settings), len(options.devices), len(sizes)), np.nan)
    for group, _ in first_pass.prices:
        # A transfer depends on the accelerator and the cache, not on the layout: one row per accelerator is enough.
        devices, first = np.unique(group.device, return_index=True)
        links = group.hardware.links
        where = np.ix_(np.array(group.settings), devices)
        if (links.scale_up is None and links.scale_out is None) or np.isfinite(seconds[where]).all():
            continue
        deployment = options.deployments[group.settings[0]][0]
        hardware = mapped(lambda leaf, first=first: leaf[first], group.hardware)
        with eager():
            part = transfer_bytes(options.model.model, deployment, tokens) / sizes
            seconds[where] = lane_time(
                Pool(hardware=hardware, deployment=deployment, efficiency=options.efficiency), part
            )
    return seconds


def _joules(
    question: ServedQuestion, first_pass: FirstPass, steps: PoolSteps, pairs: Pairs, load: np.ndarray
) -> np.ndarray:
    """J of all devices of both pools per request at `load` requests/s, static power included; NaN where unknown."""
    first, second = places_of(pairs, "prefill"), places_of(pairs, "decode")
    options = question.options
    steps_each = np.array([max(needs.output - 1.0, LEAST_STEPS) for needs in first_pass.needs])  # of a request
    static = np.array([device.hardware.power.static or math.nan for device in options.devices], float)[pairs.device]
    with eager():
        # The batch at this load, on the ladder: load = batch / (steps x time of a step).
        ladder, decode = steps.ladder[second], steps.decode[second]
        # Sequence steps per s that every decode replica has to do, shape [pairs, 1].
        taken = (load / pairs.replicas[:, 1] * steps_each[second[0]])[:, None]
        rates = ladder / decode
        below = np.clip((rates <= taken).sum(axis=1) - 1, 0, LADDER - 2)[:, None]
        ends = [np.take_along_axis(array, below + more, axis=1) for array in (ladder, rates) for more in (0, 1)]
        share = np.clip((taken - ends[2]) / (ends[3] - ends[2]), 0.0, 1.0)
        # Below the ladder's first rate there is one sequence at a time, for a part of the time only.
        batch = np.where(taken < rates[:, :1], 1.0, ends[0] + share * (ends[1] - ends[0]))
        busy = np.minimum(taken / rates[:, :1], 1.0)[:, 0]
        joules = within(ladder, steps.decode_joules[second], batch) / within(ladder, decode, batch)
        # W of one device beside static power: J per prompt times prompts/s, and J per s of decode steps.
        watts = (load / pairs.replicas[:, 0] * steps.prompt_joules[first], joules[:, 0] * busy)
        counts = pairs.replicas * pairs.devices
        return sum(counts[:, i] * (static + watts[i]) for i in range(2)) / load


def _figures(
    question: ServedQuestion,
    pairs: Pairs,
    load: np.ndarray,
    joules: np.ndarray,
    output: float,
    rate: float | None,
    headroom: float,
) -> dict[str, np.ndarray]:
    """Figures of pairs of one accelerator at their largest load, those of `sweeps.studies.compare.figures.figures`."""
    options = question.options
    hardware = options.hardware(int(pairs.device[0])) if len(pairs.device) else options.hardware(0)
    # Devices of both pools are counted alike, so that a single device stands for the price of each.
    one = dataclasses.replace(on_one_device(options.deployments[0][0]), dp=1.0)
    server = float(options.servers[int(pairs.device[0])]) if len(pairs.device) else 1.0
    charged = (pairs.replicas * charged_devices(pairs.devices, server)).sum(axis=1)
    return figures_of(hardware, one, pairs.total, charged, server, load, joules / output, output, rate, headroom)


def _row(
    question: ServedQuestion,
    first_pass: FirstPass,
    steps: PoolSteps,
    pairs: Pairs,
    i: int,
    figures: dict[str, float],
    load: np.ndarray,
    at: dict[str, np.ndarray],
    binding: np.ndarray,
) -> Row:
    """The row of one pair: its own settings are those of the decode pool."""
    options, device = question.options, int(pairs.device[i])
    prefills, decodes = (int(number) for number in pairs.replicas[i])
    (first, prefill), (second, decode) = ((int(a), int(b)) for a, b in (pairs.prefill[i], pairs.decode[i]))
    if steps.same[first] == steps.same[second]:
        second = first  # decodes as well, and one policy describes both pools
    position, policy = (second, device, decode), options.settings[second].policy
    batch = float(at["batch_mean"][i])
    # The decode pool's flag for sequences at once, as of a replica that does both.
    running = sequences(policy, batch, float(steps.most[position]), False)
    base = ranked_row(question, first_pass.estimate, figures, position, int(pairs.total[i]), None, running, 0)
    # W of one device: J per token x tokens per request x requests/s, over all devices of the pair.
    power = figures["joules_per_token"] * float(np.mean(question.requests.sample.osl)) * load[i] / pairs.total[i]
    # In the order of the indices that `largest` returns.
    words = [limit_text(limit) for limit in question.limits]
    words += ["prefill pool", "links between the pools", "decode pool"]
    layouts = [label(options.layouts[layout]) for layout in (prefill, decode)]
    setting = options.settings[first]
    share = figures["rented_devices"] / figures["devices"]  # of servers, for every device of either pool
    charged = [{} if share == 1.0 else {"charged": share * float(count)} for count in pairs.devices[i]]
    return dataclasses.replace(
        base,
        layout=f"prefill {prefills} x {layouts[0]} + decode {decodes} x {layouts[1]}",
        binds=words[int(binding[i])],
        metrics={
            **base.metrics,
            **{name: float(array[i]) for name, array in at.items() if name != "batch"},
            "load": float(load[i]),
            "power": float(power),
        },
        spec={
            **base.spec,
            "deployment": {**base.spec["deployment"], **charged[1]},
            "rate": float(load[i]) / decodes,
        },
        prefill={
            "deployment": {
                **{name: degree for name, degree in options.layouts[prefill].items() if degree > 1 or name == "tp"},
                **setting.deployment,
                **charged[0],
            },
            "replicas": prefills,
            "hardware": options.devices[device].name,
            "policy": dict(setting.changes),
            "prompts": int(prompts_of(question, first_pass, pairs.of(np.array([i])))[0]),
            "decode_batch": int(at["batch"][i]),
        },
        decode_replicas=decodes,
    )
