"""Prefix tree of one engine: blocks of its cache with which prompts begin, node by node.

A path leads from a root to a node. Its tokens are those with which a prompt begins; a node holds the blocks from where
it begins to where the next node of the path does. The blocks of a node that are in the cache are its first ones, its
chain.
"""

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Part(NamedTuple):
    """A node on the path of a request."""

    node: int
    depth: int
    start: int  # block of the prompt at which it begins
    span: float  # blocks until the next node of the path begins; the last one has no limit


Path = tuple[Part, ...]


@dataclasses.dataclass
class Node:
    """The blocks of a node in the cache."""

    depth: int
    chain: int = 0  # blocks
    refs: int = 0  # sequences that hold them
    last: int = -1  # event that last touched them


def path(nodes: Sequence[int], starts: Sequence[int], size: int) -> Path:
    """A path in blocks of `size` tokens; -1: there is no node, nor one after it."""
    known = [node for node in nodes if node >= 0]
    first = [start // size for start in starts[: len(known)]]
    assert list(nodes[: len(known)]) == known and first == sorted(first) and first[:1] in ([], [0])
    spans = [end - begin for begin, end in itertools.pairwise(first)] + [math.inf]
    return tuple(Part(*part) for part in zip(known, range(len(known)), first, spans, strict=False))


def wanted(path: Path, blocks: int) -> list[int]:
    """Blocks of every node of a path, where a prompt has so many blocks of the path."""
    return [int(min(max(blocks - part.start, 0), part.span)) for part in path]


def held(path: Path, blocks: int) -> Path:
    """The nodes that such a prompt holds: those of which it has blocks, and the root."""
    return tuple(part for part, own in zip(path, wanted(path, blocks), strict=True) if own > 0 or part.depth == 0)


def present(path: Path, chains: Mapping[int, int]) -> int:
    """Blocks of a path, up to the first that is not there, where nodes have chains of so many blocks."""
    found = 0
    for part in path:
        length = int(min(chains.get(part.node, 0), part.span))
        found += length
        if length < part.span:
            break
    return found


class Gone(NamedTuple):
    """Blocks that a node has lost."""

    node: int
    depth: int
    before: int  # blocks that it had
    blocks: int


class Tree:
    """The nodes of an engine, and what happened to them."""

    def __init__(self):
        self.nodes: dict[int, Node] = {}
        self.events = 0

    def node(self, part: Part) -> Node:
        return self.nodes.setdefault(part.node, Node(part.depth))

    def blocks(self) -> int:
        """All blocks in the cache."""
        return sum(node.chain for node in self.nodes.values())

    def idle(self) -> int:
        """Blocks that no sequence holds."""
        return sum(node.chain for node in self.nodes.values() if node.refs == 0)

    def idle_of(self, path: Path, blocks: int) -> int:
        """The idle ones of nodes that a prompt will hold."""
        return sum(self.node(part).chain for part in held(path, blocks) if self.node(part).refs == 0)

    def present(self, path: Path) -> int:
        """Blocks of a path in the cache, up to the first that is not there."""
        return present(path, {part.node: self.node(part).chain for part in path})

    def growth(self, path: Path, blocks: int) -> int:
        """Blocks that the nodes of a path get, so that `blocks` of it are there."""
        return sum(
            max(own - self.node(part).chain, 0) for part, own in zip(path, wanted(path, blocks), strict=True) if own
        )

    def grow(self, path: Path, blocks: int) -> int:
        """Adds them; how many they are."""
        grown = self.growth(path, blocks)
        for part, own in zip(path, wanted(path, blocks), strict=True):
            if own:
                self.node(part).chain = max(self.node(part).chain, own)
        return grown

    def hold(self, path: Path, blocks: int) -> None:
        """One more sequence holds the nodes of its path."""
        for part in held(path, blocks):
            self.node(part).refs += 1
        self.touch(path, blocks)

    def release(self, path: Path, blocks: int) -> None:
        """One fewer."""
        for part in held(path, blocks):
            self.node(part).refs -= 1
        self.touch(path, blocks)

    def end(self, path: Path, blocks: int, keep: int) -> int:
        """A sequence that held `blocks` ends and leaves `keep`; the blocks that the nodes get."""
        grown = self.grow(path, keep)
        before, after = held(path, blocks), held(path, max(blocks, keep))
        for part in after:
            self.node(part).refs += part not in before  # held for this event alone
        self.release(path, max(blocks, keep))
        return grown

    def touch(self, path: Path, blocks: int) -> None:
        """All nodes that are held are touched by one event."""
        if path:
            for part in held(path, blocks):
                self.node(part).last = self.events
            self.events += 1

    def evict_one(self, missing: int) -> "Gone | None":
        """An idle node loses blocks that are missing: the one touched first before others, the deepest at one event."""
        idle = [(node.last, -node.depth, index) for index, node in self.nodes.items() if not node.refs and node.chain]
        if not idle:
            return None
        index = min(idle)[2]
        node = self.nodes[index]
        cut = min(node.chain, missing)
        node.chain -= cut
        return Gone(index, node.depth, node.chain + cut, cut)

    def shorten(self, path: Path, blocks: int) -> int:
        """The nodes that a sequence holds lose what it does not have of them itself; how many blocks they lose."""
        lost = 0
        for part, own in zip(path, wanted(path, blocks), strict=True):
            if part in held(path, blocks) and self.node(part).chain > own:
                lost += self.node(part).chain - own
                self.node(part).chain = own
        return lost
