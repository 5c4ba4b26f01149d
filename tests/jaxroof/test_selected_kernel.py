"""Indexers and attention to listed keys: times worked out by hand, one per regime, and what they depend on."""

import dataclasses

import jax
import pytest

import hwspaces
from jaxroof.efficiency.choice import ChoiceKernel, ScoreKernel, choice_timing, score_timing
from jaxroof.efficiency.kernels import Kernels, class_of
from jaxroof.efficiency.selected import SelectedKernel, selected_timing
from jaxroof.efficiency.stream import StreamKernel
from jaxroof.op import AttentionShape, ChoiceShape, Kernel, ScoreShape
from tests.hand import EXACT

H100 = hwspaces.hardware("H100-SXM").hardware
"""132 cores at 1.83 GHz; 989.4 TFLOP/s at 16 bits, 1978.9 at 8; 3.35 TB/s."""

CYCLE = 1.0 / 1.83e9

SELECTED = SelectedKernel(
    launch_cycles=1830.0, launch_time=0.0, matrix=0.5, least_rows=64.0, padded=0.0, tail=1.0, scattered=0.5
)
SCORES = ScoreKernel(
    launch_cycles=1830.0,
    launch_time=0.0,
    matrix=0.5,
    vector=0.0,
    bandwidth=0.8,
    tile_rows=128.0,
    tile_cycles=0.0,
    tail=1.0,
)
CHOICE = ChoiceKernel(launch_cycles=1830.0, launch_time=0.0, row_cycles=1830.0, core_bytes=4.0, bandwidth=0.5)


def attention(queries: float, seen: float, sequences: float = 1.0, kv_bytes: float = 2.0, **shape) -> Kernel:
    """16 heads that attend to `seen` of 100,000 latent vectors of 576 elements, from a list with room for 2048."""
    sizes = {"keys": 100_000.0, "slots": 2048.0, "heads": 16.0, "kv_heads": 1.0, "listed": "selected"} | shape
    return Kernel(
        kind="prefill_attention",
        precision="bf16",
        count=1.0,
        kernels=1.0,
        matrix_flops=2.0 * sequences * queries * seen * 16.0 * 1088.0,
        operand_bytes=2.0,
        bytes=sequences * seen * 576.0 * kv_bytes,
        shape=AttentionShape(
            sequences=sequences,
            queries=queries,
            pairs=queries * seen,
            key_width=576.0,
            value_width=512.0,
            kv_bytes=kv_bytes,
            latent=True,
            **sizes,
        ),
    )


def scoring(queries: float, keys: float, paged: bool = False, sequences: float = 1.0) -> Kernel:
    """64 heads of 128 that score every one of `keys` keys."""
    return Kernel(
        kind="decode_attention" if paged else "prefill_attention",
        precision="fp8",
        count=1.0,
        kernels=1.0,
        matrix_flops=2.0 * sequences * queries * keys * 64.0 * 128.0,
        operand_bytes=1.0,
        bytes=sequences * keys * 132.0,
        shape=ScoreShape(
            sequences=sequences, queries=queries, keys=keys, pairs=queries * keys, heads=64.0, width=128.0, paged=paged
        ),
    )


def choosing(rows: float, width: float) -> Kernel:
    return Kernel(
        kind="elementwise",
        count=1.0,
        kernels=1.0,
        bytes=8.0 * rows * width,
        shape=ChoiceShape(rows=rows, width=width, kept=2048.0),
    )


def total(timing, kernel, op) -> float:
    return float(timing(kernel, op, H100).total)


def test_many_queries_fill_the_cores():
    """8192 queries of 64 rows (16 heads, padded): 8192 x 2 x 2048 x 64 x 1088 FLOP at half of the peak."""
    compute = 8192 * 2 * 2048 * 64 * 1088 / (0.5 * 989.4e12)
    # beside them 2048 x 576 x 2 B at half of HBM, 1.4 us, and a longest tile that is a 62nd of all: nothing of either
    assert total(selected_timing, SELECTED, attention(8192.0, 2048.0)) == pytest.approx(1e-6 + compute, rel=1e-4)


def test_one_query_is_one_cores_work():
    """2 x 2048 x 64 x 1088 FLOP on one of 132 cores, 76 us: as long as 132 queries."""
    alone = 132 * 2 * 2048 * 64 * 1088 / (0.5 * 989.4e12)
    read = 2048 * 576 * 2 / (0.5 * 3.35e12)
    expected = 1e-6 + (alone**2 + read**2) ** 0.5
    assert total(selected_timing, SELECTED, attention(1.0, 2048.0)) == pytest.approx(expected, rel=1e-3)


def test_a_cache_that_is_scattered_over_memory():
    """1024 decoding sequences, whose lists share nothing, at the peak: 1024 x 2048 x 1152 B at half of HBM."""
    fast = dataclasses.replace(SELECTED, matrix=1.0, tail=0.0, least_rows=1.0)
    op = attention(1.0, 2048.0, sequences=1024.0)
    read, compute = 1024 * 2048 * 1152 / (0.5 * 3.35e12), 1024 * 2 * 2048 * 16 * 1088 / 989.4e12
    assert total(selected_timing, fast, op) == pytest.approx(1e-6 + (read**2 + compute**2) ** 0.5, rel=1e-3)


def test_empty_slots_of_a_list():
    """100 of 2048 slots are filled: all are multiplied, or those alone, or 256; where a list holds all, by choice."""

    def beyond_launch(**more):
        return total(selected_timing, dataclasses.replace(SELECTED, **more), attention(8192.0, 100.0)) - 1e-6

    assert beyond_launch(padded=1.0) / beyond_launch() == pytest.approx(20.48, rel=1e-3)
    assert beyond_launch(least_slots=256.0) / beyond_launch() == pytest.approx(2.56, rel=1e-3)
    short = dataclasses.replace(SELECTED, padded=1.0, short_padded=0.0)
    held = total(selected_timing, short, attention(8192.0, 100.0, keys=200.0))
    assert held - 1e-6 == pytest.approx(beyond_launch())
    assert beyond_launch(padded=1.0, short_padded=0.0) == pytest.approx(beyond_launch(padded=1.0))


def test_an_8_bit_cache_has_kernels_of_its_own_for_few_heads():
    own = dataclasses.replace(SELECTED, low_padded=1.0, low_cache=2.0, low_rows=32.0)
    plain = total(selected_timing, SELECTED, attention(8192.0, 1024.0)) - 1e-6
    few = total(selected_timing, own, attention(8192.0, 1024.0, kv_bytes=1.0)) - 1e-6
    # all 2048 slots, at half of the rate
    assert few / plain == pytest.approx(4.0, rel=1e-3)
    many = total(selected_timing, own, attention(8192.0, 1024.0, kv_bytes=1.0, heads=64.0)) - 1e-6
    assert many / plain == pytest.approx(1.0, rel=1e-3)


def test_scores_of_a_prompt_and_of_pages():
    """128 queries in tiles of two (128 rows, 64 heads) fill 64 of 132 cores: one tile sets the time. Pages fill all."""
    score = 64 * 2 * 128 / (0.5 * 1978.9e12)
    assert total(score_timing, SCORES, scoring(128.0, 10_000.0)) == pytest.approx(
        1e-6 + 2 * 10_000 * score * 132, rel=EXACT
    )
    paged = total(score_timing, SCORES, scoring(128.0, 10_000.0, paged=True))
    assert paged == pytest.approx(1e-6 + 128 * 10_000 * score, rel=EXACT)
    # a decoding query alone reads 132 B per key for 16,384 FLOP: HBM at 0.8
    one = total(score_timing, SCORES, scoring(1.0, 1e6, paged=True))
    assert one == pytest.approx(1e-6 + 132e6 / (0.8 * 3.35e12), rel=EXACT)


def test_the_choice_of_a_row():
    """A core reads 4 B per cycle after 1830: 10,000 scores are 11,830 cycles; rows above 132 follow; memory at last."""
    row = 11_830 * CYCLE
    assert total(choice_timing, CHOICE, choosing(1.0, 10_000.0)) == pytest.approx(1e-6 + row, rel=EXACT)
    assert total(choice_timing, CHOICE, choosing(1320.0, 10_000.0)) == pytest.approx(1e-6 + 10 * row, rel=EXACT)
    wide = dataclasses.replace(CHOICE, core_bytes=1e3, row_cycles=0.0)
    expected = 1e-6 + 8 * 1320 * 10_000 / (0.5 * 3.35e12)
    assert total(choice_timing, wide, choosing(1320.0, 10_000.0)) == pytest.approx(expected, rel=EXACT)
    # a row no longer than what is chosen is taken whole
    assert total(choice_timing, CHOICE, choosing(1320.0, 2000.0)) == pytest.approx(1e-6, rel=EXACT)


def test_classes_and_what_stands_in_for_them():
    small = StreamKernel(launch_cycles=1.0, launch_time=0.0, bandwidth=0.8, vector=0.5, matrix=0.5)
    every = Kernels(wide=small, plain=small, selected=SELECTED, compressed=SELECTED, scores=SCORES, choice=CHOICE)
    assert class_of(every, attention(1.0, 100.0)) == "selected"
    assert class_of(every, attention(1.0, 100.0, listed="compressed")) == "compressed"
    assert class_of(every, attention(1.0, 100.0, listed="blocks")) == "wide"
    assert class_of(every, scoring(1.0, 100.0)) == "scores" and class_of(every, choosing(1.0, 9.0)) == "choice"
    few = Kernels(wide=small, plain=small)
    assert class_of(few, attention(1.0, 100.0)) == "wide"
    assert class_of(few, scoring(1.0, 100.0)) == class_of(few, choosing(1.0, 9.0)) == "plain"


@pytest.mark.parametrize("name", ["learned-vllm", "learned-sglang", "learned-trtllm"])
def test_times_grow_with_the_context_and_have_gradients(name):
    """Decoding at longer contexts takes no less, and nothing is infinite or not a number, without work too."""
    efficiency = hwspaces.efficiency(name).efficiency
    kernel = efficiency.decode_attention.scores

    def time(keys):
        return score_timing(kernel, scoring(1.0, keys, paged=True), H100).total

    value, slope = jax.value_and_grad(time)(50_000.0)
    assert 0.0 < float(value) < 1.0 and 0.0 <= float(slope) < 1.0
    assert float(time(200_000.0)) > float(value)
    selected = efficiency.prefill_attention.selected
    nothing = dataclasses.replace(attention(0.0, 0.0), kernels=0.0)
    found = jax.grad(lambda queries: selected_timing(
        selected, dataclasses.replace(nothing, shape=dataclasses.replace(nothing.shape, queries=queries)), H100
    ).total)(0.0)  # fmt: skip
    assert abs(float(found)) < 1.0
