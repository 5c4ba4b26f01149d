"""Prefixes in the cache of an engine: one chain of blocks for every group of requests that begin alike."""

from typing import Any, NamedTuple

from jaxroof.numerics.arrays import entry, jnp
from jaxroof.numerics.struct import Array
from jaxroof.scheduler.engine import Engine
from jaxroof.scheduler.state import NEVER, total_of, whole


class Place(NamedTuple):
    """Blocks of an admission that are in chains, int32."""

    hit: Array  # blocks of the prompt that are there
    chained: Array  # blocks of the prompt that are in chains afterwards
    growth: Array  # blocks that the chains grow by
    idle: Array  # blocks of them that nobody uses before
    beyond: Array  # blocks of the chains that are not its own
    path: Any  # the chains: a group, or None
    loads: Array | None = None  # blocks of the hit that come from every tier, shape [tiers]; None: there are none
    load_time: Array | None = None  # s that they take, float


def no_place() -> Place:
    """Place of a sequence that shares nothing."""
    none = jnp.int32(0)
    return Place(none, none, none, none, none, None)


class PrefixGroups(NamedTuple):
    """Prefixes in the cache, arrays of shape [groups], int32."""

    chain: Array  # blocks
    users: Array  # admitted sequences that hold on to them
    used: Array  # number of the event that used them last

    def place(self, engine: Engine, request: Array, isl: Array, target: Array) -> Place:
        """A sequence's part of its group's chain: what it finds there, and what a later one of the group will find.

        Args:
          target: tokens whose cache it needs before it decodes.
        """
        group = entry(engine.group, request)
        inside = jnp.maximum(group, 0)
        chain = entry(self.chain, inside)
        member = (group >= 0) & engine.caching
        # Prefix caching shares whole blocks only: hashes are of full blocks.
        kept_blocks = jnp.minimum(entry(engine.keep, request), isl) // engine.size
        # Whole blocks, and never the whole prompt: its last token has to be computed.
        cached_blocks = jnp.minimum(chain, entry(engine.shared, request) // engine.size)
        hit = jnp.where(member, jnp.minimum(cached_blocks, (target - 1) // engine.size), 0)
        chained = jnp.where(member, jnp.maximum(hit, kept_blocks), 0)
        growth = jnp.where(member, jnp.maximum(chained - chain, 0), 0)
        # An idle chain is used by nobody, but still cached: taking it costs no block.
        idle = jnp.where(member & (entry(self.users, inside) == 0), chain, 0)
        return Place(hit, chained, growth, idle, jnp.maximum(chain - chained, 0), jnp.where(member, group, -1))

    def entered(self, place: Place, event: Array, enters: Array, cuts: Array) -> "PrefixGroups":
        """The groups after a sequence has taken hold of its prefix, if it `enters`.

        Args:
          event: number of this event.
          cuts: bool: the chain loses what is not its own.
        """
        here = (jnp.arange(self.chain.shape[0], dtype=jnp.int32) == place.path) & enters
        chain = jnp.where(cuts, place.chained, jnp.maximum(self.chain, place.chained))
        return PrefixGroups(
            chain=jnp.where(here, chain, self.chain),
            users=self.users + whole(here),
            used=jnp.where(here, event, self.used),
        )

    def ended(
        self, engine: Engine, request: Array, chained: Array, event: Array, ends: Array
    ) -> tuple["PrefixGroups", Array, Array]:
        """The groups with the blocks of an ended sequence that a later one begins with, and without its hold.

        Args:
          chained: its blocks that are in chains.

        Returns:
          The groups; blocks that chains have grown by; blocks that nobody uses any more.
        """
        keep = entry(engine.keep, request) // engine.size
        here = jnp.arange(self.chain.shape[0], dtype=jnp.int32) == _group_of(engine, request)
        grown = jnp.where(here & ends & engine.caching, jnp.maximum(self.chain, keep), self.chain)
        groups, idle = self._replace(chain=grown).left(engine, request, chained, event, ends)
        return groups, total_of(grown - self.chain), idle

    def left(
        self, engine: Engine, request: Array, chained: Array, event: Array, leaves: Array
    ) -> tuple["PrefixGroups", Array]:
        """The groups after one sequence has let go of its prefix, and the blocks that this leaves idle.

        Args:
          chained: its blocks that are in chains.
          event: number of this event.
          leaves: bool, whether it happens.
        """
        here = (jnp.arange(self.chain.shape[0], dtype=jnp.int32) == _group_of(engine, request)) & leaves
        users = self.users - whole(here)
        # The last user leaves: its prefix stays in the cache, but may be evicted.
        idle = total_of(jnp.where(here & (users == 0), self.chain, 0))
        return PrefixGroups(self.chain, users, jnp.where(here, event, self.used)), idle

    def shortened(self, engine: Engine, request: Array, chained: Array, happens: Array) -> tuple["PrefixGroups", Array]:
        """The groups after a sequence has given up the blocks of its chain that are not its own, and their number."""
        here = (jnp.arange(self.chain.shape[0], dtype=jnp.int32) == _group_of(engine, request)) & happens
        chain = jnp.where(here, jnp.minimum(self.chain, chained), self.chain)
        return self._replace(chain=chain), total_of(self.chain - chain)

    def evicted(self, missing: Array) -> tuple["PrefixGroups", Array]:
        """The groups without blocks of the idle prefix that was used longest ago, at most `missing`; their number."""
        candidates = (self.users == 0) & (self.chain > 0)
        # LRU: the prefix that was used longest ago goes first.
        oldest = jnp.min(jnp.where(candidates, self.used, NEVER))
        here = candidates & (self.used == oldest)
        # No more than what is missing: a chain is cut from its end, so its beginning stays usable.
        taken = jnp.minimum(total_of(jnp.where(here, self.chain, 0)), missing)
        return self._replace(chain=self.chain - jnp.where(here, taken, 0)), taken


def _group_of(engine: Engine, request: Array) -> Array:
    """The group whose prefix a request shares; -1: none, or nothing is cached."""
    return jnp.where(engine.caching, entry(engine.group, request), -1)
