"""Tiers of the KV cache below an engine's own: what they hold, what is loaded from them, and what they evict.

Below an engine's own cache stand tiers in an order: host memory, a local SSD, a remote store. A tier is of one engine
or shared by all. Of every node of the prefix tree a tier holds the first blocks, its chain, as the engine's cache
does.

- Use: an admission, and an end, uses every node that the sequence holds then, in every tier.
- Writing through: a tier that is written through gets at every use what the engine's cache then has of the node, if
  that is more than it has itself. Of any other tier the blocks come from above: where the engine's cache, or the tier
  above, evicts the end of a chain, the tier gets the chain as it was before, if that is more than it has itself.
  Blocks that a sequence gives up because it is alone are not written. Writing takes no time.
- Eviction: a tier with more blocks than it can hold gives them up before anything else happens in the engine that has
  written them: the node that is first in the order of eviction loses the blocks that are too many, or all it has.
  Rounds go over the tiers from the first to the last, one node of each that has too many; the next node of the
  engine's cache is evicted when no tier has too many. In `lru` order the node goes first that was used or written
  longest ago, of those used together the deepest; in `fifo` order the one that came first, which use does not change;
  in `session` order those of the oldest session, the deepest first. A session begins when a path is used whose last
  node the tier does not have; what several sessions have in common is as young as the last of them. A tier evicts
  nodes that a sequence holds in the engine's cache too.
- Time of evictions for tokens of decoding sequences: they reach the tiers at the end of the step that needs the
  blocks.
- Loading: a prompt finds, node by node, the longer of the engine's chain and those of the tiers; its hit is found by
  the rule of the engine's cache, with these lengths. What the engine lacks of it is loaded, each block from the first
  tier that has it, and always: also where computing were quicker. Loaded blocks take blocks of the engine's cache as
  computed ones do. A sequence that comes back from host memory after a swap loads nothing.
- Time of loading: of each tier latency + tokens / bandwidth, 0 where nothing comes from it; of all tiers and of all
  prompts that begin in the step the sum. The step takes compute + load - overlap min(compute, load): one after the
  other with an overlap of 0, side by side with 1.
- Routers count of the tiers those of the engine alone, if they know of tiers, as of the time at which they know its
  cache.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

from jaxroof.numerics.arrays import entry, jnp
from jaxroof.numerics.struct import Array
from jaxroof.scheduler.service.packing import apart
from jaxroof.scheduler.state import NEVER, total_of


class TierRules(NamedTuple):
    """Numbers of the tiers of one engine, shape [tiers] or (); of all engines, with an axis of engines before."""

    capacity: Array  # blocks, int32; of a shared tier those of the first engine count
    bandwidth: Array  # tokens/s
    latency: Array  # s
    through: Array  # bool: written through
    shared: Array  # bool: by all engines
    eviction: Array  # a position in `EVICTIONS`, int32
    overlap: Array  # of loads with compute, 0 .. 1, shape ()
    known: Array  # bool: to routers, shape ()

    @property
    def stepwise(self) -> Array:
        """Whether other engines may see what a decode step evicts, shape ()."""
        return ~self.through[..., 0] & jnp.any(self.shared & ~self.through, axis=-1)


class Use(NamedTuple):
    """A use of nodes that follow one another on a path, shape [some]."""

    old: Array  # places in the order of eviction so far, NEVER where they had none
    new: Array  # places that the use would give them
    happens: Array  # bool: these are used


def lru(use: Use) -> Array:
    """The node that was used longest ago goes first."""
    return use.new


def fifo(use: Use) -> Array:
    """The node that came first goes first."""
    return jnp.where(use.old < NEVER, use.old, use.new)


def session(use: Use) -> Array:
    """The node goes first whose last session came first."""
    last = jnp.max(jnp.where(use.happens, jnp.arange(use.happens.shape[0], dtype=jnp.int32), 0))
    return jnp.where(entry(use.old, last) < NEVER, fifo(use), use.new)


EVICTIONS: dict[str, Callable[[Use], Array]] = {"lru": lru, "fifo": fifo, "session": session}
"""Places of nodes in the order of eviction after a use, by name."""


class Evicted(NamedTuple):
    """A node that has lost the end of its chain."""

    happened: Array  # bool
    node: Array
    before: Array  # blocks of its chain before
    depth: Array  # part of its place in the order of eviction that stands for its depth


class Found(NamedTuple):
    """What a tier has of some nodes, shape [some]."""

    chain: Array
    changed_in: Array
    places: Array  # rows of the order of eviction that they stand in, shape [some, width]


class Tier(NamedTuple):
    """Nodes in one tier, int32; those of a shared one stand where the first engine's would."""

    chain: Array  # blocks, shape [nodes, engines]
    used: Array  # blocks of all nodes, shape [engines]
    order: Array  # order of eviction, NEVER where a node has nothing to evict, shape [engines, rows, width]
    least: Array  # the least of every row of `order`, shape [engines, rows]
    before: Array  # blocks before evictions that routers do not know of, shape [nodes, engines]
    changed_in: Array  # picture during which these changed a node first, shape [nodes, engines]

    def found(self, space: Array, nodes: Array) -> Found:
        """What is there of nodes, shape [some], read at once: XLA copies an array that is read apart from what it is
        written with.
        """
        rowed = nodes // self.order.shape[2]

        def rows() -> Found:
            chain, changed_in = (entry(part, nodes, space) for part in (self.chain, self.changed_in))
            return Found(chain, changed_in, entry(self.order, space, rowed))

        return apart(rows, space >= 0)

    def written(
        self,
        space: Array,
        nodes: Array,
        found: Found,
        chains: Array,
        keys: Array,
        eviction: Array | None,
        happens: Array,
    ) -> "Tier":
        """The tier in which these nodes have chains of so many blocks.

        Args:
          space: engine, or 0 of a shared tier.
          nodes: all different where it `happens`, shape [some].
          found: what it had of them.
          keys: places in the order of eviction, shape [some].
          eviction: a position in `EVICTIONS`; None: the places are final.
          happens: bool, shape [some].
        """
        count, rows, width = self.chain.shape[0], self.order.shape[1], self.order.shape[2]
        rowed, column = nodes // width, nodes % width
        places = found.places
        here = (jnp.arange(width, dtype=jnp.int32)[None, :] == column[:, None]) & happens[:, None]
        if eviction is not None:
            old = jnp.min(jnp.where(here, places, NEVER), axis=-1)
            keys = jnp.stack([rule(Use(old, keys, happens)) for rule in EVICTIONS.values()])[eviction]
        keys = jnp.where(chains > 0, keys, NEVER)
        # Nodes may stand in the same row: each row gets all that changes in it, before it is written.
        for one in range(nodes.shape[0]):
            same = (rowed == rowed[one])[:, None]
            places = jnp.where(same & here[one][None, :], keys[one], places)
        # What does not happen is written beside the arrays.
        at, row = jnp.where(happens, nodes, count), jnp.where(happens, rowed, rows)
        more = total_of(jnp.where(happens, chains - found.chain, 0))
        return self._replace(
            chain=_put(self.chain, (at, space), chains),
            used=_put(self.used, (space,), entry(self.used, space) + more),
            order=_put(self.order, (space, row), places),
            least=_put(self.least, (space, row), jnp.min(places, axis=-1)),
        )

    def of(self, nodes: Array) -> tuple[Array, Array, Array]:
        """`changed_in`, `before` and `chain` of nodes, shape [some, engines] each."""
        return self.changed_in[nodes], self.before[nodes], self.chain[nodes]

    def noted(self, space: Array, node: Array, found: Found, picture: Array, happens: Array) -> "Tier":
        """The tier before an eviction changes a node: routers go on with what it has now, as was `found`."""
        newly = happens & (found.changed_in[0] != picture)
        at = jnp.where(newly, node, self.chain.shape[0])
        return self._replace(
            before=_put(self.before, (at, space), found.chain[0]),
            changed_in=_put(self.changed_in, (at, space), picture),
        )

    def evicted(self, space: Array, capacity: Array, picture: Array, depths: int) -> tuple["Tier", Evicted]:
        """The tier without blocks of the node that is first in order, if it has too many; that node."""
        missing = entry(self.used, space) - capacity
        row = jnp.argmin(entry(self.least, space)).astype(jnp.int32)
        places = apart(lambda: entry(self.order, space, row), space >= 0)
        column = jnp.argmin(places).astype(jnp.int32)
        key = entry(places, column)
        happens = (missing > 0) & (key < NEVER)
        node = jnp.minimum(row * places.shape[0] + column, self.chain.shape[0] - 1)
        found = self.found(space, node[None])
        chain = found.chain[0]
        tier = self.noted(space, node, found, picture, happens)
        rest = chain - jnp.minimum(chain, missing)
        tier = tier.written(space, node[None], found, rest[None], key[None], None, happens[None])
        return tier, Evicted(happens, node, chain, key % depths)


class Loads(NamedTuple):
    """A prompt's blocks in an engine's cache and below it."""

    hit: Array
    blocks: Array  # to be loaded from every tier, shape [tiers]


class Tiers(NamedTuple):
    """All tiers, from the first to the last."""

    tiers: tuple[Tier, ...]
    use: Array  # number of the next use or writing

    def chains(self, rules: TierRules, nodes: Array, engine: Array) -> list[Array]:
        """Blocks of nodes in every tier, shape [some] each."""
        spaces = [_space(rules, i, engine) for i in range(len(self.tiers))]
        pairs = zip(self.tiers, spaces, strict=True)
        return [apart(functools.partial(entry, tier.chain, nodes, space), space >= 0) for tier, space in pairs]

    def used(self, rules: TierRules, engine: Array, nodes: Array, chains: Array, happens: Array) -> "Tiers":
        """The tiers after an admission or an end has used the nodes of a path.

        Args:
          nodes: of the path, any where there is none, shape [depth].
          chains: of the engine's cache, blocks, shape [depth].
          happens: bool: these are used, shape [depth].
        """
        depths = nodes.shape[0]
        # Of nodes used together the deepest goes first.
        keys = self.use * depths + (depths - 1 - jnp.arange(depths, dtype=jnp.int32))
        tiers = []
        for i, tier in enumerate(self.tiers):
            space = _space(rules, i, engine)
            found = tier.found(space, nodes)
            new = jnp.where(rules.through[i], jnp.maximum(found.chain, chains), found.chain)
            tiers.append(tier.written(space, nodes, found, new, keys, rules.eviction[i], happens & (new > 0)))
        return Tiers(tuple(tiers), self.use + 1)

    def settled(self, rules: TierRules, engine: Array, above: Evicted, picture: Array, depths: int) -> "Tiers":
        """The tiers with what the engine's cache has evicted, after one round of evictions of their own.

        Args:
          above: what the engine's cache has evicted.
          picture: number of the picture that routers have of the engine's cache.
          depths: of the prefix tree.
        """
        tiers, use = [], self.use
        for i, tier in enumerate(self.tiers):
            space = _space(rules, i, engine)
            gets = above.happened & ~rules.through[i]
            node = above.node
            found = tier.found(space, node[None])
            one = tier.noted(space, node, found, picture, gets)
            chain = jnp.maximum(found.chain, above.before)
            key = use * depths + above.depth
            one = one.written(space, node[None], found, chain, key[None], rules.eviction[i], gets[None])
            one, above = one.evicted(space, rules.capacity[i], picture, depths)
            tiers.append(one)
            use = use + gets.astype(jnp.int32)
        return Tiers(tuple(tiers), use)

    def over(self, rules: TierRules, engine: Array) -> Array:
        """Whether a tier of this engine has too many blocks."""
        used = jnp.stack([entry(tier.used, _space(rules, i, engine)) for i, tier in enumerate(self.tiers)])
        return jnp.any(used > rules.capacity)

    def known(self, rules: TierRules, nodes: Array, pictures: Array) -> Array:
        """Blocks of nodes in the tiers of every engine alone, as far as routers know, shape [some, engines].

        Args:
          rules: of all engines.
          pictures: numbers of the pictures that routers have of the engines' caches, shape [engines].
        """
        found = jnp.zeros((nodes.shape[0], pictures.shape[0]), jnp.int32)
        for i, tier in enumerate(self.tiers):
            changed, before, now = apart(functools.partial(tier.of, nodes), nodes[0] >= 0)
            chains = jnp.where(changed == pictures[None], before, now)
            found = jnp.maximum(found, jnp.where(rules.known & ~rules.shared[:, i], chains, 0))
        return found


def loads(parts: Array, chains: Array, tiers: list[Array]) -> Array:
    """Blocks of a hit that are loaded from every tier, shape [tiers]: each from the first that has it.

    Args:
      parts: blocks of the hit in every node of the path, shape [depth].
      chains: of the engine's cache, shape [depth].
      tiers: chains of every tier, shape [depth] each.
    """
    found, blocks = jnp.minimum(chains, parts), []
    for chain in tiers:
        reaches = jnp.maximum(found, jnp.minimum(chain, parts))
        blocks.append(total_of(reaches - found))
        found = reaches
    return jnp.stack(blocks)


def load_time(rules: TierRules, tokens: Array) -> Array:
    """s in which these tokens are loaded, shape (): of every tier latency + tokens / bandwidth, if any.

    Args:
      tokens: of every tier, shape [tiers].
    """
    each = rules.latency + tokens.astype(float) / rules.bandwidth
    return jnp.sum(jnp.where(tokens > 0, each, 0.0))


def empty_tiers(count: int, order: Array, nodes: int) -> Tiers:
    """Tiers that hold nothing.

    Args:
      order: of eviction in the engines' caches, for its shape [engines, rows, width].
    """
    engines = order.shape[0]
    none = jnp.zeros((nodes, engines), jnp.int32)
    never = jnp.full(order.shape, NEVER, jnp.int32)
    each = jnp.zeros(engines, jnp.int32)
    tier = Tier(none, each, never, never[:, :, 0], none, none - 1)
    return Tiers((tier,) * count, jnp.int32(0))


def _space(rules: TierRules, tier: int, engine: Array) -> Array:
    """Where a tier's blocks stand: with the engine, or with the first one if it is shared."""
    return jnp.where(rules.shared[tier], 0, engine)


def _put(values: Array, index: tuple[Array, ...], new: Array) -> Array:
    """An array with new entries; places behind its end are none of it.

    Several are put one after the other: a kernel cannot scatter to several places.
    """
    several = next((len(part) for part in index if jnp.ndim(part)), None)
    for one in range(1 if several is None else several):
        place = tuple(part[one] if jnp.ndim(part) else part for part in index)
        entry_of = new if several is None else new[one]
        values = values.at[place].set(entry_of, mode="drop", wrap_negative_indices=False)
    return values
