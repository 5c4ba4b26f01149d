"""Tiers below the cache in the reference simulator: cases worked out by hand, a rule each."""

import dataclasses

from tests.oracle.serving.jobs import Requests
from tests.oracle.serving.test_service import served, server
from tests.oracle.serving.tiers import Level, Tier, Tiers
from tests.oracle.serving.tree import Tree, path


def asked(groups, isl, arrival) -> Requests:
    """Prompts of groups that begin alike in all but the last token; one token of output each."""
    alike = [length - 1 for length in isl]
    count = len(isl)
    nodes, starts = [[group] for group in groups], [[0]] * count
    return Requests(arrival, isl, [1] * count, shared=alike, keep=alike, nodes=nodes, starts=starts)


def cached(blocks, *tiers, **fields):
    """An engine of 1 s a prompt token, with blocks of one token."""
    return dataclasses.replace(server(blocks=blocks, prefix_caching=1.0, **fields), tiers=tiers)


A_B_A = ([0, 1, 0], [6, 6, 6], [0.0, 10.0, 20.0])
"""Prompts of which the third begins as the first; of 8 blocks, the second takes those of the first."""


def test_without_tiers_an_evicted_prefix_is_computed_again():
    # 5 + 2 blocks at most stay; group 1 takes 7 of the 8, so that group 0 keeps 1 of its 5.
    out = served(asked(*A_B_A), cached(8))
    assert out.cached[2] < 5 and out.loaded == [[], [], []]


def test_an_evicted_prefix_is_loaded_from_the_tier_that_it_went_to():
    # 5 blocks of group 0; group 1 needs 6, has 8 - 5 = 3, and evicts 3. The chain of 5 goes down as it was.
    level = Level(100, bandwidth=6.0, latency=0.5, through=False)
    out = served(asked(*A_B_A), cached(8, level))
    assert out.cached == [0, 0, 5] and out.loaded == [[0], [0], [3]]
    # 0.5 s + 3 tokens / (6 tokens/s) + 1 s for the last token.
    assert out.first_token == [6.0, 16.0, 22.0]


def test_a_tier_that_is_written_through_has_it_at_once():
    out = served(asked(*A_B_A), cached(8, Level(100, bandwidth=6.0, latency=0.5)))
    assert out.loaded == [[0], [0], [3]] and out.first_token == [6.0, 16.0, 22.0]


def test_loads_run_beside_compute_as_far_as_they_overlap():
    # 1 s of loads beside 1 s of compute: max(1, 1), or half of it beside.
    for overlap, end in ((1.0, 21.0), (0.5, 21.5)):
        out = served(asked(*A_B_A), cached(8, Level(100, bandwidth=6.0, latency=0.5)), overlap=overlap)
        assert out.first_token[2] == end


def test_a_block_comes_from_the_first_tier_that_has_it():
    # The first tier has room for 4 blocks: written through, it has of group 0 none when 5 of group 1 have come; the
    # second one has all.
    tiers = Level(4, bandwidth=1.0), Level(100, bandwidth=3.0, latency=1.0)
    out = served(asked(*A_B_A), cached(8, *tiers))
    assert out.loaded[2] == [0, 3] and out.first_token[2] == 20.0 + (1.0 + 3 / 3.0) + 1.0


def test_what_a_tier_evicts_goes_to_the_next():
    # The chain of 5 goes to the first tier, which has room for 4, and keeps these: all 3 blocks come from there. With
    # room for 3 it gives the fifth and the fourth block to the second one.
    for capacity, loaded in ((4, [2, 1]), (3, [1, 2])):
        tiers = Level(capacity, through=False), Level(100, through=False)
        out = served(asked(*A_B_A), cached(8, *tiers))
        assert out.loaded[2] == loaded


def test_a_shared_tier_has_what_another_engine_wrote():
    # Two engines in turns: the second prompt of group 0 runs in the other one.
    level = Level(100, bandwidth=5.0, latency=1.0, shared=True)
    requests = asked([0, 0], [6, 6], [0.0, 10.0])
    out = served(requests, cached(8, level), cached(8, level))
    assert out.engine == [0, 1] and out.loaded == [[0], [5]] and out.first_token == [6.0, 10.0 + 2.0 + 1.0]
    own = dataclasses.replace(level, shared=False)
    assert served(requests, cached(8, own), cached(8, own)).loaded == [[0], [0]]


def test_routers_that_know_of_tiers_count_them():
    # Group 0 in the first engine, whose cache has 1 block of it left when group 1 has been there.
    requests = asked([0, 1, 1, 0], [6, 6, 6, 6], [0.0, 10.0, 20.0, 30.0])
    level = Level(100)
    engines = cached(6, level), cached(6, level)
    # Without load in the balance all go to the first engine with the most hits.
    for known in (True, False):
        out = served(requests, *engines, router="prefix", weights=(1.0, 0.0), tiers_known=known)
        assert out.engine == [0, 0, 0, 0]
    tiers = Tiers([level, Level(9, shared=True)], {})
    tree, way = Tree(), path([0], [0], 1)
    tree.grow(way, 5)
    tiers.used(tree, way, 5)
    tiers.changed()
    assert tiers.known(way, {}) == {0: 5} and tiers.known(way, {0: 7}) == {0: 7}


def test_the_node_that_was_used_longest_ago_goes_first_or_the_one_that_came_first():
    for eviction, left in (("lru", {0: 4, 1: 1, 2: 4}), ("fifo", {0: 1, 1: 4, 2: 4})):
        tier = Tier(Level(9, eviction=eviction))
        for use, node in enumerate((0, 1, 0, 2)):
            tier.put([(node, 0, 4)], use)
        while tier.evict():
            pass
        assert {node: there.chain for node, there in tier.nodes.items()} == left


def test_of_nodes_used_together_the_deepest_goes_first():
    tier = Tier(Level(6))
    tier.put([(7, 0, 4), (3, 1, 4)], 0)
    assert tier.evict() == (3, 1, 4) and tier.evict() is None
    assert (tier.chain(7), tier.chain(3)) == (4, 2)


def test_the_oldest_session_goes_first_and_what_younger_ones_share_stays():
    # A system prompt (0); talks 1 and 2 on it, a branch 3 of talk 1. Talk 1 is used last, and yet the branch makes it
    # younger than talk 2, which goes first; then the branch, talk 1 and the prompt. By use the branch goes
    # first, by coming talk 1 and the prompt.
    uses = [(0, 1), (0, 2), (0, 1, 3), (0, 2), (0, 1)]
    orders = {"session": [2, 3, 1, 0], "lru": [3, 2, 1, 0], "fifo": [1, 0, 2, 3]}
    for eviction, order in orders.items():
        tier = Tier(Level(0, eviction=eviction))
        for use, nodes in enumerate(uses):
            tier.put([(node, depth, 4) for depth, node in enumerate(nodes)], use)
        gone = iter(tier.evict, None)
        assert [node for node, _, _ in gone] == order, eviction


def test_loads_take_the_longer_of_cache_and_tiers_node_by_node():
    # A root of 4 blocks, of which the cache has 1 and the tier 4; then a node of which the cache has 3 and the tier 2.
    tree, way = Tree(), path([0, 1], [0, 4], 1)
    tree.node(way[0]).chain, tree.node(way[1]).chain = 1, 3
    tiers = Tiers([Level(100)], {})
    tiers.tiers[0].put([(0, 0, 4), (1, 1, 2)], 0)
    assert tree.present(way) == 1
    assert tiers.loads(tree, way, 100) == (7, (3,))
    assert tiers.loads(tree, way, 2) == (2, (1,))
