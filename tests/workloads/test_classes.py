"""Streams of several classes of requests: shares, lengths, groups, and files that are refused by name."""

import numpy as np
import pytest

from workloads.streams.classes import classes_of, mixed, together
from workloads.streams.stream import part, traffic
from workloads.streams.streams import first, generated
from workloads.streams.tree import ALONE

CHAT = """
[chat]
share = 0.7
isl = 100
osl = "uniform:10..30"
prefixes = "groups=3,tokens=50"
[summaries]
share = 0.3
isl = 800
osl = 20
prefixes = "groups=2,tokens=40"
slo = "ttft=5s"
"""


@pytest.fixture
def written(tmp_path):
    def write(text):
        path = tmp_path / "chat.toml"
        path.write_text(text)
        return str(path)

    return write


@pytest.fixture
def classes(written):
    return classes_of(written(CHAT))


def test_a_file_says_what_its_classes_are(classes):
    chat, summaries = classes
    assert (chat.name, chat.share, chat.slo) == ("chat", 0.7, None)
    assert chat.text == "70 % chat (isl 100, osl uniform:low=10,high=30, prefixes groups=3,tokens=50,zipf=0)"
    assert (summaries.name, summaries.share, summaries.slo) == ("summaries", 0.3, "ttft=5s")


def test_every_class_has_its_share_and_its_lengths(classes):
    stream = mixed("poisson:4", classes, requests=1000, seed=3)
    assert np.bincount(stream.kind).tolist() == [700, 300]
    chat, summaries = (part(stream, stream.kind == kind) for kind in (0, 1))
    assert set(chat.isl) == {150.0} and set(summaries.isl) == {840.0}  # 100 + 50 and 800 + 40 of the system prompts
    assert chat.osl.min() == 10.0 and chat.osl.max() == 30.0 and set(summaries.osl) == {20.0}
    # 0.7 * 150 + 0.3 * 840
    assert stream.isl.mean() == pytest.approx(357.0)


def test_classes_arrive_as_streams_of_their_share_of_the_rate(classes):
    stream = mixed("poisson:4", classes, requests=40_000)
    for kind, rate in ((0, 2.8), (1, 1.2)):
        gaps = np.diff(stream.arrival[stream.kind == kind])
        assert gaps.mean() == pytest.approx(1.0 / rate, rel=0.03)  # 12,000 gaps or more: a deviation of 0.9 %
        assert gaps.std() / gaps.mean() == pytest.approx(1.0, abs=0.04)  # exponential


def test_classes_share_no_group_and_a_group_begins_with_a_request_that_shares_nothing(classes):
    stream = mixed(4, classes, requests=200)
    groups = [set(stream.group[stream.kind == kind]) - {ALONE} for kind in (0, 1)]
    assert [len(one) for one in groups] == [3, 2] and not groups[0] & groups[1]
    assert list(dict.fromkeys(stream.group.tolist())) == [0, 1, 2, 3, 4]
    for group in range(5):
        shared = stream.shared[stream.group == group]
        assert shared[0] == 0.0 and set(shared[1:]) == {50.0 if group in groups[0] else 40.0}


def test_a_class_draws_the_same_requests_whatever_the_other_is(classes, written):
    other = classes_of(written(CHAT.replace("isl = 800", "isl = 4000")))
    one, two = (mixed(4, these, requests=100, seed=5) for these in (classes, other))
    assert np.array_equal(one.kind, two.kind) and np.array_equal(one.arrival, two.arrival)
    assert np.array_equal(one.osl, two.osl) and not np.array_equal(one.isl, two.isl)
    again = mixed(4, classes, requests=100, seed=5)
    assert np.array_equal(one.isl, again.isl) and not np.array_equal(one.kind, mixed(4, classes, requests=100).kind)


def test_one_class_of_all_requests_is_a_stream_without_classes(written):
    (alone,) = classes_of(written('[all]\nshare = 1\nisl = 300\nosl = "uniform:1..9"\n'))
    stream, plain = mixed(4, [alone], requests=5000), generated(4, 300, "uniform:1..9", requests=5000)
    assert stream.osl.mean() == pytest.approx(plain.osl.mean(), rel=0.03)  # 5 with a deviation of 0.037
    assert set(stream.isl) == {300.0} and set(stream.group) == {ALONE}


def test_duration_arrivals_and_the_first_requests_keep_the_classes(classes):
    stream = mixed("stages:10x5,2x10", classes, duration=12.0)
    assert stream.arrival.max() < 12.0 and len(stream.kind) == len(stream)
    assert first(stream, 10).kind.tolist() == stream.kind[:10].tolist()
    found = traffic(stream, pad=200)
    assert found.kind[: len(stream)].tolist() == stream.kind.tolist() and set(found.kind[len(stream) :]) == {-1.0}


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("share = 0.3", "share = 0.4", "share: 0.7 (chat) + 0.4 (summaries) = 1.1; the shares of all classes must sum"),
        ("share = 0.3", 'share = "30%"', "summaries: share = '30%' must be a number above 0 and at most 1"),
        ("share = 0.3", "share = 0", "summaries: share = 0 must be a number above 0"),
        ("share = 0.3", "share = nan", "summaries: share = nan must be a number"),
        ("share = 0.3", "", "summaries: share is missing"),
        ("isl = 800", "", "summaries: isl is missing"),
        ("isl = 800", "isl = [800]", "summaries: isl = [800] must be a number or a text"),
        ("isl = 800", 'isl = "lognormall:mean=3"', "summaries: isl: 'lognormall:mean=3': 'lognormall' is not known"),
        ("isl = 800", "islen = 800", "summaries: there is no key islen; did you mean isl"),
        ("groups=2,", "", "summaries: prefixes: 'tokens=40': groups is missing"),
        ('slo = "ttft=5s"', "slo = 5", "summaries: slo = 5 must be a text such as"),
        ("[chat]", "chat = 3\n[other]", "chat = 3 must be a table"),
        ("[chat]", '["a b"]', "the class 'a b' must be letters"),
        (CHAT, "", "it has no classes"),
        ("[chat]", "[chat", "not TOML"),
    ],
)
def test_files_that_are_wrong_are_refused_by_name(written, old, new, words):
    assert old in CHAT
    path = written(CHAT.replace(old, new))
    with pytest.raises(ValueError) as error:
        classes_of(path)
    assert str(error.value).startswith(path) and words in str(error.value) and "\n" not in str(error.value)


def test_a_class_without_any_request_is_refused(classes):
    with pytest.raises(ValueError, match=r"summaries: share = 0.3 is none of 1 request; give more requests"):
        mixed(4, classes, requests=1)
    with pytest.raises(ValueError, match="no such file"):
        classes_of("nowhere.toml")


def test_a_class_may_go_first(written):
    found = classes_of(written(CHAT.replace('slo = "ttft=5s"', "priority = -2")))
    stream = mixed("poisson:4", found, requests=50)
    assert stream.priority.tolist() == np.where(stream.kind == 1, -2.0, 0.0).tolist()
    assert traffic(stream).priority.tolist() == stream.priority.tolist()
    assert mixed("poisson:4", classes_of(written(CHAT)), requests=50).priority is None
    for wrong in ("1.5", "true", "10000000"):
        with pytest.raises(ValueError, match="summaries: priority = .* must be a whole number; lower ones go first"):
            classes_of(written(CHAT.replace('slo = "ttft=5s"', f"priority = {wrong}")))


OWN = """
[chat]
rate = 6
isl = 1024
osl = 200
[night]
arrivals = "stages:2x50,10x50"
isl = 4000
osl = 100
priority = 1
"""


def test_classes_with_arrivals_of_their_own_come_independently(tmp_path):
    file = tmp_path / "own.toml"
    file.write_text(OWN)
    chat, night = classes_of(str(file))
    # 6 and (2 x 50 + 10 x 50) / 100 = 6 requests per s.
    assert (chat.share, night.share) == (0.5, 0.5)
    stream = together((chat, night), duration=100.0, seed=3)
    assert (np.diff(stream.arrival) >= 0.0).all() and stream.arrival[-1] < 100.0
    first = stream.arrival < 50.0
    for kind, early, late in ((0, 300, 300), (1, 100, 500)):
        here = stream.kind == kind
        # Six standard deviations of a Poisson number.
        assert abs(np.sum(here & first) - early) < 6 * early**0.5 and abs(np.sum(here & ~first) - late) < 6 * late**0.5
    assert set(stream.isl[stream.kind == 1]) == {4000.0} and set(stream.priority[stream.kind == 1]) == {1.0}
    # The first requests of both together; a class's own are the same whatever the number is, but for their times: a
    # given number of requests has its mean interval.
    some = together((chat, night), requests=100, seed=3)
    assert len(some) == 100 and set(some.kind) == {0, 1}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("rate = 6", "rate = 6\nshare = 0.5", "chat: share and rate both say how many requests come"),
        ("rate = 6", "share = 0.5", "chat: rate is missing: night has arrivals of its own"),
        ("rate = 6", "rate = 0", "chat: rate: "),
        ("rate = 6", "arrivals = 'once'", "chat: arrivals = 'once' has no rate"),
        ("rate = 6", "", "chat: share is missing"),
    ],
)
def test_arrivals_that_cannot_be_are_one_line(tmp_path, old, new, said):
    file = tmp_path / "own.toml"
    file.write_text(OWN.replace(old, new))
    with pytest.raises(ValueError, match=said) as error:
        classes_of(str(file))
    assert "\n" not in str(error.value)
