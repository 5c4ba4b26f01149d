"""Entries of arrays that depend on no input, computed one by one: masks of any size, without making them."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from workloads.traced.graph import Node, Value
from workloads.traced.sizes import Sizes

Indices = list[np.ndarray]
"""Positions along every axis, shapes that broadcast against each other."""

ROWS = 16
"""Rows of a mask that are looked at, spread evenly, with all of their columns."""


class Unknown(Exception):
    """An entry that depends on an input, or on something whose entries are not computed here."""


class Mask(NamedTuple):
    """Query i sees keys from i + offset - window + 1 to i + offset, both included, of those that exist."""

    offset: int
    window: int | None  # None: all of them from the first key on
    aligned: bool  # the last query sees the last key, and no query one beyond it


def entries(value: Value, indices: Indices, at: Sizes) -> np.ndarray:
    """Entries of a value at some positions.

    Raises:
      Unknown: where they depend on an input.
    """
    if value.node is None:
        if value.constant is None:
            raise Unknown
        array = np.asarray(value.constant)
        return array[tuple(indices)] if array.ndim else array
    node = value.node
    # A view moves positions backwards: where in the operand does this entry come from.
    if node.name in _MOVES:
        return entries(node.inputs[0], _MOVES[node.name](node, indices, at), at)
    if node.name == "dim_as_value":
        return np.asarray(int(at.number(node.params["dim"])))
    # An iota is its own position.
    if node.name == "iota":
        return indices[node.params["dimension"]]
    if node.name == "select_n":
        which, *cases = (entries(operand, _own(operand, indices), at) for operand in node.inputs)
        return np.choose(which.astype(int), cases)
    if node.name == "convert_element_type":
        return entries(node.inputs[0], indices, at).astype(node.outputs[0].dtype)
    if node.name in _FUNCTIONS:
        return _FUNCTIONS[node.name](*(entries(operand, _own(operand, indices), at) for operand in node.inputs))
    raise Unknown


def _own(operand: Value, indices: Indices) -> Indices:
    return indices if operand.shape else []


def _broadcast(node: Node, indices: Indices, at: Sizes) -> Indices:
    shape = node.inputs[0].shape
    return [
        # Broadcast axes have one entry: position 0.
        indices[axis] if at.number(size) > 1 else np.zeros_like(indices[axis])
        for size, axis in zip(shape, map(int, node.params["broadcast_dimensions"]), strict=True)
    ]


def _reshaped(node: Node, indices: Indices, at: Sizes) -> Indices:
    new, old = ([int(at.number(dim)) for dim in value.shape] for value in (node.outputs[0], node.inputs[0]))
    # Row-major: position in the flat array, then taken apart by the old sizes.
    flat = np.zeros((), int)
    for index, size in zip(indices, new, strict=True):
        flat = flat * size + index
    positions: Indices = []
    for size in reversed(old):
        positions.insert(0, flat % size)
        flat = flat // size
    return positions


def _sliced(node: Node, indices: Indices, at: Sizes) -> Indices:
    starts = [int(at.number(start)) for start in node.params["start_indices"]]
    steps = node.params["strides"] or [1] * len(starts)
    return [start + step * index for start, step, index in zip(starts, steps, indices, strict=True)]


def _transposed(node: Node, indices: Indices, at: Sizes) -> Indices:
    order = list(map(int, node.params["permutation"]))
    return [indices[order.index(axis)] for axis in range(len(order))]


def _reversed(node: Node, indices: Indices, at: Sizes) -> Indices:
    turned = set(map(int, node.params["dimensions"]))
    sizes = [int(at.number(dim)) for dim in node.outputs[0].shape]
    return [
        size - 1 - index if i in turned else index for i, (index, size) in enumerate(zip(indices, sizes, strict=True))
    ]


_MOVES: dict[str, Callable[[Node, Indices, Sizes], Indices]] = {
    "broadcast_in_dim": _broadcast,
    "reshape": _reshaped,
    "squeeze": _reshaped,
    "slice": _sliced,
    "transpose": _transposed,
    "rev": _reversed,
    **dict.fromkeys(("stop_gradient", "copy", "pvary", "name", "device_put"), lambda node, indices, at: indices),
}

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{"add": np.add, "sub": np.subtract, "mul": np.multiply, "max": np.maximum, "min": np.minimum, "neg": np.negative},
    **{"ge": np.greater_equal, "gt": np.greater, "le": np.less_equal, "lt": np.less, "eq": np.equal},
    **{"ne": np.not_equal, "and": np.logical_and, "or": np.logical_or, "not": np.logical_not, "abs": np.abs},
    **{"rem": np.remainder, "div": np.divide},
}


def mask_of(allowed: Callable[[Indices], np.ndarray], sizes: Sequence[int], keys: int) -> Mask | None:
    """The mask that lets scores pass, from samples of it; None where all of them pass.

    Args:
      allowed: bool at some positions of the scores.
      sizes: of the scores along every axis.
      keys: axis of the keys.

    Raises:
      Unknown: it depends on an input, on more than queries and keys, or is no band along the diagonal.
    """
    queries = _varying(allowed, sizes, keys)
    # A few rows and all columns tell a band from other masks, whatever the size.
    rows = np.unique(np.linspace(0, sizes[queries] - 1, ROWS).astype(int)) if queries is not None else np.zeros(1, int)
    indices: Indices = [np.zeros((1, 1), int) for _ in sizes]
    indices[keys] = np.arange(sizes[keys])[None, :]
    if queries is not None:
        indices[queries] = rows[:, None]
    seen = np.broadcast_to(allowed(indices), (len(rows), sizes[keys]))
    if seen.all():
        return None
    return _band(seen, rows, sizes[keys], sizes[keys] - (1 if queries is None else sizes[queries]))


def _varying(allowed: Callable[[Indices], np.ndarray], sizes: Sequence[int], keys: int) -> int | None:
    """The one axis beside the keys' along which entries change; None where there is none."""
    axes = []
    for axis, size in enumerate(sizes):
        if axis == keys or size == 1:
            continue
        # One axis at a time, all others at 0.
        indices: Indices = [np.zeros((1, 1), int) for _ in sizes]
        indices[keys] = np.arange(sizes[keys])[None, :]
        indices[axis] = np.unique(np.linspace(0, size - 1, ROWS).astype(int))[:, None]
        block = np.broadcast_to(allowed(indices), (len(indices[axis]), sizes[keys]))
        if (block != block[:1]).any():
            axes.append(axis)
    if len(axes) > 1:
        raise Unknown
    return axes[0] if axes else None


def _band(seen: np.ndarray, rows: np.ndarray, keys: int, aligned: int) -> Mask:
    counts = seen.sum(axis=1)
    first = seen.argmax(axis=1)
    last = keys - 1 - seen[:, ::-1].argmax(axis=1)
    # Each sampled row must be one run of keys.
    if not counts.all() or (last - first + 1 != counts).any():
        raise Unknown
    # Rows that are cut by an edge of the array say nothing about that side of the band.
    cut, begun = last < keys - 1, first > 0
    # One diagonal: last key minus query is the same in all rows.
    offsets = np.unique((last - rows)[cut]) if cut.any() else np.unique((last - rows)[-1:])
    if len(offsets) > 1:
        raise Unknown
    windows = np.unique((rows + offsets[0] + 1 - first)[begun])
    if len(windows) > 1:
        raise Unknown
    return Mask(int(offsets[0]), int(windows[0]) if len(windows) else None, offsets[0] == aligned)
