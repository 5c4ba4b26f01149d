"""Distributions in words, `kind:name=value,...`: how they are read, and errors that name what is wrong."""

import dataclasses
import difflib
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)


@dataclasses.dataclass(frozen=True)
class Kind:
    """Parameters of one kind of distribution."""

    parameters: tuple[str, ...]  # names, in the order in which values without a name are taken
    optional: tuple[str, ...]  # names that may be left out
    example: str


@dataclasses.dataclass(frozen=True)
class Range:
    """Allowed values of a parameter."""

    low: float
    high: float
    whole: bool = False
    above: bool = False  # `low` itself is not allowed

    def words(self) -> str:
        """Such as "a whole number from 1 to 100"."""
        number = "a whole number" if self.whole else "a number"
        if self.above:
            return f"{number} above {self.low:.12g} and at most {self.high:.12g}"
        return f"{number} from {self.low:.12g} to {self.high:.12g}"

    def holds(self, value: float) -> bool:
        """True if `value` is in it."""
        large_enough = value > self.low if self.above else value >= self.low
        return large_enough and value <= self.high and not (self.whole and value != int(value))


def parsed(
    text: str, kinds: Mapping[str, Kind], default: str, ranges: Mapping[str, Range]
) -> tuple[str, dict[str, Any]]:
    """The kind that `text` names, and its parameters by name.

    A number alone stands for the first parameter of `default`; `a..b` for the first two of a kind. Case and spaces
    do not matter.

    Raises:
      ValueError: one line: an unknown kind or parameter with the nearest known, a value with what is allowed.
    """
    plain = re.sub(r"\s+", "", text).lower()
    name, colon, rest = plain.partition(":")
    # A value without a kind: `128..2048` is uniform, a number alone is of the default kind.
    if not colon and name not in kinds and (name[:1].isdigit() or name[:1] in "+-."):
        name, rest = ("uniform" if ".." in plain and "uniform" in kinds else default), plain
    if name not in kinds:
        raise ValueError(f"{text!r}: {name!r} is not known{nearest(name, kinds)}")
    kind = kinds[name]
    known = (*kind.parameters, *kind.optional)
    values: dict[str, float] = {}
    for place, item in enumerate(_items(rest)):
        key, equals, value = item.partition("=")
        if not equals:
            # Values without a name belong to the parameter at their place.
            if place >= len(kind.parameters):
                raise ValueError(f"{text!r}: {item!r} is one value too many for {name}; such as {kind.example}")
            key, value = kind.parameters[place], item
        if key not in known:
            raise ValueError(f"{text!r}: {name} has no {key!r}{nearest(key, known)}")
        if key in values:
            raise ValueError(f"{text!r}: {key} is given twice")
        values[key] = number(value, key, ranges[key], text)
    missing = [key for key in kind.parameters if key not in values]
    if missing:
        raise ValueError(f"{text!r}: {name} needs {missing[0]}; such as {kind.example}")
    return name, values


def number(word: str, key: str, allowed: Range, text: str) -> float:
    """The number that `word` is; ValueError with what is allowed."""
    # `float` would read nan, inf and 1_000 too.
    value = float(word) if _NUMBER.fullmatch(word) else math.nan
    if not math.isfinite(value) or not allowed.holds(value):
        raise ValueError(f"{text!r}: {key} is {word or 'empty'}; it must be {allowed.words()}")
    return value


def words_of(text: str, known: Iterable[str], example: str) -> dict[str, str]:
    """Name and words of every value in "name=words,name=words". Case and spaces do not matter.

    The words may be those of a distribution with parameters of its own: what follows belongs to them up to the next
    known name, as in "time=lognormal:p50=2,p90=9,calls=3".

    Raises:
      ValueError: one line: what is not NAME=VALUE, an unknown name with the nearest known, a name twice.
    """
    known, words, last = list(known), dict[str, str](), ""
    for item in re.sub(r"\s+", "", text).lower().split(","):
        key, equals, value = item.partition("=")
        if key not in known and ":" in words.get(last, ""):
            words[last] += f",{item}"
            continue
        if not equals or not value:
            raise ValueError(f"{text!r}: {item!r} is not NAME=VALUE; such as {example}")
        if key not in known:
            raise ValueError(f"{text!r}: {key!r} is not known{nearest(key, known)}")
        if key in words:
            raise ValueError(f"{text!r}: {key} is given twice")
        words[key], last = value, key
    return words


def shown(kind: str, values: Mapping[str, float]) -> str:
    """The words of a kind and its parameters, as `parsed` reads them."""
    return f"{kind}:{','.join(f'{key}={value:.12g}' for key, value in values.items())}" if values else kind


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of an error message: "; did you mean ...?" with the nearest known names, else all of them."""
    known = list(known)
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    return f"; did you mean {' or '.join(close)}?" if close else f"; known: {', '.join(known)}"


def _items(rest: str) -> list[str]:
    first = rest.partition(",")[0]
    # A range fills two parameters, the lowest and the highest value.
    if ".." in first and "=" not in first:
        rest = rest.replace("..", ",", 1)
    return rest.split(",") if rest else []
