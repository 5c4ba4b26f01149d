"""Attention that writes its scores: worked values, what it shares with the fused kernel, and where it is refused."""

import dataclasses

import jax
import jax.numpy as jnp
import pytest

from jaxroof import Batch, Deployment, Prefill, decode, prefill
from jaxroof.layers.attention_kernels import softmax_readings
from jaxroof.layers.feedforward import feedforward_ops
from jaxroof.memory.legality import broken_rule
from jaxroof.step.forward import step_ops
from tests.hand import EXACT

UNFUSED = Deployment(attention_kernel="unfused")


def ops(model, deployment, batch=None):
    return step_ops(model, deployment, prefill(2.0, 300.0) if batch is None else batch)


def attention_of(found):
    return {name.removeprefix("prefill_attention_"): op for name, op in found.items() if "prefill_attention" in name}


def test_products_by_hand(dense):
    """2 sequences of 300 tokens, 10 heads of 100: 20 products of (300, 100) @ (100, 300), every pair counted."""
    found = attention_of(ops(dense, UNFUSED))
    assert list(found) == ["copies", "scores", "mask", "softmax", "values"]
    for name in ("scores", "values"):
        op = found[name]
        assert op.kind == "linear"
        assert float(op.matrix_flops) == pytest.approx(2 * 20 * 300 * 300 * 100, rel=EXACT)
        assert float(op.shape.matrices) == 20.0
        # Queries (or weights), keys (or values) and results once: 20 (300 x 100 + 100 x 300 + 300 x 300) 2 B.
        assert float(op.bytes) == pytest.approx(20 * (2 * 30_000 + 90_000) * 2, rel=EXACT)


def test_what_is_written_and_read_between_by_hand(dense):
    """20 x 300 x 300 scores of 2 B are 3.6 MB: scale and mask read and write them, softmax reads and writes."""
    found = attention_of(ops(dense, UNFUSED))
    assert float(found["mask"].bytes) == pytest.approx(4 * 3.6e6, rel=EXACT)
    assert float(found["mask"].kernels) == 2.0
    assert float(found["softmax"].bytes) == pytest.approx(2 * 3.6e6, rel=EXACT)
    assert float(found["softmax"].exps) == pytest.approx(20 * 300 * 300, rel=EXACT)
    # Queries, keys, values and results, 10 x 100 each, are read and written for 600 tokens.
    assert float(found["copies"].bytes) == pytest.approx(600 * 4 * 1000 * 2 * 2, rel=EXACT)
    compiled = attention_of(ops(dense, dataclasses.replace(UNFUSED, score_kernels=0.0)))
    assert float(compiled["mask"].bytes) == 0.0


def test_the_fused_kernel_skips_half_of_the_pairs(dense):
    whole = sum(float(op.matrix_flops) for name, op in attention_of(ops(dense, UNFUSED)).items() if op.shape)
    fused = float(ops(dense, Deployment())["prefill_attention"].matrix_flops)
    assert fused / whole == pytest.approx(301 / 600, rel=EXACT)  # (300 x 301 / 2) / 300^2


def test_all_other_ops_are_the_same(dense):
    own, fused = ops(dense, UNFUSED), ops(dense, Deployment())
    others = [name for name in fused if name != "prefill_attention"]
    assert others == [name for name in own if "prefill_attention" not in name]
    assert all(own[name] == fused[name] for name in ("qkv_proj", "o_proj", "activation"))


def test_tensor_parallel_devices_share_the_heads(dense):
    halves = attention_of(ops(dense, dataclasses.replace(UNFUSED, tp=2.0)))
    for name, op in attention_of(ops(dense, UNFUSED)).items():
        assert float(halves[name].bytes) == pytest.approx(float(op.bytes) / 2, rel=EXACT)


def test_decoding_reads_the_context(dense):
    found = ops(dense, UNFUSED, decode(4.0, 500.0))
    assert float(found["decode_attention_scores"].matrix_flops) == pytest.approx(2 * 4 * 10 * 500 * 100, rel=EXACT)


def test_without_sequences_nothing_runs(dense):
    """Also in the gradient."""

    def moved(sequences):
        batch = Batch(prefill=Prefill(sequences=sequences, tokens=sequences * 300.0, past=0.0), decode=None, logits=1.0)
        return sum(op.bytes for op in attention_of(ops(dense, UNFUSED, batch)).values())

    value, slope = jax.value_and_grad(moved)(0.0)
    assert float(value) == 0.0
    assert jnp.isfinite(slope)


def test_an_activation_that_is_written_out(feedforward):
    """8 kernels: the first reads 2 x 3000 and writes 3000 elements, seven more read and write 3000 each."""

    def activation(deployment):
        return feedforward_ops(feedforward, 1000.0, deployment, 10.0, 1.0)["activation"]

    assert float(activation(Deployment()).bytes) == pytest.approx(10 * 9000 * 2, rel=EXACT)
    eager = activation(Deployment(activation_kernels=8.0))
    assert float(eager.bytes) == pytest.approx(10 * (9000 + 7 * 6000) * 2, rel=EXACT)
    assert float(eager.kernels) == 8.0


def test_long_rows_are_read_twice():
    """Registers keep 1,024 elements of a row."""
    assert [float(softmax_readings(keys)) for keys in (64.0, 1024.0, 1025.0, 4096.0)] == [1.0, 1.0, 2.0, 2.0]


def test_other_attention_is_refused(chip, dense):
    import hwspaces
    import workloads

    assert broken_rule(chip, dense, UNFUSED) is None
    latent = workloads.model("DeepSeek-V2-Lite").model
    device = hwspaces.hardware("H100-SXM").hardware
    assert broken_rule(device, latent, UNFUSED).startswith("attention_kernel = unfused is of softmax self-attention")
