"""Rows of a served comparison: figures of a deployment, what binds it, what simulates it; or why it does not serve."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from hwspaces import formatted
from jaxroof.deployment import DEGREES, on_one_device
from jaxroof.memory.capacity import room_for_weights, weight_bytes
from jaxroof.memory.legality import broken_rule
from sweeps.ask.layouts import label, reach
from sweeps.data.labels import number
from sweeps.run.simulated.classes import is_of_class, metrics_of_class
from sweeps.run.simulated.objective import LIMITS, figure_text, slo_text
from sweeps.studies.compare.candidates import MemoryRoom
from sweeps.studies.compare.estimate import Estimate, Limit
from sweeps.studies.compare.question import ServedQuestion
from sweeps.studies.compare.ranking import CACHE, FEASIBLE, ILLEGAL, LIMIT, PRICE, UNPRICED, WEIGHTS, too_large
from sweeps.studies.compare.simulated import Simulated
from sweeps.studies.compare.trust import POOLS

SPREAD = 2.0
"""Standard deviations of a Poisson batch within which it meets the most sequences that may run."""

POWER = 0.995
"""Share of TDP from which on power binds."""


@dataclasses.dataclass(frozen=True, eq=False)
class Row:
    """One accelerator, number of devices and layout at its best setting."""

    hardware: str
    devices: int  # of one replica
    replicas: int
    layout: str
    setting: str  # what differs from the other settings that were tried
    max_sequences: int
    stage: int  # one of the codes of `sweeps.studies.compare.ranking`
    distance: float  # from serving, between rows of one stage
    reason: str | None  # why it does not serve
    simulated: bool
    fails: float  # requests/s of one replica, the smallest load that is known to miss the target; infinite: none
    binds: str  # what keeps the load from being larger
    metrics: Mapping[str, float]  # SI units; NaN where unknown
    classes: Mapping[str, Mapping[str, float]]  # metrics of every class of requests where the deployment is simulated
    spec: Mapping[str, Any]  # what simulates it: keys of `sweeps.run.simulated.spec.ServeSpec`
    place: tuple[int, int, int]  # setting, accelerator and layout, as positions in the options
    prefill: Mapping[str, Any] | None = None  # of disaggregated pools the one that prefills; the row's own one decodes
    decode_replicas: int = 1  # of disaggregated pools
    weights: str | None = None  # precision of the weights, where several were tried

    @property
    def parallelism(self) -> frozenset[str]:
        """Names of the parallelisms that it has, and `POOLS`."""
        pools = [self.spec["deployment"]] + ([] if self.prefill is None else [self.prefill["deployment"]])
        names = {name for pool in pools for name, degree in pool.items() if name in DEGREES and degree > 1}
        return frozenset(names | ({POOLS} if self.prefill is not None else set()))


def ranked_row(
    question: ServedQuestion,
    estimates: Estimate,
    figures: Mapping[str, float],
    position: tuple[int, int, int],
    devices: int,
    result: Simulated | None,
    most: float,
    requests: int,
) -> Row:
    """The row of a deployment that serves."""
    options = question.options
    setting, device, layout = position
    # Figures of a steady state at the cautious load, which is what is told without a simulation.
    estimated = {
        "ttft_mean": estimates.cautious_ttft[position],
        "tpot_mean": estimates.cautious_tpot[position],
        "batch_mean": estimates.cautious_under_way[position],
    }
    metrics = {name: float(value) for name, value in estimated.items()} | {"power": float(estimates.power[position])}
    metrics["load"] = float(estimates.cautious_load[position])
    classes: dict[str, Mapping[str, float]] = {}
    if result is not None:
        # A simulation's figures replace them; those of `figures` are at the simulated load already, for all replicas.
        own = {name: value for name, value in result.metrics.items() if not is_of_class(name)}
        metrics |= {name: value for name, value in own.items() if name not in figures}
        metrics["load"] = result.load
        names = question.target.classes
        # The simulation numbers classes in the order of the target.
        classes = {name: metrics_of_class(result.metrics, position) for position, name in enumerate(names)}
    metrics |= figures
    # What the smallest failing load misses; where there is none, what the steady state says.
    stopped = [] if result is None else result.missed.split("; ")
    binds = "; ".join(map(_without_share, stopped)) or _binding(question, estimates, position)
    return Row(
        hardware=options.devices[device].name,
        devices=devices,
        replicas=(replicas := round(figures["devices"] / devices)),
        layout=label(options.layouts[layout]),
        setting=options.settings[setting].text,
        max_sequences=int(most),
        stage=FEASIBLE,
        distance=0.0,
        reason=None,
        simulated=result is not None,
        fails=math.inf if result is None else result.fails,
        binds=binds,
        metrics=metrics,
        classes=classes,
        spec=row_spec(
            question,
            position,
            most,
            # The load of one replica, which shares the rate evenly with the others.
            figures["requests_per_second"] / replicas,
            requests,
            # Devices of whole servers are charged for where the replicas leave some of them idle.
            None if figures["rented_devices"] == figures["devices"] else figures["rented_devices"] / replicas,
        ),
        place=position,
    )


def missed(
    question: ServedQuestion,
    bounds: MemoryRoom,
    wanted: np.ndarray,
    estimates: Estimate,
    position: tuple[int, int, int],
    devices: int,
    metric: str,
    result: Simulated | None,
) -> Row:
    """The row of a deployment that does not serve, with its reason: of its simulations where it has some."""
    options = question.options
    _, device, layout = position
    hardware = options.devices[device].hardware
    capacity = float(hardware.memory.hbm.capacity)
    # What remains where no obstacle below applies: a figure that is unknown.
    stage, distance, reason = UNPRICED, 0.0, f"no figure for {metric}"
    metrics: dict[str, float] = {}
    # The first obstacle in the order of the stages, and how far the deployment is from passing it.
    if not bounds.legal[position]:
        stage = ILLEGAL
        reason = broken_rule(hardware, options.model.model, options.deployments[position[0]][layout]) or "not possible"
    elif not bounds.tokens[position] > 0.0:
        stage, distance = WEIGHTS, float(bounds.weights[position]) / capacity
        reason = _too_large(question, position, float(bounds.weights[position]), capacity, devices)
    elif not wanted[position]:
        stage, distance = CACHE, question.requests.longest / max(float(bounds.group_tokens[position]), 1.0)
        room = f"{bounds.group_tokens[position]:,.0f}"
        reason = f"does not fit: KV cache for {room} tokens, the longest request has {question.requests.longest:,.0f}"
    elif not estimates.load[position] > 0.0:
        metrics = {"ttft_mean": float(estimates.ttft[position]), "tpot_mean": float(estimates.tpot[position])}
        # Not even a single request at a time keeps the limits, by the steady state.
        stage, distance, reason = LIMIT, *_misses(metrics, question)
    elif result is not None and result.load <= 0.0:
        metrics = {name: result.metrics[name] for name in ("ttft_mean", "tpot_mean")}
        stage, distance = LIMIT, 1.0
        reason = f"misses its limits when simulated: {result.missed} at {number(result.fails)} requests/s"
    elif hardware.price is None and metric in (PRICE, "usd_per_hour"):
        reason = "no price"
    return Row(
        hardware=options.devices[device].name,
        devices=devices,
        replicas=1,
        layout=label(options.layouts[layout]),
        setting=options.settings[position[0]].text,
        max_sequences=0,
        stage=stage,
        distance=distance,
        reason=reason,
        simulated=False,
        fails=math.nan,
        binds="",
        metrics=metrics,
        classes={},
        spec={},
        place=position,
    )


def unconfirmed(row: Row) -> Row:
    """The row of an estimate that nothing else makes likely: what was simulated in its place keeps no limits."""
    load = f"{number(row.metrics['load'])} requests/s"
    reason = f"estimated to take {load}, not simulated: all that was simulated misses its limits"
    return dataclasses.replace(row, stage=LIMIT, distance=math.inf, reason=reason)


def _misses(metrics: Mapping[str, float], question: ServedQuestion) -> tuple[float, str]:
    """By what factor the limits are missed with a single request under way, and a sentence."""
    parts, worst = [], 1.0
    for limit in question.limits:
        # Percentiles and means of one latency are both told by its mean.
        name, _, _ = limit.name.partition("_")
        value = metrics.get(f"{name}_mean", math.nan)
        if value > limit.value:
            parts.append(f"{limit_text(limit)} {formatted(value, 's')} misses {formatted(limit.value, 's')}")
            worst = max(worst, value / limit.value)
    alone = "with a single request at a time"
    if not parts:
        wanted = question.target.text if question.target.classes else slo_text(question.target.objective)
        return worst, f"misses {wanted} even {alone}"
    return worst, f"{' and '.join(parts)} {alone}"


def _too_large(
    question: ServedQuestion, position: tuple[int, int, int], weights: float, capacity: float, devices: int
) -> str:
    options = question.options
    deployment = options.deployments[position[0]][position[2]]
    plain = on_one_device(deployment)
    # B of the whole model on one device, and B that its memory has for weights and cache.
    all_weights = float(weight_bytes(options.model.model, plain))
    hardware = options.devices[position[1]].hardware
    usable = float(room_for_weights(hardware, options.model.model, deployment))
    return too_large(weights, capacity, all_weights, usable, devices, reach(hardware))


def _without_share(missed: str) -> str:
    """What is missed without the share of good requests, where the figures that make them bad follow it."""
    # Texts of `sweeps.serving.target.missed_text`: "chat: 80 % of the requests are good, of 90 %, TTFT ..".
    before, separator, after = missed.partition("are good, of ")
    figures = after.partition(", ")[2]
    owner = f"{before.partition(': ')[0]}: " if ": " in before else ""
    return f"{owner}{figures}" if separator and figures else missed


def limit_text(limit: Limit) -> str:
    """What is limited, in words: "TTFT of chat"."""
    words = figure_text(limit.name) if "_" in limit.name else limit.name.upper()
    return f"{words} of {limit.owner}" if limit.owner else words


def _binding(question: ServedQuestion, estimates: Estimate, position: tuple[int, int, int]) -> str:
    """What keeps an estimated load from being larger, in words."""
    # Sequences run out by whichever is less, the engine's flag or the room of the cache.
    own = float(question.options.settings[position[0]].policy.max_sequences)
    room = "KV cache" if estimates.cache[position] < own else "max_sequences"
    batch = float(estimates.batch[position])
    # A Poisson number of this mean has a standard deviation of the root of the mean.
    full = batch + SPREAD * math.sqrt(batch) >= estimates.most[position]
    words = []
    # TTFT and E2E limits bind by waiting where the engine is full: the cause is told beside the limit.
    if estimates.binding[position] >= 0:
        limit = question.limits[int(estimates.binding[position])]
        waits = full and not limit.name.startswith("tpot")  # for one of the sequences that run to end
        why = ("TPOT" if estimates.capped[position] > 0.0 else room) if waits else ""
        words.append(f"{limit_text(limit)} ({why})" if why else limit_text(limit))
    elif estimates.use[position] > 0.9:
        words.append("token budget")
    else:
        words.append(room)
    tdp = question.options.devices[position[1]].hardware.power.tdp
    # At TDP the clock falls, so that every step is longer.
    if tdp is not None and estimates.power[position] >= POWER * tdp:
        words.append("power")
    return " at the limit of ".join(words)


def row_spec(
    question: ServedQuestion,
    position: tuple[int, int, int],
    most: float,
    load: float,
    requests: int,
    charged: float | None = None,
) -> dict[str, Any]:
    """Keys of the simulation of one replica at its load; `charged`: devices that it is charged for beside its own."""
    options = question.options
    setting, device, layout = position
    choice = options.settings[setting]
    # Degrees of 1 are the default; tp is always told.
    degrees = {name: degree for name, degree in options.layouts[layout].items() if degree > 1 or name == "tp"}
    drafting = "drafts" in choice.deployment  # without it neither a drafter nor its acceptance changes anything
    changes = {name: value for name, value in choice.changes.items() if drafting or name != "acceptance"}
    keys: dict[str, Any] = {
        "hardware": options.devices[device].name,
        "model": options.model.name,
        "engine": question.engine,
        "deployment": {**degrees, **choice.deployment, **({} if charged is None else {"charged": charged})},
        "policy": {**changes, "max_sequences": int(most)},
        "weights": question.weights,
        "kv": choice.kv,
        "draft": question.draft if drafting else None,
        "efficiency": question.efficiency.name,
        "prices": question.prices,
        "overrides": dict(question.settings),
        **{key: value for key, value in question.requests.keys.items() if value not in (None, False)},
        "slo": _limits_of_requests(question.slo),
    }
    # The rate of this replica in place of the stream's own.
    keys["rate"] = load
    if not question.requests.counted:
        keys["requests"] = requests or question.requests.number(float(most))
    # Keys that say nothing are left out, as a user would leave them out.
    return {key: value for key, value in keys.items() if value not in (None, {}, False)}


def _limits_of_requests(slo: str | Mapping[str, Any] | None) -> str | dict[str, Any] | None:
    """The limits of every request as they were given; those of the whole run, such as ttft_p99, are left out."""
    if slo is None:
        return None
    if isinstance(slo, str):
        parts = [part.strip() for part in slo.split(",")]
        return ",".join(part for part in parts if part.partition("=")[0].strip() in LIMITS) or None
    return {name: value for name, value in slo.items() if name in LIMITS} or None
