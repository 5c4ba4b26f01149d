"""Context of a query: windows one way and both, chunks, selections, and what an indexer costs."""

import dataclasses

import pytest

from jaxroof import Block, Deployment, Model, decode, kv_bytes_per_token, prefill
from jaxroof.layers.latent_attention import LatentAttention
from jaxroof.layers.sight import Selection, Sight, attended_pairs, reachable_past, visible_context
from jaxroof.memory.capacity import kv_bytes_of_sequence, weight_bytes
from jaxroof.model import WeightFormat
from jaxroof.step.forward import step_ops
from tests.hand import EXACT, check

SLIDING, CHUNKED, SELECTED = (Sight(limit=4.0, kind=kind) for kind in ("sliding", "chunked", "selected"))


@pytest.fixture(scope="module")
def selection() -> Selection:
    """DeepSeek-V3.2's indexer: 64 heads of 128 at 8 bits, 2048 tokens."""
    return Selection(
        tokens=2048.0,
        heads=64.0,
        head_dim=128.0,
        stride=1.0,
        key_outputs=128.0,
        query_rank=1536.0,
        key_bytes=1.0,
        weights=WeightFormat(bytes=1.0, compute="fp8"),
    )


@pytest.fixture(scope="module")
def sparse(selection, bf16) -> Model:
    """One layer of DeepSeek-V3.2's attention."""
    mixer = LatentAttention(
        heads=128.0,
        query_rank=1536.0,
        latent=512.0,
        nope_dim=128.0,
        rope_dim=64.0,
        value_dim=128.0,
        selection=selection,
        down=bf16,
        query=bf16,
        up=bf16,
        output=bf16,
    )
    return Model(
        hidden=7168.0,
        vocabulary=1000.0,
        blocks=(Block(count=1.0, attention=mixer, feedforward=None, other_parameters=0.0),),
        embedding=bf16,
        head=bf16,
        untied=0.0,
        other_parameters=0.0,
    )


@pytest.mark.parametrize(
    ("new", "past", "seen", "pairs"),
    [
        (6.0, 0.0, SLIDING, 1 + 2 + 3 + 4 + 4 + 4),
        (3.0, 2.0, SLIDING, 3 + 4 + 4),
        (3.0, 9.0, SLIDING, 12),
        (6.0, 0.0, CHUNKED, 1 + 2 + 3 + 4 + 1 + 2),
        (3.0, 2.0, CHUNKED, 3 + 4 + 1),
        (6.0, 0.0, SELECTED, 1 + 2 + 3 + 4 + 4 + 4),  # the best four, once there are more
        (3.0, 100.0, SELECTED, 12),
        (6.0, 0.0, Sight(limit=None, kind=None), 21),
        (6.0, 0.0, Sight(limit=None, kind=None, causal=False), 36),  # each sees all
        (6.0, 0.0, Sight(limit=1.0, kind="sliding", causal=False), 6 * 3),  # one to each side, ends not cut
        (6.0, 0.0, Sight(limit=9.0, kind="sliding", causal=False), 36),
        (6.0, 0.0, Sight(limit=3.0, kind="chunked", causal=False), 6 * 3),
    ],
)
def test_pairs(new, past, seen, pairs):
    assert float(attended_pairs(new, past, seen)) == pytest.approx(pairs, rel=EXACT)


def test_a_selection_limits_what_is_seen_and_not_what_is_kept():
    assert float(visible_context(3.0, SELECTED)) == 3 and float(visible_context(50.0, SELECTED)) == 4
    assert float(reachable_past(50.0, SELECTED)) == 50
    assert float(visible_context(50.0, SLIDING)) == 4 and float(reachable_past(50.0, SLIDING)) == 3
    assert float(visible_context(50.0, CHUNKED)) == 2  # 48 tokens are in closed chunks


def test_context_of_a_windowed_decode(dense, attention):
    """3 sequences of 50 tokens: 16 each under a sliding window; 50 = 3 x 16 + 2 under a chunked one."""
    for kind, seen in (("sliding", 16), ("chunked", 2)):
        local = dataclasses.replace(attention, window=16.0, window_kind=kind)
        model = dataclasses.replace(dense, blocks=(dataclasses.replace(dense.blocks[0], attention=local),))
        op = step_ops(model, Deployment(), decode(3.0, 50.0))["decode_attention"]
        check(op, matrix_flops=3 * seen * 4000, bytes=2 * (3 * seen * 400 + 3 * 2000))


def test_indexer(sparse):
    ops = step_ops(sparse, Deployment(tp=8.0), decode(2.0, 10_000.0))
    # on every device, however many: queries from the compressed 1536 to 64 x 128, keys and head weights from 7168
    check(ops["index_q_proj"], matrix_flops=2 * 2 * 1536 * 8192)
    check(ops["index_k_proj"], matrix_flops=2 * 2 * 7168 * (128 + 64))
    # 20,000 pairs by 64 heads of 128; 3 vector FLOP each; keys of 128 B and scores of 4 B
    check(ops["decode_index_scores"], matrix_flops=2 * 20_000 * 8192, vector_flops=3 * 20_000 * 64)
    check(ops["decode_index_scores"], bytes=20_000 * (128 + 4))
    assert ops["decode_index_scores"].precision == "fp8"
    # a radix top-k reads the scores twice
    check(ops["decode_index_top_k"], bytes=2 * 4 * 20_000)
    # 2048 of 10,000 tokens: 2 x 2048 x 16 heads x (576 + 512); whole rows of the cache
    check(ops["decode_attention"], matrix_flops=2 * 4096 * 16 * 1088, bytes=2 * (4096 * 576 + 2 * 16 * 1088))


def test_a_short_context_is_seen_whole(sparse):
    ops = step_ops(sparse, Deployment(), decode(2.0, 1000.0))
    check(ops["decode_attention"], matrix_flops=2 * 2000 * 128 * 1088)
    check(ops["decode_index_scores"], matrix_flops=2 * 2000 * 8192)


def test_a_selecting_prefill_is_absorbed(sparse):
    # 3000 tokens: 2048 x 2049 / 2 + 952 x 2048 = 4,047,872 pairs; the indexer scores 3000 x 3001 / 2 = 4,501,500
    ops = step_ops(sparse, Deployment(), prefill(1.0, 3000.0))
    check(ops["prefill_attention"], matrix_flops=2 * 4_047_872 * 128 * 1088)
    check(ops["prefill_index_scores"], matrix_flops=2 * 4_501_500 * 8192)
    check(ops["prefill_absorb_query"], matrix_flops=2 * 3000 * 128 * 128 * 512)
    assert "kv_up_proj" not in ops


def test_indexer_keys_are_cached(sparse):
    # 576 x 2 B of latent vector and 128 x 1 B of the indexer's key
    assert float(kv_bytes_per_token(sparse, Deployment(tp=4.0))) == 1152 + 128


def test_blocks_of_tokens(dense, attention, selection):
    """One key per 64 tokens: scores, keys and the top-k are a 64th, and 128 B are cached per 64 tokens."""
    blocks = dataclasses.replace(selection, stride=64.0, tokens=1024.0, query_rank=None)
    sparse = dataclasses.replace(attention, selection=blocks)
    model = dataclasses.replace(dense, blocks=(dataclasses.replace(dense.blocks[0], attention=sparse),))
    ops = step_ops(model, Deployment(), decode(1.0, 6400.0))
    # queries and key of the indexer are rows of the layer's own matrix: 64 x 128 + 128 beside its outputs
    own = step_ops(dense, Deployment(), decode(1.0, 6400.0))["qkv_proj"]
    check(ops["qkv_proj"], matrix_flops=float(own.matrix_flops) + 2 * 1000 * (8192 + 128))
    assert "index_q_proj" not in ops
    check(ops["decode_index_scores"], matrix_flops=2 * 100 * 8192, bytes=100 * 132)
    check(ops["decode_attention"], matrix_flops=1024 * 4000)
    assert float(kv_bytes_per_token(model, Deployment())) == 4 * (2 * 200 * 2 + 2)
    assert float(kv_bytes_of_sequence(model, Deployment(), 6400.0)) == 6400 * 4 * 802
    # 1000 x (8192 + 128) weights as the layer stores its own, 2 B, in each of four layers
    more = float(weight_bytes(model, Deployment())) - float(weight_bytes(dense, Deployment()))
    assert more == pytest.approx(4 * 8_320_000 * 2, rel=EXACT)


def test_an_indexer_without_heads_launches_nothing(sparse, selection):
    """A layer that attends to what an earlier one chose still sees no more than that."""
    block = sparse.blocks[0]
    reusing = dataclasses.replace(block.attention, selection=dataclasses.replace(selection, heads=0.0))
    model = dataclasses.replace(sparse, blocks=(dataclasses.replace(block, attention=reusing),))
    for batch, part in ((prefill(1.0, 3000.0), "prefill"), (decode(2.0, 10_000.0), "decode")):
        ops = step_ops(model, Deployment(), batch)
        for name, op in ops.items():
            if "index" in name:
                check(op, kernels=0, bytes=0)
        own = step_ops(sparse, Deployment(), batch)[f"{part}_attention"]
        check(ops[f"{part}_attention"], matrix_flops=float(own.matrix_flops))
