"""Inference engines by name and release: scheduler, memory rule, precisions and host times, with their sources."""

import dataclasses
import datetime
import functools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hwspaces.engines import keys
from hwspaces.engines.collectives import OwnCollectives, collective_kernels
from hwspaces.engines.launch import LaunchWords, launch_words
from hwspaces.engines.rules import SchedulerRule, ruled, scheduler_rules
from hwspaces.files import document
from hwspaces.quantities.leaves import declared_quantity
from hwspaces.quantities.units import nearest, quantity
from jaxroof.batch import Policy
from jaxroof.deployment import Deployment
from jaxroof.numerics.struct import Declaration, declarations

FILES = Path(__file__).parent

TABLES = {"policy": Policy, "deployment": Deployment}
"""Table of a file -> the struct some of whose fields it sets."""

COMPUTE = ("cache", "weights")
"""Precision of attention products: that of the cache, or that of the model's 16 bits."""

DISPATCH = ("activations", "model")
"""How tokens travel to experts: as the experts' products take them, or in the model's 16 bits."""

RELEASED = ("policy", "deployment", "precisions", "host")
"""What a release may change, beside the name of its constants."""

TEXTS = ("title", "newest", "evidence", "efficiency")
"""Words that every file has."""

_KEYS = (*TEXTS, "vendor", *RELEASED, "read", "rules", "sources", "releases")
_KEYS += ("slower", "runs", "collectives", "launch", "kernels")
_RELEASE = ("date", "source", "efficiency", *RELEASED)
_PRECISIONS = ("cache", "attention", "dispatch", "microscaled")
_SLOWER_MODES = ("drafting", "groups", "experts")
_SLOWER = ("vendor", "with", "without", "before", *_SLOWER_MODES, "step_time", "source")
_RUNS = ("vendor", "devices", "count", "parallelism", "weights", "source")


@dataclasses.dataclass(frozen=True)
class EnginePrecisions:
    """Precisions that an engine chooses where neither the user nor the checkpoint does."""

    cache: Mapping[str, str]  # how the weights' precision begins -> that of the KV cache beside them
    attention: str = "weights"  # one of COMPUTE
    dispatch: str = "model"  # one of DISPATCH
    microscaled: str | None = None  # activations of MXFP4 experts where matrix units multiply 4 bits; None: 16 bits


@dataclasses.dataclass(frozen=True)
class HostTimes:
    """s that an engine's host takes beyond the constants of its kernels and its host."""

    request_time: float = 0.0  # of every request: the front end before the queue
    step_time: float = 0.0  # of a step, beyond today's release
    token_time: float = 0.0  # of a token: the end of one process beside the engine; 0: none is seen
    handover_time: float = 0.0  # of every request whose cache goes from one pool to another


@dataclasses.dataclass(frozen=True)
class Slower:
    """Releases whose steps take longer on some devices than those of later ones, or in some modes, at any load alike.

    Modes: drafting, of steps that draft tokens; groups, of attention that is data-parallel; experts, of experts that
    are whole on one device each.
    """

    vendor: str
    having: str  # precision of matrix units that the devices have
    lacking: str | None  # and one that they lack
    before: str | None  # first later version; None: there is none yet
    step_time: float  # s of a step
    modes: frozenset[str] = frozenset()  # all of which a deployment has to have

    def holds(self, version: str, vendor: str | None, matrix: Mapping[str, Any], modes: frozenset[str]) -> bool:
        """Whether it is of this version on a device of this vendor with these matrix units, in these modes."""
        there = vendor == self.vendor and self.having in matrix and self.lacking not in matrix
        # Versions are compared as lists of numbers: 0.9 comes before 0.11.
        earlier = self.before is None or keys.numbers(version) < keys.numbers(self.before)
        return there and earlier and self.modes <= modes


@dataclasses.dataclass(frozen=True)
class ServedRuns:
    """Measured runs of one vendor's accelerators that the engine's constants were fitted to, or that they predict."""

    engine: str
    vendor: str
    devices: tuple[str, ...]  # names in the catalogue
    count: int
    parallelism: frozenset[str]  # degrees above 1 that some of the runs had
    weights: frozenset[str]  # precisions


@dataclasses.dataclass(frozen=True, kw_only=True)
class EngineEntry:
    """One release of an engine."""

    name: str
    title: str
    version: str  # what was asked for, or the newest release with evidence
    newest: bool  # whether it is the newest release with evidence
    evidence: str  # what the newest release with evidence was judged on
    efficiency: str  # constants of its kernels and its host
    kernels: Mapping[str, str]  # part of the name of a kernel that it does not choose by default -> whose constants
    released: datetime.date | None  # a day by which the last release whose rules these are was out; None: not known
    vendor: str | None  # whose devices alone it runs on
    policy: Mapping[str, Any]  # fields of `jaxroof.batch.Policy`, SI; words as codes where they have codes
    rules: tuple[SchedulerRule, ...]  # of the scheduler, with the fields of the policy that say them
    read: str  # versions whose source the rules are from
    deployment: Mapping[str, Any]  # fields of `jaxroof.deployment.Deployment`, SI
    precisions: EnginePrecisions
    host: HostTimes
    slower: tuple[Slower, ...]
    runs: tuple[ServedRuns, ...]  # that confirm its predictions
    collectives: OwnCollectives
    launch: LaunchWords | None  # how it is started, where that is known
    sources: Mapping[str, str]  # table, or dotted path of a number -> where it is from
    file: str

    @property
    def text(self) -> str:
        """It in words: "vllm 0.24 (newest with evidence)"."""
        return f"{self.name} {self.version}{' (newest with evidence)' if self.newest else ''}"

    @property
    def words(self) -> str:
        """It as `engine` takes it: "vllm@0.24"."""
        return f"{self.name}@{self.version}"

    def constants_of(self, kernel: str) -> str:
        """The efficiency with the constants of a kernel, by the engine's name of it: `efficiency` of most."""
        return next((name for part, name in self.kernels.items() if part in kernel), self.efficiency)

    def longer_step(self, vendor: str | None, matrix: Mapping[str, Any], modes: frozenset[str] = frozenset()) -> float:
        """s by which a step takes longer on a device of this vendor with these matrix units than with today's.

        Args:
          modes: of the deployment, as `Slower` names them.
        """
        # Of the rules for the same modes the first one that holds counts: several releases are not added up.
        longest: dict[frozenset[str], float] = {}
        for one in self.slower:
            if one.holds(self.version, vendor, matrix, modes):
                longest.setdefault(one.modes, one.step_time)
        return self.host.step_time + sum(longest.values())


def engine_names() -> tuple[str, ...]:
    """Names of the engines, the default one first."""
    names = sorted(path.stem for path in FILES.glob("*.toml"))
    # Sorting keeps the alphabetical order of all names after the default one.
    return tuple(sorted(names, key=lambda name: name != DEFAULT))


DEFAULT = "vllm"
"""The engine where nothing names one."""


def engine(words: str) -> EngineEntry:
    """The engine of that name: its newest release with evidence, or the one of the version behind an @.

    Args:
      words: "vllm", or "vllm@0.11.2": the rules of the last known release up to that version.

    Raises:
      ValueError: one line, for an engine that there is not and for a version that is none.
    """
    if not isinstance(words, str):
        raise ValueError(f"engine = {words!r} must be a name, such as vllm or vllm@0.24")
    # Checked before the cache is asked, which refuses what has no hash with a message of its own.
    return _engine(words)


@functools.cache
def _engine(words: str) -> EngineEntry:
    name, _, version = words.partition("@")
    names = engine_names()
    if name not in names:
        raise ValueError(f"engine = {words!r} is not known; known: {', '.join(names)}, or NAME@VERSION")
    newest = _read(name)["newest"]
    # An @ without a version behind it is a slip, not a wish for the newest release.
    if name != words and not re.fullmatch(r"\d+(\.\w+)*", version):
        raise ValueError(f"engine = {words!r}: {version!r} is no version; give one such as {name}@{newest}")
    return entry(name, _read(name), version or newest)


def entry(name: str, tables: Mapping[str, Any], version: str) -> EngineEntry:
    """The release of an engine that a file's tables describe: what all have, and the changes up to `version`.

    Raises:
      ValueError: one line that names file, key, value and what is allowed.
    """
    file = f"hwspaces/engines/{name}.toml"
    keys.require_known(tables, _KEYS, file)
    for key in TEXTS:
        if not isinstance(tables.get(key), str):
            raise ValueError(f"{file}: {key} is missing, or no text")
    rules: dict[str, Any] = {table: {} for table in RELEASED}
    # Changes are applied from the oldest release to the newest, in whatever order the file has them.
    steps = sorted(tables.get("releases", {}).items(), key=lambda pair: keys.numbers(pair[0]))
    released, efficiency = None, tables["efficiency"]
    # Rules that every release starts with.
    _merge(rules, tables, file)
    for known, table in steps:
        where = f"{file}: releases.{known}"
        # Keys, date and source are checked of later releases too: a slip in them shows whatever version is wanted.
        keys.require_known(table, _RELEASE, where)
        for key, kind in (("date", datetime.date), ("source", str)):
            if not isinstance(table.get(key), kind):
                raise ValueError(f"{where}.{key} = {table.get(key)!r} must be a {kind.__name__}")
        if not isinstance(table.get("efficiency", ""), str):
            raise ValueError(f"{where}.efficiency = {table['efficiency']!r} is no text")
        if keys.numbers(known) <= keys.numbers(version):
            _merge(rules, table, where)
            released, efficiency = table["date"], table.get("efficiency", efficiency)
    sources, scheduler = tables.get("sources", {}), scheduler_rules(tables.get("rules", ()), f"{file}: rules")
    if scheduler and not isinstance(tables.get("read"), str):
        raise ValueError(f"{file}: read is missing, or no text: versions whose source the rules are from")
    # Every number needs a source: of its table as a whole, of its own, or of a rule of the scheduler.
    said = {*sources, *(f"policy.{field}" for field in ruled(scheduler))}
    for path in RELEASED:
        for key in tables.get(path, {}):
            if path not in said and f"{path}.{key}" not in said:
                raise ValueError(f"{file}: {path}.{key} has no source")
    # What no release changes is read from the file's tables as they stand.
    return EngineEntry(
        name=name,
        title=tables["title"],
        version=version,
        newest=version == tables["newest"],
        evidence=tables["evidence"],
        efficiency=efficiency,
        kernels=_names(keys.table(tables, "kernels", file), f"{file}: kernels"),
        released=released,
        vendor=tables.get("vendor"),
        policy=rules["policy"],
        rules=scheduler,
        read=tables.get("read", ""),
        deployment=rules["deployment"],
        precisions=EnginePrecisions(**({"cache": {}} | rules["precisions"])),
        host=HostTimes(**rules["host"]),
        slower=tuple(_slower(one, f"{file}: slower") for one in tables.get("slower", ())),
        runs=tuple(_runs(name, one, f"{file}: runs") for one in tables.get("runs", ())),
        collectives=collective_kernels(keys.table(tables, "collectives", file), f"{file}: collectives"),
        launch=launch_words(keys.table(tables, "launch", file), f"{file}: launch") if "launch" in tables else None,
        sources=sources,
        file=file,
    )


@functools.cache
def _read(name: str) -> Mapping[str, Any]:
    return document.toml(FILES / f"{name}.toml")


def _merge(found: dict[str, Any], tables: Mapping[str, Any], where: str) -> None:
    """Add what tables set to what was there, checked."""
    for table, kind in TABLES.items():
        # Keys, units and ranges are those that the fields of the struct declare.
        declared = declarations(kind)
        for key, value in keys.table(tables, table, where).items():
            if key not in declared:
                raise ValueError(f"{where}: there is no {table}.{key}{nearest(key, declared)}")
            found[table][key] = _value(value, declared[key], f"{where}: {table}.{key}")
    precisions = keys.table(tables, "precisions", where)
    keys.require_known(precisions, _PRECISIONS, f"{where}: precisions")
    for key, choices in (("attention", COMPUTE), ("dispatch", DISPATCH)):
        if key in precisions and precisions[key] not in choices:
            raise ValueError(f"{where}: precisions.{key} = {precisions[key]!r} must be {' or '.join(choices)}")
    found["precisions"] |= precisions
    # Host times are in s; 0 is allowed, of an engine that has no such cost.
    times = [field.name for field in dataclasses.fields(HostTimes)]
    keys.require_known(keys.table(tables, "host", where), tuple(times), f"{where}: host")
    for key, value in keys.table(tables, "host", where).items():
        found["host"][key] = keys.time(value, f"{where}: host.{key}")


def _value(value: Any, declared: Declaration, where: str) -> Any:
    if not declared.choices:
        return declared_quantity(value, declared, where)
    if value not in declared.choices:
        raise ValueError(f"{where} = {value!r} must be {' or '.join(declared.choices)}")
    return value


def _slower(table: Mapping[str, Any], where: str) -> Slower:
    keys.require_known(table, _SLOWER, where)
    for key in ("vendor", "with", "step_time", "source"):
        if key not in table:
            raise ValueError(f"{where}: {key} is missing")
    seconds = quantity(table["step_time"], "s", f"{where}.step_time")
    for key in _SLOWER_MODES:
        if not isinstance(table.get(key, False), bool):
            raise ValueError(f"{where}.{key} = {table[key]!r} must be true or false")
    modes = frozenset(key for key in _SLOWER_MODES if table.get(key))
    # Without a later version that is faster, it has to be something that a deployment may leave out.
    if "before" not in table and not modes:
        raise ValueError(f"{where}: before is missing")
    return Slower(table["vendor"], table["with"], table.get("without"), table.get("before"), seconds, modes)


def _runs(engine: str, table: Mapping[str, Any], where: str) -> ServedRuns:
    keys.require_known(table, _RUNS, where)
    for key, kind in zip(_RUNS, (str, list, int, list, list, str), strict=True):
        value = table.get(key)
        if not isinstance(value, kind) or (kind is list and not all(isinstance(one, str) for one in table[key])):
            what = {str: "a text", list: "a list of names", int: "a whole number"}[kind]
            raise ValueError(f"{where}.{key} = {value!r} must be {what}")
    names = frozenset(table["parallelism"]), frozenset(table["weights"])
    return ServedRuns(engine, table["vendor"], tuple(table["devices"]), table["count"], *names)


def _names(table: Mapping[str, Any], where: str) -> Mapping[str, str]:
    for key, name in table.items():
        if not isinstance(name, str):
            raise ValueError(f"{where}.{key} = {name!r} must be the name of an efficiency")
    return table
