"""Inputs that are nearly right: valid documents with leaves, keys and shapes that are not."""

import copy
import random
from typing import Any

NUMBERS = (0, 1, -1, 2, 3, 0.5, -0.0, 1e-300, 5e-324, 1e300, 1e308, 2**31, 2**53 + 1, 2**63, 2**64, 10**12, 10**30)
NUMBERS += (-(10**30), 10**400, float("nan"), float("inf"), -float("inf"), 1e15, 10_001, 0.1, 1.0000001)
TEXTS = (
    "",
    " ",
    "0",
    "-1",
    "nan",
    "inf",
    "1e999",
    "1_0",
    "é",
    "☃",
    "\u202e",
    "a\nb",
    "\x00",
    "x" * 300,
    "..",
    "/etc/passwd",
)
TEXTS += (
    "None",
    "true",
    "tpot",
    "8 TB/s",
    "10GiB",
    "__class__",
    "%s",
    "{}",
    "[",
    "'",
    '"',
    "0x10",
    "١",
    "1e5 s",
    "~",
    "C:\\",
)
OTHERS: tuple[Any, ...] = (
    True,
    False,
    None,
    [],
    {},
    [[]],
    [None],
    {"": None},
    [1, "a"],
    [0.5],
    ["a", "a"],
    {"a": {"b": []}},
)


def junk(rng: random.Random) -> Any:
    """Something that hardly any field allows."""
    kind = rng.random()
    if kind < 0.4:
        return rng.choice(NUMBERS)
    if kind < 0.7:
        return rng.choice(TEXTS)
    if kind < 0.97:
        return copy.deepcopy(rng.choice(OTHERS))
    return nested(rng.choice((20, 200, 2000)), rng.random() < 0.5)


def nested(depth: int, lists: bool) -> Any:
    """A value inside many others."""
    value: Any = 1
    for _ in range(min(depth, 150)):  # deeper ones are texts: `deep_text`
        value = [value] if lists else {"a": value}
    return value


def mutated(tree: Any, rng: random.Random, words: tuple[str, ...] = ()) -> Any:
    """A copy of a document with one to four changes.

    Args:
      tree: of dictionaries, lists and leaves.
      rng: what decides.
      words: keys that other documents of this kind have.
    """
    tree = copy.deepcopy(tree)
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
        places = list(_places(tree))
        if not places:
            return junk(rng)
        parent, key = rng.choice(places)
        _changed(parent, key, rng, words, places)
    return tree


def _places(tree: Any):
    """Every parent and key or position below it, at most 400 of a list."""
    waiting = [tree]
    while waiting:
        parent = waiting.pop()
        items = parent.items() if isinstance(parent, dict) else enumerate(parent[:400])
        for key, value in items:
            yield parent, key
            if isinstance(value, dict | list):
                waiting.append(value)


def _changed(parent: Any, key: Any, rng: random.Random, words: tuple[str, ...], places: list) -> None:
    if (isinstance(parent, list) and key >= len(parent)) or (isinstance(parent, dict) and key not in parent):
        return
    value, kind = parent[key], rng.randrange(10)
    if kind < 3:
        parent[key] = junk(rng)
    elif kind == 3:
        del parent[key]
    elif kind == 4 and isinstance(parent, dict):
        parent[rng.choice(words or TEXTS) if rng.random() < 0.6 else rng.choice(TEXTS)] = parent.pop(key)
    elif kind == 5:
        other, place = rng.choice(places)
        if (isinstance(other, dict) and place in other) or (isinstance(other, list) and place < len(other)):
            parent[key] = copy.deepcopy(other[place])
    elif kind == 6 and isinstance(parent, dict):
        parent[rng.choice(words or TEXTS)] = copy.deepcopy(value) if rng.random() < 0.5 else junk(rng)
    elif kind == 7 and isinstance(parent, list):
        parent[key:key] = [copy.deepcopy(value)] * rng.choice((1, 2, 30))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        parent[key] = rng.choice(
            (-value, value * 2, value + 1, value - 1, value / 2 if abs(value) < 1e300 else 0.5, [value])
        )
    elif isinstance(value, str) and value:
        place = rng.randrange(len(value))
        parent[key] = rng.choice((value[:place], value[::-1], value + rng.choice(TEXTS), value[place:], [value]))
    else:
        parent[key] = [value] if rng.random() < 0.5 else junk(rng)


def deep_text(rng: random.Random) -> bytes:
    """Brackets in brackets, as far as they go."""
    depth = rng.choice((50, 500, 5000, 50_000))
    return rng.choice((b"[", b'{"a":', b"(", b"-", b"a = [", b"not ", b"[a.")) * depth


def scrambled(data: bytes, rng: random.Random) -> bytes:
    """Bytes with some of them changed, cut out or twice."""
    found = bytearray(data or b"0")
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        at, size = rng.randrange(len(found)), rng.choice((1, 1, 2, 8, 64))
        kind = rng.randrange(5)
        if kind == 0:
            found[at] = rng.randrange(256)
        elif kind == 1:
            del found[at : at + size]
        elif kind == 2:
            found[at:at] = found[at : at + size]
        elif kind == 3:
            found[at] ^= 1 << rng.randrange(8)
        else:
            found[at:at] = rng.choice(TEXTS).encode("utf-8", "surrogatepass")[:64]
        found = found or bytearray(b"0")
    return bytes(found)
