"""Modules of a model that a list of names, wildcards and regular expressions selects."""

import dataclasses
import functools
import re
from collections.abc import Iterable

from workloads.expression_syntax import wildcard
from workloads.expressions import Expressions

ROOTS = ("model", "language_model", "transformer", "decoder", "gpt_neox", "backbone", "encoder")
"""Leading parts of a module's path that differ between exports of one model."""

PREFIXES = ("model.", "", "language_model.model.", "model.language_model.", "transformer.", "gpt_neox.", "backbone.")


@dataclasses.dataclass(frozen=True, eq=False)
class Patterns:
    """A compiled list of module names.

    A plain name means every module whose path contains it as whole parts (`gate` means `mlp.gate`, not
    `gate_proj`), so a parent means all its children. A wildcard has to match a module's or a parent's full path.
    `re:` starts a regular expression that matches from the beginning of the path, as compressed-tensors defines it.
    """

    plain: frozenset[str]
    expressions: Expressions
    wildcards: Expressions
    numbers: frozenset[str]  # parts of plain names that may be those of layers
    any_number: bool  # whether an expression or wildcard may tell one number from another
    _known: dict[str, bool] = dataclasses.field(default_factory=dict)

    def numbered(self, layer: int) -> bool:
        """Whether they may mean modules of the layer of this number, and not those of others."""
        return self.any_number or str(layer) in self.numbers

    def match(self, path: str) -> bool:
        """True if a module of this path, written from `layers.` or the module's own name on, is meant.

        Raises `ValueError` where that takes too long.
        """
        if path not in self._known:
            self._known[path] = _match(self, path)
        return self._known[path]


def patterns(names: Iterable[str]) -> Patterns:
    """The patterns in `names`. Raises `ValueError` for one that is not a string, or a regular expression not read."""
    names = tuple(names)
    for name in names:
        if not isinstance(name, str):
            raise ValueError(f"module name {name!r} must be a string")
    return _compiled(names)


@functools.lru_cache(maxsize=64)
def _compiled(names: tuple[str, ...]) -> Patterns:
    """One for equal lists, with what it knows of paths that were asked for: models have many modules of a kind."""
    plain, expressions, wildcards = [], [], []
    for name in names:
        if name.startswith("re:"):
            expressions.append(name[3:])
        elif any(character in name for character in "*?["):
            wildcards.append(name)
        else:
            plain.append(_without_roots(name))
    regulars, wild = (tuple(dict.fromkeys(texts)) for texts in (expressions, wildcards))
    return Patterns(
        plain=frozenset(plain),
        expressions=Expressions(regulars),
        wildcards=Expressions(wild, wildcard),
        numbers=frozenset(part for name in plain for part in name.split(".") if part.isdecimal()),
        any_number=not (all(map(_WORDS.fullmatch, regulars)) and all(map(_PARTS.fullmatch, wild))),
    )


# Only `.*` and `*` can match a number, and then they match every number.
_WORDS, _PARTS = re.compile(r"(?:\.\*|\\\.|[A-Za-z_|()^$-])*"), re.compile(r"[^\d?\[]*")


def _match(known: Patterns, path: str) -> bool:
    parts = path.split(".")
    spans = ((i, j) for i in range(len(parts)) for j in range(i + 1, len(parts) + 1))
    if any(".".join(parts[i:j]) in known.plain for i, j in spans):
        return True
    if known.expressions and any(known.expressions.match(prefix + path) for prefix in PREFIXES):
        return True
    if not known.wildcards:
        return False
    parents = [".".join(parts[:n]) for n in range(len(parts), 0, -1)]
    return any(known.wildcards.match(prefix + parent) for parent in parents for prefix in PREFIXES)


def _without_roots(name: str) -> str:
    parts = name.strip(".").split(".")
    while len(parts) > 1 and parts[0] in ROOTS:
        parts.pop(0)
    return ".".join(parts)
