"""Cover of communication: nothing unless it is said, the product beside it, the other half of the batch."""

import dataclasses

import pytest

from jaxroof import Deployment, datasheet, decode, prefill, step_cost, step_time
from jaxroof.batch import Decode
from jaxroof.step.step import step_times
from tests.hand import EXACT

PROMPTS = prefill(4.0, 2000.0)


def times(chip, model, batch=PROMPTS, **split):
    found = step_times(chip, model, Deployment(tp=2.0, **split), batch, datasheet())
    return {name: float(time) for name, time in found.items()}


def sums(found) -> tuple[float, float]:
    """s of collectives and of kernels, what overlap hides and the host left out."""
    collectives = ("all_reduce", "all_gather", "reduce_scatter")
    communication = sum(time for name, time in found.items() if name.endswith(collectives))
    return communication, sum(found.values()) - communication - found.get("hidden", 0.0) - found["host"]


def test_nothing_hides_by_default(chip, dense):
    found = times(chip, dense)
    assert "hidden" not in found and found == times(chip, dense, overlap="none")
    assert sum(found.values()) == pytest.approx(
        float(step_time(chip, dense, Deployment(tp=2.0), PROMPTS, datasheet())), rel=EXACT
    )
    assert all(time >= 0.0 for time in found.values())


def test_two_halves_take_turns(chip, dense):
    """The longer of all kernels and all collectives remains, each of both halves together."""
    found = times(chip, dense, overlap="two_batch")
    communication, computation = sums(found)
    assert communication > 0.0
    assert -found["hidden"] == pytest.approx(min(communication, computation), rel=EXACT)
    assert sum(found.values()) == pytest.approx(max(communication, computation), rel=EXACT)
    # with links a thousand times as slow the kernels hide
    links = dataclasses.replace(chip.links.scale_up, bandwidth=chip.links.scale_up.bandwidth / 1e3)
    slow = dataclasses.replace(chip, links=dataclasses.replace(chip.links, scale_up=links))
    found = times(slow, dense, overlap="two_batch")
    communication, computation = sums(found)
    assert communication > computation and -found["hidden"] == pytest.approx(computation, rel=EXACT)


@pytest.mark.parametrize("kind", ["all_to_all", "low_latency", "all_gather"])
def test_two_halves_exchange_tokens_by_stages(chip, mixture, kind):
    """Of one block, whose layer all ops are: experts stand between dispatch and return, attention around them."""
    split = Deployment(attention_dp=4.0, ep=4.0, overlap="two_batch", exchange=kind)
    found = {name: float(time) for name, time in step_times(chip, mixture, split, PROMPTS, datasheet()).items()}
    there, back = ("dispatch_all_gather", "combine_reduce_scatter") if kind == "all_gather" else ("dispatch", "return")
    names = [name for name in found if name not in ("hidden", "host")]
    first, last = names.index(there), names.index(back)
    before, experts, after = (
        sum(found[name] for name in part) for part in (names[:first], names[first + 1 : last], names[last + 1 :])
    )
    d, r = found[there], found[back]
    if kind == "low_latency":
        expected = min(before + after, d + r)
    else:
        expected = (min(before, d) + min(experts, d) + min(experts, r) + min(before + after, r)) / 2
    assert -found["hidden"] == pytest.approx(expected, rel=1e-5)
    assert 0.0 < expected < d + r + before + experts + after


def test_two_halves_read_weights_twice(chip, dense):
    """Of 8 sequences 4 at a time: as much work, every weight moved twice."""
    whole, halves = (
        step_cost(chip, dense, Deployment(overlap=kind), decode(8.0, 100.0), datasheet())
        for kind in ("none", "two_batch")
    )
    assert float(halves["up_proj"].flops) == pytest.approx(float(whole["up_proj"].flops), rel=EXACT)
    more = float(halves["up_proj"].bytes) - float(whole["up_proj"].bytes)
    assert more == pytest.approx(4 * 6e6 * 2, rel=1e-5)


def test_reserved_cores(chip, dense):
    """A quarter of the cores for communication: products bound by the matrix units take a third longer."""
    free, kept = (times(chip, dense, overlap="two_batch", reserved_cores=share) for share in (0.0, 0.25))
    assert kept["up_proj"] == pytest.approx(free["up_proj"] / 0.75, rel=EXACT)
    assert kept["embedding"] == pytest.approx(free["embedding"], rel=EXACT)  # bound by memory
    assert times(chip, dense, reserved_cores=0.25) == times(chip, dense)  # nothing is reserved without overlap


def test_a_collective_behind_the_product_before_it(chip, dense):
    """All-reduces after o_proj and down_proj, three quarters of the shorter of the two; no product comes before the
    embedding's.
    """
    found = times(chip, dense, overlap="gemm")
    pairs = [("attention_all_reduce", "o_proj"), ("feedforward_all_reduce", "down_proj")]
    # the logits are gathered at the end, with nothing behind them
    hidden = sum(0.75 * min(found[collective], found[product]) for collective, product in pairs)
    assert -found["hidden"] == pytest.approx(hidden, rel=1e-5)


def test_halves_of_an_all_reduce(chip, dense):
    """Scattered behind the product before, gathered behind the one after: after the last layer's feed-forward that is
    the next layer's first product.
    """
    found = times(chip, dense, overlap="gemm", sequence_parallel=True)
    pairs = [
        ("attention_reduce_scatter", "o_proj"),
        ("attention_all_gather", "up_proj"),
        ("feedforward_reduce_scatter", "down_proj"),
        ("feedforward_all_gather", "qkv_proj"),
    ]
    hidden = sum(0.75 * min(found[collective], found[product]) for collective, product in pairs)
    # the embedding's gather, once before four layers, may hide too
    assert hidden <= -found["hidden"] * (1 + 1e-5) <= hidden + 0.75 * found["embedding_all_gather"] * (1 + 1e-5)


@pytest.mark.parametrize("kind", ["none", "gemm", "two_batch"])
def test_one_device_has_nothing_to_hide(chip, dense, kind):
    found = step_times(chip, dense, Deployment(overlap=kind), PROMPTS, datasheet())
    assert float(found.get("hidden", 0.0)) == 0.0


@pytest.mark.parametrize("kind", ["gemm", "two_batch"])
def test_overlap_never_hides_more_than_there_is(chip, dense, kind):
    """From no overlap's time, and from the longer of kernels and collectives, a step is never further away."""
    for batch in (PROMPTS, decode(8.0, 500.0), dataclasses.replace(PROMPTS, decode=Decode(sequences=8.0, context=8e3))):
        found = times(chip, dense, batch, overlap=kind)
        communication, computation = sums(found)
        assert max(communication, computation) * (1 - EXACT) <= sum(found.values()) <= communication + computation
