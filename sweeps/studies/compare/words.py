"""Words of a comparison: what its function and its command take, numbers and texts alike, and what they ask."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from hwspaces.quantities.leaves import declared_quantity
from hwspaces.quantities.units import require_keys
from jaxroof.deployment import DEGREES
from jaxroof.numerics.struct import declarations
from sweeps.ask.deployments import PREFIX
from sweeps.ask.flag_text import counts, flag_text, pairs, several
from sweeps.ask.keys import COUNT, COUNTS, NAMES, NUMBER, SWITCH, TABLE, Word, words
from sweeps.ask.offered_load import COMPARED, OfferedLoad
from sweeps.ask.words import ComparisonWords
from sweeps.run.simulated.classes import dotless
from sweeps.run.simulated.policies import DECLARED as POLICY

OWN = words(ComparisonWords)

WORDS = (*OWN, *COMPARED)
"""All words of a comparison, those of its requests last."""

# SI unit of every word that is a number, in which numbers without a unit are read; "1" has none.
_LOAD_UNITS, _POLICY_UNITS = (
    {name: declared.unit or "1" for name, declared in of.items()} for of in (declarations(OfferedLoad), POLICY)
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class AskedComparison(ComparisonWords):
    """What the words ask, every value checked that is no other module's."""

    load: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # words of `COMPARED`, by name


def keyword(name: str) -> str:
    """A word as an argument of `sweeps.compare` is named."""
    return "sweeps.compare_static" if name == "static" else name


def read(given: Mapping[str, Any], said: Callable[[str], str] = keyword) -> AskedComparison:
    """What words ask.

    A number is read as the text that a flag would have, so both give the same answer and the same errors.

    Args:
      given: values by name, of `WORDS`; None: not given.
      said: a word's name in errors: the argument, or the command's flag.

    Raises:
      ValueError: one line that names what is wrong, its value and what is allowed.
    """
    given = {name: value for name, value in given.items() if value is not None}
    # Words that contradict each other are told before any value is read.
    _require_known(given, said)
    load = {name: flag_text(given[name], _LOAD_UNITS[name]) for name in COMPARED if name in given}
    values = {word.field: _value(name, given[name], word, said) for name, word in OWN.items() if name in given}
    # Adapters are a setting of the deployment that has a word of its own.
    if "adapters" in values:
        adapters = {"deployment.adapters": values["adapters"]}
        values["overrides"] = values.get("overrides", {}) | adapters
    return AskedComparison(**values, load=load)


def _value(name: str, value: Any, word: Word, said: Callable[[str], str]) -> Any:
    """What is asked by the value of a word."""
    where = said(name)
    # By the kind of value that the word takes; the last line reads limits and texts.
    if word.reads == SWITCH:
        if not isinstance(value, bool):
            raise ValueError(f"{where} = {value!r} must be True or False")
        return value
    if word.reads in (NUMBER, COUNT):
        number = declared_quantity(flag_text(value, word.unit), word, where)
        return int(number) if word.reads == COUNT else number
    if word.reads == COUNTS:
        return counts(value, where, word)
    if word.reads == NAMES:
        return [_name(part, where) for part in several(value, where)]
    if word.reads == TABLE:
        return _policy(value, where) if name == "policy" else _settings(value, said)
    return dotless(flag_text(value, "s")) if name == "slo" else flag_text(value)


def _require_known(given: Mapping[str, Any], said: Callable[[str], str]) -> None:
    if "model" not in given:
        raise ValueError(f"{said('model')} is missing")
    # A batch is a word of the static comparison only, whose hint says more than "unknown".
    if "batch" in given:
        raise ValueError(
            f"{said('batch')} needs {said('static')}: requests that arrive over time make their own batches"
        )
    require_keys(given, WORDS)
    if "headroom" in given and "rate" not in given:
        raise ValueError(f"{said('headroom')} needs {said('rate')}: what one replica takes has no headroom")
    if "devices" in given and "max_devices" in given:
        raise ValueError(f"{said('devices')} and {said('max_devices')} say the same in two ways: give one")
    if "slo" not in given and "traffic" not in given:
        example = "what has to be kept, such as ttft=1s,tpot=30ms"
        raise ValueError(f"{said('slo')} is missing: {example}; {said('static')} needs none")


def _name(value: Any, where: str) -> str | None:
    name = flag_text(value)
    if not isinstance(name, str | None):
        raise ValueError(f"{where} = {value!r} must be a text")
    return name


def _table(given: Any, where: str, form: str, example: str) -> dict[str, Any]:
    """Values by name, of a table, of a text as the flag takes it, or of several."""
    if isinstance(given, Mapping):
        return {str(name): value for name, value in given.items()}
    # A flag may be given several times: one text for each.
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
        raise ValueError(f"{where} = {given!r} must be a table of values by name, or {form}, such as {example}")
    return {name: value for name, value, _ in pairs(where, texts, form, example)}


def _policy(given: Any, where: str) -> dict[str, list[Any]]:
    """Values of every number of the scheduler, which are tried."""
    return {
        name: [_switch(flag_text(part, _POLICY_UNITS.get(name, "1"))) for part in several(value, f"{where} {name}")]
        for name, value in _table(given, where, "NAME=VALUE", "token_budget=2048").items()
    }


def _switch(value: Any) -> Any:
    # Switches of a policy are numbers, 1 or 0, as a flag gives them.
    return str(int(value)) if isinstance(value, bool) else value


def _settings(given: Any, said: Callable[[str], str]) -> dict[str, Any]:
    """Numbers by dotted path, but for those that have words of their own."""
    numbers = _table(given, said("set"), "PATH=VALUE", "hardware.memory.hbm.bandwidth=8TB/s")
    for path, value in numbers.items():
        name = path.partition(".")[2]
        # Requests have words of their own, and layouts are what a comparison chooses.
        if path.startswith("workload."):
            raise ValueError(f"{said('set')} {path}={value}: use {said(name)}")
        if path.startswith(PREFIX) and name in DEGREES:
            tried = f"a comparison tries layouts itself; {said('devices')} says of how many devices"
            raise ValueError(f"{said('set')} {path}={value}: {tried}")
    return numbers
