"""Trees of structs, dicts, lists and tuples, without JAX: their leaves, a function of each, and their structure."""

import dataclasses
from collections.abc import Callable, Hashable
from typing import Any, Literal


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
    kind = type(tree)
    form = _form(kind)
    if form is None:
        return function(tree, *others)
    if form == "dict":
        return {name: mapped(function, part, *(other[name] for other in others)) for name, part in tree.items()}
    if form == "sequence":
        made = [mapped(function, *parts) for parts in zip(tree, *others, strict=True)]
        return kind(*made) if hasattr(tree, "_fields") else kind(made)
    beside = [_parts(other) or {} for other in others]
    values = {name: mapped(function, getattr(tree, name), *(other[name] for other in beside)) for name in form[0]}
    return _with(tree, values)


def _with(tree: Any, values: dict[str, Any]) -> Any:
    """A copy of a struct with other values of its data: it was checked when it was made."""
    copy = object.__new__(type(tree))
    own = copy.__dict__
    own.update(tree.__dict__)
    own.update(values)
    return copy


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
    if tree is None:
        return True
    kind = type(tree)
    form = _form(kind)
    if form is None:
        return False
    if form == "dict":
        # Dicts are alike whatever the order of their keys; fields have an order of their own.
        return kind, tuple((name, structure(tree[name])) for name in sorted(tree))
    if form == "sequence":
        return kind, tuple(map(structure, tree))
    data, static = form
    own = tree.__dict__
    return kind, tuple([structure(own[name]) for name in data]), tuple([own[name] for name in static])


def _parts(tree: Any) -> dict[Any, Any] | None:
    """Subtrees by their place, in order; None where the tree is a leaf."""
    form = _form(type(tree))
    if form is None:
        return None
    if form == "dict":
        return tree
    if form == "sequence":
        return dict(enumerate(tree))
    return {name: getattr(tree, name) for name in form[0]}


Fields = tuple[tuple[str, ...], tuple[str, ...]]
"""Names of a struct's fields that are data, and of those that are structure."""


def _form(kind: type) -> Literal["dict", "sequence"] | Fields | None:
    """What trees of a type are: a struct with these fields, or None, a leaf."""
    # Looked up once per type: it does not change, and trees are walked a million times.
    if kind not in _FORMS:
        if issubclass(kind, dict):
            _FORMS[kind] = "dict"
        elif issubclass(kind, list | tuple):
            _FORMS[kind] = "sequence"
        elif dataclasses.is_dataclass(kind):
            static = {field.name for field in dataclasses.fields(kind) if field.metadata.get("static")}
            names = [field.name for field in dataclasses.fields(kind)]
            _FORMS[kind] = (
                tuple(name for name in names if name not in static),
                tuple(filter(static.__contains__, names)),
            )
        else:
            _FORMS[kind] = None
    return _FORMS[kind]


_FORMS: dict[type, Literal["dict", "sequence"] | Fields | None] = {}
