"""Prefix tree of prompts from the hashes of their blocks."""

from typing import NamedTuple

import numpy as np

from workloads.streams.tree import MOST_LEVELS, Branches, branches


class Forks(NamedTuple):
    """Tree of blocks that several prompts begin with, runs without a fork as one node."""

    node: np.ndarray  # deepest node of each prompt, -1: it shares no block; shape [prompts]
    along: np.ndarray  # leading blocks that another prompt begins with, too; shape [prompts]
    matched: np.ndarray  # of them those that one earlier prompt had; shape [prompts]
    parent: np.ndarray  # node above each node, -1: none; shape [nodes]
    base: np.ndarray  # blocks before each node; shape [nodes]


def forks(counts: np.ndarray, hashes: np.ndarray) -> Forks:
    """The tree of prompts, block by block, all prompts at once.

    Args:
      counts: blocks of each prompt, in the order of arrival.
      hashes: of all blocks, prompt after prompt: any integers.
    """
    prompts = len(counts)
    offsets = np.cumsum(counts) - counts
    node, along, matched = np.full(prompts, -1), np.zeros(prompts, np.int64), np.zeros(prompts, np.int64)
    parents: list[np.ndarray] = []
    bases: list[np.ndarray] = []
    nodes = 0
    # Prompts whose blocks so far others have, too, and which of these beginnings each has.
    active, beginning = np.arange(prompts), np.zeros(prompts, np.int64)
    for level in range(int(counts.max(initial=0))):
        longer = counts[active] > level
        active, beginning = active[longer], beginning[longer]
        if not len(active):
            break
        # Prompts of one beginning and one block stand together, the first one first.
        block = hashes[offsets[active] + level]
        order = np.lexsort((block, beginning))
        active, beginning, block = active[order], beginning[order], block[order]
        new = np.concatenate([[True], (beginning[1:] != beginning[:-1]) | (block[1:] != block[:-1])])
        group = np.cumsum(new) - 1
        shared = np.bincount(group)[group] > 1
        active, group, new, before = active[shared], group[shared], new[shared], beginning[shared]
        along[active] = level + 1
        matched[active[~new]] = level + 1

        # Where a beginning goes on in one way its node goes on; where in several, each is a node.
        heads = np.flatnonzero(new)
        ways = np.bincount(before[heads])
        forked = (ways[before[heads]] > 1) | (level == 0)
        number = np.where(forked, nodes + np.cumsum(forked) - 1, node[active[heads]])
        parents.append(node[active[heads]][forked])
        bases.append(np.full(int(forked.sum()), level))
        nodes += int(forked.sum())
        beginning = np.cumsum(new) - 1
        node[active] = number[beginning]
        # In the order of arrival again, so that the first of each group comes first at the next block.
        order = np.argsort(active, kind="stable")
        active, beginning = active[order], beginning[order]
    empty = np.zeros(0, np.int64)
    return Forks(node, along, matched, np.concatenate([empty, *parents]), np.concatenate([empty, *bases]))


def block_branches(
    counts: np.ndarray, hashes: np.ndarray, size: int, isl: np.ndarray, osl: np.ndarray
) -> tuple[Branches, tuple[str, ...]]:
    """Groups of requests whose prompts are hashed in blocks, and what to say of them.

    Args:
      counts, hashes: as of `forks`.
      size: tokens of a block; the last one of a prompt may have fewer.
      isl, osl: tokens of prompt and output.
    """
    found = forks(counts, hashes)
    shared, along = (np.minimum(blocks * float(size), isl) for blocks in (found.matched, found.along))
    groups = branches(found.node, found.parent, found.base * float(size), shared, isl + osl, along)
    return groups, deep_notes(groups)


def deep_notes(groups: Branches) -> tuple[str, ...]:
    """A note on requests that lie too deep in the tree, if there are any."""
    if not groups.cut:
        return ()
    what = f"{groups.cut:,} requests have more than {MOST_LEVELS} forks in what they share"
    return (f"{what}: what lies behind counts as not shared",)
