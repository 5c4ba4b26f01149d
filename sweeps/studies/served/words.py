"""Words of a comparison: what its function and its command take, numbers and texts alike, and what they ask."""

import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from hwspaces.leaves import declared_quantity
from hwspaces.units import PLAIN, nearest
from jaxroof.deployment import DEGREES
from jaxroof.field import Declaration, declarations
from sweeps.ask.deployments import PREFIX
from sweeps.ask.offered_load import COMPARED, OfferedLoad
from sweeps.ask.pairs import pairs
from sweeps.run.simulated.classes import dotless
from sweeps.run.simulated.policies import DECLARED as POLICY
from sweeps.studies.served.search import HEADROOM, SIMULATED

COUNT = Declaration("1", "how many", whole=True)

NUMBERS = {
    "rate": Declaration("1/s", "requests that have to be served"),
    "headroom": Declaration("1", "load beyond the rate, as a share of it", zero=True),
    "max_devices": COUNT,
    "simulate": dataclasses.replace(COUNT, zero=True),
    "node": COUNT,
}
"""Words that are one number."""

COUNTS = {"devices": COUNT, "drafts": dataclasses.replace(COUNT, zero=True)}
"""Words that are one number or several, which are tried."""

NAMES = ("hardware", "kv", "weights")
"""Words that are one name or several, which are tried."""

SINGLE = ("model", "slo", "share", "engine", "draft", "efficiency", "adapters", "prices", "sort")

WORDS = (*SINGLE, *NUMBERS, *COUNTS, *NAMES, "policy", "set", "disaggregated", *COMPARED)
"""All words of a comparison, those of its requests last."""


@dataclasses.dataclass(frozen=True)
class Asked:
    """What the words ask, every value checked that is no other module's."""

    weights: tuple[str | None, ...]  # precisions that are ranked together
    question: Mapping[str, Any]  # of `sweeps.studies.served.question.question`, but the weights
    rate: float | None  # requests/s that have to be served; None: what one replica takes
    headroom: float
    sort: str | None
    simulated: int
    disaggregated: bool


def keyword(name: str) -> str:
    """A word as an argument of `sweeps.compare` is named."""
    return "sweeps.compare_static" if name == "static" else name


def read(words: Mapping[str, Any], said: Callable[[str], str] = keyword) -> Asked:
    """What words ask.

    A number is read as the text that a flag would have, so both give the same answer and the same errors.

    Args:
      words: values by name, of `WORDS`; None: not given.
      said: a word's name in errors: the argument, or the command's flag.

    Raises:
      ValueError: one line that names what is wrong, its value and what is allowed.
    """
    given = {name: value for name, value in words.items() if value is not None}
    _require_known(given, said)
    question: dict[str, Any] = {name: text(given[name]) for name in SINGLE if name in given}
    question["load"] = {name: text(given[name], _LOAD_UNITS[name]) for name in COMPARED if name in given}
    question["slo"] = _limits(given.get("slo"))
    numbers = {
        name: declared_quantity(text(given[name], declared.unit), declared, said(name))
        for name, declared in NUMBERS.items()
        if name in given
    }
    if "headroom" in numbers and "rate" not in numbers:
        raise ValueError(f"{said('headroom')} needs {said('rate')}: what one replica takes has no headroom")
    for name in NAMES:
        if name in given:
            question[name] = [_name(part, said(name)) for part in _several(given[name], said(name))]
    for name, declared in COUNTS.items():
        if name in given:
            parts = _several(given[name], said(name))
            question[name] = [int(declared_quantity(text(part), declared, said(name))) for part in parts]
    question |= {name: int(numbers[name]) for name in ("max_devices", "node") if name in numbers}
    question["policy"] = _policy(given.get("policy", ()), said("policy"))
    question["settings"] = _settings(given.get("set", ()), said)
    if "adapters" in given:
        question["settings"]["deployment.adapters"] = question.pop("adapters")
    pools = given.get("disaggregated", True)
    if not isinstance(pools, bool):
        raise ValueError(f"{said('disaggregated')} = {pools!r} must be True or False")
    return Asked(
        weights=tuple(dict.fromkeys(question.pop("weights", [None]))),
        question=question,
        rate=numbers.get("rate"),
        headroom=numbers.get("headroom", HEADROOM),
        sort=question.pop("sort", None),
        simulated=int(numbers.get("simulate", SIMULATED)),
        disaggregated=pools,
    )


def text(value: Any, unit: str = "1") -> Any:
    """A value as a flag takes it: a number in the SI unit `unit` as text, a list with commas."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, list | tuple):
        return ",".join(str(text(part, unit)) for part in value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    written = f"{value:.0f}" if abs(value) < EXACT and value == int(value) else repr(value)
    return written if unit in PLAIN else f"{written}{unit}"


EXACT = 2.0**53
"""Up to here floats that are whole are all whole numbers, which are written without a point."""

_LOAD_UNITS = {name: declared.unit or "1" for name, declared in declarations(OfferedLoad).items()}


def _require_known(given: Mapping[str, Any], said: Callable[[str], str]) -> None:
    if "batch" in given:
        raise ValueError(
            f"{said('batch')} needs {said('static')}: requests that arrive over time make their own batches"
        )
    for name in given:
        if name not in WORDS:
            raise ValueError(f"there is no key {name}{nearest(name, WORDS)}")
    if "devices" in given and "max_devices" in given:
        raise ValueError(f"{said('devices')} and {said('max_devices')} say the same in two ways: give one")
    if "slo" not in given and "traffic" not in given:
        example = "what has to be kept, such as ttft=1s,tpot=30ms"
        raise ValueError(f"{said('slo')} is missing: {example}; {said('static')} needs none")


def _limits(slo: Any) -> Any:
    """Limits as a text, of a table too, whose numbers are in s."""
    if isinstance(slo, Mapping):
        slo = ",".join(f"{name}={text(value, 's')}" for name, value in slo.items())
    return dotless(slo)


def _several(value: Any, where: str) -> list[Any]:
    """The values of a text with commas, or of a list; or a single one."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",")]
    found = list(value) if isinstance(value, Iterable) and not isinstance(value, Mapping) else [value]
    if not found:
        raise ValueError(f"{where} is empty; give at least one, or leave it out")
    return found


def _name(value: Any, where: str) -> str | None:
    name = text(value)
    if not isinstance(name, str | None):
        raise ValueError(f"{where} = {value!r} must be a text")
    return name


def _policy(given: Any, where: str) -> dict[str, list[Any]]:
    """Values of every number of the scheduler, which are tried."""
    if not isinstance(given, Mapping):
        texts = [given] if isinstance(given, str) else given
        given = {name: value for name, value, _ in pairs(where, texts, "NAME=VALUE", "token_budget=2048")}
    units = {name: declared.unit or "1" for name, declared in POLICY.items()}
    return {
        name: [_switch(text(part, units.get(name, "1"))) for part in _several(value, f"{where} {name}")]
        for name, value in given.items()
    }


def _switch(value: Any) -> Any:
    return str(int(value)) if isinstance(value, bool) else value


def _settings(given: Any, said: Callable[[str], str]) -> dict[str, Any]:
    """Numbers by dotted path, without those that have words of their own."""
    if not isinstance(given, Mapping):
        texts, example = [given] if isinstance(given, str) else given, "hardware.memory.hbm.bandwidth=8TB/s"
        given = {path: value for path, value, _ in pairs(said("set"), texts, "PATH=VALUE", example)}
    for path, value in given.items():
        name = path.partition(".")[2]
        if path.startswith("workload."):
            raise ValueError(f"{said('set')} {path}={value}: use {said(name)}")
        if path.startswith(PREFIX) and name in DEGREES:
            tried = f"every layout is tried; {said('devices')} says of how many devices"
            raise ValueError(f"{said('set')} {path}={value}: {tried}")
    return dict(given)
