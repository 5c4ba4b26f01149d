"""Replicas that start and stop, from a user's text such as "by=queue,target=4,least=2", and the time that they take."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from hwspaces import formatted, quantity
from hwspaces.quantities.units import is_zero, nearest
from jaxroof.batch import STATUSES, Served
from jaxroof.scheduler.service.outcomes import Places
from jaxroof.scheduler.service.scaling import SIGNALS, ScalingRule
from sweeps.ask.flag_text import pairs

UNITS = {"queue": "1", "queue_tokens": "1", "rate": "1", "ttft": "s"}
"""SI unit of a target, by the load that the rule goes by."""

LOADS = {
    "queue": "{} waiting requests per replica",
    "queue_tokens": "{} waiting prompt tokens per replica",
    "rate": "{} requests per second and replica",
    "ttft": "a mean TTFT of {}",
}
"""Targets in words."""

WORDS = ("by", "target", "least", "most", "start", "every", "idle")
"""Words of `autoscale`."""

USUAL = {"start": 60.0, "every": 15.0, "idle": 300.0}
"""s where nothing is said. `every` and `idle` are those of the Kubernetes horizontal autoscaler (its documentation,
"Algorithm details" and "Stabilization window"); `start`, an assumption, is the time to load weights."""

MOST_EVALUATIONS = 1_000_000
"""Evaluations until the last request comes, at most."""


def scaling_rule(text: str, replicas: int, last: float) -> ScalingRule:
    """The rule that a text describes.

    Args:
      text: "by=queue,target=4,least=2,most=8,start=60s,every=15s,idle=300s"; the first two words are needed.
      replicas: of the deployment.
      last: s at which the last request comes, as far as it is known.

    Raises:
      ValueError: one line that names the word, its value and what is allowed.
    """
    where = f"autoscale = {text!r}"
    given = {name: value for name, value, _ in pairs("autoscale", text.split(","), "NAME=VALUE", "by=queue")}
    for name in given:
        if name not in WORDS:
            raise ValueError(f"{where}: there is no {name}{nearest(name, WORDS)}")
    for name in WORDS[:2]:
        if name not in given:
            raise ValueError(f"{where}: {name} is missing; write such as by=queue,target=4")
    by = given["by"]
    if by not in SIGNALS:
        raise ValueError(f"{where}: by = {by!r} must be {' or '.join(SIGNALS)}{nearest(by, SIGNALS)}")
    if replicas < 2:
        raise ValueError(f"{where} has no effect on one replica: dp is the most that there are")
    least, most = (_count(where, name, given, usual) for name, usual in (("least", 1), ("most", replicas)))
    if not least <= most <= replicas:
        raise ValueError(f"{where}: least = {least} and most = {most} must be in order, of {replicas} replicas (dp)")
    seconds = {name: _seconds(name, given) for name in USUAL}
    if not seconds["every"] > last / MOST_EVALUATIONS:
        raise ValueError(
            f"{where}: every = {formatted(seconds['every'], 's')} is too short: requests come for "
            f"{formatted(last, 's')}, and the rule is evaluated {MOST_EVALUATIONS:,} times at most"
        )
    return ScalingRule(
        signal=np.int32(list(SIGNALS).index(by)),
        target=np.float64(quantity(given["target"], UNITS[by], "autoscale: target")),
        least=np.int32(least),
        most=np.int32(most),
        **{name: np.float64(value) for name, value in seconds.items()},
    )


def _count(where: str, name: str, given: Mapping[str, str], usual: int) -> int:
    """A number of replicas."""
    value = quantity(given[name], "1", f"autoscale: {name}") if name in given else float(usual)
    if value != int(value):
        raise ValueError(f"{where}: {name} = {given[name]!r} must be a whole number of replicas")
    return int(value)


def _seconds(name: str, given: Mapping[str, str]) -> float:
    """A time; all but the interval may be 0."""
    if name not in given:
        return USUAL[name]
    return 0.0 if name != "every" and is_zero(given[name], "s") else quantity(given[name], "s", f"autoscale: {name}")


@dataclasses.dataclass(frozen=True, eq=False)
class Scaled:
    """Replicas of a run over time."""

    rule: ScalingRule
    numbers: np.ndarray  # that are on from every evaluation on, shape [evaluations]
    begin: float  # s, the first arrival
    end: float  # s, the last finish
    taken: np.ndarray  # s that the devices of every replica are taken, shape [replicas]

    @property
    def times(self) -> np.ndarray:
        """s of the evaluations."""
        return float(self.rule.every) * np.arange(1, len(self.numbers) + 1)

    @property
    def share(self) -> float:
        """Replica-seconds that are taken over those of all replicas all the time."""
        return float(np.sum(self.taken)) / (len(self.taken) * max(self.end - self.begin, 1e-30))

    @property
    def text(self) -> str:
        """The rule in words."""
        rule, by = self.rule, list(SIGNALS)[int(self.rule.signal)]
        target = formatted(float(rule.target), UNITS[by])
        start, every, idle = (formatted(float(each), "s") for each in (rule.start, rule.every, rule.idle))
        return (
            f"{LOADS[by].format(target)}, {int(rule.least):,} to {int(rule.most):,} replicas; looked at every {every}, "
            f"started in {start}, stopped after {idle}"
        )

    @property
    def changes(self) -> tuple[int, int]:
        """Replicas that were started and stopped."""
        steps = np.diff(np.concatenate([[int(self.rule.least)], self.numbers]))
        return int(np.sum(np.maximum(steps, 0))), int(np.sum(np.maximum(-steps, 0)))


def scaled(rule: ScalingRule, numbers: np.ndarray, served: Served, places: Places, replicas: int) -> Scaled:
    """Replicas of a run over time, and how long their devices were taken.

    A replica is taken from the evaluation that starts it, until the one that stops it, and until it has ended the
    requests that it has then.

    Args:
      numbers: replicas that are on from every evaluation on, shape [evaluations].
    """
    done = served.status == STATUSES.index("finished")
    finish, arrival = np.where(done, served.finish, np.nan), np.asarray(served.arrival)
    begin = float(np.nanmin(arrival)) if np.isfinite(arrival).any() else 0.0
    end = float(np.nanmax(finish)) if done.any() else begin
    # The number is that of the last evaluation, at the beginning the least.
    edges = np.concatenate([[0.0], float(rule.every) * np.arange(1, len(numbers) + 1)])
    steps = np.concatenate([[int(rule.least)], numbers])
    taken = []
    for replica in range(replicas):
        on = np.concatenate([[False], steps > replica, [False]])
        changes = np.flatnonzero(np.diff(on.astype(int)))
        starts, stops = (np.append(edges, np.inf)[changes[first::2]] for first in (0, 1))
        own = (np.asarray(places.first) == replica) & done
        # It ends what came before it was stopped.
        ends = [max(stop, np.max(finish[own & (arrival < stop)], initial=-np.inf)) for stop in stops]
        taken.append(_length(starts, np.asarray(ends), begin, end))
    return Scaled(rule, np.asarray(numbers), begin, end, np.array(taken))


def _length(starts: np.ndarray, ends: np.ndarray, begin: float, end: float) -> float:
    """Length in s of the union of intervals in the order of their starts, between two times."""
    total, covered = 0.0, begin
    for first, last in zip(starts, ends, strict=True):
        low, high = max(first, covered), min(last, end)
        total, covered = total + max(high - low, 0.0), max(covered, high)
    return total


def scaled_metrics(found: Scaled, devices: np.ndarray, prices: np.ndarray | None) -> dict[str, Any]:
    """What a run with replicas that start and stop takes, beside all replicas all the time.

    Args:
      devices: of every replica, shape [replicas].
      prices: USD/s of every replica, shape [replicas]; None: they are unknown.
    """
    span = found.end - found.begin
    metrics = {
        "replicas_mean": float(np.sum(found.taken)) / max(span, 1e-30),
        "replica_time": float(np.sum(found.taken)),
        "device_time": float(found.taken @ devices),
        "fixed_device_time": span * float(np.sum(devices)),
    }
    if prices is not None:
        metrics |= {"run_usd": float(found.taken @ prices), "fixed_run_usd": span * float(np.sum(prices))}
    return metrics


def of_taken(metrics: Mapping[str, Any], found: Scaled, taken: Mapping[str, Any]) -> dict[str, Any]:
    """Metrics of all devices all the time as those of the devices that were taken.

    Args:
      taken: `scaled_metrics`.
    """
    devices = taken["device_time"] / max(taken["fixed_device_time"], 1e-30)
    factors = {name: 1.0 / max(devices, 1e-30) for name in ("tokens_per_second_per_device", "tokens_per_joule_at_tdp")}
    factors["utilization"] = 1.0 / max(found.share, 1e-30)
    if "run_usd" in taken:
        paid = taken["run_usd"] / max(taken["fixed_run_usd"], 1e-30)
        factors |= {name: paid for name in metrics if name.startswith("usd_per_")}
    return {name: value * factors.get(name, 1.0) for name, value in metrics.items()} | dict(taken)
