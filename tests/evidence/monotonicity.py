"""Search for engine steps that take longer with more of a resource, at random points of the whole catalogue. A command.

Every point is one step of a model on an accelerator, priced three times: as it is, with more of one resource, and with
a small part of it. A resource that no step notices the want of is none that the model knows.
"""

import argparse
import dataclasses
import re
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np

from hwspaces.accelerators.load import catalogue_tables
from jaxroof.hardware import Hardware, spread_over_mesh
from jaxroof.jobs import JOBS, Scenario
from jaxroof.jobs.step import step_batch
from jaxroof.memory.legality import holds
from jaxroof.numerics.arrays import eager
from jaxroof.numerics.tree import leaf_paths, mapped
from jaxroof.step.step import step_times
from sweeps.ask.axes import leaf, replaced
from sweeps.ask.cases import case
from sweeps.run.evaluate import evaluate
from sweeps.run.points import Points, answers, in_dtype
from sweeps.run.ways import EAGERLY
from tests.evidence.harness import command, flag

STEP = JOBS["step"]

ON_CLOCK = ("matrix", "cores.vector_flops", "cores.exp_rate", "memory.l2.bandwidth", "memory.scratchpad.bandwidth")
"""Rates that a clock carries along."""

RESOURCES: dict[str, dict[str, float]] = {
    "matrix peaks": {"matrix": 1.0},
    "vector rate": {"cores.vector_flops": 1.0},
    "rate of exponentials": {"cores.exp_rate": 1.0},
    "HBM bandwidth": {"memory.hbm.bandwidth": 1.0},
    "HBM capacity": {"memory.hbm.capacity": 1.0},
    "L2 bandwidth": {"memory.l2.bandwidth": 1.0},
    "L2 capacity": {"memory.l2.capacity": 1.0},
    "scratchpad bandwidth": {"memory.scratchpad.bandwidth": 1.0},
    "scratchpad capacity": {"memory.scratchpad.capacity": 1.0},
    "registers": {"memory.register_capacity": 1.0},
    "cores at fixed matrix peaks": {"cores.count": 1.0},
    "cores and matrix peaks": {"cores.count": 1.0, "matrix": 1.0},
    "clock alone": {"cores.clock": 1.0},
    "clock and its rates": {"cores.clock": 1.0, **dict.fromkeys(ON_CLOCK, 1.0)},
    "scale-up bandwidth": {"links.scale_up.bandwidth": 1.0},
    "scale-up latency": {"links.scale_up.latency": -1.0},
    "scale-up devices": {"links.scale_up.devices": 1.0},
    "scale-out bandwidth": {"links.scale_out.bandwidth": 1.0},
    "scale-out latency": {"links.scale_out.latency": -1.0},
    "power limit": {"power.tdp": 1.0},
    "hops of a mesh": {"cores.hop_time": -1.0},
    "units in the memory": {"memory.near": 1.0},
    "energies": {"energy": -1.0, "power.static": -1.0},
}
"""Resource -> its leaves of `Hardware`, or the structs around them, and the power of the factor that each takes."""

EFFICIENCIES = ("derated", "kernel", "learned-vllm", "learned-trtllm", "learned-sglang")

MODELS = (
    "Llama-3.1-8B",
    "Llama-3.1-70B",
    "Llama-3.1-405B",
    "Qwen3-0.6B",
    "Qwen3-32B",
    "Qwen3-30B-A3B",
    "Qwen3-235B-A22B",
    "Mixtral-8x7B",
    "DeepSeek-V3",
    "DeepSeek-V2-Lite",
    "DeepSeek-V3.2",
    "gpt-oss-120b",
    "Gemma-3-27B",
    "Llama-4-Maverick-17B-128E",
    "Qwen3-Next-80B-A3B",
    "Nemotron-H-8B",
    "Phi-3-mini",
    "OPT-30B",
)
"""One or two of every kind of attention and feed-forward that the catalogue has."""

EXPERTS = tuple(name for name in MODELS if re.search("A3B|A22B|Mixtral|DeepSeek|gpt-oss|Maverick", name))
"""Those with experts."""

TRIES = 100
"""Models and precisions that are tried for one accelerator."""

WEIGHTS = (None, "fp32", "bf16", "fp16", "fp8", "fp8-block", "nvfp4", "int4")
CACHES = (None, "fp8")
KINDS = ("prefill", "decode", "mixed")
LEAST, MOST = 1.05, 4.0
"""Range of the factor, log-uniform."""

LEFT = 0.02
"""Part of a resource that a starved device has."""

FELT = 0.01
"""Share by which a step must be slower with that part to have noticed."""

TOLERANCE = 0.01
"""Share by which a step may be slower: what rounding to whole tiles is allowed."""


@dataclasses.dataclass(frozen=True)
class Excepted:
    """A resource of which more may be slower, by how much, where, and why that is no defect."""

    resource: str
    most: float  # share by which it may be slower
    why: str
    holds: Callable[[Hardware], bool] = lambda hardware: True


def shared_ways(hardware: Hardware) -> bool:
    """Whether devices of the scale-up domain share what carries their messages, or split it among their peers."""
    link = hardware.links.scale_up
    return link.topology != "switched" or (link.transport is not None and link.transport.peers <= SERVER_PEERS)


SERVER_PEERS = 2.0
"""Devices below one switch of a PCIe server."""

EXCEPTIONS = (
    Excepted(
        "cores at fixed matrix peaks",
        4.0,
        "every core is weaker: a step with few tiles, or with one long tile of queries, waits for single cores, and "
        "more cores draw more power for the same FLOP",
    ),
    Excepted(
        "cores and matrix peaks",
        0.25,
        "every core has a smaller share of the same HBM bandwidth, which few units of decode attention do not use up; "
        "and the last wave of tiles ends later under the same power limit",
    ),
    Excepted("cores and matrix peaks", 1.0, "a wider mesh takes longer to cross", spread_over_mesh),
    Excepted(
        "scale-up devices",
        4.0,
        "links of a mesh or torus are split among more peers, and a PCIe server's ways are shared by more",
        shared_ways,
    ),
    Excepted(
        "scale-up devices",
        0.04,
        "tokens that nodes forward go to an expected number of nodes and devices, which is within 2 % of the exact "
        "one, and nodes of more devices need each token for more of them",
    ),
)


def allowed(resource: str, hardware: Hardware) -> float:
    """Share by which more of a resource may be slower on a device."""
    excepted = (one.most for one in EXCEPTIONS if one.resource == resource and one.holds(hardware))
    return max(TOLERANCE, *excepted, 0.0)


@dataclasses.dataclass(frozen=True)
class Draw:
    """Steps of one model on one accelerator: columns of shape (steps, 1) where they differ."""

    accelerator: str
    efficiency: str
    model: str
    weights: str | None
    cache: str | None
    scenario: Scenario
    factors: np.ndarray  # of the resources, shape (steps, 1)

    def described(self, step: int) -> str:
        """One step in words."""
        place = mapped(lambda column: float(np.broadcast_to(column, self.factors.shape)[step, 0]), self.scenario)
        work, spread = place.workload, place.deployment
        parts = [f"{self.model} {self.weights or 'as published'}, cache {self.cache or 'as published'}"]
        parts += [f"on {self.accelerator}, {self.efficiency}, tp {spread.tp:g}"]
        parts += [] if spread.ep is None else [f"ep {spread.ep:g}, attention_dp {spread.attention_dp:g}"]
        if work.prefill is not None:
            parts += [f"{work.prefills:g} prompts of {work.prefill:g} after {work.past:g}"]
        if work.decode is not None:
            parts += [f"{work.decode:g} sequences at {work.context:g}"]
        return ", ".join([*parts, f"x {self.factors[step, 0]:.2f}"])


@dataclasses.dataclass
class Tally:
    """Result for one resource."""

    points: int = 0
    slower: int = 0  # by more than `TOLERANCE`
    wrong: int = 0  # by more than is allowed
    worst: float = 0.0  # largest share by which more is slower
    case: tuple[Draw, int] | None = None
    felt: int = 0  # slower with `LEFT` of it by more than `FELT`

    def starve(self, starved: np.ndarray) -> None:
        """Count those of shape (steps,) that notice: shares by which a small part of the resource is slower."""
        self.felt += int((starved > FELT).sum())

    def add(self, draw: Draw, slower: np.ndarray, most: float) -> None:
        """Count points, shape (steps,): shares by which more is slower; `most` is allowed."""
        self.points += slower.size
        self.slower += int((slower > TOLERANCE).sum())
        self.wrong += int((slower > most).sum())
        if slower.size and slower.max() > self.worst:
            self.worst, self.case = float(slower.max()), (draw, int(slower.argmax()))


def drawn(accelerator: str, efficiency: str, steps: int, random: np.random.Generator) -> Draw | None:
    """Random steps of one random model and precision that the accelerator has units for; legal ones alone.

    None after `TRIES`: it has units for none.
    """
    for _ in range(TRIES):
        model, weights, cache = (str(random.choice(MODELS)), random.choice(WEIGHTS), random.choice(CACHES))
        kind, experts = random.choice(KINDS), model in EXPERTS and random.random() < 0.7
        work = {} if kind == "decode" else {"prefill": 1, "prefills": 1, "past": 0}
        work |= {} if kind == "prefill" else {"decode": 1, "context": 1}
        spread = {"ep": 1, "attention_dp": 1} if experts else {}
        try:
            place = case(
                "step",
                accelerator,
                model,
                workload=work,
                deployment=spread,
                weights=weights,
                kv=cache,
                efficiency=efficiency,
                check=False,
            ).scenario
        except ValueError:
            continue  # a precision that it has no units for, or that the model does not take
        place = _legal(_columns(in_dtype(place, np.dtype(float)), steps, random), steps)
        if place is not None:
            shape = np.shape(place.deployment.tp)
            factors = np.exp(random.uniform(np.log(LEAST), np.log(MOST), shape))
            return Draw(accelerator, efficiency, model, weights, cache, place, factors)
    return None


def _legal(place: Scenario, steps: int) -> Scenario | None:
    """The steps whose deployment is possible; None where no one is."""
    with eager():
        legal = np.broadcast_to(np.asarray(holds(STEP.rules(place))), (steps, 1))[:, 0]
    return mapped(lambda leaf: leaf[legal] if np.ndim(leaf) else leaf, place) if legal.any() else None


def _columns(place: Scenario, steps: int, random: np.random.Generator) -> Scenario:
    """`place` with random batches, lengths and degrees."""
    shape = (steps, 1)

    def whole(least: float, most: float) -> np.ndarray:
        return np.round(np.exp(random.uniform(np.log(least), np.log(most), shape)))

    def degree(*of: float) -> np.ndarray:
        return random.choice(np.array(of), shape)

    work, spread = place.workload, {"deployment.tp": degree(1.0, 2.0, 4.0, 8.0)}
    if place.deployment.ep is not None:
        spread |= {"deployment.attention_dp": degree(1.0, 2.0, 8.0), "deployment.ep": degree(1.0, 2.0, 8.0, 16.0)}
    if work.prefill is not None:
        spread |= {"workload.prefills": whole(1, 32), "workload.prefill": whole(16, 16384)}
        spread |= {"workload.past": whole(1, 32768) * degree(0.0, 1.0)}
    if work.decode is not None:
        spread |= {"workload.decode": whole(1, 2048), "workload.context": whole(16, 131072)}
    for path, column in spread.items():
        place = replaced(place, path, column)
    return place


def slower(draw: Draw, left: float | None = None) -> dict[str, np.ndarray]:
    """Share by which every step is slower with more of each resource that the accelerator has, shapes (steps,).

    Args:
      draw: the steps, and how much more.
      left: the factor instead, where a device is starved.
    """
    if left is not None:
        draw = dataclasses.replace(draw, factors=np.full_like(draw.factors, left))
    names, settings = _settings(draw)
    points = Points(np.zeros((len(draw.factors), len(names) + 1)), settings)
    ((_, found),) = evaluate(answers(STEP, ("step_time",)), draw.scenario, [points], EAGERLY)
    times = found["step_time"]
    return {name: times[:, place] / times[:, 0] - 1.0 for place, name in enumerate(names, start=1)}


def slower_op(draw: Draw, step: int, resource: str) -> tuple[str, float]:
    """The op of a step that loses most time with more of a resource, and how much longer it takes in the step."""
    names, settings = _settings(draw)
    with eager():
        place = draw.scenario
        for path, column in settings[0].items():
            place = replaced(place, path, column)
        times = step_times(
            place.hardware, place.model, place.deployment, step_batch(place.workload, place.model), place.efficiency
        )
    shape = len(draw.factors), len(names) + 1
    tables = {name: np.broadcast_to(value, shape)[step] for name, value in times.items()}
    lost = {name: row[1 + names.index(resource)] - row[0] for name, row in tables.items()}
    name = max(lost, key=lambda name: lost[name])
    return name, lost[name] / sum(row[0] for row in tables.values())


def _settings(draw: Draw) -> tuple[list[str], list[dict[str, np.ndarray]]]:
    """Resources that there are, and leaves of the hardware of shape (steps, 1 + resources): the first as they are."""
    paths = leaf_paths(draw.scenario.hardware)
    leaves = {name: _leaves(powers, paths) for name, powers in RESOURCES.items()}
    names = [name for name in RESOURCES if leaves[name]]
    table: dict[str, np.ndarray] = {}
    for place, name in enumerate(names, start=1):
        for path, power in leaves[name].items():
            own = float(leaf(draw.scenario.hardware, path))
            column = table.setdefault(f"hardware.{path}", np.full((len(draw.factors), len(names) + 1), own))
            column[:, place] *= draw.factors[:, 0] ** power
    return names, [table]


def _leaves(powers: dict[str, float], paths: list[str]) -> dict[str, float]:
    return {path: power for part, power in powers.items() for path in paths if f"{path}.".startswith(f"{part}.")}


def searched(draws: Iterator[Draw]) -> dict[str, Tally]:
    """Every resource's tally over random steps."""
    found = {name: Tally() for name in RESOURCES}
    for draw in draws:
        for name, shares in slower(draw).items():
            found[name].add(draw, shares, allowed(name, draw.scenario.hardware))
        for name, shares in slower(draw, LEFT).items():
            found[name].starve(shares)
    return found


def draws(rounds: int, steps: int, seed: int = 0, accelerators: tuple[str, ...] = ()) -> Iterator[Draw]:
    """`rounds` times every accelerator under every efficiency, `steps` random steps of one random model each."""
    random = np.random.default_rng(seed)
    for _ in range(rounds):
        for accelerator in accelerators or catalogue_tables():
            for efficiency in EFFICIENCIES:
                found = drawn(accelerator, efficiency, steps, random)
                if found is not None:
                    yield found


@command(
    flag("--rounds", type=int, default=1, help="times that each accelerator is drawn (default 1)"),
    flag("--steps", type=int, default=32, help="random steps of each draw (default 32)"),
    flag("--seed", type=int, default=0, help="of the draw (default 0)"),
)
def main(options: argparse.Namespace) -> int:
    """Search, and print a line per resource; 1 where one is slower that is no exception."""
    begun = time.perf_counter()
    found = searched(draws(options.rounds, options.steps, options.seed))
    print(page(found))
    wrong = sum(tally.wrong for tally in found.values())
    points = sum(tally.points for tally in found.values())
    where = "".join(f", {tally.wrong} with {name}" for name, tally in found.items() if tally.wrong)
    print(f"{points:,} points, {wrong} of them wrong{where}, {time.perf_counter() - begun:.0f} s", file=sys.stderr)
    return min(wrong, 1)


def page(found: dict[str, Tally]) -> str:
    """Table in Markdown, one line per resource, worst cases and exceptions."""
    lines = ["| more of | points | slower by more than 1 % | worst | slower with a fiftieth |", "|---|---|---|---|---|"]
    for name, tally in found.items():
        worst = f"+{tally.worst:.1%}" if tally.worst > NOTHING else "-"
        slower, felt = (count / max(tally.points, 1) for count in (tally.slower, tally.felt))
        lines.append(f"| {name} | {tally.points:,} | {slower:.2%} | {worst} | {felt:.0%} |")
    lines += ["", "Worst cases:", ""]
    for name, tally in found.items():
        if tally.case is not None and tally.worst > TOLERANCE:
            op, share = slower_op(*tally.case, name)
            words = f"{op} alone by {share:.1%} of the step: {tally.case[0].described(tally.case[1])}"
            lines.append(f"- **{name}**, +{tally.worst:.1%}; {words}")
    lines += ["", "Exceptions:", ""]
    lines += [f"- **{one.resource}**, up to {one.most:.0%}: {one.why}." for one in EXCEPTIONS]
    return "\n".join(lines)


NOTHING = 1e-9
"""Share that is rounding of floats."""


if __name__ == "__main__":
    sys.exit(main())
