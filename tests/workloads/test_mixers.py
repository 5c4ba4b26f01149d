"""Latent, compressed and linear attention, indexers and hybrids, each struct worked by hand from a config's keys."""

import json

import pytest

import workloads
from jaxroof.layers.attention import Attention
from jaxroof.layers.compressed_attention import CompressedAttention
from jaxroof.layers.latent_attention import LatentAttention
from jaxroof.layers.linear_attention import LinearAttention
from jaxroof.model import Experts, FeedForward

SMALL = {
    "num_hidden_layers": 4,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "intermediate_size": 96,
    "vocab_size": 100,
    "max_position_embeddings": 128,
    "torch_dtype": "bfloat16",
}
LATENT = SMALL | {
    "model_type": "deepseek_v3",
    "kv_lora_rank": 32,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 12,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "n_shared_experts": 1,
    "moe_intermediate_size": 24,
    "first_k_dense_replace": 1,
}


@pytest.fixture
def read(tmp_path):
    """Reads a config with some keys changed, from a folder. A key set to `...` is left out."""

    def reader(config, **changes):
        values = {key: value for key, value in (config | changes).items() if value is not ...}
        (tmp_path / "config.json").write_text(json.dumps(values))
        return workloads.model(str(tmp_path)).model

    return reader


def mixers(model, kind):
    """(count, mixer) of the blocks whose mixer is of a kind."""
    return [(b.count, b.attention) for b in model.blocks if isinstance(b.attention, kind)]


def test_latent_attention_of_deepseek_v3():
    blocks = workloads.model("DeepSeek-V3").model.blocks
    assert [b.count for b in blocks] == [3.0, 58.0]
    found = {
        (a.latent, a.rope_dim, a.query_rank, a.heads, a.nope_dim, a.value_dim) for a in (b.attention for b in blocks)
    }
    assert found == {(512.0, 64.0, 1536.0, 128.0, 128.0, 128.0)}
    # 61 layers x (512 + 64) numbers per token, and nothing per head.
    assert sum(b.count * (b.attention.latent + b.attention.rope_dim) for b in blocks) == 61 * 576
    # Two norms 2 x 7168, those of the compressed query and the latent vector, 256 score corrections.
    assert [b.other_parameters for b in blocks] == [14336 + 1536 + 512, 14336 + 1536 + 512 + 256]
    assert all(f.bytes == 1 + 4 / 128**2 for b in blocks for f in (b.attention.down, b.attention.up))


def test_queries_are_compressed_only_where_a_rank_is_stated(read):
    assert mixers(read(LATENT), LatentAttention)[0][1].query_rank is None
    assert mixers(read(LATENT, q_lora_rank=24), LatentAttention)[0][1].query_rank == 24.0


def test_products_of_latent_attention_follow_their_own_names(read):
    quantised = {"quant_method": "fp8", "modules_to_not_convert": ["kv_b_proj", "q_b_proj"]}
    _, latent = mixers(read(LATENT, q_lora_rank=24, quantization_config=quantised), LatentAttention)[0]
    assert [f.bytes for f in (latent.down, latent.query, latent.up, latent.output)] == [1.0, 2.0, 2.0, 1.0]


def test_the_indexer_of_deepseek_v32():
    selection = workloads.model("DeepSeek-V3.2").model.blocks[0].attention.selection
    assert (selection.tokens, selection.heads, selection.head_dim, selection.query_rank) == (
        2048.0,
        64.0,
        128.0,
        1536.0,
    )
    # Keys in FP8 with a float32 scale per 128: 132 B of 128 numbers.
    assert (selection.stride, selection.key_outputs, selection.key_bytes * 128) == (1.0, 128.0, 132.0)


def test_layers_that_take_over_a_choice_have_no_indexer_of_their_own():
    blocks = workloads.model("GLM-5.2-FP8").model.blocks
    counts = {}
    for block in blocks:
        heads = block.attention.selection.heads
        counts[heads] = counts.get(heads, 0.0) + block.count
    # Layers 0, 1, 2, 6, 10, ... 74 choose: 3 and every fourth of the 75 that follow, from the fourth on.
    assert counts == {32.0: 21.0, 0.0: 57.0}
    assert {b.attention.selection.tokens for b in blocks} == {2048.0}


def test_compressed_attention_of_deepseek_v4_flash():
    blocks = mixers(workloads.model("DeepSeek-V4-Flash").model, CompressedAttention)
    assert {(a.ratio, a.overlap, a.selection is not None): count for count, a in blocks} == {
        (None, 1.0, False): 2.0,
        (4.0, 2.0, True): 21.0,
        (128.0, 1.0, False): 20.0,
    }
    attention = next(a for _, a in blocks if a.selection is not None)
    assert (attention.window, attention.output_groups, attention.output_rank, attention.head_dim) == (128, 8, 1024, 512)
    # One key per 4 tokens, so the 512 that are chosen are compressed vectors; keys and gates of two windows: 4 x 128.
    assert (attention.selection.stride, attention.selection.tokens, attention.selection.key_outputs) == (
        4.0,
        512.0,
        512.0,
    )


def test_residual_streams_are_mixed_around_sublayers_and_their_mixing_is_counted():
    block = workloads.model("DeepSeek-V4-Flash").model.blocks[0]
    assert block.norms == 1.0 and (block.streams.count, block.streams.iterations) == (4.0, 20.0)
    # Two norms of 4096; 2 x (24 outputs of 4 x 4096 inputs, 24 biases, 3 scales); norms 1024 + 512; 64 sinks; 256.
    assert block.other_parameters == 8192 + 2 * (24 * 16384 + 27) + 1536 + 64 + 256


def test_experts_of_deepseek_v4_are_stored_in_four_bits_and_the_rest_in_eight():
    block = workloads.model("DeepSeek-V4-Flash").model.blocks[0]
    up = block.feedforward.up
    assert (up.bytes, up.compute, up.dequantised) == (0.5 + 1 / 32, "fp8", True)
    assert block.feedforward.shared.up.bytes == block.attention.output.bytes == 1 + 4 / 128**2


def test_gated_delta_net_of_qwen3_next():
    model = workloads.model("Qwen3-Next-80B-A3B").model
    [(count, linear)], [(full, attention)] = mixers(model, LinearAttention), mixers(model, Attention)
    assert (count, full) == (36.0, 12.0)
    sizes = (linear.heads, linear.key_heads, linear.key_dim, linear.value_dim, linear.convolution, linear.rule)
    assert sizes == (32.0, 16.0, 128.0, 128.0, 4.0, "delta")
    assert linear.gates == 128 + 2 and linear.gate_rank is None  # output gate, write strength, decay
    assert attention.gate == attention.head_dim == 256.0 and attention.qk_norm == 1.0
    # Norms 2 x 2048; convolution 4 x (2 x 2048 + 4096); decay and step 2 x 32; norm 128; the shared experts' gate 2048.
    assert model.blocks[0].other_parameters == 4096 + 4 * 8192 + 64 + 128 + 2048


def test_linear_layers_by_interval_and_by_name(read):
    keys = {
        "model_type": "qwen3_next",
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 16,
        "linear_value_head_dim": 16,
        "linear_conv_kernel_dim": 4,
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 32,
        "shared_expert_intermediate_size": 32,
    }
    assert [c for c, _ in mixers(read(SMALL | keys, full_attention_interval=2), LinearAttention)] == [2.0]
    types = ["linear_attention"] * 3 + ["full_attention"]
    assert [c for c, _ in mixers(read(SMALL | keys, layer_types=types), LinearAttention)] == [3.0]


def test_kimi_delta_attention_and_its_gates():
    linear = dict(mixers(workloads.model("Kimi-Linear-48B-A3B").model, LinearAttention))
    assert sum(linear) == 20.0
    for attention in linear.values():
        # A write strength per head beside queries, keys and values; decay and output gate at rank 128.
        assert (attention.heads, attention.gates, attention.gate_rank) == (32.0, 1.0, 128.0)
    model = workloads.model("Kimi-K3").model
    assert sum(count for count, _ in mixers(model, LinearAttention)) == 69.0
    _, attention = mixers(model, LinearAttention)[0]
    # The output gate is of full rank; one gate of rank 128 costs what two of rank 64 do.
    assert (attention.heads, attention.gates, attention.gate_rank) == (96.0, 129.0, 64.0)
    _, latent = mixers(model, LatentAttention)[0]
    assert (latent.gate, latent.query_rank) == (128.0, 1536.0)
    experts = model.blocks[1].feedforward
    assert (experts.width, experts.experts, experts.top_k, experts.shared.intermediate) == (3584.0, 896.0, 16.0, 6144.0)
    assert (experts.up.bytes, experts.projection.bytes, experts.shared.up.bytes) == (0.53125, 2.0, 2.0)


def test_hybrid_layers_have_one_part_each():
    blocks = workloads.model("Nemotron-3-Nano-30B-A3B").model.blocks
    parts = {(type(b.attention).__name__, type(b.feedforward).__name__): b.count for b in blocks}
    assert parts == {
        ("LinearAttention", "NoneType"): 23.0,
        ("Attention", "NoneType"): 6.0,
        ("NoneType", "Experts"): 23.0,
    }
    mamba = next(b.attention for b in blocks if isinstance(b.attention, LinearAttention))
    sizes = (mamba.heads, mamba.key_heads, mamba.key_dim, mamba.value_dim, mamba.gates, mamba.rule)
    assert sizes == (64.0, 8.0, 128.0, 64.0, 65.0, "decay")
    # One norm 2688; convolution (4 + bias) x (4096 + 2 x 8 x 128); steps, decays and skips 3 x 64; norm 4096.
    assert blocks[0].other_parameters == 2688 + 5 * 6144 + 192 + 4096
    experts = next(b.feedforward for b in blocks if isinstance(b.feedforward, Experts))
    assert (experts.up_projections, experts.shared.intermediate, experts.width) == (1.0, 3712.0, None)


def test_experts_in_a_narrower_space():
    blocks = workloads.model("Nemotron-3-Super-120B-A12B").model.blocks
    experts = next(b.feedforward for b in blocks if isinstance(b.feedforward, Experts))
    assert (experts.width, experts.experts, experts.top_k, experts.projection.bytes) == (1024.0, 512.0, 22.0, 2.0)


def test_lightning_attention_and_full_attention_by_list():
    model = workloads.model("MiniMax-Text-01").model
    [(count, linear)] = mixers(model, LinearAttention)
    assert (count, linear.heads, linear.key_heads, linear.gates, linear.rule) == (70.0, 64.0, 64.0, 128.0, "decay")
    assert linear.convolution is None and linear.gate_rank is None


def test_mamba_alone_and_between_attention():
    [block] = workloads.model("Mamba2-2.7B").model.blocks
    assert (block.count, block.feedforward, block.attention.heads, block.attention.key_dim) == (64.0, None, 80.0, 128.0)
    model = workloads.model("Bamba-9B").model
    assert [c for c, _ in mixers(model, Attention)] == [3.0]
    assert all(isinstance(b.feedforward, FeedForward) for b in model.blocks)


def test_block_sparse_attention_of_minimax_m3():
    model = workloads.model("MiniMax-M3").model
    chosen = {a.selection is not None: count for count, a in mixers(model, Attention)}
    assert chosen == {False: 3.0, True: 57.0}
    selection = next(a.selection for _, a in mixers(model, Attention) if a.selection)
    # 16 blocks of 128 tokens; the indexer keeps every token's key, in bfloat16.
    assert (selection.tokens, selection.stride, selection.heads, selection.key_bytes) == (2048.0, 1.0, 4.0, 2.0)
    assert selection.query_rank is None


def test_gemma4_global_layers_use_keys_as_values():
    blocks = workloads.model("Gemma-4-26B-A4B").model.blocks
    found = {(a.window, a.head_dim, a.kv_heads, a.value_projection): b.count for b in blocks for a in [b.attention]}
    assert found == {(1024.0, 256.0, 8.0, 1.0): 25.0, (None, 512.0, 2.0, 0.0): 5.0}
    # Every layer's dense feed-forward stands beside the experts.
    assert all((b.feedforward.shared.intermediate, b.feedforward.intermediate) == (2112.0, 704.0) for b in blocks)
    assert {b.norms for b in blocks} == {2.0}


def test_step_gates_heads_and_has_more_of_them_in_sliding_layers():
    blocks = workloads.model("Step-3.7-Flash").model.blocks
    heads = {}
    for block in blocks:
        heads[block.attention.window, block.attention.heads, block.attention.gate] = block.attention.kv_heads
    assert heads == {(None, 64.0, 1.0): 8.0, (512.0, 96.0, 1.0): 8.0}
    assert sum(b.count for b in blocks if isinstance(b.feedforward, FeedForward)) == 3.0


def test_layers_of_sizes_of_their_own_and_without_attention():
    blocks = workloads.model("Llama-3.3-Nemotron-Super-49B").model.blocks
    assert sum(b.count for b in blocks) == 80.0
    assert sum(b.count for b in blocks if b.attention is None) == 31.0
    # 2 x 5.25 x 8192 / 3 = 28672; 2 x 1.0 x 8192 / 3 = 5461, rounded up to a multiple of 256: 5632.
    assert {28672.0, 5632.0} <= {b.feedforward.intermediate for b in blocks}


@pytest.mark.parametrize(
    ("name", "parallel", "norms"),
    [
        ("GPT-J-6B", True, 1.0),
        ("GPT-NeoX-20B", True, 1.0),
        ("Falcon-40B", True, 1.0),
        ("Command-R", True, 1.0),
        ("Phi-2", True, 1.0),
        ("Llama-3.1-8B", False, 1.0),
        ("OLMo-2-7B", False, 1.0),
        ("Gemma-2-9B", False, 2.0),
        ("GLM-4-32B-0414", False, 2.0),
    ],
)
def test_parallel_sublayers_and_norms_after_sublayers(name, parallel, norms):
    blocks = workloads.model(name).model.blocks
    assert {(b.parallel, b.norms) for b in blocks} == {(parallel, norms)}


def test_one_key_head_for_all():
    assert workloads.model("Falcon-7B").model.blocks[0].attention.kv_heads == 1.0
    assert workloads.model("Falcon-40B").model.blocks[0].attention.kv_heads == 8.0
    assert workloads.model("StarCoder").model.blocks[0].attention.kv_heads == 1.0


def test_prediction_head_of_deepseek_v3():
    head = workloads.model("DeepSeek-V3").model.prediction
    assert (head.count, head.block.count, head.block.feedforward.experts) == (1.0, 1.0, 256.0)
    assert isinstance(head.block.attention, LatentAttention)
    assert head.other_parameters == 3 * 7168


def test_prediction_layers_may_differ_from_the_last_one(read):
    head = workloads.model("DeepSeek-V4-Flash").model.prediction
    assert head.block.attention.ratio is None  # the 44th of compress_ratios is 0
    head = workloads.model("Nemotron-3-Super-120B-A12B").model.prediction
    assert isinstance(head.block.attention, Attention) and isinstance(head.block.feedforward, Experts)
    head = workloads.model("Step-3.7-Flash").model.prediction
    assert (head.count, head.block.attention.window) == (3.0, 512.0) and isinstance(head.block.feedforward, FeedForward)
    assert read(LATENT).prediction is None
    assert read(LATENT, num_nextn_predict_layers=0).prediction is None
    assert read(LATENT, num_nextn_predict_layers=2).prediction.count == 2.0


def test_lists_may_go_on_with_prediction_layers(read):
    keys = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8, "share_expert_dim": 8}
    keys |= {"model_type": "step3p5", "moe_layers_enum": "1,2,3,4", "sliding_window": 8}
    types = ["full_attention"] + ["sliding_attention"] * 4
    model = read(SMALL | keys, layer_types=types, num_nextn_predict_layers=1)
    assert sum(b.count for b in model.blocks) == 4.0
    assert sum(b.count for b in model.blocks if isinstance(b.feedforward, Experts)) == 3.0
