"""Launch flags of a measured run: what its suite set beside the engine's own defaults, read from `suites.toml`."""

import dataclasses
import datetime
import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import hwspaces
from hwspaces.engines.engine import numbers
from hwspaces.files import document
from hwspaces.quantities.expression import Expression
from hwspaces.quantities.leaves import declared_quantity
from hwspaces.quantities.units import nearest
from jaxroof.batch import Policy
from jaxroof.deployment import Deployment
from jaxroof.hardware import Hardware
from jaxroof.numerics.struct import declarations
from sweeps.measure.validate.serving.deployment_labels import Layout
from sweeps.measure.validate.serving.precisions import bits

FILE = Path(__file__).parent / "suites.toml"

OF_ONE_GROUP = ("token_budget", "max_sequences", "graph_step", "graph_limit")
"""Numbers of the policy that engines' flags give for one attention group; the scheduler's are those of all."""

KEYS = ("source", "when", "shortest", "policy", "deployment", "kv", "engine", "assumed")


@dataclasses.dataclass(frozen=True)
class Run:
    """What ran, as far as launch flags depend on it."""

    engine: str  # one of `sweeps.ask.engines.ENGINES`
    version: str  # of the engine, "" where it is not recorded
    family: str  # deployment_labels.INFERENCEX or NVIDIA
    gpu: str  # of the catalogue
    vendor: str | None  # of the device
    hardware: Hardware
    model_name: str  # of the catalogue
    precision: str  # of the weights
    mixture: bool  # the model has routed experts
    layout: Layout
    isl: float  # nominal, tokens
    osl: float
    concurrency: float  # clients
    date: str  # of the run, ISO 8601; "" where it is not recorded


@dataclasses.dataclass(frozen=True)
class Launch:
    """Flags of one run, in the words of `jaxroof serve`."""

    engine: str  # "vllm@0.12.0"
    policy: Mapping[str, Any]  # `--policy`, numbers of all attention groups together
    deployment: Mapping[str, Any]  # `--set deployment.NAME`
    kv: str | None
    shortest: float  # shortest length over nominal
    assumed: str | None  # what the flags are, where no script of the suite is known for the device


CONDITIONS: dict[str, Callable[[Run, Any], bool]] = {
    "suite": lambda run, value: run.family == value,
    "engine": lambda run, value: run.engine == value,
    "vendor": lambda run, value: run.vendor == value,
    "not_vendors": lambda run, value: run.vendor not in value,
    "model": lambda run, value: run.model_name.startswith(tuple(value)),
    "mixture": lambda run, value: run.mixture == value,
    "four_bit_unit": lambda run, value: ("fp4" in run.hardware.matrix) == value,
    "bits": lambda run, value: bits(run.precision) <= value,
    "from": lambda run, value: numbers(run.version) >= numbers(value),
    "before": lambda run, value: numbers(run.version) < numbers(value),
    "versionless": lambda run, value: (not numbers(run.version)) == value,
    "dated_from": lambda run, value: bool(run.date) and datetime.date.fromisoformat(run.date[:10]) >= value,
    "dated_before": lambda run, value: bool(run.date) and datetime.date.fromisoformat(run.date[:10]) < value,
    "isl": lambda run, value: run.isl == value,
    "osl": lambda run, value: run.osl == value,
    "tp_below": lambda run, value: run.layout.tp < value,
    "groups_above": lambda run, value: run.layout.attention_dp > value,
    "clients_above": lambda run, value: run.concurrency > value,
}
"""Key of `when` -> whether a run is of its value."""

NAMES: dict[str, Callable[[Run], float]] = {
    "isl": lambda run: run.isl,
    "osl": lambda run: run.osl,
    "clients": lambda run: run.concurrency,
    "groups": lambda run: run.layout.attention_dp,
}
"""Name in an expression -> its number."""


def launch(run: Run) -> Launch:
    """The flags of one run: those of every entry that holds for it, of which later ones win."""
    found: dict[str, Any] = {"policy": {}, "deployment": {}}
    for table in launches():
        if all(CONDITIONS[key](run, value) for key, value in table["when"].items()):
            for key, value in table.items():
                found[key] = {**found[key], **value} if key in ("policy", "deployment") else value
    groups = run.layout.attention_dp
    engine = found.get("engine") or (f"{run.engine}@{run.version}" if numbers(run.version) else run.engine)
    policy = {name: _number(value, run, name) for name, value in found["policy"].items()}
    if groups > 1.0:
        policy = {name: hwspaces.engine(engine).policy[name] for name in OF_ONE_GROUP} | policy
    return Launch(
        engine=engine,
        policy={name: value * groups if name in OF_ONE_GROUP else value for name, value in policy.items()},
        deployment=found["deployment"],
        kv=found.get("kv"),
        shortest=found.get("shortest", 1.0),
        assumed=found.get("assumed"),
    )


@functools.cache
def launches(path: Path = FILE) -> tuple[Mapping[str, Any], ...]:
    """Every entry of the file, checked.

    Raises:
      ValueError: one line that names the file, the entry, the key and what is allowed.
    """
    tables = document.toml(path)
    found = tables.get("launch", [])
    for place, table in enumerate(found, start=1):
        where = f"{path.name}: launch {place}"
        _require_known(table, KEYS, where)
        if not isinstance(table.get("source"), str) or not isinstance(table.get("when"), Mapping):
            raise ValueError(f"{where}: source and when are needed")
        _require_known(table["when"], tuple(CONDITIONS), f"{where}: when")
        for key, kind in (("policy", Policy), ("deployment", Deployment)):
            declared = declarations(kind)
            _require_known(table.get(key, {}), tuple(declared), f"{where}: {key}")
            for name, value in table.get(key, {}).items():
                if not _is_expression(value, declared[name].unit):
                    declared_quantity(value, declared[name], f"{where}: {key}.{name}")
    return tuple(found)


def _is_expression(value: Any, unit: str) -> bool:
    return isinstance(value, str) and unit == "1"


def _number(value: Any, run: Run, name: str) -> Any:
    """A number of the policy: of an expression its value, a text with a unit as it is."""
    if not _is_expression(value, declarations(Policy)[name].unit):
        return value
    expression = Expression(value, lambda word: _unit(word, name), {}, f"policy.{name}", "1")
    return float(expression.value(lambda word: NAMES[word](run), None))


def _unit(word: str, name: str) -> str:
    if word not in NAMES:
        raise ValueError(f"policy.{name}: {word} is not known{nearest(word, NAMES)}")
    return "1"


def _require_known(table: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    for key in table:
        if key not in known:
            raise ValueError(f"{where}: there is no key {key}{nearest(key, known)}")
