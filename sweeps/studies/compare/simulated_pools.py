"""Disaggregated pools of a served comparison, simulated: the largest load at which both pools keep the target."""

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from hwspaces.accelerators.prices import charged_devices
from jaxroof.deployment import on_one_device, replica_devices
from jaxroof.jobs.serve import serving_metrics
from jaxroof.numerics.arrays import eager
from sweeps.data.labels import number
from sweeps.run.precision import precision
from sweeps.run.simulated.service import prepared, room_for
from sweeps.run.simulated.service_room import Room, common_room
from sweeps.run.simulated.spec import serve_spec
from sweeps.serving.bracket import bracket, waited_of_pools
from sweeps.serving.rows import row_spec
from sweeps.serving.run import Setup, setup
from sweeps.studies.compare.figures import figures_of
from sweeps.studies.compare.question import ServedQuestion
from sweeps.studies.compare.ranking import LIMIT, ascending, within
from sweeps.studies.compare.rows import Row
from sweeps.studies.compare.search import NEAR
from sweeps.studies.compare.simulate import TOLERANCE

MOST = 12
"""Simulations of one pair of pools at most."""

USUAL = 6
"""Simulations of one pair of pools, about."""

EACH = 3
"""Pairs of an accelerator that are simulated at most."""


def _nothing(simulations: int) -> None:
    """What is called with simulations that are done, where nobody asks."""


class SimulatedPools(NamedTuple):
    """Pools of all accelerators."""

    rows: tuple[Row, ...]  # those that serve, simulated or estimated
    missed: tuple[Row, ...]  # those that kept the limits at no load that was simulated
    simulations: int


def simulated_pools(
    question: ServedQuestion,
    pools: Sequence[Row],
    ranked: Sequence[Row],
    metric: str,
    rate: float | None,
    headroom: float,
    begun: Callable[[int], Callable[[int], None]] = lambda simulations: _nothing,
) -> SimulatedPools:
    """The pools, of every accelerator those simulated whose estimate is near all of it that is simulated, or better.

    Those that are estimated worse are simulated at the load first at which they would be as good; where they miss the
    target at it, they are left as estimates. What is found for an accelerator does not depend on the others. Of the
    whole catalogue, only accelerators are looked at of which a replica is simulated, and those whose pools are
    estimated near all simulated rows. Where no pools of an accelerator are simulated, their best estimate is left.

    Args:
      pools: estimated rows, several of each accelerator, best first.
      ranked: rows of replicas that both prefill and decode.
      metric, rate, headroom, begun: as of `sweeps.compare`.
    """

    def order(row: Row) -> float:
        return float(ascending(np.array(row.metrics[metric]), metric))

    best: dict[str, float] = {}  # of every accelerator with simulated rows
    for row in ranked:
        if row.simulated:
            best[row.hardware] = min(order(row), best.get(row.hardware, math.inf))
    least = min(best.values(), default=math.inf)

    bars = {row.hardware: best.get(row.hardware, least if question.every_accelerator else math.inf) for row in pools}
    near = {
        name: [row for row in [row for row in pools if row.hardware == name][:EACH] if order(row) < within(bar, NEAR)]
        for name, bar in bars.items()
    }
    # Room for all that may be simulated: they share a program.
    room = common_room_of(question, [row for rows in near.values() for row in rows])
    done = begun(sum(USUAL + len(rows) - 1 for rows in near.values() if rows)) if room is not None else _nothing

    def of_accelerator(name: str) -> tuple[list[Row], list[Row], int]:
        own, bar = [row for row in pools if row.hardware == name], bars[name]
        tried: list[Row] = []
        simulations = 0
        for row in near[name]:
            if not order(row) < within(bar, NEAR):
                break
            # The metric is inverse to the load, or grows with it where more is better, which has a negative order.
            worse = order(row) / bar if bar > 0.0 else bar / order(row)
            found, count = simulated(question, row, rate, headroom, done, max(worse, 0.0), room)
            simulations += count
            tried.append(found)
            bar = min(bar, order(found)) if found.simulated else bar
        serving = [row for row in tried if row.simulated]
        left = [row for row in (*tried, *own[len(tried) :]) if row.reason is None]
        return serving or left[:1], [row for row in tried if row.reason is not None], simulations

    found = [of_accelerator(name) for name in dict.fromkeys(row.hardware for row in pools)]
    rows = [row for serving, _, _ in found for row in serving]
    missed = [row for _, missing, _ in found for row in missing]
    simulations = sum(count for _, _, count in found)
    return SimulatedPools(tuple(rows), tuple(missed), simulations)


def simulated(
    question: ServedQuestion,
    row: Row,
    rate: float | None,
    headroom: float,
    done: Callable[[int], None] = _nothing,
    worse: float = 0.0,
    room: Room | None = None,
) -> tuple[Row, int]:
    """One pair of pools at the largest load that keeps the target, or why there is none; and the simulations.

    Args:
      worse: how many times its estimated load it has to take to be of use: where that is above 1 and it does not, the
        row is left as it is.
      room: as of `common_room_of` rows with this one; None: its own.
    """
    row, given = _given(question, row)
    decodes = row.decode_replicas
    at = _figures_at(given, done, room)
    load = row.metrics["load"]
    if worse > 1.0:
        found = bracket(at, worse * load, question.target, TOLERANCE, 1)
        if not found.low > 0.0:
            return row, 1
        load = found.low
    found = bracket(at, load, question.target, TOLERANCE, MOST)
    count = found.simulations
    if not found.low > 0.0:
        reason = f"misses its limits when simulated: {found.missed} at {number(found.high)} requests/s"
        return dataclasses.replace(row, stage=LIMIT, distance=1.0, reason=reason), count
    figures, best, sent = _figures(question, row, given, found.low, rate, headroom), found.best, found.low
    # With a rate, figures are those at the load that each unit of both pools gets.
    if rate is not None:
        sent = figures["requests_per_second"] / (figures["devices"] / row.devices)
        best = at(sent)
        count += 1
    return dataclasses.replace(
        row,
        simulated=True,
        replicas=round(figures["devices"] / row.devices),
        fails=found.high,
        binds=found.missed or row.binds,
        metrics={**row.metrics, **_without_waited(best), **figures, "load": found.low},
        spec={**row.spec, "rate": sent / decodes},
        prefill={**(row.prefill or {}), "decode_batch": math.ceil(best["batch_mean"])},
    ), count


def common_room_of(question: ServedQuestion, rows: Sequence[Row]) -> Room | None:
    """What the program of all these pools is compiled for; None where there are none."""
    with precision("float64"):
        setups = [_given(question, row)[1] for row in rows]
        rooms = [room_for(one.kinds, one.routes) for one in setups]  # type: ignore[arg-type]  # pools have routes
    return common_room(rooms, USUAL) if rooms else None


def _given(question: ServedQuestion, row: Row) -> tuple[Row, Setup]:
    """The row with the number of requests that it is simulated with, and the setup of its simulation."""
    # As many requests as the sequences of all decoding replicas ask for, not those of one.
    if not question.requests.counted:
        requests = question.requests.number_of_pools(row.metrics["batch_mean"] * row.decode_replicas)
        row = dataclasses.replace(row, spec={**row.spec, "requests": requests})
    return row, setup(serve_spec(**row_spec(dataclasses.asdict(row), {})))


def _without_waited(metrics: Mapping[str, float]) -> dict[str, float]:
    """Metrics that have a name and a unit for users: `waited_mean` is what loads are judged by."""
    return {name: value for name, value in metrics.items() if name != "waited_mean"}


def _figures_at(given: Setup, done: Callable[[int], None], room: Room | None) -> Callable[[float], dict[str, float]]:
    """Metrics of the pools at a load in requests/s: the same requests, their times stretched."""
    scenario = given.scenario
    rate = float(given.spec.rate)  # type: ignore[arg-type]  # rows have one
    traffic = scenario.workload.traffic
    most, output = float(given.policy.max_sequences) * given.replicas, given.load.stream.osl
    with precision("float64"):
        service = prepared(given.kinds, given.routes, room)  # type: ignore[arg-type]  # pools have routes

    @functools.cache
    def at(load: float) -> dict[str, float]:
        sent = dataclasses.replace(traffic, arrival=traffic.arrival * (rate / load))
        with precision("float64"):
            found = service.served(sent)
        with eager():
            metrics = serving_metrics(found.served, found.timelines, sent, found.blocks, scenario.workload.objective)
        done(1)
        figures = {name: float(value) for name, value in metrics.items()}
        return figures | {"waited_mean": waited_of_pools(found.served, load, most, output, figures)}

    return at


def _figures(
    question: ServedQuestion, row: Row, given: Setup, load: float, rate: float | None, headroom: float
) -> dict[str, Any]:
    """Figures of the pools at their largest load, as those of estimated pools."""
    options, device = question.options, row.place[1]
    server = float(options.servers[device])
    scenario = given.scenario
    pools = [scenario.deployment] if scenario.prefill is None else [scenario.prefill.deployment, scenario.deployment]
    charged = sum(float(pool.dp) * float(charged_devices(replica_devices(pool), server)) for pool in pools)
    one = dataclasses.replace(on_one_device(options.deployments[0][0]), dp=1.0)
    output = float(np.mean(question.requests.sample.osl))
    columns = (np.array([float(row.devices)]), np.array([charged]), server, np.array([load]))
    joules = np.array([row.metrics["joules_per_token"]])
    figures = figures_of(options.hardware(device), one, *columns, joules, output, rate, headroom)
    return {name: float(values[0]) for name, values in figures.items()}
