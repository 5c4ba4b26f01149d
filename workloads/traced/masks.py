"""The mask of attention: what hides scores on the way from their product to the softmax."""

from collections.abc import Callable

import numpy as np

from workloads.traced.graph import Node, base, made_of, viewed
from workloads.traced.known import Mask, Unknown, entries, mask_of
from workloads.traced.scores import Scores
from workloads.traced.sizes import Sizes

HIDDEN_SCORE = -1e4
"""A score plus less than this does not pass a mask that is added."""


def mask_between(scores: Scores, total: Node, at: Sizes, notes: set[str]) -> Mask | None:
    """What hides scores on the way from their product to the softmax; None where nothing does, or it is an input."""
    found: Mask | None = None
    ahead = made_of(total.inputs, set(map(id, scores.inner)))
    for node in scores.inner:
        if id(node) not in ahead or node.name not in ("select_n", "add"):
            continue
        allowed = _allowed(node, scores, at)
        if allowed is None:
            continue
        sizes = [int(at.number(dim)) for dim in node.outputs[0].shape]
        keys = _keys_axis(node, total)
        try:
            mask = mask_of(allowed, sizes, keys)
        except Unknown:
            notes.add("attention under a mask that is an input, or no band along the diagonal: all pairs are counted")
            continue
        found = mask if found is None else found
    return found


def _keys_axis(node: Node, total: Node) -> int:
    """The axis of the softmax in a node of the scores before it, whose order is that of the softmax's operand."""
    same = node.outputs[0].shape == total.inputs[0].shape
    return int(total.params["axes"][0]) if same else len(node.outputs[0].shape) - 1


def _allowed(node: Node, scores: Scores, at: Sizes) -> Callable[[list[np.ndarray]], np.ndarray] | None:
    """Where a node lets scores pass, as a function of positions; None where it is no mask."""
    makers = set(map(id, (*scores.makers, *scores.inner)))
    made = [any(value.node is not None and id(value.node) in makers for value in viewed(one)) for one in node.inputs]
    if node.name == "select_n":
        which = next((place for place, own in enumerate(made[1:]) if own), None)
        return None if which is None else lambda places: entries(node.inputs[0], places, at) == which
    other = next((value for value, own in zip(node.inputs, made, strict=True) if not own), None)
    if other is None or not other.shape or (base(other).node is None and base(other).constant is None):
        return None
    return lambda places: entries(other, places, at) > HIDDEN_SCORE
