"""Prefix trees of streams against explicit lists of tokens, and turns that wait for answers."""

import dataclasses

import numpy as np
import pytest

from tests.stream_checks import lawful
from workloads.streams.stream import NONE, Stream, kept, padded, part, sessions_of, traffic
from workloads.streams.streams import first, with_rate
from workloads.streams.tree import ALONE, MOST_LEVELS, branches


def common(one, other) -> int:
    """Tokens with which two lists begin alike."""
    length = min(len(one), len(other))
    return next((place for place in range(length) if one[place] != other[place]), length)


def drawn(seed: int, requests: int = 60, nodes: int = 25, deepest: int = MOST_LEVELS):
    """Tokens of prompt and output of every request, their prompts' lengths, and the nodes that they were drawn from."""
    rng = np.random.Generator(np.random.PCG64(seed))
    parent, base, depth, texts = [], [], [], []
    for node in range(nodes):
        above = int(rng.integers(-1, node)) if node else -1
        above = -1 if above >= 0 and depth[above] + 1 >= deepest else above
        start = 0 if above < 0 else int(rng.integers(base[above] + 1, len(texts[above]) + 1))
        parent.append(above)
        base.append(start)
        depth.append(0 if above < 0 else depth[above] + 1)
        own = [1000 * (node + 1) + place for place in range(int(rng.integers(1, 30)))]
        texts.append((texts[above][:start] if above >= 0 else []) + own)
    node = rng.integers(-1, nodes, requests)
    along, tokens, isl = np.zeros(requests), [], np.zeros(requests)
    for request in range(requests):
        text = texts[node[request]] if node[request] >= 0 else []
        along[request] = rng.integers(base[node[request]] + 1, len(text) + 1) if text else 0
        # Behind what lies along the path, tokens of this request alone.
        own = [-1000 * (request + 1) - place for place in range(int(rng.integers(2, 9)))]
        tokens.append(text[: int(along[request])] + own)
        isl[request] = rng.integers(1, len(tokens[-1]))
    return tokens, isl, node, np.array(parent), np.array(base, float), along


def streamed(seed: int, **sizes):
    """A drawn stream, its tokens, and what its prompts share by a comparison of all of them."""
    tokens, isl, node, parent, base, along = drawn(seed, **sizes)
    ends = np.array([len(one) for one in tokens], float)
    shared = np.array(
        [
            max((common(tokens[request][: int(isl[request])], tokens[before]) for before in range(request)), default=0)
            for request in range(len(tokens))
        ],
        float,
    )
    found = branches(node, parent, base, shared, ends, along)
    columns = {"along": found.along, "parent": found.parent, "base": found.base}
    osl = ends - isl
    return (
        Stream("x", np.arange(len(isl)) * 1.0, isl, osl, found.group, found.shared, "test", **columns),
        tokens,
        shared,
    )


@pytest.mark.parametrize("seed", range(30))
def test_a_tree_says_what_a_comparison_of_all_tokens_says(seed):
    stream, tokens, shared = streamed(seed)
    lawful(stream)
    assert np.array_equal(stream.shared, shared)
    prompts = [one[: int(isl)] for one, isl in zip(tokens, stream.isl, strict=True)]
    later = [
        max((common(tokens[request][:-1], prompt) for prompt in prompts[request + 1 :]), default=0)
        for request in range(len(tokens))
    ]
    assert kept(stream).tolist() == later


@pytest.mark.parametrize("seed", range(5))
def test_a_part_of_a_tree_is_the_tree_of_the_part(seed):
    stream, tokens, _ = streamed(seed)
    chosen = np.random.Generator(np.random.PCG64(seed)).random(len(stream)) < 0.6
    left = part(stream, chosen)
    lawful(left)
    places = np.flatnonzero(chosen)
    prompts = [tokens[place][: int(stream.isl[place])] for place in places]
    for request, place in enumerate(places):
        earlier = (common(prompts[request], tokens[before]) for before in places[:request])
        assert left.shared[request] == max(earlier, default=0)
        later = max((common(tokens[place][:-1], prompt) for prompt in prompts[request + 1 :]), default=0)
        assert kept(left)[request] == later
    lawful(first(stream, 20))


def test_what_lies_too_deep_is_not_shared():
    stream, _, shared = streamed(3, nodes=60, requests=200, deepest=20)
    lawful(stream)
    assert (stream.shared <= shared).all()
    # A chain of nodes, each of two requests: those of the last two are cut at the beginning of the ninth.
    levels = MOST_LEVELS + 2
    node, base = np.repeat(np.arange(levels), 2), np.arange(levels) * 10.0
    shared = np.where(np.arange(2 * levels) % 2, base[node] + 10.0, base[node])
    found = branches(node, np.arange(levels) - 1, base, shared, np.full(2 * levels, 500.0))
    assert found.group.tolist()[-6:] == [MOST_LEVELS - 1] * 6 and found.cut == 4
    assert found.shared.tolist()[-6:] == [70.0, 80.0, 80.0, 80.0, 80.0, 80.0]


def test_two_conversations_under_one_system_prompt():
    """100 tokens of system prompt; turns of 10 + 5. A single request of a third user is of the system prompt alone."""
    node, parent, base = np.array([1, 2, 1, 0, 2]), np.array([-1, 0, 0]), np.array([0.0, 100.0, 100.0])
    isl, osl = np.array([110.0, 110.0, 125.0, 110.0, 125.0]), np.full(5, 5.0)
    found = branches(node, parent, base, np.array([0.0, 100.0, 115.0, 100.0, 115.0]), isl + osl)
    stream = Stream("x", np.arange(5.0), isl, osl, *found[:2], "test", parent=found.parent, base=found.base)
    lawful(stream)
    assert stream.group.tolist() == [1, 2, 1, 0, 2]
    assert stream.parent.tolist() == [-1, 0, 0] and stream.base.tolist() == [0, 100, 100]
    # First turns keep all but their last token (114 of 115); the second turn of the first keeps the system prompt.
    assert kept(stream).tolist() == [114, 114, 100, 100, 0]
    arrays = traffic(stream)
    assert arrays.path.tolist() == [[0, 1], [0, 2], [0, 1], [0, -1], [0, 2]]
    assert arrays.starts.tolist() == [[0, 100], [0, 100], [0, 100], [0, 115], [0, 100]]
    more = padded(arrays, 7)
    assert more.path.shape == more.starts.shape == (7, 2) and more.path[5:].tolist() == [[-1, -1]] * 2
    deeper = padded(arrays, 5, 3)
    assert deeper.path.tolist() == [[*path, -1] for path in arrays.path.tolist()]
    assert deeper.starts[:, 2].tolist() == (stream.isl + stream.osl).tolist()
    # Without the last two requests the second conversation has one request, and is no group.
    left = part(stream, np.array([True, True, True, False, False]))
    assert left.group.tolist() == [1, 0, 1] and left.shared.tolist() == [0, 100, 115]
    assert left.parent.tolist() == [-1, 0] and kept(left).tolist() == [114, 100, 0]
    # A system prompt of one conversation alone is one group with it.
    assert part(stream, np.array([True, False, True, False, False])).parent is None


TURNS = Stream(
    "turns",
    np.array([0.0, 1.0, 2.0, 3.0, 4.0]),
    np.full(5, 8.0),
    np.full(5, 4.0),
    np.full(5, ALONE, np.int32),
    np.zeros(5),
    "test",
    after=np.array([NONE, NONE, 0, 1, 2], np.int32),
    pause=np.array([0.0, 0.0, 2.0, 2.0, 2.0]),
    priority=np.arange(5.0),
)


def test_turns_of_a_part_whose_predecessors_are_left_out_are_first_ones():
    left = part(TURNS, np.array([True, False, True, True, True]))
    assert left.after.tolist() == [NONE, 0, NONE, 1] and left.pause.tolist() == [0, 2, 0, 2]
    assert left.arrival.tolist() == [0, 2, 3, 4] and left.priority.tolist() == [0, 2, 3, 4]
    assert part(TURNS, slice(2)).after is None and part(TURNS, slice(2)).pause is None
    assert first(TURNS, 3).after.tolist() == [NONE, NONE, 0]


def test_turns_at_another_rate_keep_their_pauses():
    faster = with_rate(TURNS, 2.0)
    assert faster.arrival.tolist() == [0, 0.5, 1.0, 1.5, 2.0] and faster.pause.tolist() == TURNS.pause.tolist()


def test_traffic_of_turns():
    arrays = traffic(TURNS)
    assert arrays.after.tolist() == [-1, -1, 0, 1, 2] and arrays.pause.tolist() == [0, 0, 2, 2, 2]
    assert arrays.opens is None and arrays.closes is None and arrays.path is None
    assert sessions_of(TURNS.after).tolist() == [0, 1, 0, 1, 0]
    held = padded(traffic(TURNS, clients=1), 6)
    assert held.opens.tolist() == [1, 1, 0, 0, 0, 0] and held.closes.tolist() == [0, 0, 0, 1, 1, 0]
    assert held.after.tolist() == [-1, -1, 0, 1, 2, -1]
    plain = traffic(dataclasses.replace(TURNS, after=None, pause=None, priority=None), clients=1)
    assert all(getattr(plain, name) is None for name in ("after", "pause", "opens", "closes", "priority", "path"))
