"""Axes of a sweep: named, with positions that set leaves, or whole structs, of a scenario."""

import dataclasses
import difflib
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from jaxroof.numerics.tree import children, mapped, structure
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
    # Similar spellings first, then the paths that begin with what was written.
    near = difflib.get_close_matches(path, known, n=3, cutoff=0.5) or [p for p in known if p.startswith(path)][:3]
    hint = f"; did you mean {' or '.join(near)}?" if near else f"; it starts with {', '.join(children(tree))}"
    return f"there is no {path}{hint}"


@dataclasses.dataclass(frozen=True)
class Choice:
    """Whole structs to choose from: position `i` of the axis holds `items[index[i]]`."""

    items: tuple[Any, ...]
    index: np.ndarray  # int, shape (axis size,)


@dataclasses.dataclass(frozen=True)
class Coordinate:
    """Labels along an axis."""

    name: str
    values: np.ndarray  # shape (axis size,), numbers in SI units or text
    unit: str  # SI unit as `hwspaces.quantities.units` writes it; "1" for numbers without, "" for text
    long_name: str


@dataclasses.dataclass(frozen=True)
class Axis:
    """One dimension of a sweep. `columns` maps a dotted path to the values it takes along the axis."""

    name: str
    size: int
    columns: dict[str, np.ndarray | Choice]
    coordinates: tuple[Coordinate, ...]


@dataclasses.dataclass(frozen=True)
class Segment:
    """Positions of an axis whose structs have one structure, with the leaves that differ between them."""

    positions: np.ndarray  # int, shape (n,)
    settings: dict[str, Any]  # path -> tree whose leaves have shape (n,) where they vary, () where they do not


def segments(axis: Axis) -> Iterator[Segment]:
    """Split an axis so that each part can be one array operation: structs in it differ in numbers only."""
    choices = [column for column in axis.columns.values() if isinstance(column, Choice)]
    kinds = [_structures(choice)[choice.index] for choice in choices]
    # One row of structure numbers per column of structs, shape (columns, axis size); without such columns one segment.
    keys = np.stack(kinds) if kinds else np.zeros((1, axis.size), int)
    # Positions with equal columns of `keys` have one structure in every struct, so they can be stacked.
    for key in np.unique(keys, axis=1).T:
        positions = np.flatnonzero((keys == key[:, np.newaxis]).all(axis=0))
        own = slice(None) if len(positions) == axis.size else positions  # all of a column need not be copied
        settings = {
            path: _taken(column, positions) if isinstance(column, Choice) else column[own]
            for path, column in axis.columns.items()
        }
        yield Segment(positions, settings)


def blocks(axes: tuple[Axis, ...]) -> Iterator[tuple[Segment, ...]]:
    """Every combination of one segment per axis: the blocks that a grid is evaluated in."""
    return itertools.product(*(tuple(segments(axis)) for axis in axes))


def _structures(choice: Choice) -> np.ndarray:
    """A number for the structure of every item, equal where two items can be stacked."""
    seen: dict[Any, int] = {}
    return np.array([seen.setdefault(structure(item), len(seen)) for item in choice.items])


def _taken(choice: Choice, positions: np.ndarray) -> Any:
    """One tree of the chosen items' leaves; a leaf that is the same in all stays a scalar: nothing depends on it."""
    # Each distinct item is stacked once, then gathered: long axes may share few structs.
    present, where = np.unique(choice.index[positions], return_inverse=True)

    def stack(*leaves: Any) -> Any:
        column = np.asarray(leaves, float)
        return column[where] if (column != column[0]).any() else column[0]

    return mapped(stack, *(choice.items[i] for i in present))
