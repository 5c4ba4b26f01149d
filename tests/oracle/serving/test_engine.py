"""The reference simulator itself: cases worked out by hand, what always holds, and a queue with a formula."""

import math
import random

import pytest

from jaxroof.batch import STATUSES, Policy
from tests.oracle.serving import serve
from tests.oracle.serving.jobs import FINISHED, REFUSED, REJECTED, UNFINISHED, Requests
from tests.oracle.serving.random_engines import case, keep_of, toy_price

CASES = 100


def linear(batch, rows=None):
    """1 s a prompt token and 10 s a decoding sequence, so that times can be worked out in the head."""
    prompt = batch.prefill.tokens if batch.prefill else 0.0
    return prompt + 10.0 * (batch.decode.sequences if batch.decode else 0.0), 0.0


def policy(**fields) -> Policy:
    """Prompts first, blocks of one token, no limit that binds."""
    first = {"order": 1.0, "block_size": 1.0, "token_budget": 100.0, "max_sequences": 8.0}
    return Policy(**(first | fields))


def requests(isl, osl, arrival=None, group=None, shared=None) -> Requests:
    keep = None if group is None else keep_of(isl, osl, group, shared)
    return Requests([0.0] * len(isl) if arrival is None else arrival, isl, osl, group, shared, keep)


def work(outcome) -> list[tuple[int, int, float]]:
    """Prompt tokens, decoding sequences and duration of every step."""
    return [(step.prompt_tokens, step.decoding, step.end - step.start) for step in outcome.steps]


def batches(requests, policy, blocks, **kwargs) -> list:
    """(batch, rows) of every step."""
    seen = []

    def price(batch, rows=None):
        seen.append((batch, rows))
        return linear(batch)

    serve(price, requests, policy, blocks, **kwargs)
    return seen


def test_a_chunked_prompt_fills_the_budget():
    # 10 prompt tokens in steps of 4, then two more tokens.
    out = serve(linear, requests([10], [3]), policy(order=0.0, token_budget=4.0), 100)
    assert work(out) == [(4, 0, 4.0), (4, 0, 4.0), (2, 0, 2.0), (0, 1, 10.0), (0, 1, 10.0)]
    assert (out.admitted, out.first_token, out.finish) == ([0.0], [10.0], [30.0])


def test_decoding_sequences_take_from_the_budget():
    # 2 + 2 tokens; 1 decoding + 3; 1 decoding + the last 2; both decode and end.
    two = requests([2, 7], [4, 2])
    out = serve(linear, two, policy(order=0.0, token_budget=4.0), 100)
    assert work(out) == [(4, 0, 4.0), (3, 1, 13.0), (2, 1, 12.0), (0, 2, 20.0)]
    assert (out.admitted, out.first_token, out.finish) == ([0.0, 0.0], [4.0, 29.0], [49.0, 49.0])
    # Whole: the second prompt waits for a step that it can have to itself, and is above the budget there.
    out = serve(linear, two, policy(order=0.0, token_budget=4.0, chunked=0.0), 100)
    assert work(out) == [(2, 0, 2.0), (7, 1, 17.0), (0, 2, 20.0), (0, 1, 10.0)]


def test_a_batch_is_its_sums():
    # Chunks of 2 and 2 are two sequences; 3 on top of 2 is one; 2 + 4 tokens are 36 / 20 alike ones.
    seen = batches(requests([2, 5], [2, 1]), policy(order=0.0, token_budget=4.0), 100)
    assert [(b.prefill.sequences, b.prefill.tokens, b.prefill.past, b.logits) for b, _ in seen] == [
        (2.0, 4.0, 0.0, 1.0),
        (1.0, 3.0, 2.0, 2.0),
    ]
    assert (seen[1][0].decode.sequences, seen[1][0].decode.context) == (1.0, 3.0)
    ((batch, _),) = batches(requests([2, 4], [1, 1]), policy(), 100)
    assert (batch.prefill.sequences, batch.decode, batch.logits) == (1.8, None, 2.0)


@pytest.mark.parametrize(("queue", "admitted"), [("fcfs", [0.0, 5.0, 6.0]), ("shortest_first", [4.0, 0.0, 1.0])])
def test_who_is_next(queue, admitted):
    out = serve(linear, requests([5, 1, 3], [1, 1, 1]), policy(max_sequences=1.0, queue=queue), 100)
    assert out.admitted == admitted


TIGHT = requests([3, 3], [4, 4])
"""On 10 blocks of a token: both hold 5 tokens after two decode steps, and neither can have a sixth."""


def test_preemption_by_recomputation():
    # At 46 s the later one goes, with 3 of 4 tokens out; at 56 s it works on 3 + 3 tokens, and its last one comes.
    out = serve(linear, TIGHT, policy(), 10)
    assert work(out) == [(6, 0, 6.0), (0, 2, 20.0), (0, 2, 20.0), (0, 1, 10.0), (6, 0, 6.0)]
    assert (out.first_token, out.finish, out.preemptions) == ([6.0, 6.0], [56.0, 62.0], [0, 1])
    assert [step.blocks for step in out.steps] == [6, 8, 10, 6, 6]


def test_preemption_by_swapping():
    # The 5 tokens in the cache go out at 46 s and come back at 58.5 s, half a second each; no prompt work.
    out = serve(linear, TIGHT, policy(swap=1.0, swap_time=0.5), 10)
    assert work(out) == [(6, 0, 6.0), (0, 2, 20.0), (0, 2, 20.0), (0, 1, 12.5), (0, 1, 12.5)]
    assert (out.finish, out.preemptions) == ([58.5, 71.0], [0, 1])
    assert [step.blocks for step in out.steps] == [6, 8, 10, 6, 6]


def test_a_mixed_step_swaps_in_and_decodes_at_once():
    # As above, but prompts count as steps of the counter and the waiting third joins the step of the swapped one.
    three = requests([3, 3, 2], [4, 4, 1], arrival=[0.0, 0.0, 50.0])
    out = serve(linear, three, policy(order=0.0, swap=1.0, swap_time=0.5), 10)
    assert work(out) == [(6, 0, 6.0), (0, 2, 20.0), (0, 2, 20.0), (0, 1, 12.5), (2, 1, 14.5)]
    assert out.finish == [58.5, 73.0, 73.0]


def test_a_partial_prompt_is_preempted_first():
    # 12 blocks: the second holds 9 for its prompt from the start, the first grows until it takes them at 17 s. There
    # is no place for 9 beside it, so it ends alone at 57 s; then 4 + 4 + 1 tokens.
    out = serve(linear, requests([2, 9], [6, 1]), policy(order=0.0, token_budget=4.0), 12)
    assert [step.prompt_tokens for step in out.steps] == [4, 3, 0, 0, 0, 0, 4, 4, 1]
    assert (out.admitted, out.first_token, out.finish) == ([0.0, 0.0], [4.0, 66.0], [57.0, 66.0])
    assert out.preemptions == [0, 1] and out.counts["preempted_partial"] == 1


@pytest.mark.parametrize(("watermark", "prompts"), [(0.2, [8]), (0.3, [4, 4])])
def test_an_admission_leaves_the_watermark(watermark, prompts):
    # 10 blocks, 4 taken: 4 more leave 2.
    out = serve(linear, requests([4, 4], [1, 1]), policy(watermark=watermark), 10)
    assert [step.prompt_tokens for step in out.steps] == prompts


def test_what_runs_alone_may_go_below_the_watermark():
    assert serve(linear, requests([9], [1]), policy(watermark=0.3), 10).finish == [9.0]


def test_reservation_prevents_preemption():
    # 7 of 10 blocks are taken for the first one's output, so that the second waits for its end.
    out = serve(linear, TIGHT, policy(reserve=1.0), 10)
    assert work(out) == 2 * [(3, 0, 3.0), (0, 1, 10.0), (0, 1, 10.0), (0, 1, 10.0)]
    assert out.preemptions == [0, 0]
    assert [step.blocks for step in out.steps] == 8 * [7]


@pytest.mark.parametrize(("caching", "cached"), [(1.0, 8), (0.0, 0)])
def test_a_prompt_that_begins_like_an_earlier_one(caching, cached):
    # 9 shared tokens are two whole blocks of 4.
    two = requests([10, 10], [1, 1], arrival=[0.0, 20.0], group=[0, 0], shared=[0, 9])
    seen = batches(two, policy(block_size=4.0, prefix_caching=caching), 100)
    assert [(b.prefill.tokens, b.prefill.past) for b, _ in seen] == [(10.0, 0.0), (10.0 - cached, cached)]
    assert serve(linear, two, policy(block_size=4.0, prefix_caching=caching), 100).cached == [0, cached]


def test_the_last_prompt_token_is_never_cached():
    # All 8 tokens are there, but one has to be worked on for the next, and with it its block.
    two = requests([8, 8], [1, 1], arrival=[0.0, 20.0], group=[0, 0], shared=[0, 8])
    assert serve(linear, two, policy(block_size=4.0), 100).cached == [0, 4]


def test_a_conversation_keeps_its_output():
    # 3 + 6 tokens were said before the second turn; all but the last are in the cache, and blocks of 4 hold these 8.
    two = requests([3, 10], [6, 1], arrival=[0.0, 100.0], group=[0, 0], shared=[0, 8])
    out = serve(linear, two, policy(block_size=4.0), 100)
    assert out.cached == [0, 8] and work(out)[-1] == (2, 0, 2.0)


@pytest.mark.parametrize(
    ("touched", "isl", "cached"),
    [
        (0, 5, [0, 3]),  # 3 blocks are missing: the first group, which was touched first, loses all it has
        (0, 4, [1, 3]),  # 2: it keeps one
        (1, 5, [3, 0]),  # it was touched again, so that the second one loses its blocks
    ],
)
def test_the_prefix_that_was_touched_first_is_evicted(touched, isl, cached):
    # 8 blocks: two groups leave 3 each; a request of another kind needs `isl`; then both come again.
    group = [0, 1, *([0] * touched), -1, 0, 1]
    lengths = [4, 4, *([4] * touched), isl, 4, 4]
    shared = [0, 0, *([3] * touched), 0, 3, 3]
    arrival = [100.0 * i for i in range(len(group))]
    out = serve(linear, requests(lengths, [1] * len(group), arrival, group, shared), policy(), 8)
    if touched:  # the first of the two again has evicted nothing, the second finds nothing
        assert out.cached[2] == 3
    assert out.cached[-2:] == cached


def test_a_static_batch_keeps_its_size():
    # 2 tokens out of the first and 4 of the second: the first is carried along with its 4 tokens of context.
    three = requests([2, 2, 2], [2, 4, 1], arrival=[0.0, 0.0, 10.0])
    seen = batches(three, policy(order=3.0), 100)
    sums = [(b.decode.sequences, b.decode.context, b.logits) for b, _ in seen if b.decode]
    assert sums == [(2.0, 6.0, 2.0), (2.0, 8.0, 2.0), (2.0, 9.0, 2.0)]
    out = serve(linear, three, policy(order=3.0), 100)
    assert work(out) == [(4, 0, 4.0), (0, 2, 20.0), (0, 1, 20.0), (0, 1, 20.0), (2, 0, 2.0)]
    out = serve(linear, three, policy(order=2.0), 100)
    assert work(out) == [(4, 0, 4.0), (0, 2, 20.0), (0, 1, 10.0), (0, 1, 10.0), (2, 0, 2.0)]


@pytest.mark.parametrize(("order", "admitted"), [(1.0, [0.0, 2.0, 14.0]), (2.0, [0.0, 2.0, 24.0])])
def test_decoding_first_lets_prompts_in_until_the_first_decode_step(order, admitted):
    # The second comes while the first one's prompt is worked on, the third in a decode step from 4 to 14 s.
    out = serve(linear, requests([2, 2, 2], [3, 1, 1], arrival=[0.0, 1.0, 5.0]), policy(order=order), 100)
    assert out.admitted == admitted


def test_clients_think():
    out = serve(linear, requests([2] * 5, [1] * 5), policy(), 100, clients=2, think=3.0)
    assert out.arrival == [0.0, 0.0, 7.0, 7.0, 14.0]
    assert out.finish == [4.0, 4.0, 11.0, 11.0, 16.0]


def test_clients_that_do_not_think():
    out = serve(linear, requests([2] * 3, [1] * 3), policy(), 100, clients=1)
    assert (out.arrival, out.finish) == ([0.0, 2.0, 4.0], [2.0, 4.0, 6.0])


def test_a_full_queue_rejects():
    # The first runs until 5 s; the second waits; the third finds one that waits.
    out = serve(linear, requests([5, 1, 1], [1] * 3, [0.0, 1.0, 1.5]), policy(max_waiting=1.0), 100)
    assert out.status == [FINISHED, FINISHED, REJECTED]
    assert math.isnan(out.admitted[2]) and math.isnan(out.finish[2])


def test_a_rejected_client_tries_again():
    # At 0 s one of three may wait, at 5 s one of two; the first one's answer at 2 s brings another at 7 s.
    one = policy(max_waiting=1.0, max_sequences=1.0)
    out = serve(linear, requests([2] * 6, [1] * 6), one, 100, clients=3, think=5.0)
    assert out.status == [FINISHED, REJECTED, REJECTED, FINISHED, REJECTED, FINISHED]
    assert out.arrival == [0.0, 0.0, 0.0, 5.0, 5.0, 7.0]


@pytest.mark.parametrize("clients", [0, 1])
def test_what_can_never_fit_is_refused(clients):
    # 17 tokens are 5 blocks of 4; a client's first request is the first that fits.
    out = serve(linear, requests([16, 15, 3], [1, 1, 1]), policy(block_size=4.0), 4, clients=clients)
    assert out.status == [REFUSED, FINISHED, FINISHED]
    assert out.arrival[1:] == ([0.0, 15.0] if clients else [0.0, 0.0]) and math.isnan(out.arrival[0])


def test_nothing_happens_between_requests():
    out = serve(linear, requests([2, 3], [1, 1], [1.0, 100.0]), policy(), 100)
    assert [(step.start, step.end) for step in out.steps] == [(1.0, 3.0), (100.0, 103.0)]


def test_a_step_takes_the_device_and_what_its_host_adds():
    assert serve(lambda batch, rows=None: (4.0, 3.0), requests([3], [1]), policy(), 10).finish == [7.0]


def test_decode_steps_are_padded_to_captured_graphs():
    # 1 to 9 sequences, one fewer every step; multiples of 3 above 4, and nothing above 8. Prompts never.
    nine = requests([1] * 9, list(range(2, 11)))
    graphs = policy(max_sequences=9.0, graph_step=3.0, graph_limit=8.0)
    assert [rows for _, rows in batches(nine, graphs, 100)] == [None, None, 9, 9, 6, 6, 4, 4, 2, 1]


@pytest.fixture(scope="module")
def served():
    """Random cases and what became of them."""
    found = []
    for seed in range(CASES):
        asked, rules, blocks, clients, think = case(seed)
        found.append((asked, rules, blocks, clients, serve(toy_price, asked, rules, blocks, clients, think)))
    return found


def test_random_cases_reach_every_rule(served):
    reached = {name: sum(out.counts[name] > 0 for *_, out in served) for name in served[0][-1].counts}
    assert reached["finished"] == CASES
    for name in ("preempted", "evicted", "swapped_in", "jumps", "refused", "rejected"):
        assert reached[name] >= CASES // 10, name
    assert reached["preempted_partial"] >= 2


def test_every_request_comes_to_an_end(served):
    """The exception: a head that has no place even alone beside the idle chain of its own group, which is never cut."""
    for asked, rules, blocks, _, out in served:
        size = int(rules.block_size)
        refused = [-(-int(i + o) // size) > blocks for i, o in zip(asked.isl, asked.osl, strict=True)]
        assert [status == REFUSED for status in out.status] == refused
        assert rules.max_waiting < math.inf or REJECTED not in out.status
        assert UNFINISHED not in out.status or out.counts["kept_out"]
        assert sum(out.counts[name] for name in STATUSES) == len(out.status)


def test_time_runs_forward(served):
    for _, _, _, _, out in served:
        for step, after in zip(out.steps, out.steps[1:], strict=False):
            assert step.start < step.end <= after.start
        columns = zip(out.status, out.arrival, out.admitted, out.first_token, out.finish, strict=True)
        for status, arrival, admitted, first_token, finish in columns:
            if status == FINISHED:
                assert arrival <= admitted < first_token <= finish
            if status in (REFUSED, REJECTED):
                assert math.isnan(admitted) and math.isnan(first_token) and math.isnan(finish)


def test_tokens_are_conserved(served):
    for asked, rules, _, _, out in served:
        if UNFINISHED in out.status:
            continue
        answered = [i for i, status in enumerate(out.status) if status == FINISHED]
        if rules.order != 3.0:  # where padding samples too
            assert sum(step.logits for step in out.steps) == sum(asked.osl[i] for i in answered)
        worked = sum(step.prompt_tokens for step in out.steps)
        if not any(out.preemptions):
            assert worked == sum(asked.isl[i] - out.cached[i] for i in answered)
        assert sum(out.preemptions) == out.counts["preempted"] + out.counts["preempted_partial"]


def test_limits_are_kept(served):
    for _, rules, blocks, _, out in served:
        assert all(step.blocks <= blocks for step in out.steps)
        assert all(step.decoding <= rules.max_sequences for step in out.steps)
        if rules.chunked and rules.order == 0.0:
            assert all(
                step.prompt_tokens + step.decoding <= max(rules.token_budget, step.decoding) for step in out.steps
            )


def test_the_engine_is_idle_only_where_nobody_is_there(served):
    for *_, out in served:
        if out.counts["unfinished"]:
            continue
        ends = [(a, f) for a, f, s in zip(out.arrival, out.finish, out.status, strict=True) if s == FINISHED]
        for step, after in zip(out.steps, out.steps[1:], strict=False):
            if after.start > step.end:
                assert not any(arrival <= step.end < finish for arrival, finish in ends)
                assert any(arrival == after.start for arrival, _ in ends)


def test_closed_loops_have_their_clients(served):
    for _, _, _, clients, out in served:
        if clients:
            there = [(a, f) for a, f, s in zip(out.arrival, out.finish, out.status, strict=True) if s == FINISHED]
            for step in out.steps:
                assert sum(arrival <= step.start < finish for arrival, finish in there) <= clients


def test_one_server_with_constant_service():
    """M/D/1: Lindley's recursion to the bit, and Pollaczek and Khinchine's mean wait rho / (2 (1 - rho)) service."""
    rng, service, rho, count = random.Random(1), 3.0, 0.6, 20_000
    arrival, clock = [], 0.0
    for _ in range(count):
        clock += rng.expovariate(rho / service)
        arrival.append(clock)
    out = serve(linear, requests([3] * count, [1] * count, arrival), policy(max_sequences=1.0), 100)
    free, waits = 0.0, []
    for i in range(count):
        start = max(arrival[i], free)
        free = start + service
        waits.append(start - arrival[i])
        assert (out.admitted[i], out.first_token[i], out.finish[i]) == (start, free, free)
    parts = [sum(waits[i : i + 1000]) / 1000 for i in range(0, count, 1000)]  # long enough to be nearly independent
    mean = sum(parts) / len(parts)
    error = math.sqrt(sum((part - mean) ** 2 for part in parts) / (len(parts) - 1) / len(parts))
    assert abs(mean - rho / (2.0 * (1.0 - rho)) * service) < 3.0 * error
    assert error < 0.05 * mean
