"""Leaves of a tree of structs by dotted path: `hardware.memory.hbm.bandwidth`, `deployment.tp`."""

import dataclasses
import difflib
from typing import Any

from jaxroof.tree import leaf_paths as leaf_paths


def leaf(tree: Any, path: str) -> Any:
    """Value at `path`.

    Raises:
      ValueError: one line that names the path and the nearest known ones.
    """
    value = tree
    for name in path.split("."):
        children = dict(_children(value))
        if name not in children:
            raise ValueError(_unknown(tree, path))
        value = children[name]
    return value


def number(tree: Any, path: str) -> Any:
    """The number at `path`; ValueError when there is none: the path names a struct, or the figure is unknown."""
    value = leaf(tree, path)
    if value is None:
        raise ValueError(f"{path} is unknown here, so it cannot be changed; give the whole level in a TOML of your own")
    if isinstance(value, str | bool):
        raise ValueError(f"{path} is structure ({value}), not a number")
    if _children(value):
        inner = ", ".join(f"{path}.{name}" for name, _ in _children(value))
        raise ValueError(f"{path} is not one number; it holds {inner}")
    return value


def replaced(tree: Any, path: str, value: Any) -> Any:
    """A copy of `tree` with `value` at `path`, which must exist."""
    name, _, rest = path.partition(".")
    children = dict(_children(tree))
    child = replaced(children[name], rest, value) if rest else value
    if isinstance(tree, dict):
        return {**tree, name: child}
    if isinstance(tree, tuple):
        position = int(name)
        return (*tree[:position], child, *tree[position + 1 :])
    return dataclasses.replace(tree, **{name: child})


def _children(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return list(value.items())
    if isinstance(value, tuple):
        return [(str(position), child) for position, child in enumerate(value)]
    if dataclasses.is_dataclass(value):
        return [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
    return []


def _unknown(tree: Any, path: str) -> str:
    known = list(leaf_paths(tree))
    near = difflib.get_close_matches(path, known, n=3, cutoff=0.5) or [p for p in known if p.startswith(path)][:3]
    hint = f"; did you mean {' or '.join(near)}?" if near else f"; it starts with {', '.join(dict(_children(tree)))}"
    return f"there is no {path}{hint}"
