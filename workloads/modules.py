"""Which modules of a model a list of names, wildcards and regular expressions means."""

import dataclasses
import fnmatch
import functools
import re
from collections.abc import Iterable

ROOTS = ("model", "language_model", "transformer", "decoder", "gpt_neox", "backbone", "encoder")
"""Leading parts of a module's path that differ between exports of one model."""

PREFIXES = ("model.", "", "language_model.model.", "model.language_model.", "transformer.", "gpt_neox.", "backbone.")


@dataclasses.dataclass(frozen=True)
class Patterns:
    """A compiled list of module names.

    A plain name means every module whose path contains it as whole parts (`gate` means `mlp.gate`, not
    `gate_proj`), so a parent means all its children. A wildcard has to match a module's or a parent's full path.
    `re:` starts a regular expression that matches from the beginning of the path, as compressed-tensors defines it.
    """

    plain: frozenset[str]
    expressions: tuple[re.Pattern, ...]
    wildcards: tuple[re.Pattern, ...]

    def match(self, path: str) -> bool:
        """True if a module of this path, written from `layers.` or the module's own name on, is meant."""
        return _match(self, path)


def patterns(names: Iterable[str]) -> Patterns:
    """The patterns in `names`. Raises `ValueError` for one that is not a string or not a regular expression."""
    plain, expressions, wildcards = [], [], []
    for name in names:
        if not isinstance(name, str):
            raise ValueError(f"module name {name!r} must be a string")
        if name.startswith("re:"):
            try:
                expressions.append(re.compile(name[3:]))
            except re.error as error:
                raise ValueError(f"module name {name!r} is not a regular expression: {error}") from None
        elif any(character in name for character in "*?["):
            wildcards.append(re.compile(fnmatch.translate(name)))
        else:
            plain.append(_without_roots(name))
    return Patterns(frozenset(plain), tuple(expressions), tuple(wildcards))


@functools.lru_cache(maxsize=65536)
def _match(known: Patterns, path: str) -> bool:
    parts = path.split(".")
    spans = ((i, j) for i in range(len(parts)) for j in range(i + 1, len(parts) + 1))
    if any(".".join(parts[i:j]) in known.plain for i, j in spans):
        return True
    if any(expression.match(prefix + path) for expression in known.expressions for prefix in PREFIXES):
        return True
    parents = [".".join(parts[:n]) for n in range(len(parts), 0, -1)] if known.wildcards else []
    return any(w.match(prefix + parent) for w in known.wildcards for parent in parents for prefix in PREFIXES)


def _without_roots(name: str) -> str:
    parts = name.strip(".").split(".")
    while len(parts) > 1 and parts[0] in ROOTS:
        parts.pop(0)
    return ".".join(parts)
