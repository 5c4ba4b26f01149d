"""Attention of new tokens to what they may see: hand-worked work and bytes, and every window against counting."""

import dataclasses

import numpy as np
import pytest

from jaxroof import Decode, Prefill, decode, prefill
from jaxroof.layers.attention import decode_attention, prefill_attention
from jaxroof.step.forward import step_ops

EXACT = 1e-6  # relative: a few float32 roundings


def check(op, **expected):
    assert {name: float(getattr(op, name)) for name in expected} == pytest.approx(expected, rel=EXACT)


def test_prefill_attention(dense, single):
    # 2 prompts of 7 new tokens: 2 x 7 x 8 / 2 = 56 pairs; 2 x 56 x 10 heads x 200; 4 vector FLOP and an exp per pair
    # and head; cache 14 tokens x 2 KV heads x 200, queries and outputs 14 x 10 x 200, 2 B each
    ops = step_ops(dense, single, prefill(2.0, 7.0))
    check(ops["prefill_attention"], count=4, kernels=1, matrix_flops=224_000, vector_flops=2240, exps=560)
    check(ops["prefill_attention"], bytes=2 * (14 * 400 + 14 * 2000))
    # on 5 cached tokens each: 2 x (12 x 13 - 5 x 6) / 2 = 126 pairs; keys and values of 24 tokens
    ops = step_ops(dense, single, prefill(2.0, 7.0, 5.0))
    check(ops["prefill_attention"], matrix_flops=126 * 4000, exps=1260, bytes=2 * (24 * 400 + 14 * 2000))


def test_decode_attention(dense, single):
    # 3 sequences of 50 tokens: 150 pairs; partial attention and its reduction; the cache of 150 tokens
    ops = step_ops(dense, single, decode(3.0, 50.0))
    check(ops["decode_attention"], kernels=2, matrix_flops=150 * 4000, vector_flops=6000, exps=1500)
    check(ops["decode_attention"], bytes=2 * (150 * 400 + 3 * 2000))
    check(ops["qkv_proj"], matrix_flops=2 * 3 * 1000 * 1400)


def seen(position: int, window: int | None, kind: str | None) -> range:
    """Tokens that the token at `position` attends to."""
    if kind == "sliding":
        return range(max(0, position - window + 1), position + 1)
    if kind == "chunked":
        return range(position // window * window, position + 1)
    return range(position + 1)


WINDOWS = [
    (None, None),
    (4, "sliding"),
    (4, "chunked"),
    (1, "sliding"),
    (1, "chunked"),
    (100, "sliding"),
    (6, "chunked"),
]


@pytest.mark.parametrize(("window", "kind"), WINDOWS)
def test_attention_against_counting(attention, single, window, kind):
    """Pairs and cached tokens in reach, token by token, for all lengths up to 13 on all pasts up to 9."""
    layer = dataclasses.replace(attention, window=None if window is None else float(window), window_kind=kind)
    for past in range(10):
        for new in range(1, 14):
            reached = [seen(position, window, kind) for position in range(past, past + new)]
            op = prefill_attention(layer, single, prefill(1.0, float(new), float(past)).prefill, 1.0)[
                "prefill_attention"
            ]
            assert float(op.exps) == pytest.approx(10 * sum(map(len, reached)), rel=EXACT), (past, new)
            cached = len(set().union(*reached) | set(range(past, past + new)))  # new ones are read whole
            assert float(op.bytes) == pytest.approx(2 * (cached * 400 + new * 2000), rel=EXACT), (past, new)
        op = decode_attention(layer, single, Decode(sequences=1.0, context=past + 1.0), 1.0)["decode_attention"]
        assert float(op.exps) == 10 * len(seen(past, window, kind)), past


@pytest.mark.parametrize(("window", "kind"), WINDOWS[:3])
def test_few_new_tokens_on_a_long_past_in_float32(attention, single, window, kind):
    """1 to 64 tokens after a cached 131,000: the pairs are counted, not the small difference of two large squares."""
    layer = dataclasses.replace(attention, window=None if window is None else float(window), window_kind=kind)
    new = np.arange(1, 65)
    pairs = np.cumsum([len(seen(131_000 + i, window, kind)) for i in range(64)])
    part = Prefill(sequences=np.float32(1), tokens=new.astype(np.float32), past=np.full(64, 131_000, np.float32))
    np.testing.assert_allclose(
        prefill_attention(layer, single, part, 1.0)["prefill_attention"].exps, 10 * pairs, rtol=EXACT
    )


def test_sequences_of_a_batch_add(dense, single):
    """Ten alike sequences do ten times the attention of one."""
    for make in (lambda n: prefill(n, 70.0, 30.0), lambda n: decode(n, 130.0)):
        ten, one = step_ops(dense, single, make(10.0)), step_ops(dense, single, make(1.0))
        name = next(name for name in one if name.endswith("_attention"))
        for quantity in ("matrix_flops", "vector_flops", "exps", "bytes"):
            assert float(getattr(ten[name], quantity)) == pytest.approx(10 * float(getattr(one[name], quantity)))
