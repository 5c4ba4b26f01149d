"""Random deployments of every family of models, and what every question makes of each of them."""

import collections
import contextlib
import dataclasses
import json
import math
import shlex
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import jax
import numpy as np

import hwspaces
import sweeps
import workloads
from jaxroof.deployment import DEGREES, degree, largest_stage
from jaxroof.energy.energy import joules_of, power_known
from jaxroof.energy.governor import limited_energy, limited_time
from jaxroof.jobs import JOBS, Scenario
from jaxroof.jobs.composition import micro_batches, tokens_per_step
from jaxroof.jobs.step import step_batch
from jaxroof.memory.capacity import layer_count
from jaxroof.model import has_experts
from jaxroof.step.overlap import overlapped_ops
from sweeps.ask.alike import alike
from sweeps.ask.axes import Axis, Choice
from sweeps.ask.cases import Case, case
from sweeps.ask.precisions import compute_precisions
from sweeps.ask.spec import spec
from sweeps.cli import main
from sweeps.run.asked import asked
from sweeps.run.points import answers_at, scenario_at
from sweeps.run.precision import precision
from sweeps.run.simulated.plan import planned
from sweeps.run.simulated.spec import serve_spec
from sweeps.serving.launch import pools
from sweeps.serving.rows import row_spec
from sweeps.serving.run import setup
from sweeps.studies.compare.question import question
from sweeps.studies.compare.rows import row_spec as row_spec_of
from sweeps.studies.compare.search import scenario_at as served_scenario
from sweeps.studies.compare.words import AskedComparison
from tests.pool_commands import pool_command

PARTS = ("hardware", "model", "deployment", "efficiency")
"""Parts of a scenario that say what is deployed."""

LAYOUT = ("tp", "pp", "attention_dp", "ep")
"""Degrees that `compare` tries."""

TRIES = 400
"""Draws until a deployment is one that can be."""


@dataclasses.dataclass(frozen=True)
class Deployed:
    """One deployment and its requests, as a user writes them."""

    hardware: str
    model: str
    workload: dict[str, float]  # of a static batch
    options: dict[str, Any]  # deployment, weights, kv, communication, efficiency, of those that are given
    settings: dict[str, str]  # any leaf by dotted path

    @property
    def degrees(self) -> dict[str, Any]:
        """Settings of the deployment, by name."""
        return self.options["deployment"]

    def case(self, job: str = "request", workload: dict[str, float] | None = None, **given: Any) -> Case:
        """The case of one question."""
        work = self.workload if workload is None else workload
        return case(job, self.hardware, self.model, workload=work, overrides=self.settings, **self.options | given)

    def source(self, **keys: Any) -> dict[str, Any]:
        """The specification of a sweep of this point; `keys` replace its own, None leaves one out."""
        own = {"hardware": self.hardware, "model": self.model, "workload": self.workload, "set": self.settings}
        whole = own | self.options | {"output": {"illegal": "mask", "dtype": "float64"}} | keys
        return {key: value for key, value in whole.items() if value is not None}


def structures() -> list[tuple[str, ...]]:
    """Names of the catalogue's models, those of one structure together."""
    groups = collections.defaultdict(list)
    for name in workloads.names():
        groups[jax.tree.structure(workloads.model(name).model)].append(name)
    return [tuple(names) for names in groups.values()]


def deployments(n: int, seed: int = 0) -> Iterator[Deployed]:
    """`n` random deployments that are legal, over all structures of models in turn, from another one for each seed."""
    random = np.random.default_rng(seed)
    groups = structures()
    order = random.permutation(len(groups))
    for number in range(n):
        yield deployment(random, groups[order[number % len(groups)]])


def deployment(random: np.random.Generator, names: tuple[str, ...]) -> Deployed:
    """A random deployment of one of these models that the rules allow."""

    def pick(*values: Any) -> Any:
        return values[int(random.integers(len(values)))]

    for _ in range(TRIES):
        name = pick(*names)
        model = workloads.model(name).model
        drawn = _requests(pick, model), _options(pick, model), _settings(pick)
        found = Deployed(pick(*hwspaces.names()), name, *drawn)
        try:
            found.case()
        except ValueError:  # a precision that the accelerator lacks, a degree that does not divide
            continue
        return found
    raise ValueError(f"no legal deployment of {names} in {TRIES} tries")


def _requests(pick: Any, model: Any) -> dict[str, float]:
    found = {"batch": pick(1, 2, 8, 24), "isl": pick(128, 1000, 2048), "osl": pick(2, 17, 100)}
    if not model.generates:
        found["osl"] = 1
    if any(block.cross is not None for block in model.blocks):
        found["encoder_tokens"] = pick(100, 1500)
    if pick(True, False, False):
        found["cached"] = 64
    return found


def _options(pick: Any, model: Any) -> dict[str, Any]:
    """Degrees, engine options and precisions: each is left out in many of the draws."""
    spread: dict[str, Any] = {"tp": pick(1, 1, 2, 4, 8)}
    rare = {"pp": (2, 3, 4), "dp": (2, 3), "cp": (2,), "overlap": ("gemm", "two_batch"), "block_tokens": (16,)}
    often: dict[str, tuple] = {}
    if has_experts(model):
        often = {"attention_dp": (1, 2, 4), "ep": (1, 2, 4, 8)}
        rare["exchange"] = ("low_latency", "all_gather")
    if model.prediction is not None:
        often["drafts"] = (1, 2, 3)
    for name, values in rare.items():
        spread |= {name: pick(*values)} if pick(True, False, False, False) else {}
    for name, values in often.items():
        spread |= {name: pick(*values)} if pick(True, False) else {}
    said = {
        "weights": pick(None, None, None, "fp8", "w4a16", "bf16"),
        "kv": pick(None, None, "fp8", "bf16"),
        "communication": pick(None, None, "fp8"),
        "efficiency": pick("datasheet", "derated", "kernel", "learned", "learned-sglang"),
    }
    return {"deployment": spread} | {name: value for name, value in said.items() if value is not None}


def _settings(pick: Any) -> dict[str, str]:
    settings = {
        "hardware.memory.hbm.bandwidth": "5TB/s",
        "hardware.power.tdp": "500W",
        "efficiency.host.step_time": "1ms",
        "deployment.activation_bytes": "1",
    }
    return {path: value for path, value in settings.items() if pick(True, False, False, False)}


def scenarios(point: Deployed, random: np.random.Generator, sweeps: int = 3) -> Iterator[tuple[str, Scenario]]:
    """The scenario that every question makes of one deployment, by the question's name.

    Questions that refuse it are left out.

    Args:
      sweeps: how many of the ways to write the point as one of a sweep's.
    """
    yield "request", point.case().scenario
    step = {"prefill": 100} | {name: point.workload[name] for name in ("encoder_tokens",) if name in point.workload}
    yield "step", point.case("step", step).scenario
    ways = _sweeps(point, random)
    for name in random.choice(list(ways), min(sweeps, len(ways)), replace=False):
        swept = possible(lambda name=name: _swept(ways[name]))
        if swept is not None:
            yield f"sweep over {name}", swept
    found = possible(lambda: _compared(point, random))
    if found is not None:
        yield "compare", found
    clients = {"concurrency": point.degrees.get("dp", 1), "requests": 6}
    lengths = {name: point.workload[name] for name in ("isl", "osl")}
    load = {"hardware": point.hardware, "model": point.model, "overrides": point.settings, **clients, **lengths}
    served = possible(lambda: setup(serve_spec(**load, **point.options)))
    if served is not None:
        yield "serve", served.case.scenario
        source = point.source(job="serve", workload=clients | lengths, policy={"token_budget": [512, 1024]})
        with precision("float64"):
            yield "serve sweep", planned(spec(source))[1]._simulations[0]
    yield from _pairs(point, random)


def _pairs(point: Deployed, random: np.random.Generator) -> Iterator[tuple[str, Scenario]]:
    """Both parts of two pools alike, or of two models alike on the same devices; and the same as points of sweeps."""
    work = {name: value for name, value in point.workload.items() if name != "encoder_tokens"}
    point = dataclasses.replace(point, workload=work)
    other = work | {"model": point.model} | {name: value for name, value in point.degrees.items() if name != "tp"}
    other |= {name: point.options[name] for name in ("weights",) if name in point.options}
    other |= {path.partition(".")[2]: 1.0 for path in point.settings if path == "deployment.activation_bytes"}
    pairs = (("disaggregated", "prefill", point.degrees), ("colocated", "neighbour", other))
    job, name, second = pairs[int(random.integers(len(pairs)))]
    found = possible(lambda: point.case(job, **{name: second}).scenario)
    ways = _sweeps(point, random)
    way = str(random.choice(list(ways)))
    swept = possible(lambda: _swept(ways[way] | {"job": job, name: second}))
    for scenario, said in ((found, job), (swept, f"{job} sweep over {way}")):
        if scenario is not None:
            yield said, scenario
            yield f"{said}, {name}", dataclasses.replace(scenario, **_parts(getattr(scenario, name)))


def _swept(source: dict[str, Any]) -> Scenario:
    """The scenario at the last position of every axis."""
    whole = asked(spec(source))
    return scenario_at(whole.question.base, [_at(axis, -1) for axis in whole.axes])


def _parts(of: Any) -> dict[str, Any]:
    return {name: getattr(of, name) for name in PARTS if hasattr(of, name)}


def possible(ask: Callable[[], Any]) -> Any:
    """What is asked for, or None where the question refuses it in one line."""
    try:
        return ask()
    except ValueError:
        return None


def _sweeps(point: Deployed, random: np.random.Generator) -> dict[str, dict[str, Any]]:
    """Ways to write the point as the last one of a sweep that has others before it."""
    hardware = str(random.choice([name for name in hwspaces.names() if name != point.hardware]))
    model = str(random.choice([name for name in workloads.names() if name != point.model]))
    own, work = point.degrees, point.workload
    figures = {path: value for path, value in point.settings.items() if path.startswith("hardware.")}
    others = {path: value for path, value in point.settings.items() if path not in figures}
    ways = {
        "batch": point.source(workload=work | {"batch": [work["batch"] + 1, work["batch"]]}),
        "hardware": point.source(hardware=[hardware, point.hardware]),
        "models": point.source(model=[model, point.model]),
        "efficiencies": point.source(efficiency=["half", point.options["efficiency"]]),
        "deployments": point.source(deployment=None, deployments=[{"tp": 16}, own]),
        "tp": point.source(deployment=own | {"tp": [32, own["tp"]]}),
    }
    if "weights" in point.options:
        ways["weights"] = point.source(weights=["int8", point.options["weights"]])
    if "kv" in point.options:
        ways["kv"] = point.source(kv=["int8", point.options["kv"]])
    if figures:
        first = {path: value.replace("5", "3") for path, value in figures.items()}
        axes = {path: [first[path], value] for path, value in figures.items()}
        ways["figures"] = point.source(set=others, axes=axes)
    return ways


def _at(axis: Axis, position: int) -> dict[str, Any]:
    """What an axis sets at a position, by path."""
    columns = axis.columns.items()
    return {
        path: column.items[column.index[position]] if isinstance(column, Choice) else column[position]
        for path, column in columns
    }


class _Asked(Exception):
    """What `compare` would compute."""


def _compared(point: Deployed, random: np.random.Generator) -> Scenario | None:
    """The scenario of the point in a comparison with another accelerator; None for a deployment that it does not try.

    A comparison has figures of no effect where an accelerator has none, and degrees of 1 in place of none: so does
    `comparable`.
    """
    spread = {name: value for name, value in point.degrees.items() if name in LAYOUT}
    rest = {f"deployment.{name}": value for name, value in point.degrees.items() if name not in (*LAYOUT, "dp")}
    if not set(point.workload) <= {"batch", "isl", "osl"} or "communication" in point.options or "dp" in point.degrees:
        return None

    def stopped(question: Any, axes: tuple[Axis, ...], *_: Any, **__: Any) -> None:
        raise _Asked(question, axes)

    other = str(random.choice([name for name in hwspaces.names() if name != point.hardware]))
    asked_for = {
        "hardware": [other, point.hardware],
        "devices": [int(np.prod([value for name, value in spread.items() if name != "ep"]))],
        "batch": [1024, int(point.workload["batch"])],
        "set": point.settings | rest,
        **{name: point.options[name] for name in ("weights", "kv", "efficiency") if name in point.options},
    }
    with mock.patch("sweeps.studies.compare.static.answers_over", stopped):
        try:
            sweeps.compare_static(point.model, point.workload["isl"], point.workload["osl"], **asked_for)
            return None  # no layout is possible
        except _Asked as caught:
            question, axes = caught.args
    found = [axis for axis in axes if axis.name != "deployment"]
    base = scenario_at(question.base, [_at(axis, -1) for axis in found])
    if not same(base.hardware, comparable(point.case().scenario).hardware):
        return None  # the accelerator lacks a precision and was left out
    for axis in axes:
        for position in range(axis.size if axis.name == "deployment" else 0):
            there = scenario_at(base, [_at(axis, position)])
            if all(degree(getattr(there.deployment, name)) == spread.get(name, 1) for name in LAYOUT):
                return comparable(there)
    one = len(found) == len(axes) and all(degree(getattr(base.deployment, n)) == spread.get(n, 1) for n in LAYOUT)
    return comparable(base) if one else None


def bought(point: Deployed) -> Iterator[tuple[str, Scenario]]:
    """`_bought`, without the sequences that the engine profiles: a row says how many it runs at once."""
    for name, scenario in _bought(point):
        unsaid = dataclasses.replace(scenario.deployment, sampled_rows=None)
        yield name, dataclasses.replace(scenario, deployment=unsaid)


def _bought(point: Deployed) -> Iterator[tuple[str, Scenario]]:
    """The scenario that a served comparison makes of the point, and what is made of its row, by the question's name.

    The comparison and its candidates of a simulation; `serve` and `emit` of the row; the fleet's replica; and, of the
    row as two pools alike, `emit` and the `disaggregate` command that prices it. Nothing where a comparison tries no
    such deployment.
    """
    spread = {name: value for name, value in point.degrees.items() if name in LAYOUT}
    rest = {f"deployment.{name}": value for name, value in point.degrees.items() if name not in (*LAYOUT, "drafts")}
    if "communication" in point.options or {"dp", "cp"} & set(point.degrees):
        return
    keys = {
        name: [point.options[name]] if name == "kv" else point.options[name]
        for name in ("kv", "efficiency")
        if name in point.options
    }
    devices = [int(np.prod([value for name, value in spread.items() if name != "ep"]))]
    load = {name: point.workload[name] for name in ("isl", "osl")}
    tried = {"drafts": [point.degrees["drafts"]]} if "drafts" in point.degrees else {}
    settings = point.settings | rest
    words = {"hardware": [point.hardware], "devices": devices, "policy": {"token_budget": 2048}, "overrides": settings}
    asked = AskedComparison(model=point.model, slo="ttft=1000s", load=load, **words, **keys, **tried)
    asked_for = possible(lambda: question(asked, point.options.get("weights")))
    if asked_for is None or not asked_for.options.devices:
        return
    options = asked_for.options
    layouts = [
        i for i, layout in enumerate(options.layouts) if all(layout.get(n, 1) == spread.get(n, 1) for n in LAYOUT)
    ]
    if not layouts:
        return
    place = 0, 0, layouts[0]
    yield "compare, simulated", comparable(served_scenario(options, place))
    most = float(options.settings[0].policy.max_sequences)  # as many as the engine runs where nothing is said
    spec = json.loads(json.dumps(row_spec_of(asked_for, place, most, 1.0, 100)))
    yield "fleet", comparable(serve_spec(**spec).case().scenario)
    row = {"rank": 1, "spec": spec, "longest": sum(load.values()), "load": 1.0, "batch_mean": 3.2}
    yield "serve of a row", comparable(serve_spec(**row_spec(row, {})).case().scenario)
    for made in _emitted(row):
        yield "emit", comparable(made)
    pool = {"deployment": spec["deployment"], "replicas": 1, "hardware": spec["hardware"]}
    pair = row | {"prefill": pool, "decode_replicas": 1}
    for role, made in zip(("prefill", "decode"), _emitted(pair), strict=False):
        yield f"emit, {role}", comparable(made)
    if "drafts" not in point.degrees:
        for role, made in zip(("decode", "prefill"), _commanded(pool_command(pair)), strict=True):
            yield f"disaggregate of a row, {role}", comparable(made)


def _emitted(row: dict[str, Any]) -> list[Scenario]:
    """Scenarios of the pools that `emit` starts."""
    made = []
    with mock.patch("sweeps.serving.launch.deployed._context", lambda case, *_: made.append(case.scenario) or 1):
        with contextlib.suppress(ValueError):  # devices that do not fill hosts
            pools(row)
    return made


def _commanded(command: str) -> tuple[Scenario, Scenario]:
    """Scenarios of the decode pool and the prefill pool that a `jaxroof disaggregate` command asks about."""
    made = []
    with mock.patch("sweeps.answers.disaggregate.show_pools", lambda case, *_: made.append(case.scenario)):
        assert main(shlex.split(command)[1:]) == 0
    (found,) = made
    return found, dataclasses.replace(found, **_parts(found.prefill))


def comparable(scenario: Scenario) -> Scenario:
    """The scenario with its hardware as comparisons have it, and degrees of 1 where there are none."""
    needed = compute_precisions((scenario.model, scenario.deployment))
    ones = {name: float(degree(getattr(scenario.deployment, name))) for name in DEGREES}
    return dataclasses.replace(
        scenario,
        hardware=alike(scenario.hardware, needed),
        deployment=dataclasses.replace(scenario.deployment, **ones),
    )


def along_hardware(scenario: Scenario) -> Scenario:
    """The scenario with its accelerator as an axis over several has it."""
    needed = compute_precisions((scenario.model, scenario.deployment))
    return dataclasses.replace(scenario, hardware=alike(scenario.hardware, needed))


def same(first: Any, second: Any) -> bool:
    """Whether two structs have the same numbers, unknown ones included."""
    leaves, structure = jax.tree.flatten(first)
    others, other = jax.tree.flatten(second)
    return structure == other and all(map(lambda a, b: np.array_equal(a, b, equal_nan=True), leaves, others))


def figures(found: Case, job: str, names: tuple[str, ...] | None = None) -> dict[str, float]:
    """Metrics of a case in float64, op by op: nothing of its own is compiled."""
    with precision("float64"):
        numbers = jax.tree.map(np.float64, found.scenario)
        return {name: float(value) for name, value in answers_at(JOBS[job], numbers, names).items()}


def of_steps(point: Deployed) -> tuple[dict[str, float], dict[str, float]]:
    """What a static batch takes, and what the same follows from two engine steps: TTFT, TPOT, E2E, power.

    With m micro-batches, of which the largest of the pipeline's stages has the share s of the layers,

    ttft = request_time + limited(prefill (1 + (m - 1) s), m energy)
    tpot = limited(decode max(1, m s), m energy) / tokens per step

    where `prefill` and `decode` are the times of steps of one micro-batch without the limit of power, and energy is
    what a device spends in one of them beside static power.
    """
    with precision("float64"):
        return _of_steps(point)


def _part_of_a_step(point: Deployed, kind: dict[str, float], work: dict[str, float]) -> Case:
    """A step of a micro-batch, of which a user could ask for whole numbers of sequences and tokens alone."""
    found = point.case("step", {name: math.ceil(value) for name, value in kind.items()} | work)
    exact = dataclasses.replace(found.scenario.workload, **{name: float(value) for name, value in kind.items()})
    return dataclasses.replace(found, scenario=dataclasses.replace(found.scenario, workload=exact))


def _of_steps(point: Deployed) -> tuple[dict[str, float], dict[str, float]]:
    found = point.case()
    scenario, requests = found.scenario, found.scenario.workload
    deployment, power = scenario.deployment, scenario.hardware.power
    known = power_known(scenario.hardware)
    names = ("ttft", "tpot", "e2e", *(("power",) if known else ()))
    parts = float(micro_batches(requests, deployment))
    stage = float(largest_stage(deployment, layer_count(scenario.model)))
    work = {name: point.workload[name] for name in ("encoder_tokens",) if name in point.workload}
    new = {"prefills": requests.batch / parts, "prefill": requests.isl - requests.cached, "past": requests.cached}
    sequences = {"decode": requests.batch / parts, "context": requests.isl + 0.5 * requests.osl}
    times, energies = [], []
    for kind, laps in ((new, 1.0 + (parts - 1.0) * stage), (sequences, max(1.0, parts * stage))):
        if kind is sequences and not scenario.model.generates:
            continue
        part = _part_of_a_step(point, kind, work)
        step = figures(part, "step", ("step_time", "slowdown"))
        time = step["step_time"] / step.get("slowdown", 1.0) * laps
        ops = overlapped_ops(scenario.model, deployment, step_batch(part.scenario.workload, scenario.model))
        if known:
            joules = joules_of(ops, scenario.hardware).times(parts / float(degree(deployment.pp)))
            energies.append(float(limited_energy(time, joules, scenario.hardware)))
            time = float(limited_time(time, joules, scenario.hardware))
        times.append(time)
    ttft = scenario.efficiency.host.request_time + requests.delay + times[0]
    tpot = times[-1] / float(tokens_per_step(deployment, requests))
    e2e = ttft + (requests.osl - 1.0) * tpot
    steps = (requests.osl - 1.0) / float(tokens_per_step(deployment, requests))
    built = {"ttft": ttft, "tpot": tpot, "e2e": e2e}
    if known:
        spent = energies[0] + steps * energies[-1]
        built["power"] = spent / (e2e - requests.delay) + power.static
    return figures(found, "request", names), built
