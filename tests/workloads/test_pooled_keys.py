"""GLM-5.3-Flash: linear attention beside sparse attention with pooled keys: parameters, cache, state and work by hand.

Sizes are those of zai-org/GLM-5.3-Flash (config.json, `text_config`), whose card says 320 billion parameters, 18 of
them active.
"""

import json

import pytest

import workloads
from jaxroof import Deployment, decode
from jaxroof.layers.latent_attention import LatentAttention
from jaxroof.layers.linear_attention import LinearAttention
from jaxroof.memory.capacity import (
    active_parameter_count,
    kv_bytes_per_token,
    parameter_count,
    prediction_parameter_count,
    state_bytes_of_sequence,
)
from jaxroof.step.forward import step_ops
from tests.hand import check

pytestmark = pytest.mark.usefixtures("float64")  # counts beyond 2**24 are compared exactly

SPARSE = list(range(3, 45, 4))
LINEAR = [i for i in range(45) if i not in SPARSE]
TEXT = {
    "model_type": "glm5_next_text",
    **{"num_hidden_layers": 45, "hidden_size": 4096, "intermediate_size": 12288, "vocab_size": 154880},
    **{"num_attention_heads": 64, "num_key_value_heads": 64, "q_lora_rank": 1536, "kv_lora_rank": 512},
    **{"qk_nope_head_dim": 256, "qk_rope_head_dim": 0, "qk_head_dim": 256, "v_head_dim": 256, "mla_use_nope": True},
    **{"index_n_heads": 32, "index_head_dim": 128, "index_topk": 2048, "indexer_types": ["full"] * 45},
    **{"index_kpool": 4, "index_kpool_compress": True, "index_kpool_always_select_tail": True},
    "linear_attn_config": {
        **{"num_heads": 64, "head_dim": 128, "short_conv_kernel_size": 4, "gate_lower_bound": -5.0},
        **{"kda_layers": LINEAR, "full_attn_layers": SPARSE},
    },
    "layer_types": ["deepseek_sparse_attention" if i in SPARSE else "linear_attention" for i in range(45)],
    **{"mlp_layer_types": ["dense"] * 3 + ["sparse"] * 42, "first_k_dense_replace": 3, "moe_intermediate_size": 2048},
    **{"n_routed_experts": 288, "num_experts_per_tok": 8, "n_shared_experts": 1, "num_nextn_predict_layers": 1},
    **{"mhc": True, "hc_mult": 4, "hc_sinkhorn_iters": 20, "attention_bias": False, "dtype": "bfloat16"},
}


@pytest.fixture
def read(tmp_path):
    """Reads the config, some keys of its language model changed; a key set to `...` is left out."""

    def reader(whole=True, **changes):
        text = {key: value for key, value in (TEXT | changes).items() if value is not ...}
        outer = {"model_type": "glm5_next", "text_config": text, "vision_config": {"depth": 24}, "dtype": "bfloat16"}
        (tmp_path / "config.json").write_text(json.dumps(outer if whole else text))
        return workloads.model(str(tmp_path))

    return reader


def test_parameters_are_those_of_the_card(read):
    entry = read()
    model = entry.model
    # The card counts the prediction layer, and the vision tower's 0.4 billion, which are left out here.
    whole = float(parameter_count(model) + prediction_parameter_count(model)) / 1e9
    assert whole == pytest.approx(320.0, rel=0.005)
    assert float(active_parameter_count(model)) / 1e9 == pytest.approx(18.0, rel=0.04)
    assert any("vision tower is neither counted nor priced" in note for note in entry.notes)
    assert float(parameter_count(read(whole=False).model)) == float(parameter_count(model))


def test_parameters_by_hand(read):
    model = read().model
    delta = 4 * 4096 * 8192 + 4096 * 64 + 2 * (4096 * 128 + 128 * 8192)  # q, k, v, output; write strength; two gates
    delta += 4 * 3 * 8192 + 64 + 8192 + 128  # convolution, decays and their bias, norm of a head
    latent = 4096 * 1536 + 1536 * 64 * 256 + 4096 * 512 + 512 * 64 * 512 + 64 * 256 * 4096 + 1536 + 512
    indexer = (
        1536 * 32 * 128 + 4096 * (128 + 128 + 32) + 2 * 128 + 4 * 128
    )  # queries; keys, gates, weights; norm, places
    dense, experts = 3 * 4096 * 12288, 289 * 3 * 4096 * 2048 + 288 * 4096 + 288
    around = 2 * 4096 + 2 * (24 * 4 * 4096 + 24 + 3)  # norms; what mixes four streams around each sublayer
    layers = 34 * delta + 11 * (latent + indexer) + 3 * dense + 42 * experts + 45 * around
    assert parameter_count(model) == layers + 2 * 154880 * 4096 + 4096
    # The prediction layer is a sparse one with experts; three norms, and a projection of two vectors.
    module = latent + indexer + experts + around + 3 * 4096 + 2 * 4096 * 4096
    assert prediction_parameter_count(model) == module


def test_layers_cache_and_state_by_hand(read):
    model = read().model
    counts = {(type(b.attention), type(b.feedforward).__name__): b.count for b in model.blocks}
    assert counts == {
        (LinearAttention, "FeedForward"): 3.0,
        (LinearAttention, "Experts"): 31.0,
        (LatentAttention, "Experts"): 11.0,
    }
    assert isinstance(model.prediction.block.attention, LatentAttention)
    # A latent vector of 512 numbers of 2 B, and one key of 128 in FP8 with a scale of 4 B for four tokens.
    assert kv_bytes_per_token(model, Deployment()) == 11 * (512 * 2 + (128 + 4) / 4)
    # 64 heads of 128 x 128 numbers of 4 B, and three tokens of queries, keys and values of 2 B to look back on.
    assert state_bytes_of_sequence(model, Deployment()) == 34 * (64 * 128 * 128 * 4 + 3 * 3 * 8192 * 2)


def test_queries_score_pools_and_attend_to_tokens(read):
    (sparse,) = (i for i, b in enumerate(read().model.blocks) if isinstance(b.attention, LatentAttention))
    ops = step_ops(read().model, Deployment(), decode(2.0, 40000.0))
    # Two queries of 32 heads of 128 with 10,000 pools each; scores of 4 B are written, keys of 132 B read.
    scores = 2 * 10000
    check(ops[f"{sparse}.decode_index_scores"], matrix_flops=2 * scores * 32 * 128, count=11)
    check(ops[f"{sparse}.decode_index_scores"], bytes=scores * 132 + scores * 4)
    # 2,048 tokens are attended to, of which the latent vector is read.
    check(ops[f"{sparse}.decode_attention"], matrix_flops=2 * 2 * 2048 * 64 * (512 + 512))
    single = step_ops(read(index_kpool=1).model, Deployment(), decode(2.0, 40000.0))
    check(single[f"{sparse}.decode_index_scores"], matrix_flops=4 * 2 * scores * 32 * 128)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"index_topk": 2050}, "index_topk is 2050; it must be a multiple of index_kpool, 4"),
        ({"index_kpool": 0}, "index_kpool is 0; it must be a positive integer"),
        ({"index_kpool_compress": False}, "index_kpool_compress is False; glm5_next is read only with True"),
        ({"mhc": False}, "mhc is False; glm5_next is read only with True"),
        ({"layer_types": ["linear_attention"] * 45}, "full_attn_layers and kda_layers of linear_attn_config must name"),
        ({"layer_types": ["sliding_attention"] * 45}, "layer_types has 'sliding_attention'; covered are"),
        ({"hc_mult": ...}, "hc_mult is missing"),
    ],
)
def test_configs_that_contradict_themselves_are_refused(read, changes, says):
    with pytest.raises(ValueError) as caught:
        read(**changes)
    assert says in str(caught.value) and "\n" not in str(caught.value)


def test_layers_without_a_list(read):
    """Every fourth layer is sparse; a class that says nothing pools sixteen keys."""
    expected = float(parameter_count(read().model))
    table = {key: TEXT["linear_attn_config"][key] for key in ("num_heads", "head_dim")}
    assert float(parameter_count(read(layer_types=..., linear_attn_config=table).model)) == expected
    sizes = {"linear_attn_config": ..., "linear_num_heads": 64, "linear_head_dim": 128}
    assert float(parameter_count(read(**sizes).model)) == expected
    chosen = [
        b.attention.selection for b in read(index_kpool=...).model.blocks if isinstance(b.attention, LatentAttention)
    ]
    assert [one.stride for one in chosen] == [16.0]
