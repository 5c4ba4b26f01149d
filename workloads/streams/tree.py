"""Prefix tree of a stream: groups that branch off from others, paths of requests, and what is kept for later ones."""

from typing import NamedTuple

import numpy as np

ALONE = -1
"""Group of a request whose prompt begins like no other's."""

MOST_LEVELS = 8
"""Groups on the path of one request; what would lie deeper counts as not shared."""


class Branches(NamedTuple):
    """Groups of requests as a `Stream` has them."""

    group: np.ndarray  # int32, deepest group of each request, or ALONE; shape [requests]
    shared: np.ndarray  # prompt tokens that an earlier request began with; shape [requests]
    along: np.ndarray | None  # tokens of prompt and output that lie along the path; None: all. Shape [requests]
    parent: np.ndarray | None  # int32, group from which each branches off, or -1; None: none does. Shape [groups]
    base: np.ndarray | None  # tokens of the prompt at which it begins; shape [groups]
    cut: int  # requests whose paths were longer than `MOST_LEVELS`


def branches(
    node: np.ndarray,
    parent: np.ndarray,
    base: np.ndarray,
    shared: np.ndarray,
    ends: np.ndarray,
    along: np.ndarray | None = None,
) -> Branches:
    """The groups of requests from any tree of them.

    A node that a single request goes through is none: that request belongs to the node above. A node that only goes on
    in one other, and is the deepest of no request, is one with it. There are then at most as many groups as requests.

    Args:
      node: deepest node of each request, negative: none; shape [requests].
      parent: node above each node, negative: none; shape [nodes].
      base: tokens of the prompt at which a node begins, rising along every path; 0 without a parent; shape [nodes].
      shared, along: as of a `Stream`; shape [requests].
      ends: tokens of prompt and output; shape [requests].

    Returns:
      Groups numbered in the order of first appearance, each after its parent.
    """
    node = np.asarray(node, np.int64)
    if not len(parent) or not (node >= 0).any():
        return Branches(np.full(len(node), ALONE, np.int32), np.zeros(len(node)), None, None, None, 0)
    parent, base = np.asarray(parent, np.int64), np.array(base, float)
    depth = _depths(parent)
    own = np.bincount(node[node >= 0], minlength=len(parent))
    through = _totals(own, parent, depth)

    # Nodes of one request are left out, then those that only go on in one other are made one with it.
    real = through > 1
    children = np.bincount(parent[real & (parent >= 0)], minlength=len(parent))
    void = real & (own + _lone(own, parent, real) == 0) & (children == 1)
    parent = parent.copy()
    while (passing := np.flatnonzero(real & (parent >= 0) & void[parent])).size:
        above = parent[passing]
        base[passing], parent[passing] = base[above], parent[above]
    depth = _depths(np.where(real, parent, -1))

    # Requests of nodes that are left out belong to the nearest one above, up to which they are shared.
    limit = np.full(len(node), np.inf)
    deep = (node >= 0) & (depth[node] >= MOST_LEVELS) & real[node]
    while (climbing := np.flatnonzero((node >= 0) & (~real[node] | (depth[node] >= MOST_LEVELS)))).size:
        limit[climbing], node[climbing] = base[node[climbing]], parent[node[climbing]]
    # A node of one request has nobody to share it with.
    shared = np.where(node < 0, 0.0, np.minimum(shared, limit))
    capped = limit < ends
    if along is not None or (capped & (node >= 0)).any():
        along = np.minimum(ends if along is None else np.minimum(along, ends), limit)

    # Numbered by the first request that goes through each, parents before their children.
    table = _table(parent, base, np.minimum(depth, MOST_LEVELS - 1))[0]
    nodes = np.where((node >= 0)[:, None], table[node], -1)
    first = np.full(len(parent) + 1, len(node))  # the last place takes what is no node
    for column in nodes.T[::-1]:
        # Written from the last request to the first: the first one stays.
        first[column[::-1]] = np.minimum(first[column[::-1]], np.arange(len(node))[::-1])
    kept = np.flatnonzero(first[:-1] < len(node))
    order = kept[np.lexsort((depth[kept], first[kept]))]
    number = np.full(len(parent) + 1, ALONE, np.int32)
    number[order] = np.arange(len(order), dtype=np.int32)
    group, parents = number[node], number[parent[order]]
    if not (parents >= 0).any():
        return Branches(group, shared, along, None, None, int(deep.sum()))
    return Branches(group, shared, along, parents, np.where(parents < 0, 0.0, base[order]), int(deep.sum()))


def paths(group: np.ndarray, parent: np.ndarray | None, base: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Groups on the path of every request from the root on, and the tokens at which each begins.

    Returns:
      Groups, int32, -1 after the deepest; their beginnings, float64, infinite there. Shape [requests, depth] each.
    """
    if parent is None or base is None:
        return group[:, None], np.where(group[:, None] == ALONE, np.inf, 0.0)
    table, starts = _table(parent, base, _depths(parent))
    there = (group != ALONE)[:, None]
    return np.where(there, table[group], ALONE).astype(np.int32), np.where(there, starts[group], np.inf)


def kept_tokens(nodes: np.ndarray, starts: np.ndarray, shared: np.ndarray, along: np.ndarray) -> np.ndarray:
    """Tokens of every request with which a later one begins.

    Two requests have a beginning in common up to where their paths part, or where one of them leaves its own.

    Args:
      nodes, starts: of `paths`.
      shared: prompt tokens that an earlier request began with.
      along: tokens of prompt and output that lie along the path and that a cache can have.

    Returns:
      float64, shape [requests]; 0 where there is no later one.
    """
    keep = np.zeros(len(shared))
    for level in range(nodes.shape[1]):
        group = nodes[:, level]
        # Where the next node of the path begins; infinite at the deepest one.
        limit = starts[:, level + 1] if level + 1 < nodes.shape[1] else np.full(len(shared), np.inf)
        most = _most_of_later(group, np.minimum(shared, limit))
        keep = np.where(group == ALONE, keep, np.maximum(keep, np.minimum(most, np.minimum(limit, along))))
    return keep


def shared_tokens(nodes: np.ndarray, starts: np.ndarray, shared: np.ndarray, along: np.ndarray) -> np.ndarray:
    """Tokens of every prompt that an earlier request had, of at most `shared`; arguments as of `kept_tokens`."""
    # The same with the order of time reversed.
    nodes, starts = nodes[::-1], starts[::-1]
    return kept_tokens(nodes, starts, along[::-1], shared[::-1])[::-1]


def _most_of_later(group: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """The largest of `tokens` among the later requests of the same group; 0 without one. Shape [requests]."""
    # From the last group to the first, and the latest request first: each one comes after its follower.
    order = np.lexsort((np.arange(len(group)), group))[::-1]
    sorted_group, sorted_tokens = group[order], tokens[order]
    following = np.concatenate([[0.0], sorted_tokens[:-1]])[: len(group)]
    # The latest request of a group has no follower.
    following[np.concatenate([[True], sorted_group[1:] != sorted_group[:-1]])[: len(group)]] = 0.0
    # Groups come in falling order: an offset that rises keeps the running maximum of one from the next.
    offset = (group.max(initial=0) - sorted_group).astype(float) * (tokens.max(initial=0.0) + 1.0)
    most = np.zeros(len(group))
    most[order] = np.maximum.accumulate(following + offset) - offset
    return most


def _depths(parent: np.ndarray) -> np.ndarray:
    """Nodes above each node. int64, shape [nodes]."""
    depth = np.zeros(len(parent), np.int64)
    place, above = np.arange(len(parent)), np.asarray(parent, np.int64)
    while (inside := above >= 0).any():
        place, above = place[inside], above[inside]
        depth[place] += 1
        above = parent[above]
    return depth


def _totals(own: np.ndarray, parent: np.ndarray, depth: np.ndarray) -> np.ndarray:
    """Requests of each node and of all below it. Shape [nodes]."""
    total = own.copy()
    order = np.argsort(depth, kind="stable")[::-1]
    # The deepest nodes first: what they have is complete when it is added to the node above.
    for places in np.split(order, np.flatnonzero(np.diff(depth[order])) + 1):
        places = places[parent[places] >= 0]
        np.add.at(total, parent[places], total[places])
    return total


def _lone(own: np.ndarray, parent: np.ndarray, real: np.ndarray) -> np.ndarray:
    """Requests that come to each node from nodes below it that are none. Shape [nodes]."""
    lone = np.where(real, 0, own)
    place = np.where(real, -1, np.asarray(parent, np.int64))
    count = np.zeros(len(parent), np.int64)
    while (moving := np.flatnonzero(place >= 0)).size:
        here = real[place[moving]]
        np.add.at(count, place[moving[here]], lone[moving[here]])
        place[moving] = np.where(here, -1, parent[place[moving]])
    return count


def _table(parent: np.ndarray, base: np.ndarray, depth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Path of every node from the root on, and the tokens at which its nodes begin. Shape [nodes, depth] each."""
    levels = int(depth.max(initial=0)) + 1
    table = np.full((len(parent), levels), -1, np.int64)
    current = np.arange(len(parent))
    # From each node up to its root: the node of level `level` is where the path has come to.
    for level in range(levels - 1, -1, -1):
        here = (depth >= level) & (current >= 0)
        table[here, level] = current[here]
        current = np.where(here, np.asarray(parent)[current], current)
    starts = np.where(table >= 0, base[table], np.inf)
    return table, starts
