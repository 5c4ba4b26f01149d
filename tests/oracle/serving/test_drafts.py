"""Drafted tokens of the plain simulator: cases worked out by hand."""

import itertools
import math

import pytest

from jaxroof.batch import Policy
from tests.oracle.serving import serve
from tests.oracle.serving.drafts import Drafts, Table, uniform
from tests.oracle.serving.jobs import Requests


def second(batch, rows=None):
    """Every step takes 1 s."""
    return 1.0, 0.0


def verifying(batch, rows=None):
    """1 s a prompt token, and 10 s a decoding sequence and token that it works on."""
    prompt = batch.prefill.tokens if batch.prefill else 0.0
    return prompt + (10.0 * batch.decode.sequences * (1.0 + batch.decode.drafted) if batch.decode else 0.0), 0.0


def policy(**fields) -> Policy:
    return Policy(**({"block_size": 4.0, "token_budget": 100.0, "max_sequences": 8.0} | fields))


def right(chance: float, tokens: int = 3, **fields) -> Drafts:
    return Drafts(tokens, (chance,) * tokens, **fields)


def work(outcome) -> list[tuple[int, int, int]]:
    """Prompt tokens, decoding sequences and blocks in use of every step."""
    return [(step.prompt_tokens, step.decoding, step.blocks) for step in outcome.steps]


def test_drafts_that_are_all_right_come_four_at_a_time():
    # The prompt's step adds 1 of 10 tokens, then 4, 4 and the last one. 3 drafts behind contexts of 5, 9 and 13 write
    # 8, 12 and, of 14 tokens, the first 13.
    out = serve(second, Requests([0.0], [4], [10]), policy(), 100, drafts=right(1.0))
    assert work(out) == [(4, 0, 1), (0, 1, 2), (0, 1, 3), (0, 1, 4)]
    assert (out.first_token, out.finish) == ([1.0], [4.0])
    assert out.counts["right"] == 6  # of 9 tokens 3 are the model's own


def test_drafts_that_are_all_wrong_cost_blocks_and_time_alone():
    # Contexts 5 to 13 write up to 8, 9, ... 12 and then 13 tokens: blocks of wrong drafts stay.
    out = serve(verifying, Requests([0.0], [4], [10]), policy(), 100, drafts=right(0.0))
    assert work(out) == [(4, 0, 1), (0, 1, 2), *[(0, 1, 3)] * 4, *[(0, 1, 4)] * 4]
    assert out.finish == [4.0 + 9 * 40.0]


def test_nothing_is_drafted_where_more_sequences_decode_than_the_limit():
    # Both have 1 token; then one more each, plain; then the longer one's 6 others, 3 at a time.
    two = Requests([0.0, 0.0], [1, 1], [2, 8])
    out = serve(verifying, two, policy(), 100, drafts=right(1.0, tokens=2, limit=1.0))
    assert [(step.decoding, step.end - step.start) for step in out.steps] == [(0, 2.0), (2, 20.0), (1, 30.0), (1, 30.0)]
    assert out.finish == [22.0, 82.0]


def test_verified_tokens_take_from_the_budget():
    # One sequence decodes with 3 drafts: of 8 tokens 4 are left for the second prompt of 10.
    two = Requests([0.0, 0.5], [1, 10], [20, 1])
    out = serve(second, two, policy(token_budget=8.0), 100, drafts=right(0.0))
    assert [step.prompt_tokens for step in out.steps[:5]] == [1, 4, 4, 2, 0]


def test_a_sequence_without_room_for_its_drafts_is_preempted():
    # Of 3 blocks both prompts of 3 tokens take one each. Without drafts context 4 has room, 5 has not; 4 drafts write 7
    # tokens at once. Back with its 4 tokens in one block, the second has no room for its drafts again.
    two = Requests([0.0, 0.0], [3, 3], [5, 5])
    plain = serve(second, two, policy(), 3)
    assert [step.decoding for step in plain.steps[:3]] == [0, 2, 1]
    out = serve(second, two, policy(), 3, drafts=right(0.0, tokens=4))
    assert [step.decoding for step in out.steps[:3]] == [0, 1, 1]
    assert (plain.preemptions, out.preemptions) == ([0, 1], [0, 2])


def test_an_engine_that_drafts_no_tokens_is_one_without_drafts():
    two = Requests([0.0, 0.5], [3, 9], [9, 5])
    none = serve(second, two, policy(), 6, drafts=right(0.9, tokens=0))
    assert none == serve(second, two, policy(), 6)


def test_lengths_go_by_the_decoding_sequences():
    # 2 drafts with one sequence, none with two: both have 1 token, one more each, then the longer one's 6, 3 at a time.
    two = Requests([0.0, 0.0], [1, 1], [2, 8])
    own = right(1.0, tokens=2, lengths=((1.0, 2), (2.0, 0)))
    out = serve(verifying, two, policy(), 100, drafts=own)
    assert [(step.decoding, step.end - step.start) for step in out.steps] == [(0, 2.0), (2, 20.0), (1, 30.0), (1, 30.0)]


def test_what_is_not_found_is_not_drafted():
    one = Requests([0.0], [4], [10])
    never = serve(verifying, one, policy(), 100, drafts=right(1.0, match=0.0))
    assert never.finish == serve(verifying, one, policy(), 100, drafts=right(1.0, tokens=0)).finish == [4.0 + 9 * 10.0]
    # Found in some steps: those take 40 s and add 4 tokens, the others 10 s and one; 9 tokens after the first.
    some = serve(verifying, one, policy(), 100, drafts=right(1.0, match=0.5))
    times = [step.end - step.start for step in some.steps[1:]]
    assert set(times) == {10.0, 40.0} and some.counts["right"] == 9 - len(times)


def test_a_table_is_read_at_the_batch_and_the_context():
    # Right with certainty up to a context of 8, never from 9 on: contexts 5 and 9, then single tokens.
    table = Table([1.0], [8.0, 9.0], [[[1.0] * 3, [0.0] * 3]])
    out = serve(second, Requests([0.0], [4], [10]), policy(), 100, drafts=right(0.5, table=table))
    assert out.counts["right"] == 3 and out.finish == [1.0 + 1.0 + 5.0]
    assert Table([2.0, 4.0], [0.0, 10.0], [[[0.0], [1.0]], [[1.0], [0.0]]]).chances(3, 5) == [0.5]


def test_random_numbers_are_even():
    """Of 20,000 numbers each tenth of [0, 1) has 2,000, of standard deviation 42; neighbours are independent."""
    numbers = [uniform(7, request, produced) for request in range(100) for produced in range(200)]
    for tenth in range(10):
        assert sum(int(10 * number) == tenth for number in numbers) == pytest.approx(2000, abs=5 * 42)
    pairs = itertools.pairwise(numbers)
    # 1/4 of the mean product, with standard deviation 0.22 / sqrt(20000)
    assert math.fsum(a * b for a, b in pairs) / len(numbers) == pytest.approx(0.25, abs=5 * 0.0016)
