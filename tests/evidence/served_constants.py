"""The register: every constant that was fitted to served points, its scope, its value and its neutral value."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import hwspaces
from jaxroof.efficiency import Efficiency
from sweeps.ask.axes import leaf, replaced
from sweeps.measure.validate.serving.launches import CONDITIONS, launches
from sweeps.measure.validate.serving.serving_points import ServingPoint

ENGINES = ("vllm", "trtllm", "sglang")

CLASS, ENGINE, RELEASE, SUITE = "physics of a device class", "engine", "release", "suite"
"""Scopes, from what carries furthest."""

LINEAR = ("linear.wide", "linear.narrow", "linear.scaled")

Holds = Callable[[ServingPoint], bool]


class OfKernels(NamedTuple):
    """A number of an efficiency that the closed form of TPOT has; one number may stand at several paths."""

    name: str
    scope: str
    engines: tuple[str, ...]
    paths: tuple[str, ...]
    neutral: float  # what would stand there without it
    why: str  # the neutral value

    def value(self, efficiency: Efficiency) -> float | None:
        """Today's, None where the engine's constants have none."""
        for path in self.paths:
            try:
                found = leaf(efficiency, path)
            except ValueError:
                continue
            if found is not None:
                return float(found)
        return None

    def at(self, efficiency: Efficiency, place: float) -> Efficiency:
        """The constants with this one `place` of the way from neutral to today's."""
        for path in self.paths:
            try:
                now = leaf(efficiency, path)
            except ValueError:
                continue
            if now is not None:
                value = self.neutral + place * (float(now) - self.neutral)
                efficiency = replaced(efficiency, path, min(max(value, 0.0), _most(path)))
        return efficiency


def _most(path: str) -> float:
    return 1.0 if path.endswith(("bandwidth", "share")) else 0.95 if path.endswith("early_launch") else 1.0e3


class Added(NamedTuple):
    """A time that adds to a latency of some points."""

    name: str
    scope: str
    metric: str  # "ttft" or "tpot"
    value: float  # s, or steps
    unit: str  # "ms" or "steps"
    holds: Holds
    without: Callable[[ServingPoint], float] = lambda point: 0.0  # what stands in its place otherwise
    mean_share: float = 1.0  # of it in a mean over requests
    median_share: float = 1.0  # and in a median

    def seconds(self, point: ServingPoint) -> float:
        """s that it is, at a step as long as measured."""
        return (self.value - self.without(point)) * (point.tpot if self.unit == "steps" else 1.0)


ALONE = "as kernels alone: tests.evidence.learned_fit"
NONE = "none"

KERNELS = (
    OfKernels("host.step_time", ENGINE, ("vllm", "sglang"), ("host.step_time",), 0.0, NONE),
    OfKernels("host.step_time", ENGINE, ("trtllm",), ("host.step_time",), 278e-6, "of the others"),
    OfKernels("host.sequence_time", ENGINE, ("vllm", "trtllm"), ("host.sequence_time",), 0.0, NONE),
    OfKernels("host.sequence_time", ENGINE, ("sglang",), ("host.sequence_time",), 7.34e-6, "of the others"),
    OfKernels("host.early_launch", CLASS, ("sglang",), ("host.early_launch",), 0.0, NONE),
    OfKernels("host.early_launch", CLASS, ("trtllm",), ("host.early_launch",), 0.0, NONE),
    OfKernels("collective.share", ENGINE, ("vllm",), ("collective.share",), 1.0, "as alone"),
    OfKernels(
        "linear bandwidth", ENGINE, ("trtllm", "sglang"), tuple(f"{one}.step_bandwidth" for one in LINEAR), 0.785, ALONE
    ),
    OfKernels("8-bit experts on AMD's", CLASS, ("sglang",), ("experts.scaled.wide_waves.bandwidth",), 0.861, ALONE),
    OfKernels("latent attention, around", ENGINE, ("trtllm",), ("decode_attention.latent.around_time",), 0.0, NONE),
    OfKernels(
        "recurrent attention, around",
        ENGINE,
        ("sglang",),
        ("decode_attention.states.around_time", "decode_attention.gated.around_time"),
        0.0,
        NONE,
    ),
)
"""Constants of efficiencies whose source names a fit to served points."""


def added() -> Iterator[Added]:
    """Times of engines and suites that add to one latency, as their files have them."""
    yield from _hosts()
    yield from _slower()
    yield from _launches()


def _hosts() -> Iterator[Added]:
    for field, unit in (("request_time", "ms"), ("ahead_steps", "steps")):
        for value, engines in shared(lambda name, field=field: _of_engine(name, field)).items():

            def holds(point: ServingPoint, engines=engines) -> bool:
                return point.engine in engines

            yield Added(f"{', '.join(engines)}: {field}", ENGINE, "ttft", value, unit, holds)


def _of_engine(name: str, field: str) -> float:
    engine = hwspaces.engine(name)
    return float(getattr(engine.host, field, 0.0) or engine.policy.get(field, 0.0))


def shared(value: Callable[[str], float]) -> dict[float, tuple[str, ...]]:
    """Every value that is not 0 -> the engines that share it: one constant."""
    found: dict[float, tuple[str, ...]] = {}
    for name in ENGINES:
        if value(name):
            found[value(name)] = (*found.get(value(name), ()), name)
    return found


def _slower() -> Iterator[Added]:
    """Steps of older releases; those of modes are of pools and drafts: `tests.evidence.pools`."""
    rules = [one for one in hwspaces.engine("sglang").slower if not one.modes]
    for place, rule in enumerate(rules):
        earlier = rules[:place]

        def holds(point: ServingPoint, rule=rule, earlier=earlier) -> bool:
            version = point.launch.engine.partition("@")[2] or hwspaces.engine("sglang").version
            known = [one.holds(version, point.vendor, point.hardware.matrix, frozenset()) for one in (*earlier, rule)]
            return point.engine == "sglang" and known[-1] and not any(known[:-1])

        yield Added(f"sglang: slower before {rule.before}, {rule.vendor}", RELEASE, "tpot", rule.step_time, "ms", holds)


TIMES = {"front_time": ("ms", 1.0, 1.0), "wait_steps": ("steps", 1.0, 1.0), "first_time": ("ms", 0.1, 0.0)}
"""Field of a suite's policy -> its unit, and its share in a mean and in a median; one request of ten is a first one."""


def _launches() -> Iterator[Added]:
    """Fitted times of suites: every launch whose value a run has, beside what would stand without it."""
    for place, table in enumerate(launches()):
        for field, (unit, mean, median) in TIMES.items():
            value = _seconds(table, field)
            if not value or not fitted(table["source"]) or table["when"].get("pools"):
                continue
            when = ", ".join(f"{key} {_words(word)}" for key, word in table["when"].items())
            holds, without = _set_by(place, field), lambda point, i=place, f=field: _before(point, f, i)
            yield Added(f"suites: {field} of {when or 'all'}", SUITE, "ttft", value, unit, holds, without, mean, median)


def _seconds(table: Mapping[str, Any], field: str) -> float:
    """Number of a field of a launch's policy, in s or steps; 0 where it has none, or an expression."""
    value = table.get("policy", {}).get(field, 0.0)
    if isinstance(value, str):
        number, _, unit = value.partition(" ")
        return float(number) * {"ms": 1e-3, "s": 1.0}.get(unit, 0.0)
    return float(value)


def _setting(point: ServingPoint, field: str) -> list[int]:
    """Places of launches that set a field of a point's policy, the one that counts last."""
    return [
        place
        for place, table in enumerate(launches())
        if field in table.get("policy", {}) and all(CONDITIONS[key](point, word) for key, word in table["when"].items())
    ]


def _before(point: ServingPoint, field: str, place: int) -> float:
    places = [one for one in _setting(point, field) if one < place]
    return _seconds(launches()[places[-1]], field) if places else 0.0


def fitted(source: str) -> bool:
    """Whether a launch's source says that its number is a fit."""
    return "ours" in source


def _words(value: object) -> str:
    return "/".join(map(str, value)) if isinstance(value, list) else str(value)


def _set_by(place: int, field: str) -> Holds:
    """Whether a point's value of a field of the policy is that of the launch at `place`."""
    return lambda point: _setting(point, field)[-1:] == [place]


@dataclasses.dataclass(frozen=True)
class Chosen:
    """A number that a simulation alone can judge: what it is, and where it is judged."""

    name: str
    scope: str
    value: str
    command: str


def simulated() -> Iterator[Chosen]:
    """Fitted numbers that change what is simulated: lengths, drafts, how even experts' work is, pools."""
    for value, engines in shared(lambda name: hwspaces.engine(name).host.handover_time).items():
        yield Chosen(f"{', '.join(engines)}: handover_time", ENGINE, f"{1e3 * value:g} ms", "pools")
    for rule in hwspaces.engine("sglang").slower:
        if rule.modes:
            words = f"sglang: slower, {rule.vendor}, {', '.join(sorted(rule.modes))}"
            yield Chosen(words, RELEASE if rule.before else ENGINE, f"{1e3 * rule.step_time:g} ms", "pools")
    if hwspaces.engine("trtllm@1.0.0rc3").host.token_time:
        yield Chosen("trtllm: host.token_time before 1.1", RELEASE, "85 us", "saturated_throughput")
    yield Chosen("deployment.alike", ENGINE, f"{hwspaces.engine('vllm').deployment['alike']:g}", "serving_fit")
    for table in launches():
        when = ", ".join(f"{key} {_words(word)}" for key, word in table["when"].items() if key != "suite")
        if not fitted(table["source"]):
            continue
        if table.get("shortest", 1.0) != 1.0:
            yield Chosen(f"suites: shortest of {when or 'nvidia'}", SUITE, f"{table['shortest']:g}", "validate serving")
        for key, part in (("imbalance", "deployment"), ("imbalance", "prefill"), ("acceptance", "policy")):
            value = table.get(part, {}).get(key)
            if value not in (None, 1):
                command = "pools" if key == "acceptance" else "prompt_bursts"
                yield Chosen(f"suites: {part}.{key} of {when}", SUITE, str(value), command)
        if "first_time" in table.get("policy", {}) and table["when"].get("pools"):
            yield Chosen(f"suites: first_time of {when}", SUITE, table["policy"]["first_time"], "pools")
