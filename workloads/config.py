"""Hugging Face configs: checked access to their keys, with errors that name the key and what is allowed."""

import dataclasses
import math
from collections.abc import Collection, Mapping
from typing import Any

REQUIRED: Any = object()
"""Default of a key that has to be there."""

LARGEST = 10**12
"""More than any size in a model: what is above is a wrong figure."""


LANGUAGE_TABLES = (
    "text_config",
    "llm_config",
    "language_config",
    "thinker_config",
    "transformer_layer_config",
)
"""The spellings of the table that describes a language model inside of another model."""


DIVISIBLE = 2**13 * 45045
"""A multiple of any number of heads, groups or experts that there is."""


class WrongKey(ValueError):
    """A key that is missing or wrong by itself, whatever the others are.

    Args:
      text: the error, in one line.
      path: of the key in the whole config.
      stand_in: a value that its reader takes.
    """

    def __init__(self, text: str, path: str, stand_in: Any) -> None:
        super().__init__(text, path, stand_in)
        self.path, self.stand_in = path, stand_in

    def __str__(self) -> str:
        return str(self.args[0])


@dataclasses.dataclass(frozen=True)
class Config:
    """One config, or one of its nested tables, under the name that errors give it.

    A key is looked up under several spellings, a dotted one in nested tables; null counts as absent. Spellings
    that are present together have to agree. Every accessor raises `ValueError` in one line when a required key is
    missing or a value is not what the key allows. `looked_up` tells afterwards what nobody asked for.
    """

    name: str
    values: Mapping[str, Any]
    path: str = ""  # of a nested table in the whole config, with a dot at its end
    asked: set[str] = dataclasses.field(default_factory=set, compare=False, repr=False)  # paths of keys, of all tables

    def value(self, *keys: str, default: Any = None) -> Any:
        """The value under the first of `keys` that is present, unchecked."""
        present = self._present(keys)
        # Compared as texts: true and 1, or 1 and 1.0, are equal in Python but do not agree.
        if len({repr(value) for _, value in present}) > 1:
            raise self.error(" but ".join(f"{key} is {value!r}" for key, value in present) + "; they must agree")
        if present:
            return present[0][1]
        if default is REQUIRED:
            words = f"{keys[0]} is missing" + (f" (or {', '.join(keys[1:])})" if keys[1:] else "")
            raise self.wrong(words, keys[0], self._stand_in(keys[0]))
        return default

    def states(self, key: str) -> bool:
        """True if `key` is there, even as null."""
        self.asked.add(self.path + key)
        return key in self.values

    def has(self, path: str) -> bool:
        """Whether there is a key at a dotted path."""
        value: Any = self.values
        for part in path.split("."):
            if not isinstance(value, Mapping) or part not in value:
                return False
            value = value[part]
        return True

    def looked_up(self, key: str) -> bool:
        """Whether a reader has asked for `key`."""
        return self.path + key in self.asked

    def spelling(self, *keys: str) -> str:
        """The first of `keys` that is present, or the first of all."""
        present = self._present(keys)
        return present[0][0] if present else keys[0]

    def count(self, *keys: str, default: Any = REQUIRED, minimum: int = 1) -> Any:
        """An integer of at least `minimum`, or `default`."""
        value = self.value(*keys, default=default)
        if value is default:
            return value
        # bool is a subclass of int: without the check true would pass as 1.
        if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
            allowed = "a positive integer" if minimum == 1 else f"an integer of at least {minimum}"
            words = f"{self.spelling(*keys)} is {shown(value)}; it must be {allowed}"
            raise self.wrong(words, self.spelling(*keys), self._stand_in(keys[0], minimum))
        if value > LARGEST:
            raise self.error(f"{self.spelling(*keys)} is {shown(value)}; it must be at most {LARGEST}")
        return value

    def number(self, *keys: str, default: Any = REQUIRED, minimum: int = 1) -> Any:
        """`count` as a float; None where that is the default."""
        value = self.count(*keys, default=default, minimum=minimum)
        return None if value is None else float(value)

    def flag(self, key: str, default: bool) -> bool:
        """True or false."""
        value = self.value(key, default=default)
        if not isinstance(value, bool):
            raise self.wrong(f"{key} is {shown(value)}; it must be true or false", key, default)
        return value

    def fraction(self, key: str, default: float) -> float:
        """A number above 0 and at most 1."""
        value = self.value(key, default=default)
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0.0 < value <= 1.0:
            raise self.wrong(f"{key} is {shown(value)}; it must be above 0 and at most 1", key, default)
        return float(value)

    def text(self, *keys: str, default: Any = REQUIRED) -> Any:
        """A string of one line, or `default`."""
        value = self.value(*keys, default=default)
        if value is not default and not (isinstance(value, str) and value.isprintable()):
            raise self.error(f"{self.spelling(*keys)} is {shown(value)}; it must be a string of one line")
        return value

    def items(self, key: str, length: int, covered: Collection[str] | None = None) -> list[Any] | None:
        """A list of `length` values, of `covered` ones where these are given, or None when the key is absent.

        Entries of multi-token-prediction layers may follow, and are left out.
        """
        value = self.value(key)
        if value is None:
            return None
        spare = self.count("num_nextn_predict_layers", default=0, minimum=0) if isinstance(value, list) else 0
        if spare and len(value) == length + spare:
            value = value[:length]
        if not isinstance(value, list) or len(value) != length:
            size = f"has {len(value)} values" if isinstance(value, list) else f"is {shown(value)}"
            raise self.error(f"{key} {size}; it must be a list of {length}, one per layer")
        if covered is None:
            return value
        wrong = [one for one in value if not (isinstance(one, str) and one in covered)]
        if wrong:
            raise self.error(f"{key} has {wrong[0]!r}; covered are {', '.join(covered)}")
        return value

    def layer_indices(self, key: str, layers: int) -> list[int] | None:
        """A list of layer indices from 0, or None when the key is absent."""
        value = self.value(key)
        if value is None:
            return None
        indices = value if isinstance(value, list) else [value]
        if not isinstance(value, list) or not all(type(i) is int and 0 <= i < layers for i in indices):
            raise self.error(f"{key} is {shown(value)}; it must be a list of layer indices from 0 to {layers - 1}")
        return value

    def block(self, key: str) -> tuple[int, int] | None:
        """Rows and columns of a block, or None when the key is absent."""
        value = self.value(key)
        if value is None:
            return None
        if not isinstance(value, list) or len(value) != 2 or not all(type(n) is int and 0 < n < LARGEST for n in value):
            raise self.error(f"{key} is {shown(value)}; it must be two positive integers")
        return value[0], value[1]

    def table(self, key: str) -> "Config | None":
        """A nested table, or None when the key is absent."""
        value = self.value(key)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise self.error(f"{key} is {shown(value)}; it must be an object")
        # Nested tables share `asked`, so that the keys nobody read can be listed over the whole config.
        return Config(f"{self.name}: {key}", value, f"{self.path}{key}.", self.asked)

    def own(self, key: str) -> Any:
        """The value of a key that may have dots in it, such as the name of a module, unchecked; None: absent."""
        # The key is not split at dots, unlike in `value`: names of modules have dots of their own.
        self.asked.add(self.path + key)
        return self.values.get(key)

    def own_table(self, key: str) -> "Config | None":
        """The nested table of such a key; None: null or absent."""
        value = self.own(key)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise self.error(f"{key} is {shown(value)}; it must be an object")
        return Config(f"{self.name}: {key}", value, f"{self.path}{key}.", self.asked)

    def nested(self) -> "Config | None":
        """The table of the language model, where it stands beside an encoder's; None where the config is its own."""
        for key in LANGUAGE_TABLES:
            table = self.table(key)
            if table is not None:
                # A language model may be nested twice: the `thinker_config` of an omni model has a `text_config`.
                return table.nested() or table
        return None

    def error(self, text: str) -> ValueError:
        """The error that says `text` of this config, in one line."""
        return ValueError(f"{self.name}: {text}")

    def wrong(self, text: str, key: str, stand_in: Any) -> WrongKey:
        """The error of one key, which may be dotted, with a value that its reader takes."""
        return WrongKey(f"{self.name}: {text}", f"{self.path}{key}", stand_in)

    def _stand_in(self, key: str, minimum: int = 1) -> int:
        """A count with which other keys can still be read: what has to be divisible is, and heads have their groups."""
        if key in ("hidden_size", "num_experts"):
            return DIVISIBLE
        groups = self.values.get("num_key_value_heads")
        if key == "num_attention_heads" and type(groups) is int and 0 < groups <= LARGEST:
            return groups
        return max(minimum, 1)

    def mended(self, error: WrongKey) -> "Config":
        """The config with the stand-in of a key that is wrong."""
        values: dict[str, Any] = dict(self.values)
        inner, (*around, last) = values, error.path.split(".")
        for key in around:
            table = inner.get(key)
            inner[key] = dict(table) if isinstance(table, Mapping) else {}
            inner = inner[key]
        inner[last] = error.stand_in
        return dataclasses.replace(self, values=values)

    def _present(self, keys: tuple[str, ...]) -> list[tuple[str, Any]]:
        pairs = []
        for key in keys:
            value: Any = self.values
            path = self.path
            for part in key.split("."):
                # Every step of a dotted key counts as asked for, whether it is there or not.
                self.asked.add(path + part)
                path += f"{part}."
                value = value.get(part) if isinstance(value, Mapping) else None
            if value is not None:
                pairs.append((key, value))
        return pairs


def shown(value: Any) -> str:
    """A value of a config in at most 60 characters of one line."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    # `repr` raises for integers of more than 4,300 digits.
    if isinstance(value, int) and abs(value) > LARGEST:
        return f"about {'-' if value < 0 else ''}2**{value.bit_length()}"
    text = repr(value).replace("\n", " ")
    return text if len(text) <= 60 else text[:57] + "..."
