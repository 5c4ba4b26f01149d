"""The reference simulator of services: replicas that start and stop, cases worked out by hand."""

import math

import pytest

from tests.oracle.serving.scaling import Rule
from tests.oracle.serving.test_service import requests, served, server


def rule(signal="queue", target=2.0, least=1, most=3, every=10.0, start=5.0, idle=0.0) -> Rule:
    return Rule(signal, target, least, most, every, start, idle)


def one_by_one(**fields):
    """A replica that has one sequence at a time."""
    return server(max_sequences=1.0, **fields)


def test_a_replica_starts_for_a_queue_and_takes_what_comes_later():
    # Five prompts of 8 s at 0 s, all to the first replica. At 10 s, the second one under way, three wait: 1.5 -> 2
    # replicas, from 15 s on. What comes at 12 s goes to the first one, what comes at 15 s to the second, which is
    # empty. At 20 s two of the first five and the one of 12 s wait: two replicas still. At 30 s two wait, so that one
    # is enough.
    asked = requests([8] * 7, arrival=[0.0] * 5 + [12.0, 15.0])
    out = served(asked, *[one_by_one()] * 3, router="least_requests", scaling=rule())
    assert out.engine == [0, 0, 0, 0, 0, 0, 1]
    assert out.finish == [8.0, 16.0, 24.0, 32.0, 40.0, 48.0, 23.0]
    assert out.replicas == [2, 2, 1, 1]


def test_a_stopped_replica_ends_what_it_has_and_comes_back_at_once():
    # By rate, 0.2 /s and replica: 4 requests in 10 s are 2 replicas, one in the next 10 s is one. The second one,
    # ready at 15 s, has the prompt of 16 s until 56 s: it takes no request at 21 s. At 30 s, for 4 requests from 20 s
    # to 30 s, it comes back at once and takes the one of 31 s, as it has fewer requests; at 40 s it is stopped again.
    arrival = [0.0] * 4 + [16.0] + [21.0] * 4 + [31.0]
    asked = requests([1, 1, 1, 30, 40, 1, 1, 1, 1, 1], arrival=arrival)
    scaling = rule("rate", target=0.2, most=2)
    out = served(asked, *[one_by_one()] * 2, router="least_requests", scaling=scaling)
    assert out.engine == [0, 0, 0, 0, 1, 0, 0, 0, 0, 1]
    assert out.replicas[:4] == [2, 1, 2, 1]
    assert out.finish[4] == 56.0 and out.finish[9] == 57.0


def test_fewer_after_a_while_are_the_most_that_was_wanted_meanwhile():
    # 3 replicas at 10 s for 6 requests; then 3, 1, 0 requests in intervals of 10 s: at 20 s 2 are enough, at 30 s 1,
    # and after 30 s of it, at 40 s, the number is 2. At 70 s it is 1.
    arrival = [1.0] * 6 + [11.0] * 3 + [21.0, 75.0]
    scaling = rule("rate", target=0.2, start=0.0, idle=30.0)
    out = served(requests([1] * 11, arrival=arrival), *[one_by_one()] * 3, scaling=scaling)
    assert out.replicas == [3, 3, 3, 2, 2, 2, 1]
    # Without waiting the number follows the load.
    out = served(requests([1] * 11, arrival=arrival), *[one_by_one()] * 3, scaling=rule("rate", target=0.2))
    assert out.replicas == [3, 2, 1, 1, 1, 1, 1]


def test_tokens_of_a_queue():
    # At 10 s prompts of 20, 5 and 3 wait behind the first: 28 / 10 -> 3.
    asked = requests([12, 20, 5, 3], arrival=[0.0] * 4)
    out = served(asked, *[one_by_one()] * 3, scaling=rule("queue_tokens", target=10.0))
    assert out.replicas[0] == 3


def test_time_to_first_token():
    # First tokens at 4 s and 8 s: their mean is 6 s, two targets of 3 s. From 10 s to 20 s those of 12 s and 16 s,
    # with one replica that takes requests until 15 s and two at 20 s: 2 x 14 / 3 -> 3 at most. Then none came and
    # none waits.
    asked = requests([4, 4, 4, 4, 1], arrival=[0.0] * 4 + [100.0])
    scaling = rule("ttft", target=3.0)
    out = served(asked, *[one_by_one()] * 3, scaling=scaling)
    assert out.replicas == [2, 3, 1, 1, 1, 1, 1, 1, 1, 1]
    # A step of 25 s: at 10 s and at 20 s no first token has come, and one waits: the number stays.
    out = served(requests([25, 1]), *[one_by_one()] * 3, scaling=scaling)
    assert out.replicas == [1, 1]


@pytest.mark.parametrize("signal", ["queue", "rate"])
def test_a_rule_that_never_changes_the_number_changes_nothing(signal):
    asked = requests([3, 5, 7, 9] * 3, [4] * 12, arrival=[2.0 * i for i in range(12)])
    plain = served(asked, *[server()] * 2)
    same = served(asked, *[server()] * 2, scaling=rule(signal, least=2, most=2))
    assert same.finish == plain.finish and same.engine == plain.engine
    assert set(same.replicas) == {2} and not plain.replicas and not any(map(math.isnan, same.finish))


def test_a_replica_that_starts_has_an_empty_cache():
    # By rate, 3 requests in 10 s are two replicas: from 10 s on, also at 20 s, and again from 50 s on. All prompts
    # begin alike, and every second request goes to the second replica: the first one there finds nothing, the next one
    # 8 tokens. It is stopped at 30 s; when it has started at 50 s its cache is empty.
    arrival = [0.0, 1.0, 2.0, 11.0, 12.0, 13.0, 41.0, 42.0, 43.0, 51.0, 52.0, 53.0]
    count = len(arrival)
    asked = requests([9] * count, arrival=arrival, group=[0] * count, shared=[0] + [8] * (count - 1), keep=[8] * count)
    engines = [server(prefix_caching=1.0)] * 2
    out = served(asked, *engines, scaling=rule("rate", target=0.2, most=2, start=0.0))
    assert out.engine == [0, 0, 0, 1, 0, 1, 0, 0, 0, 1, 0, 1]
    assert out.replicas[:5] == [2, 2, 1, 1, 2]
    assert out.cached == [0, 8, 8, 0, 8, 8, 8, 8, 8, 0, 8, 8]
