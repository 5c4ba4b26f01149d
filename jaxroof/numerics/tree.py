"""Trees of structs, dicts, lists and tuples, without JAX: their leaves, a function of each, and their structure."""

import dataclasses
from collections.abc import Callable, Hashable
from typing import Any


def leaves(tree: Any, is_leaf: Callable[[Any], bool] = lambda tree: False) -> list[Any]:
    """Leaves of a tree, in its order; None has none.

    Args:
      is_leaf: of a subtree that is taken as a leaf.
    """
    if tree is None:
        return []
    parts = None if is_leaf(tree) else _parts(tree)
    return [tree] if parts is None else [leaf for part in parts.values() for leaf in leaves(part, is_leaf)]


def mapped(function: Callable[..., Any], tree: Any, *others: Any) -> Any:
    """`function` of the leaves that have the same place in all trees, in that place: `jax.tree.map`."""
    if tree is None:
        return None
    parts = _parts(tree)
    if parts is None:
        return function(tree, *others)
    beside = [_parts(other) or {} for other in others]
    made = {name: mapped(function, part, *(other[name] for other in beside)) for name, part in parts.items()}
    if isinstance(tree, dict):
        return made
    if dataclasses.is_dataclass(tree):
        return dataclasses.replace(tree, **made)  # type: ignore[type-var]
    return type(tree)(*made.values()) if hasattr(tree, "_fields") else type(tree)(made.values())


def leaf_paths(tree: Any, prefix: str = "") -> list[str]:
    """Dotted paths of all leaves, in their order."""
    if tree is None:
        return []
    parts = _parts(tree)
    if parts is None:
        return [prefix]
    within = f"{prefix}." if prefix else ""
    return [path for name, part in parts.items() for path in leaf_paths(part, f"{within}{name}")]


def children(tree: Any) -> dict[str, Any]:
    """Subtrees by their name in dotted paths, those of structure too; none of a leaf."""
    if isinstance(tree, dict):
        return tree
    if isinstance(tree, tuple):
        return {str(position): child for position, child in enumerate(tree)}
    if dataclasses.is_dataclass(tree):
        return {field.name: getattr(tree, field.name) for field in dataclasses.fields(tree)}
    return {}


def leaf_at(tree: Any, path: str) -> Any:
    """What stands at a dotted path; None where there is nothing."""
    for name in path.split("."):
        tree = children(tree).get(name)
    return tree


def replaced(tree: Any, path: str, value: Any) -> Any:
    """A copy of `tree` with `value` at `path`, which must exist."""
    name, _, rest = path.partition(".")
    child = replaced(children(tree)[name], rest, value) if rest else value
    if isinstance(tree, dict):
        return {**tree, name: child}
    if isinstance(tree, tuple):
        position = int(name)
        return (*tree[:position], child, *tree[position + 1 :])
    return dataclasses.replace(tree, **{name: child})


def structure(tree: Any) -> Hashable:
    """What two trees have in common that differ in the numbers of their leaves only."""
    parts = _parts(tree)
    if parts is None:
        return tree is None
    # Dicts are alike whatever the order of their keys; fields have an order of their own.
    names = sorted(parts) if isinstance(tree, dict) else parts
    inner = tuple((name, structure(parts[name])) for name in names)
    return type(tree), inner, _statics(tree)


def _parts(tree: Any) -> dict[Any, Any] | None:
    """Subtrees by their place, in order; None where the tree is a leaf."""
    if isinstance(tree, dict):
        return tree
    if isinstance(tree, list | tuple):
        return dict(enumerate(tree))
    if dataclasses.is_dataclass(tree):
        return {name: getattr(tree, name) for name in _fields(type(tree))[0]}
    return None


def _statics(tree: Any) -> tuple[Any, ...]:
    return tuple(getattr(tree, name) for name in _fields(type(tree))[1]) if dataclasses.is_dataclass(tree) else ()


def _fields(kind: type) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the fields that are data, and of those that are structure."""
    # Looked up once per struct: fields of a class do not change.
    if kind not in _FIELDS:
        data: list[str] = []
        structure: list[str] = []
        for field in dataclasses.fields(kind):
            (structure if field.metadata.get("static") else data).append(field.name)
        _FIELDS[kind] = tuple(data), tuple(structure)
    return _FIELDS[kind]


_FIELDS: dict[type, tuple[tuple[str, ...], tuple[str, ...]]] = {}
