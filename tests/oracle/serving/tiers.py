"""Tiers of the KV cache, by the rules of `jaxroof.scheduler.service.tiers`: dictionaries and loops, not arrays."""

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tests.oracle.serving.tree import Path, Tree, held, present, wanted

EVICTIONS = ("lru", "fifo", "session")


@dataclasses.dataclass(frozen=True)
class Level:
    """Numbers of one tier of one engine."""

    capacity: int  # blocks; of a shared tier those of the first engine count
    bandwidth: float = math.inf  # tokens/s
    latency: float = 0.0  # s
    through: bool = True  # written through
    shared: bool = False  # by all engines
    eviction: str = "lru"


@dataclasses.dataclass
class Held:
    """The blocks of a node in a tier."""

    depth: int
    chain: int = 0
    last: int = -1  # use or writing that counts for its eviction


class Tier:
    """What one tier holds."""

    def __init__(self, level: Level):
        self.level = level
        self.nodes: dict[int, Held] = {}
        self.uses = itertools.count()

    def chain(self, node: int) -> int:
        return self.nodes[node].chain if node in self.nodes else 0

    def put(self, parts: Sequence[tuple[int, int, int]], use: int) -> None:
        """Nodes of a path have at least so many blocks, and were used: of each its number, depth and blocks."""
        some = [part for part in parts if max(part[2], self.chain(part[0]))]
        begins = bool(some) and not self.chain(some[-1][0])
        for node, depth, blocks in some:
            there = self.nodes.setdefault(node, Held(depth))
            if self.level.eviction == "lru" or not there.chain or (self.level.eviction == "session" and begins):
                there.last = use
            there.chain = max(there.chain, blocks)

    def evict(self) -> tuple[int, int, int] | None:
        """One node, if there are too many blocks: its number, its depth and its blocks before."""
        missing = sum(there.chain for there in self.nodes.values()) - self.level.capacity
        if missing <= 0:
            return None
        some = [(there.last, -there.depth, node) for node, there in self.nodes.items() if there.chain]
        node = min(some)[2]
        before = self.nodes[node].chain
        self.nodes[node].chain -= min(before, missing)
        return node, self.nodes[node].depth, before


class Loads(NamedTuple):
    """Blocks of a prompt in an engine's cache and below it."""

    hit: int
    blocks: tuple[int, ...]  # to be loaded from every tier


class Tiers:
    """The tiers of one engine, those that it shares with others among them."""

    def __init__(self, levels: Sequence[Level], common: dict[int, Tier]):
        self.levels = levels
        self.tiers = [
            common.setdefault(i, Tier(level)) if level.shared else Tier(level) for i, level in enumerate(levels)
        ]
        self.late: list[tuple[int, int, int]] = []  # nodes that the engine's cache evicts in the step under way
        self.picture: list[dict[int, int]] = [{} for _ in levels]  # chains as routers know them
        self.counts = {"loaded": 0, "tier_evicted": 0}

    def used(self, tree: Tree, path: Path, blocks: int) -> None:
        """An admission or an end uses the nodes that a sequence with so many blocks holds."""
        for tier in self.tiers:
            through = tier.level.through
            parts = [(part.node, part.depth, tree.node(part).chain * through) for part in held(path, blocks)]
            tier.put(parts, next(tier.uses))
        self.settle()

    def evicted(self, node: int, depth: int, before: int) -> None:
        """The engine's cache has evicted the end of a chain of `before` blocks."""
        self.write(0, node, depth, before)
        self.settle()

    def write(self, place: int, node: int, depth: int, blocks: int) -> None:
        """A tier gets what was evicted above it, unless it was written through."""
        if place < len(self.tiers) and not self.tiers[place].level.through:
            tier = self.tiers[place]
            tier.put([(node, depth, blocks)], next(tier.uses))

    def settle(self) -> None:
        """Rounds of evictions until no tier has too many blocks; one round at least."""
        while True:
            found = [self.round(place) for place in range(len(self.tiers))]
            if not any(found):
                return

    def round(self, place: int) -> bool:
        gone = self.tiers[place].evict()
        if gone is not None:
            self.counts["tier_evicted"] += 1
            self.write(place + 1, *gone)
        return gone is not None

    def catch_up(self) -> None:
        """What was evicted in the last step reaches the tiers."""
        late, self.late = self.late, []
        for gone in late:
            self.evicted(*gone)

    def loads(self, tree: Tree, path: Path, most: int) -> Loads:
        """What a prompt finds of at most so many blocks, and where."""
        stores: list[Callable[[int], int]] = [lambda node: tree.nodes[node].chain if node in tree.nodes else 0]
        stores += [tier.chain for tier in self.tiers]
        longest = {part.node: max(store(part.node) for store in stores) for part in path}
        hit = min(present(path, longest), most)
        blocks = [0] * len(stores)
        for part, own in zip(path, wanted(path, hit), strict=True):
            found = 0
            for i, store in enumerate(stores):
                more = max(min(store(part.node), own) - found, 0)
                blocks[i] += more
                found += more
            assert found == own
        return Loads(hit, tuple(blocks[1:]))

    def time(self, blocks: Sequence[int], size: int) -> float:
        """s in which these blocks of all tiers are loaded."""
        pairs = zip(self.levels, blocks, strict=True)
        return sum(level.latency + count * size / level.bandwidth for level, count in pairs if count)

    def known(self, path: Path, chains: dict[int, int]) -> dict[int, int]:
        """Chains as routers know them, those of the engine's own tiers too."""
        own = [picture for level, picture in zip(self.levels, self.picture, strict=True) if not level.shared]
        return {part.node: max(each.get(part.node, 0) for each in (chains, *own)) for part in path}

    def changed(self) -> None:
        """Routers learn what is in the tiers."""
        self.picture = [{node: there.chain for node, there in tier.nodes.items()} for tier in self.tiers]
