"""Prefix trees in the caches of several engines: requests share system prompts, conversations and their branches.

A node of the tree is a run of tokens that prompts have in common; a request's path goes from the root to its own
node. An engine's cache has the first blocks of a node, its chain, which is of use as far as the nodes above are whole.
Sequences hold the nodes that their blocks are in; of the nodes that nobody holds, the one that was used longest ago is
evicted first, of those used together the deepest.

What routers know of an engine's cache is as of the last time at which its set of sequences changed: then they hear of
evictions for the tokens of decoding sequences.
"""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from jaxroof.numerics.arrays import entry, jax, jnp
from jaxroof.numerics.struct import Array, given
from jaxroof.scheduler.engine import Engine
from jaxroof.scheduler.prefixes import Place
from jaxroof.scheduler.service.packing import apart
from jaxroof.scheduler.service.tiers import Evicted, TierRules, Tiers, empty_tiers, load_time, loads
from jaxroof.scheduler.state import NEVER, total_of, whole

T = TypeVar("T")


class Path(NamedTuple):
    """Nodes of one request, shape [depth], int32."""

    nodes: Array  # -1: none
    starts: Array  # block of the prompt at which each begins
    spans: Array  # blocks of each on this path; the last one's has no end

    @property
    def inside(self) -> Array:
        """The nodes, any where there is none."""
        return jnp.maximum(self.nodes, 0)

    def part(self, blocks: Array) -> Array:
        """Of the prompt's first `blocks`, those that are in every node."""
        return jnp.where(self.nodes >= 0, jnp.clip(blocks - self.starts, 0, self.spans), 0)

    def held(self, blocks: Array) -> Array:
        """Whether a sequence with so many blocks in chains holds each node: the root always."""
        first = jnp.arange(self.nodes.shape[0], dtype=jnp.int32) == 0
        return (self.nodes >= 0) & (first | (self.part(blocks) > 0))


class PrefixTree(NamedTuple):
    """Nodes in the caches of all engines, int32, and the engine that looks at them."""

    chain: Array  # blocks, shape [nodes, engines]
    users: Array  # admitted sequences that hold on to them, shape [nodes, engines]
    before: Array  # blocks before evictions that routers do not know of, shape [nodes, engines]
    evicted_in: Array  # picture during which a node was evicted last, shape [nodes, engines]
    picture: Array  # number of the picture that routers have of an engine's cache, shape [engines]
    order: Array  # order of eviction, NEVER where a node has nothing to evict, shape [engines, rows, width]
    least: Array  # the least of every row of `order`, shape [engines, rows]
    engine: Array  # the one that looks, shape ()
    tiers: Tiers | None = None  # below the caches; None: there are none

    def path_of(self, engine: Engine, request: Array) -> Path:
        """Nodes of a request that the engine caches."""
        nodes, starts = entry(engine.path, request), entry(engine.starts, request)
        later = jnp.concatenate([starts[1:], jnp.full(1, NEVER, jnp.int32)])
        last = jnp.concatenate([nodes[1:] < 0, jnp.ones(1, bool)])
        spans = jnp.where(last, NEVER, later - starts)
        return Path(jnp.where(engine.caching, nodes, -1), starts, spans)

    def known(self, path: Path, rules: TierRules | None) -> Array:
        """Blocks of the path in the cache of every engine, as far as routers know, shape [engines].

        Args:
          rules: of the tiers of all engines.
        """
        nodes = path.inside
        columns = self.evicted_in, self.before, self.chain
        evicted_in, before, chains = self._read(lambda: tuple(part[nodes] for part in columns))
        chains = jnp.where(evicted_in == self.picture[None, :], before, chains)
        if self.tiers is not None and rules is not None:
            chains = jnp.maximum(chains, self.tiers.known(rules, nodes, self.picture))
        return _present(path, chains)

    def with_picture(self, engine: Array, changed: Array) -> "PrefixTree":
        """The tree of which routers know all that happened to this engine's cache, if its sequences have `changed`."""
        return self._replace(picture=self.picture.at[engine].add(whole(changed)))

    def place(self, engine: Engine, request: Array, isl: Array, target: Array) -> Place:
        """Blocks of a sequence that are in chains: what it finds there, and what a later one will find."""
        path = self.path_of(engine, request)
        chains, users = self._of(path)
        some = path.nodes[0] >= 0
        # Whole blocks, and never the whole prompt: its last token has to be computed.
        below = [] if self.tiers is None else self.tiers.chains(engine.tiers, path.inside, self.engine)
        longest = functools.reduce(jnp.maximum, below, chains)
        cached = jnp.minimum(_present(path, longest), entry(engine.shared, request) // engine.size)
        hit = jnp.where(some, jnp.minimum(cached, (target - 1) // engine.size), 0)
        keep = jnp.minimum(keep_of(engine, request), isl) // engine.size
        chained = jnp.where(some, jnp.maximum(hit, keep), 0)
        part, held = path.part(chained), path.held(chained)
        growth = jnp.where(held, jnp.maximum(part - chains, 0), 0)
        # An idle chain is used by nobody, but still cached: taking it costs no block.
        idle = jnp.where(held & (users == 0), chains, 0)
        beyond = jnp.where(held, jnp.maximum(chains - part, 0), 0)
        found = Place(hit, chained, total_of(growth), total_of(idle), total_of(beyond), path)
        if not below:
            return found
        loaded = loads(path.part(hit), chains, below)
        return found._replace(loads=loaded, load_time=load_time(engine.tiers, loaded * engine.size))

    def entered(
        self, place: Place, event: Array, enters: Array, cuts: Array, engine: Engine | None = None
    ) -> "PrefixTree":
        """The tree after a sequence has taken hold of its nodes, if it `enters`; where it `cuts`, only its own blocks
        stay in them.

        Args:
          engine: None: there are no tiers, which are used too.
        """

        def changed(tree: "PrefixTree") -> "PrefixTree":
            tree, chains = tree._entered(place, event, cuts)
            return tree if engine is None else tree._written(engine, place.path, place.chained, chains)

        # Its work is done where it happens alone, unless many services are simulated.
        return jax.lax.cond(enters, changed, lambda tree: tree, self)

    def _entered(self, place: Place, event: Array, cuts: Array) -> tuple["PrefixTree", Array]:
        """The tree, and its chains of the path's nodes."""
        path = place.path
        part, held = path.part(place.chained), path.held(place.chained)
        tree, (chains, users) = self, self._of(path)
        new = jnp.where(held, jnp.where(cuts, part, jnp.maximum(chains, part)), chains)
        for depth in range(path.nodes.shape[0]):
            tree = tree._set(path, depth, new[depth], users[depth] + 1, event, held[depth])
        return tree, new

    def ended(
        self, engine: Engine, request: Array, chained: Array, event: Array, ends: Array
    ) -> tuple["PrefixTree", Array, Array]:
        """The tree with the blocks of an ended sequence that a later one begins with, and without its hold.

        Returns:
          The tree; blocks that chains have grown by; blocks that nobody uses any more.
        """
        keep = keep_of(engine, request) // engine.size
        return self._released(engine, request, chained, keep, event, ends, uses_tiers=self.tiers is not None)

    def _written(self, engine: Engine, path: Path, blocks: Array, chains: Array) -> "PrefixTree":
        """The tree whose tiers were used by an admission or an end of a sequence with so many blocks in chains.

        Args:
          chains: of the path's nodes, blocks, shape [depth]. Read again, XLA would copy them.
        """
        tiers = given(self.tiers, "tiers").used(engine.tiers, self.engine, path.inside, chains, path.held(blocks))
        return self._replace(tiers=tiers)

    def over(self, engine: Engine) -> Array:
        """Whether a tier below this engine's cache has too many blocks; there are some."""
        return given(self.tiers, "tiers").over(engine.tiers, self.engine)

    def left(
        self, engine: Engine, request: Array, chained: Array, event: Array, leaves: Array
    ) -> tuple["PrefixTree", Array]:
        """The tree after a sequence has let go of its nodes, and the blocks that this leaves idle."""
        tree, _, idle = self._released(engine, request, chained, jnp.int32(0), event, leaves)
        return tree, idle

    def shortened(self, engine: Engine, request: Array, chained: Array, happens: Array) -> tuple["PrefixTree", Array]:
        """The tree after a sequence has given up the blocks of its nodes that are not its own, and their number."""
        zero = jnp.int32(0)
        return jax.lax.cond(
            happens, lambda tree: tree._shortened(engine, request, chained), lambda tree: (tree, zero), self
        )

    def _shortened(self, engine: Engine, request: Array, chained: Array) -> tuple["PrefixTree", Array]:
        path = self.path_of(engine, request)
        part, held = path.part(chained), path.held(chained)
        tree, (chains, users) = self, self._of(path)
        shorter = jnp.minimum(chains, part)
        for depth in range(path.nodes.shape[0]):
            tree = tree._set(path, depth, shorter[depth], users[depth], jnp.int32(0), held[depth])
        return tree, total_of(jnp.where(held, chains - shorter, 0))

    def evicted(self, missing: Array, engine: Engine | None = None) -> tuple["PrefixTree", Array]:
        """The tree without blocks of the node that is first in order, at most `missing`; their number.

        Args:
          engine: None: there are no tiers. They come first, and get the blocks.
        """
        due = missing > 0 if engine is None else (missing > 0) | self.over(engine)
        return jax.lax.cond(due, lambda tree: tree._evicted(missing, engine), lambda tree: (tree, jnp.int32(0)), self)

    def _evicted(self, missing: Array, engine: Engine | None) -> tuple["PrefixTree", Array]:
        if engine is not None:
            missing = jnp.where(self.over(engine), 0, missing)
        least = self._read(lambda: self.least[self.engine])
        row, key = jnp.argmin(least).astype(jnp.int32), jnp.min(least)
        places = self._read(lambda: self.order[self.engine, row])
        column = jnp.argmin(places).astype(jnp.int32)
        there = (key < NEVER) & (missing > 0)
        node = jnp.minimum(row * places.shape[0] + column, self.chain.shape[0] - 1)
        columns = self.chain, self.before, self.evicted_in
        chain, known, evicted_in = self._read(lambda: tuple(part[node, self.engine] for part in columns))
        picture = self.picture[self.engine]
        taken = jnp.where(there, jnp.minimum(chain, missing), 0)
        gone = there & (chain == taken)
        # Routers go on with what was there before the first eviction of this picture.
        before = jnp.where(there & (evicted_in != picture), chain, known)
        picture = jnp.where(there, picture, evicted_in)
        tree = self._replace(
            chain=self.chain.at[node, self.engine].set(chain - taken),
            before=self.before.at[node, self.engine].set(before),
            evicted_in=self.evicted_in.at[node, self.engine].set(picture),
        )
        tree = tree._ordered(node, jnp.where(gone, NEVER, key), there)
        if engine is not None and self.tiers is not None:
            depths = engine.path.shape[1]  # type: ignore[union-attr]
            lost = Evicted(there, node, chain, jnp.mod(key, depths))
            picture = self.picture[self.engine]
            tree = tree._replace(tiers=self.tiers.settled(engine.tiers, self.engine, lost, picture, depths))
        return tree, taken

    def _at(self, values: Array, path: Path) -> Array:
        """Values of the path's nodes in this engine, shape [depth]."""
        return values[path.inside, self.engine]

    def _of(self, path: Path) -> tuple[Array, Array]:
        """Chains and users of the path's nodes in this engine, shape [depth] each."""
        return self._read(lambda: (self._at(self.chain, path), self._at(self.users, path)))

    def _read(self, values: Callable[[], T]) -> T:
        """Entries of the arrays, read once."""
        return apart(values, self.engine >= 0)

    def _released(
        self,
        engine: Engine,
        request: Array,
        chained: Array,
        keep: Array,
        event: Array,
        leaves: Array,
        uses_tiers: bool = False,
    ) -> tuple["PrefixTree", Array, Array]:
        zero = jnp.int32(0)

        def let_go(tree: "PrefixTree") -> tuple["PrefixTree", Array, Array]:
            tree, growth, idle, path, chains = tree._let_go(engine, request, chained, keep, event)
            tree = tree._written(engine, path, jnp.maximum(chained, keep), chains) if uses_tiers else tree
            return tree, growth, idle

        return jax.lax.cond(leaves, let_go, lambda tree: (tree, zero, zero), self)

    def _let_go(
        self, engine: Engine, request: Array, chained: Array, keep: Array, event: Array
    ) -> tuple["PrefixTree", Array, Array, Path, Array]:
        """The tree, blocks that chains have grown by and that nobody uses any more, and the path with its chains."""
        path = self.path_of(engine, request)
        blocks = jnp.maximum(chained, keep)
        part, held = path.part(blocks), path.held(blocks)
        before = path.held(chained)
        tree, (chains, users) = self, self._of(path)
        longer = jnp.where(held, jnp.maximum(chains, part), chains)
        now = users - whole(before)
        for depth in range(path.nodes.shape[0]):
            tree = tree._set(path, depth, longer[depth], now[depth], event, held[depth])
        # Idle blocks: of a node that it was the last to hold all of them, of one that nobody held what is new.
        newly = jnp.where(before, longer, longer - chains)
        idle = total_of(jnp.where(held & (now == 0), newly, 0))
        return tree, total_of(longer - chains), idle, path, longer

    def _set(self, path: Path, depth: int, chain: Array, users: Array, event: Array, happens: Array) -> "PrefixTree":
        """The tree with chain and users of one node, used by this event, if it `happens`."""
        node = path.inside[depth]
        here = jnp.where(happens, node, self.chain.shape[0])
        tree = self._replace(
            chain=self.chain.at[here, self.engine].set(chain, mode="drop"),
            users=self.users.at[here, self.engine].set(users, mode="drop"),
        )
        # Of nodes used by the same event the deepest goes first.
        key = event * path.nodes.shape[0] + (path.nodes.shape[0] - 1 - depth)
        return tree._ordered(node, jnp.where((users == 0) & (chain > 0), key, NEVER), happens)

    def _ordered(self, node: Array, key: Array, happens: Array) -> "PrefixTree":
        """The tree with this node's place in the order of eviction, if it `happens`."""
        width = self.order.shape[2]
        row, column = node // width, jnp.mod(node, width)
        places = self._read(lambda: self.order[self.engine, row])
        places = jnp.where(happens & (jnp.arange(width, dtype=jnp.int32) == column), key, places)
        return self._replace(
            order=self.order.at[self.engine, row].set(places),
            least=self.least.at[self.engine, row].set(jnp.min(places)),
        )


def _present(path: Path, chains: Array) -> Array:
    """Blocks of the path that are of use: a node's as far as those above are whole, shape () or [engines].

    Args:
      chains: of its nodes, shape [depth] or [depth, engines].
    """
    spans = path.spans.reshape(-1, *(1 for _ in chains.shape[1:]))
    there = (path.nodes >= 0).reshape(spans.shape)
    lengths = jnp.where(there, jnp.minimum(chains, spans), 0)
    above = jnp.cumprod(whole(lengths == spans), axis=0)
    complete = jnp.concatenate([jnp.ones_like(above[:1]), above[:-1]])
    return total_of(lengths * complete, axis=0)


def keep_of(engine: Engine, request: Array) -> Array:
    """Tokens that a sequence leaves for a later one: where answers go on elsewhere, of its prompt alone."""
    keep = entry(engine.keep, request)
    if engine.single is None:
        return keep
    return jnp.where(engine.single, jnp.minimum(keep, entry(engine.isl, request)), keep)


def empty_tree(nodes: int, engines: int, tiers: int = 0) -> PrefixTree:
    """The tree of engines that have nothing in their caches, nor in so many tiers below them."""
    # Rows of about the square root: least of a row and least of all rows are found equally fast.
    width = max(2 ** math.ceil(math.log2(max(nodes, 1)) / 2), 1)
    rows = -(-nodes // width)
    none = jnp.zeros((nodes, engines), jnp.int32)
    order = jnp.full((engines, rows, width), NEVER, jnp.int32)
    return PrefixTree(
        none,
        none,
        none,
        none - 1,
        jnp.zeros(engines, jnp.int32),
        order,
        jnp.full((engines, rows), NEVER, jnp.int32),
        jnp.int32(0),
        empty_tiers(tiers, order, nodes) if tiers else None,
    )
