"""Streams drawn from distributions: what they promise, in words that are read, and reproducibly."""

import numpy as np
import pytest

from tests.stream_checks import COLUMNS, lawful
from workloads.streams.arrivals import parse_arrivals
from workloads.streams.lengths import parse_lengths, parse_prefixes
from workloads.streams.sessions import parse_sessions
from workloads.streams.stream import numbered
from workloads.streams.streams import first, generated, mean_rate, summary, with_rate


def drawn(words, count=100_000):
    return parse_lengths(words).drawn(np.random.Generator(np.random.PCG64(1)), count)


@pytest.mark.parametrize(
    ("words", "mean", "low", "high"),
    [
        ("1024", 1024, 1024, 1024),
        ("uniform:128..2048", 1088, 128, 2048),  # (128 + 2048) / 2
        ("128..2048", 1088, 128, 2048),
        ("normal:mean=1000,std=100", 1000, 500, 1500),
        ("lognormal:mean=1024,sigma=0.8", 1024, 1, 1e5),
        ("lognormal:mean=1000,std=500", 1000, 1, 1e5),
        ("lognormal:p50=700,sigma=0.5", 793.2, 1, 1e5),  # 700 exp(0.5^2 / 2)
        ("lognormal:mean=1000,p50=800", 1000, 1, 1e5),
        ("pareto:low=100,high=10000,alpha=2", 198.0, 100, 10000),  # 2 * 100 (1 - 1/100) / (1 - 1/100^2) = 198.02
        ("zipf:1..4,1", 1.92, 1, 4),  # 4 / (1 + 1/2 + 1/3 + 1/4)
        ("vllm-range:tokens=1000,ratio=0.2", 1000, 800, 1200),
        ("sglang-range:tokens=1000,ratio=0.5", 750, 500, 1000),
    ],
)
def test_lengths_have_the_mean_and_the_bounds_of_their_distribution(words, mean, low, high):
    found = drawn(words)
    assert found.min() >= low and found.max() <= high
    assert np.array_equal(found, np.floor(found))
    assert found.mean() == pytest.approx(mean, rel=0.02)  # 100,000 draws; the widest has a deviation of 0.3 % of it


def test_percentiles_of_a_lognormal_are_those_that_were_asked_for():
    found = drawn("lognormal:p50=700,p99=8000")
    assert np.percentile(found, [50, 99]) == pytest.approx([700, 8000], rel=0.04)  # of 1,000 draws above the last
    assert np.percentile(drawn("lognormal:mean=1000,p99=4000"), 99) == pytest.approx(4000, rel=0.04)


def test_a_normal_is_cut_and_not_piled_up():
    found = drawn("normal:mean=10,std=20,max=30")
    assert found.min() == 1 and found.max() == 30
    assert (found == 1).mean() < 0.04  # clipped, a third would be 1


@pytest.mark.parametrize("words", ["uniform:1..9", "7", "lognormal:mean=5,sigma=1,max=20", "pareto:1,9,1.5"])
def test_words_of_lengths_read_back(words):
    assert parse_lengths(parse_lengths(words).text) == parse_lengths(words)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("lognorml:mean=3", "did you mean lognormal"),
        ("uniform:20..3", "low is 20, above high, 3"),
        ("normal:mean=10", "normal needs std"),
        ("normal:mean=10,sdt=2", "did you mean std"),
        ("lognormal:mean=10", "takes mean or p50, and one of"),
        ("lognormal:p50=100,p99=50", "takes mean or p50, and one of"),
        ("fixed:0", "tokens is 0; it must be a whole number from 1"),
        ("1.5", "tokens is 1.5; it must be a whole number"),
        ("fixed:nan", "tokens is nan"),
        ("", "fixed needs tokens"),
        ("uniform:3..x", "high is x"),
        ("1,2", "one value too many"),
        ("uniform:low=1,low=2,high=3", "low is given twice"),
        ("normal:mean=1000,std=1,max=10", "max is 10, under the middle"),
    ],
)
def test_wrong_lengths_are_one_line(words, said):
    with pytest.raises(ValueError, match=".") as error:
        parse_lengths(words)
    assert said in str(error.value) and "\n" not in str(error.value)


def test_arrivals_that_are_not_random():
    even = generated("constant:4", 1, 1, requests=5)
    assert even.arrival.tolist() == [0, 0.25, 0.5, 0.75, 1.0]
    assert generated("interval:0.5", 1, 1, duration=2).arrival.tolist() == [0, 0.5, 1.0, 1.5]
    assert generated("once", 1, 1, requests=3).arrival.tolist() == [0, 0, 0]
    stages = generated("stages:2x2,0x10,4x1,cv=0", 1, 1)
    assert stages.arrival == pytest.approx([0, 0.5, 1.0, 1.5, 12.0, 12.25, 12.5, 12.75], abs=1e-9)
    bursts = generated("onoff:rate=2,on=1,off=9,cv=0", 1, 1, requests=4)
    assert bursts.arrival.tolist() == [0, 0.5, 10, 10.5]


@pytest.mark.parametrize(
    ("words", "rate", "burstiness"), [("8", 8, 1), ("gamma:rate=8,cv=3", 8, 3), ("gamma:8,0.5", 8, 0.5)]
)
def test_random_arrivals_have_their_rate_and_burstiness(words, rate, burstiness):
    found = summary(lawful(generated(words, 1, 1, requests=100_000)))
    assert found.rate == pytest.approx(rate, rel=0.03)  # cv / sqrt(100,000) = 1 % at most
    assert found.burstiness == pytest.approx(burstiness, rel=0.05)


@pytest.mark.parametrize("words", ["poisson:4", "gamma:rate=4,cv=3", "gamma:rate=4,cv=0.5"])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_number_of_requests_comes_at_exactly_its_rate(words, seed):
    assert mean_rate(generated(words, 10, 10, requests=50, seed=seed)) == pytest.approx(4.0, rel=1e-12)


def test_stages_and_bursts_have_their_counts():
    stages = generated("stages:100x60,0x10,300x30", 1, 1)
    counts = np.histogram(stages.arrival, [0, 60, 70, 100])[0]
    assert counts == pytest.approx([6000, 0, 9000], abs=400)  # four deviations of 9,000
    bursts = generated("onoff:rate=100,on=1,off=9", 1, 1, duration=100)
    assert len(bursts) == pytest.approx(1000, abs=130) and (bursts.arrival % 10 < 1).all()


def test_a_duration_gives_as_many_as_arrive():
    found = generated("100", 1, 1, duration=50)
    assert found.arrival[-1] < 50 and len(found) == pytest.approx(5000, abs=290)


@pytest.mark.parametrize("words", ["8", "gamma:8,2", "once", "interval:0.1", "stages:8x60,16x30,cv=2"])
def test_words_of_arrivals_read_back(words):
    assert parse_arrivals(parse_arrivals(words).text) == parse_arrivals(words)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("poison:8", "did you mean poisson"),
        ("poisson:0", "rate is 0; it must be a number from 1e-09 to 1000000"),
        ("-8", "rate is -8"),
        ("gamma:8", "gamma needs cv"),
        ("stages:8", "'8' is not a stage"),
        ("stages:0x5", "no stage has requests"),
        ("stages:8x60,cw=2", "did you mean cv"),
        ("stages:8x-1", "the time of a stage is -1"),
    ],
)
def test_wrong_arrivals_are_one_line(words, said):
    with pytest.raises(ValueError, match=".") as error:
        parse_arrivals(words)
    assert said in str(error.value) and "\n" not in str(error.value)


def test_the_same_seed_is_the_same_stream_and_another_is_not():
    words = ("gamma:4,2", "lognormal:mean=100,sigma=1", "1..50")
    kinds = {"requests": 200, "prefixes": "groups=5,tokens=10..99,zipf=1", "sessions": "turns=1..4,think=5"}
    one, same, other = (lawful(generated(*words, **kinds, seed=seed)) for seed in (3, 3, 4))
    for name in COLUMNS:
        assert np.array_equal(getattr(one, name), getattr(same, name))
    assert not np.array_equal(one.isl, other.isl)
    assert one.source.endswith("seed 3") and "gamma:rate=4,cv=2" in one.source


def test_system_prompts_are_shared_after_their_first_request():
    found = lawful(generated("once", 7, 1, requests=1000, prefixes="groups=3,tokens=100,zipf=2"))
    assert set(found.isl) == {107.0} and found.group.max() == 2
    assert found.shared.sum() == 100 * (1000 - 3)
    sizes = np.sort(np.bincount(found.group))[::-1] / 1000
    assert sizes == pytest.approx(np.array([36, 9, 4]) / 49, abs=0.06)  # 1, 1/4, 1/9; four deviations


def test_turns_of_a_conversation_begin_with_all_that_was_said():
    found = lawful(generated("1", 10, 5, requests=3, sessions="turns=3,think=0"))
    # think 0: the turns of the first conversation come first and at once
    assert found.isl.tolist() == [10, 25, 40]  # (10 + 5) more each turn
    assert found.shared.tolist() == [0, 15, 30]
    assert found.group.tolist() == [0, 0, 0] and len(set(found.arrival)) == 1


def test_a_conversation_with_a_system_prompt_has_both():
    found = lawful(generated("1", 10, 5, requests=4, prefixes="groups=1,tokens=100", sessions="turns=2,think=0"))
    assert found.isl.tolist() == [110, 125, 110, 125]
    assert found.shared.tolist() == [0, 115, 100, 115]
    # The system prompt is group 0, the conversations branch off from it behind its 100 tokens.
    assert found.group.tolist() == [1, 1, 2, 2]
    assert found.parent.tolist() == [-1, 0, 0] and found.base.tolist() == [0, 100, 100]


@pytest.mark.parametrize(
    ("parse", "words", "said"),
    [
        (parse_prefixes, "groups=2", "tokens is missing"),
        (parse_prefixes, "groups=0,tokens=5", "groups is 0"),
        (parse_prefixes, "groups=2,tokens=5,zpif=1", "did you mean zipf"),
        (parse_sessions, "turns=2", "think is missing"),
        (parse_sessions, "turns=2..99999,think=1", "at most 10000"),
        (parse_sessions, "turns=2,think=-1", "think is -1"),
    ],
)
def test_wrong_prefixes_and_sessions_are_one_line(parse, words, said):
    with pytest.raises(ValueError, match=".") as error:
        parse(words)
    assert said in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"requests": 0}, "requests is 0"),
        ({"requests": 10**9}, "from 1 to 50000000"),
        ({}, "must be given"),
        ({"duration": -1.0}, "duration is -1"),
        ({"duration": 1e-9}, "no request arrives"),
        ({"requests": 5, "seed": -1}, "seed is -1"),
        ({"requests": 100, "sessions": "turns=9999,think=1", "isl": "10000"}, "a prompt grows to"),
    ],
)
def test_wrong_arguments_are_one_line(arguments, said):
    with pytest.raises(ValueError, match=".") as error:
        generated(**{"arrivals": "8", "isl": "1", "osl": "1", **arguments})
    assert said in str(error.value) and "\n" not in str(error.value)


def test_stages_that_end_too_early_are_refused():
    with pytest.raises(ValueError, match="ends after .* requests, before the 100"):
        generated("stages:1x5", 1, 1, requests=100)


def test_scaled_to_a_rate():
    found = with_rate(generated("constant:4", 1, 1, requests=9), 8.0)
    assert mean_rate(found) == pytest.approx(8.0) and found.arrival[-1] == pytest.approx(1.0)
    assert "scaled by 0.5" in found.notes[-1]
    for rate in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="positive number"):
            with_rate(found, rate)
    with pytest.raises(ValueError, match="no rate to scale"):
        with_rate(generated("once", 1, 1, requests=3), 8.0)


def test_the_first_requests():
    whole = generated("8", "1..9", 1, requests=10, prefixes="groups=3,tokens=5")
    cut = lawful(first(whole, 4))
    assert len(cut) == 4 and cut.notes == ("the first 4 of 10 requests",)
    assert first(whole, 10) is whole
    for wrong in (0, 11, -1):
        with pytest.raises(ValueError, match="ask for 1 to 10"):
            first(whole, wrong)


def test_groups_are_numbered_by_appearance():
    keys = np.array([7, -1, 3, 7, 5, 3, -1, -1])
    assert numbered(keys).tolist() == [0, -1, 1, 0, -1, 1, -1, -1]
    assert numbered(np.array([], int)).tolist() == []


def test_a_summary_by_hand():
    stream = with_rate(generated("constant:1", 100, 10, requests=5, prefixes="groups=1,tokens=100"), 1.0)
    found = summary(stream)
    assert (found.requests, found.duration, found.rate, found.burstiness) == (5, 4.0, 1.0, 0.0)
    assert found.isl.mean == found.isl.max == 200 and found.osl.total == 50
    assert found.cacheable == pytest.approx(400 / 1000)  # 100 of 200, but not of the first
    assert (found.groups, found.grouped) == (1, 1.0)
    assert (found.branches, found.waiting) == (0, 0.0) and np.isnan(found.pause)
    # Two conversations of two turns behind one system prompt: half of the requests wait.
    talks = {"prefixes": "groups=1,tokens=100", "sessions": "turns=2,think=1,wait=1"}
    turns = summary(generated("once", 10, 5, requests=4, **talks))
    assert (turns.groups, turns.branches, turns.grouped, turns.waiting) == (1, 2, 1.0, 0.5)
    alone = summary(generated("once", 1, 1, requests=1))
    assert np.isnan([alone.rate, alone.burstiness]).all() and alone.groups == 0
