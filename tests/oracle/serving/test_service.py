"""The reference simulator of services: cases worked out by hand, a rule each."""

import dataclasses
import math

import pytest

from jaxroof.batch import Policy
from tests.oracle.serving import Server, Service, ServiceOutcome, serve_service
from tests.oracle.serving.jobs import FINISHED, REFUSED, REJECTED, Requests
from tests.oracle.serving.routers import hashed


def linear(batch, rows=None):
    """1 s a prompt token and 10 s a decoding sequence."""
    prompt = batch.prefill.tokens if batch.prefill else 0.0
    return prompt + 10.0 * (batch.decode.sequences if batch.decode else 0.0), 0.0


def server(role="whole", blocks=100, weight=1.0, pace=1.0, rate=math.inf, **fields) -> Server:
    """Prompts first, blocks of one token, no limit that binds."""
    first = {"order": 1.0, "block_size": 1.0, "token_budget": 100.0, "max_sequences": 8.0}
    queue = fields.pop("queue", "fcfs")
    policy = dataclasses.replace(Policy(**(first | fields)), queue=queue)
    return Server(policy, blocks, linear, role, weight=weight, pace=pace, rate=rate)


def requests(isl, osl=None, arrival=None, **columns) -> Requests:
    return Requests(arrival or [0.0] * len(isl), isl, osl or [1] * len(isl), **columns)


def served(asked, *engines, **words) -> ServiceOutcome:
    return serve_service(Service(asked, engines, **words))


# Routers. Where all arrive at 0 s, all are routed before the first step.


def test_round_robin():
    # 2 + 4 tokens in one engine, 3 + 5 in the other.
    out = served(requests([2, 3, 4, 5]), server(), server())
    assert out.engine == [0, 1, 0, 1]
    assert out.finish == [6.0, 8.0, 6.0, 8.0]


def test_a_hash_of_the_request():
    # 1 x 0x45d9f3b = 0x045d9f3b; its upper half is 0x045d, and 0x9f3b ^ 0x045d = 0x9b66.
    assert hashed(0, 0) == 0x045D9B66
    out = served(requests([1] * 20), *[server()] * 3, router="random", seed=7)
    assert out.engine == [hashed(r, 7) % 3 for r in range(20)] and len(set(out.engine)) == 3


def test_a_session_stays_with_its_engine():
    nodes = [[0, 1], [0, 2], [0, 1], [-1, -1], [3, -1], [0, 2]]
    asked = requests([4] * 6, nodes=nodes, starts=[[0, 2]] * 6)
    out = served(asked, *[server()] * 5, router="session", seed=3)
    keys = [1_000_004, 1_000_005, 1_000_004, 3, 1_000_006, 1_000_005]
    assert out.engine == [hashed(key, 3) % 5 for key in keys]


def test_least_requests_by_weight():
    # 0 and 0: the first; 1 and 0; 1 and 1/2; 1 and 1: the first again; 2 and 1.
    out = served(requests([1] * 5), server(), server(weight=2.0), router="least_requests")
    assert out.engine == [0, 1, 1, 0, 1]


def test_least_tokens():
    # 0 and 0; 10 and 0; 10 and 3; 10 and 7; 10 and 11.
    out = served(requests([10, 3, 4, 4, 1]), server(), server(), router="least_tokens")
    assert out.engine == [0, 1, 1, 1, 0]


@pytest.mark.parametrize(
    ("weights", "weight", "engine"), [((1.0, 1.0), 1.0, 1), ((1.3, 1.0), 1.0, 0), ((0.5, 1.0), 4.0, 0)]
)
def test_prefix_against_load(weights, weight, engine):
    # At 26 s the first engine has 8 of 10 tokens, and one request, the most of all: 0.8 w_prefix - w_load against 0. At
    # four times the speed that is a quarter of a request, below the least that counts as the most: 0.4 - 0.25.
    asked = requests([8, 5, 10], [2, 1, 1], [0.0, 25.0, 26.0], group=[0, -1, 0], shared=[0, 0, 8], keep=[8, 0, 8])
    out = served(asked, server(weight=weight), server(), router="prefix", weights=weights)
    assert out.engine == [0, 0, engine]
    assert out.cached == [0, 0, 8 if engine == 0 else 0]


def test_slo_counts_queues_and_hits():
    # Prompts of 4 at paces 1 and 3: 4 against 12; 8 against 12; 12 and 12, the first; 16 against 12.
    out = served(requests([4] * 4), server(), server(pace=3.0), router="slo")
    assert out.engine == [0, 0, 0, 1]
    # 20 against 30; 40 against 30; at 200 s both are idle and 9 of 10 tokens are in the second one: 10 against 1.5.
    asked = requests([20, 20, 10], arrival=[0.0, 0.0, 200.0], group=[1, 0, 0], shared=[0, 0, 9], keep=[0, 9, 0])
    out = served(asked, server(), server(pace=1.5), router="slo")
    assert out.engine == [0, 1, 1] and out.cached[2] == 9
    # The first one is worked on at 1 s and waits no longer: 4 against 6.
    out = served(requests([4, 4], arrival=[0.0, 1.0]), server(), server(pace=1.5), router="slo")
    assert out.engine == [0, 0]


def test_the_less_loaded_of_two_engines_at_random():
    # Hashes of requests 0 to 5 stand for engines 0 1, 1 2, 0 1, 0 2, 0 1 and 0 2: of equals the first one.
    out = served(requests([1] * 6), *[server()] * 3, router="power_of_two")
    assert [(hashed(r, 0) % 3, hashed(r, 0) // 3 % 2) for r in range(3)] == [(0, 0), (2, 1), (1, 1)]
    assert out.engine == [0, 1, 0, 2, 1, 2]


def test_a_router_counts_those_in_a_step_until_its_end():
    # The first engine's step ends at 5 s; at 5 s the second request has ended before the third one is routed.
    out = served(requests([5, 5, 1], arrival=[0.0, 1.0, 5.0]), server(), server(), router="least_requests")
    assert out.engine == [0, 1, 0]
    out = served(requests([5, 5, 1], arrival=[0.0, 1.0, 4.9]), server(), server(weight=2.0), router="least_requests")
    assert out.engine == [0, 1, 1]


# Time.


def test_a_delivery_takes_its_delay():
    # Delivered at 3 s; the second one at 4 s, in the step that ends at 5 s.
    out = served(requests([2, 2], arrival=[0.0, 1.0]), server(), delay=3.0)
    assert (out.arrival, out.admitted, out.finish) == ([0.0, 1.0], [3.0, 5.0], [5.0, 7.0])


def test_a_turn_waits_for_its_answer():
    # Answer at 2 + 10 = 12 s, 3 s of thought, 1 s under way each time: 1 s, 13 s; 16 s, 17 s.
    asked = requests([2, 4, 1], [2, 1, 1], after=[-1, 0, 1], pause=[0.0, 3.0, 0.0])
    out = served(asked, server(), delay=1.0)
    assert (out.arrival, out.admitted, out.finish) == ([0.0, 16.0, 21.0], [1.0, 17.0, 22.0], [13.0, 21.0, 23.0])


def test_a_turn_without_a_pause_is_there_at_the_instant_of_the_answer():
    # 2 s, then the turn of 3 tokens joins the third request, of 1 token, which came at 1 s.
    out = served(requests([2, 3, 1], arrival=[0.0, 0.0, 1.0], after=[-1, 0, -1], pause=[0.0] * 3), server())
    assert (out.admitted, out.finish) == ([0.0, 2.0, 2.0], [2.0, 6.0, 6.0])


def test_whoever_waits_for_a_refused_or_rejected_one():
    # 11 tokens never fit in 10 blocks; one may wait: the fourth is rejected at 1 s; the others follow 2 s after.
    asked = requests(
        [10, 3, 1, 1, 1, 1],
        arrival=[0.0, 0.0, 0.5, 1.0, 0.0, 0.0],
        after=[-1, -1, -1, -1, 0, 3],
        pause=[0.0, 0.0, 0.0, 0.0, 2.0, 4.0],
    )
    out = served(asked, server(blocks=10, max_waiting=1.0))
    assert out.status == [REFUSED, FINISHED, FINISHED, REJECTED, REJECTED, FINISHED]
    assert out.arrival == [0.0, 0.0, 0.5, 1.0, 2.0, 5.0]
    assert out.finish[1:3] == [3.0, 4.0] and out.finish[5] == 6.0


# Queues and prefix trees.


def test_priority():
    # One at a time: the first in, then the lowest priorities, equal ones as they came.
    asked = requests([2, 2, 2, 2], arrival=[0.0, 1.0, 1.0, 1.0], priority=[3, 2, 1, 1])
    out = served(asked, server(max_sequences=1.0, queue="priority"))
    assert out.admitted == [0.0, 6.0, 2.0, 4.0]


# Blocks of 2. The root is said by all; node 1 and node 2 branch off after 5 of its tokens, in its third block.
BRANCH = {"nodes": [[0, 1], [0, 2], [0, 2], [0, -1]], "starts": [[0, 5]] * 4}


def test_a_branch_shares_what_comes_before_it():
    # The second shares 5 tokens, two blocks, with the first; the third shares 8 with the second, four blocks; the
    # fourth shares 5 with all of them, two blocks.
    asked = requests([9] * 4, arrival=[0.0, 20.0, 40.0, 60.0], shared=[0, 5, 8, 5], keep=[5, 8, 5, 0], **BRANCH)
    out = served(asked, server(block_size=2.0))
    assert out.cached == [0, 4, 8, 4]
    assert [step.prompt_tokens for step in out.steps[0]] == [9, 5, 1, 5]


def test_the_deepest_node_of_one_event_is_evicted_first():
    # 9 blocks. Two of the root and two of node 2 stay after 9 s. Then 13 tokens, 7 blocks, take two: those of node 2,
    # so that the last one finds the root.
    asked = requests(
        [9, 13, 9], arrival=[0.0, 20.0, 40.0], shared=[0, 0, 8], keep=[8, 0, 0],
        nodes=[[0, 2], [-1, -1], [0, 2]], starts=[[0, 5], [0, 0], [0, 5]],
    )  # fmt: skip
    out = served(asked, server(block_size=2.0, blocks=9))
    assert out.cached == [0, 0, 4] and out.counts["evicted"] == 2


@pytest.mark.parametrize("child", [-1, 1])
def test_a_node_that_is_not_held_may_go(child):
    # 10 blocks of one token. The first leaves 3 of the root and 3 of its child. The second shares the root alone,
    # whether or not it begins a child, and needs 6 more blocks, of which 4 are free: the child loses two. The last one
    # finds 3 and 1.
    asked = requests(
        [6, 9, 6], arrival=[0.0, 20.0, 40.0], shared=[0, 3, 6], keep=[6, 3, 0],
        nodes=[[0, 1], [0, child], [0, 1]], starts=[[0, 3]] * 3,
    )  # fmt: skip
    out = served(asked, server(blocks=10))
    assert out.counts["evicted"] == 2
    assert out.cached == [0, 3, 4]


def test_what_is_behind_a_gap_is_not_found():
    # As above, but the second shares 1 token and needs 8 more blocks: alone, it cuts the root to 1, and then, with 6
    # free, the child to 1. The last one finds the root's token, but not the child's, two tokens behind it.
    asked = requests(
        [6, 9, 6], arrival=[0.0, 20.0, 40.0], shared=[0, 1, 6], keep=[6, 1, 0],
        nodes=[[0, 1], [0, -1], [0, 1]], starts=[[0, 3]] * 3,
    )  # fmt: skip
    out = served(asked, server(blocks=10))
    assert (out.counts["shortened"], out.counts["evicted"]) == (2, 2)
    assert out.cached == [0, 1, 1]


# Pools. 2 tokens/s and 1 s: the cache of 4 tokens takes 3 s.


@pytest.mark.parametrize(("layers", "latency", "ready"), [(0, 1.0, 7.0), (4, 1.0, 4.75), (4, 9.0, 11.0)])
def test_a_hand_over(layers, latency, ready):
    # The prompt is complete at 4 s. Whole: 3 s more. Layer by layer: a quarter of 3 s, since 4 s of work are longer
    # than the rest; or of 11 s those 4 s less. Then two more tokens, 10 s each.
    pools = server("prefill", rate=2.0), server("decode", rate=5.0)
    out = served(requests([4], [3]), *pools, layers=layers, transfer_latency=latency)
    assert (out.engine, out.decode_engine) == ([0], [1])
    assert (out.admitted, out.first_token, out.finish) == ([0.0], [ready], [ready + 20.0])
    assert [(step.prompt_tokens, step.decoding) for step in out.steps[1]] == [(0, 1), (0, 1)]


def test_one_cache_after_the_other():
    # Both prompts are complete at 6 s; 3 s for the first, then 2 s for the second, which joins the first one's second
    # step: 9 to 19 s alone, 19 to 39 s both, 39 to 49 s the second alone.
    out = served(requests([4, 2], [3, 3]), server("prefill", rate=2.0), server("decode"), transfer_latency=1.0)
    assert out.first_token == [9.0, 11.0]
    assert out.finish == [39.0, 49.0]


def test_links_of_both_ends_are_busy():
    # As above with two engines of decode: the prefill engine's link is one, the second leaves at 9 s.
    out = served(
        requests([4, 2], [2, 2]), server("prefill", rate=2.0), server("decode"), server("decode"), transfer_latency=1.0
    )
    assert (out.decode_engine, out.first_token, out.finish) == ([1, 2], [9.0, 11.0], [19.0, 21.0])


def test_prompts_of_one_step_are_handed_over_as_they_were_numbered():
    # The second one, which is shorter, is admitted first; the first one still has the first turn, and the link.
    pools = server("prefill", rate=2.0, queue="shortest_first"), server("decode"), server("decode")
    out = served(requests([4, 2], [2, 2]), *pools, transfer_latency=1.0)
    assert (out.decode_engine, out.first_token) == ([1, 2], [9.0, 11.0])


def test_one_token_needs_no_hand_over():
    out = served(requests([4, 3], [1, 2]), server("prefill"), server("decode"))
    assert (out.decode_engine, out.finish) == ([-1, 1], [7.0, 17.0])
    assert out.counts["handed_over"] == 1


def test_no_place_to_decode_keeps_prompts_waiting():
    # The engine of decode has one slot. The first prompt, complete at 4 s, takes it until 17 s. The second one, from 4
    # to 8 s, holds 4 of 9 blocks until it is sent, from 17 to 20 s. The third one needs 6, and has them then.
    out = served(
        requests([4, 4, 6], [2, 2, 1], arrival=[0.0, 1.0, 2.0]),
        server("prefill", blocks=9, rate=2.0),
        server("decode", max_sequences=1.0),
        transfer_latency=1.0,
    )
    assert [step.start for step in out.steps[0]] == [0.0, 4.0, 20.0]
    assert out.first_token == [7.0, 20.0, 26.0] and out.finish == [17.0, 30.0, 26.0]


def test_a_cache_under_way_takes_a_slot():
    # Two slots. All prompts are complete at 6 s; the first two caches are there at 8 and 10 s. The first decodes from 8
    # to 18 s and ends; then the third is sent, until 20 s. The second decodes from 18 to 28 s, with the third until 48
    # s, and alone until 58 s.
    out = served(requests([2, 2, 2], [2, 4, 2]), server("prefill", rate=1.0), server("decode", max_sequences=2.0))
    assert out.first_token == [8.0, 10.0, 20.0]
    assert out.finish == [18.0, 58.0, 48.0]


def test_a_limit_of_what_decodes_is_none_of_prompts():
    # As above, by a limit that all engines have: the first one computes all three prompts at once.
    pools = server("prefill", rate=1.0, decode_sequences=2.0), server("decode", decode_sequences=2.0)
    out = served(requests([2, 2, 2], [2, 4, 2]), *pools)
    assert out.first_token == [8.0, 10.0, 20.0] and out.finish == [18.0, 58.0, 48.0]


def test_a_sequence_makes_room_for_caches_under_way():
    # 8 blocks to decode in, and 30 s for a cache. The first one, there at 33 s, decodes with 4 blocks and, from 43 s,
    # with 5. The second one's cache, under way from 33 to 63 s, holds 3. At 53 s the first one has no block for its
    # third step: it is preempted with 3 tokens out. At 63 s the second decodes, with 4 blocks until 73 s, and the first
    # one needs 6. It comes back at 73 s: 6 tokens, with its fourth at 79 s, and its fifth at 89 s.
    asked = requests([3, 3], [5, 2], arrival=[0.0, 10.0])
    out = served(asked, server("prefill", rate=0.1), server("decode", blocks=8))
    assert out.first_token == [33.0, 63.0]
    assert out.preemptions == [1, 0]
    assert out.finish == [89.0, 73.0]


def test_refusal_in_pools():
    # 9 + 1 tokens fit in the prefill engine, 10 + 1 do not; 12 fit in the last engine, 13 in none. Those of decode take
    # turns: the third request has one to choose from, and the last one, the second to be handed over, has two.
    pools = server("prefill", blocks=10), server("decode", blocks=8), server("decode", blocks=12)
    out = served(requests([9, 10, 9, 9, 3], [1, 1, 3, 4, 2]), *pools)
    assert out.status == [FINISHED, REFUSED, FINISHED, REFUSED, FINISHED]
    assert out.decode_engine == [-1, -1, 2, -1, 2]


def test_a_prompt_leaves_its_prefix_when_its_cache_has_gone():
    # The first one's cache is sent from 4 to 8 s, and the second one finds its 3 tokens at 5 s. Of the 5 tokens that a
    # later one begins with, the prefill engine has 4: the fifth is an output token.
    asked = requests([4, 6, 6], [3, 1, 1], [0.0, 5.0, 50.0], group=[0, 0, 0], shared=[0, 3, 5], keep=[5, 4, 0])
    out = served(asked, server("prefill", rate=1.0), server("decode"))
    assert out.cached == [0, 3, 4]


def test_requests_whose_first_token_would_come_late_are_rejected():
    # At 1 s per token 4 s, 8 s and 12 s are expected of the first three at 0 s; 10 s is the limit. At 6 s the second is
    # under way and nothing waits: 4 s are expected.
    asked = requests([4, 4, 4, 4], arrival=[0.0, 0.0, 0.0, 6.0])
    out = served(asked, server(max_sequences=1.0), admission=[10.0] * 4)
    assert out.status == [FINISHED, FINISHED, REJECTED, FINISHED]
    assert out.finish[3] == 12.0
    # A limit of its own for each; one that is met exactly is kept.
    out = served(asked, server(max_sequences=1.0), admission=[4.0, 7.9, 8.0, 3.9])
    assert out.status == [FINISHED, REJECTED, FINISHED, REJECTED]
    # A prompt in the cache takes less: 20 tokens that wait and 1 of 10, against 30.
    cached = requests([20, 20, 10], arrival=[0.0, 200.0, 200.0], group=[-1, -1, -1])
    out = served(cached, server(prefix_caching=1.0), admission=[25.0] * 3)
    assert out.status == [FINISHED, FINISHED, REJECTED]
    cached = requests([20, 20, 10], arrival=[0.0, 200.0, 200.0], group=[0, 1, 0], shared=[0, 0, 9], keep=[9, 0, 0])
    out = served(cached, server(prefix_caching=1.0), admission=[25.0] * 3)
    assert out.status == [FINISHED, FINISHED, FINISHED]
