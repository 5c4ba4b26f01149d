"""Disaggregated pools of a served comparison, simulated: the largest load at which both pools keep the target."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hwspaces.accelerators.prices import charged_devices
from jaxroof.deployment import on_one_device, replica_devices
from jaxroof.jobs.serve import serving_metrics
from jaxroof.numerics.arrays import eager
from sweeps.run.precision import precision
from sweeps.run.simulated.service import kinds, serviced
from sweeps.run.simulated.spec import serve_spec
from sweeps.serving.rows import row_spec
from sweeps.serving.run import Setup, setup
from sweeps.studies.compare.figures import figures_of
from sweeps.studies.compare.question import ServedQuestion
from sweeps.studies.compare.ranking import ascending
from sweeps.studies.compare.rows import Row
from sweeps.studies.compare.simulate import Search, keeps_up

STEP = 1.1
"""By how much the load moves from one simulation to the next while one end of the bracket is not known."""

MOST = 12
"""Simulations of one pair of pools at most."""


def simulated_pools(
    question: ServedQuestion,
    pools: Sequence[Row],
    ranked: Sequence[Row],
    metric: str,
    rate: float | None,
    headroom: float,
) -> tuple[tuple[Row, ...], int]:
    """The pools, those simulated whose estimate is better than all simulated rows; and the number of simulations.

    Pools that keep the target at no load that was simulated are left as estimates.

    Args:
      pools: estimated rows, best first.
      ranked: rows of replicas that both prefill and decode.
      metric, rate, headroom: as of `sweeps.compare`.
    """

    def order(row: Row) -> float:
        return float(ascending(np.array(row.metrics[metric]), metric))

    best = min((order(row) for row in ranked if row.simulated), default=math.inf)
    found, number = [], 0
    for row in pools:
        if not order(row) < best:
            found.append(row)
            continue
        row, simulations = _simulated(question, row, rate, headroom)
        number += simulations
        if row.simulated:
            best = min(best, order(row))
        found.append(row)
    return tuple(found), number


def _simulated(question: ServedQuestion, row: Row, rate: float | None, headroom: float) -> tuple[Row, int]:
    """One pair of pools at the largest load that keeps the target, and the number of simulations."""
    keys = row_spec({**dataclasses.asdict(row), "load": row.metrics["load"]}, {})
    given = setup(serve_spec(**keys))
    at = _figures_at(given)
    search, load, number = Search(), row.metrics["load"], 0
    while number < MOST and not search.known:
        metrics = at(load)
        number += 1
        columns = {name: np.array([value]) for name, value in metrics.items()}
        search.add(load, bool(keeps_up(columns, load, question.target)[0]), metrics)
        load = _next(search)
    if search.best is None:
        return row, number
    found = search.result(question.target)
    figures, best = _figures(question, row, given, found.load, rate, headroom), found.metrics
    if rate is not None:
        best = at(figures["requests_per_second"] / (figures["devices"] / row.devices))
        number += 1
    decodes = row.decode_replicas
    return dataclasses.replace(
        row,
        simulated=True,
        replicas=round(figures["devices"] / row.devices),
        fails=found.fails,
        binds=found.missed or row.binds,
        metrics={**row.metrics, **best, **figures, "load": found.load},
        spec={**row.spec, "rate": found.load / decodes},
    ), number


def _next(search: Search) -> float:
    """The load that is simulated next: beyond an end of the bracket that is not known, else its middle."""
    if not search.low > 0.0:
        return search.high / STEP
    return math.sqrt(search.low * search.high) if math.isfinite(search.high) else search.low * STEP


def _figures_at(given: Setup) -> Callable[[float], dict[str, float]]:
    """Metrics of the pools at a load in requests/s: the same requests, their times stretched."""
    scenario = given.scenario
    rate = float(given.spec.rate)  # type: ignore[arg-type]  # rows have one
    traffic = scenario.workload.traffic

    def at(load: float) -> dict[str, float]:
        sent = dataclasses.replace(traffic, arrival=traffic.arrival * (rate / load))
        work = dataclasses.replace(scenario.workload, traffic=sent)
        with precision("float64"):
            found = serviced(kinds(dataclasses.replace(scenario, workload=work)), given.routes)  # type: ignore[arg-type]
        with eager():
            metrics = serving_metrics(found.served, found.timelines, sent, found.blocks, work.objective)
        return {name: float(value) for name, value in metrics.items()}

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
