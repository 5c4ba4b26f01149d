"""Leaves of a tree of structs by dotted path: `hardware.memory.hbm.bandwidth`, `deployment.tp`."""

import difflib
from typing import Any

from jaxroof.numerics.tree import children
from jaxroof.numerics.tree import leaf_paths as leaf_paths
from jaxroof.numerics.tree import replaced as replaced


def leaf(tree: Any, path: str) -> Any:
    """Value at `path`.

    Raises:
      ValueError: one line that names the path and the nearest known ones.
    """
    value = tree
    for name in path.split("."):
        inside = children(value)
        if name not in inside:
            raise ValueError(_unknown(tree, path))
        value = inside[name]
    return value


def number(tree: Any, path: str) -> Any:
    """The number at `path`; ValueError when there is none: the path names a struct, or the figure is unknown."""
    value = leaf(tree, path)
    if value is None:
        raise ValueError(f"{path} is unknown here, so it cannot be changed; give the whole level in a TOML of your own")
    if isinstance(value, str | bool):
        raise ValueError(f"{path} is structure ({value}), not a number")
    if children(value):
        inner = ", ".join(f"{path}.{name}" for name in children(value))
        raise ValueError(f"{path} is not one number; it holds {inner}")
    return value


def _unknown(tree: Any, path: str) -> str:
    known = list(leaf_paths(tree))
    near = difflib.get_close_matches(path, known, n=3, cutoff=0.5) or [p for p in known if p.startswith(path)][:3]
    hint = f"; did you mean {' or '.join(near)}?" if near else f"; it starts with {', '.join(children(tree))}"
    return f"there is no {path}{hint}"
