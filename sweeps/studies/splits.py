"""Splits of devices between prefill and decode: latencies of each at every load, and the best one."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from hwspaces import formatted
from hwspaces.quantities.units import plain_arguments
from jaxroof.deployment import replica_devices
from jaxroof.jobs.disaggregated import DISAGGREGATED, step_prompts
from jaxroof.jobs.scenario import Pool
from jaxroof.jobs.serve import Objective
from jaxroof.jobs.splits import Curve, split_latency
from jaxroof.numerics.arrays import eager
from jaxroof.numerics.struct import given
from sweeps.ask.cases import Case
from sweeps.ask.layouts import MOST_DEVICES
from sweeps.ask.names import variable_attributes
from sweeps.run.evaluate import evaluate
from sweeps.run.points import Points, answers
from sweeps.run.simulated.objective import limits, slo_text

BATCHES = np.unique(np.round(2.0 ** np.arange(0.0, 10.01, 0.5)))
"""Sequences at once for which a decode replica is evaluated: up to 1024, as far as they fit."""

IDLE = 1e-9
"""Requests/s at which nobody waits."""


def replica_curve(case: Case) -> Curve:
    """Latencies of one replica of each pool of `case`, over the decode batches that fit; NumPy float64.

    Raises:
      ValueError: one line, where not even one sequence fits.
    """
    scenario = case.scenario
    # One replica of each pool without a load: waiting and the number of replicas come later, by `split_latency`.
    one = dataclasses.replace(scenario.deployment, dp=1.0)
    pool = _prefill(case)
    alone = dataclasses.replace(pool, deployment=dataclasses.replace(pool.deployment, dp=1.0))
    work = dataclasses.replace(scenario.workload, rate=IDLE)
    scenario = dataclasses.replace(scenario, deployment=one, prefill=alone, workload=work)
    waits = ("prefill_wait", "decode_wait", "transfer_exposed")
    names = ("ttft", "tpot", "transfer_time", "prefill_rate", "fits", *waits)

    points = Points(np.arange(len(BATCHES)), [{"workload.batch": BATCHES}])
    ((_, metrics),) = evaluate(answers(DISAGGREGATED, names), scenario, [points])
    # Batches that do not fit are cut off: a larger batch needs more cache, so that those that fit come first.
    fits = metrics["fits"]
    if not fits[0]:
        raise ValueError(
            f"{case.model.name} does not fit: a replica has no room for weights and one sequence; use more devices (tp)"
        )
    # What is left of a lone prompt's TTFT without its transfer and the host is the prefill step.
    ttft = metrics["ttft"][0] - metrics["prefill_wait"][0] - metrics["decode_wait"][0]
    return Curve(
        ttft=ttft,
        first=ttft - metrics["transfer_exposed"][0] - pool.efficiency.host.request_time,
        prompts=float(step_prompts(work, pool)),
        service=1.0 / metrics["prefill_rate"][0],
        transfer=metrics["transfer_time"][0],
        batches=BATCHES[fits],
        tpots=metrics["tpot"][fits],
        # The first token comes with the prompt; at least one decode step keeps rates finite.
        tokens=max(float(work.osl) - 1.0, 1.0),
    )


@plain_arguments
def splits(case: Case, devices: int, loads: Sequence[float], objective: Objective) -> xr.Dataset:
    """Every split of `devices` devices into whole replicas of both pools, at every load, as a Dataset.

    Of each: TTFT, TPOT and E2E latency, and use; `best` is the split that keeps up with a load and every limit with
    most room to spare, the lowest of its largest latency over limit; without limits, that of the lowest E2E latency.
    -1 where none does.

    Args:
      case: of a disaggregated job: layouts of one replica of each pool, and requests.
      devices: all of them.
      loads: requests/s.
      objective: limits on latencies.

    Raises:
      ValueError: one line, where the devices do not make one replica of each pool, or nothing fits.
    """
    layouts = _prefill(case).deployment, case.scenario.deployment
    sizes = [int(replica_devices(deployment)) for deployment in layouts]
    if devices > MOST_DEVICES:
        raise ValueError(f"devices = {devices:,} must be at most {MOST_DEVICES:,}")
    # Every number of prefill replicas that leaves room for one decode replica; the rest of the devices decodes.
    prefill = np.arange(1, max(devices - sizes[1], 0) // sizes[0] + 1)
    decode = (devices - prefill * sizes[0]) // sizes[1]
    if not len(prefill):
        raise ValueError(
            f"devices = {devices} do not make a prefill replica of {sizes[0]} and a decode replica of {sizes[1]}"
        )
    latencies, use = _latencies(replica_curve(case), prefill, decode, loads, float(case.scenario.workload.osl))
    ratio, best = _best_splits(latencies, use, objective)
    flat = {
        **{name: (("split", "load"), values) for name, values in latencies.items()},
        "split_use": (("split", "load"), use),
        "limit_ratio": (("split", "load"), ratio),
        "best_split": (("load",), best.astype(np.int32)),
        "prefill_devices": (("split",), (prefill * sizes[0]).astype(float)),
        "decode_devices": (("split",), (decode * sizes[1]).astype(float)),
    }
    names = np.array([f"{p}:{d}" for p, d in zip(prefill, decode, strict=True)], object)
    return xr.Dataset(
        {name: (dims, values, variable_attributes(name, values.dtype)) for name, (dims, values) in flat.items()},
        {
            "split": (("split",), names, {"units": "1", "long_name": "replicas that prefill and that decode"}),
            "load": (("load",), np.asarray(loads, float), {"units": "s-1", "long_name": "requests per second"}),
        },
        _attributes(case, devices, objective),
    )


def _latencies(
    curve: Curve, prefill: np.ndarray, decode: np.ndarray, loads: Sequence[float], osl: float
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """TTFT, TPOT and E2E latency in s, and the use of the busier pool, shape [splits, loads] each."""
    first, second = (np.asarray(number, float)[:, None] for number in (prefill, decode))
    with eager():
        ttft, tpot, use = split_latency(curve, first, second, np.asarray(loads, float))
    return {"ttft": ttft, "tpot": tpot, "e2e": ttft + max(osl - 1.0, 0.0) * tpot}, use


def _best_splits(
    latencies: dict[str, np.ndarray], use: np.ndarray, objective: Objective
) -> tuple[np.ndarray, np.ndarray]:
    """Largest latency over its limit, shape [splits, loads], and the position of the best split, shape [loads]."""
    ratio = np.max([latencies[name] / getattr(objective, name) for name in latencies], axis=0)
    # At a use of 1 or more queues grow without end, and the latencies of a mean state mean nothing.
    keeps = (use < 1.0) & (ratio <= 1.0)
    # Without limits every ratio is 0: x / infinity.
    score = np.where(keeps, ratio if ratio.any() else latencies["e2e"], np.inf)
    return ratio, np.where(keeps.any(axis=0), score.argmin(axis=0), -1)


def _prefill(case: Case) -> Pool:
    return given(case.scenario.prefill, "prefill pool")


def _attributes(case: Case, devices: int, objective: Objective) -> dict[str, Any]:
    work, scenario = case.scenario.workload, case.scenario
    layouts = (_prefill(case).deployment, scenario.deployment)
    sizes = " and ".join(f"{float(replica_devices(layout)):g}" for layout in layouts)
    return {
        "Conventions": "CF-1.11",
        "title": f"{case.model.name}: {devices} devices split between prefill and decode",
        "requests": f"requests of {work.isl:,.0f} + {work.osl:,.0f} tokens",
        "replicas": f"replicas of {sizes} x {case.hardware.name}",
        "target": slo_text(objective) if objective != Objective() else "",
        "efficiency": case.efficiency.name,
        **{f"limit_{name}": limit for name, limit in limits(objective).items()},
    }


def best_text(dataset: xr.Dataset, i: int) -> str:
    """The best split at the i-th load, in words."""
    best = int(dataset["best_split"].values[i])
    if best < 0:
        return "no split keeps up within the limits"
    ttft, tpot = (formatted(float(dataset[name].values[best, i]), "s") for name in ("ttft", "tpot"))
    return f"{dataset['split'].values[best]}: TTFT {ttft}, TPOT {tpot}"


def default_loads(case: Case, devices: int, count: int = 40) -> list[float]:
    """Loads in requests/s, evenly spaced up to just above what the best split can do at most."""
    curve = replica_curve(case)
    per_prefill, per_decode = 1.0 / curve.service, (curve.batches / (curve.tokens * curve.tpots))[-1]
    sizes = [float(replica_devices(d)) for d in (_prefill(case).deployment, case.scenario.deployment)]
    # Both pools busy: a device's worth of requests is 1 / (sum of a replica's devices over its rate).
    most = devices / (sizes[0] / per_prefill + sizes[1] / per_decode)
    return [float(load) for load in np.linspace(most / count, 1.05 * most, count)]
