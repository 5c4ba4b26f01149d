"""Each trap of reading a Hugging Face config, on small configs written out here."""

import json

import pytest

import workloads
from jaxroof.memory.capacity import parameter_count
from jaxroof.model import Experts, FeedForward

SMALL = {
    "model_type": "llama",
    "num_hidden_layers": 4,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
    "vocab_size": 100,
    "max_position_embeddings": 128,
    "torch_dtype": "bfloat16",
}
QWEN_MOE = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32}


@pytest.fixture
def read(tmp_path):
    """Reads SMALL with some keys changed, from a folder. A key set to `...` is left out."""

    def reader(**changes):
        values = {key: value for key, value in (SMALL | changes).items() if value is not ...}
        (tmp_path / "config.json").write_text(json.dumps(values))
        return workloads.model(str(tmp_path))

    return reader


def test_dense_llama_parameters_by_hand(read):
    # head_dim 16; attention 64*(64 + 2*32) + 64*64 = 12288; feed-forward 3*64*96 = 18432; norms 128 per layer;
    # 4 * 30848 = 123392; embedding and head 2 * 6400; final norm 64.
    model = read().model
    assert parameter_count(model) == 4 * (12288 + 18432 + 128) + 12800 + 64
    assert len(model.blocks) == 1 and model.blocks[0].count == 4.0


def test_a_file_and_its_folder_are_the_same_model(read, tmp_path):
    assert read() == workloads.model(str(tmp_path / "config.json"))
    assert read().name == tmp_path.name


@pytest.mark.parametrize(("kv_heads", "expected"), [(4, 4.0), (2, 2.0), (1, 1.0), (..., 4.0)])
def test_multi_head_grouped_and_multi_query(read, kv_heads, expected):
    assert read(num_key_value_heads=kv_heads).model.blocks[0].attention.kv_heads == expected


def test_explicit_head_dim_wins_over_the_quotient(read):
    attention = read(model_type="qwen3", head_dim=32).model.blocks[0].attention
    assert (attention.head_dim, attention.value_dim) == (32.0, 32.0)


def test_missing_head_dim_takes_the_family_default_not_always_the_quotient(read):
    assert read().model.blocks[0].attention.head_dim == 16.0
    assert read(model_type="qwen3").model.blocks[0].attention.head_dim == 128.0
    with pytest.raises(ValueError, match="head_dim is missing"):
        read(model_type="qwen3_moe", **QWEN_MOE)


@pytest.mark.parametrize(("family", "untied"), [("llama", 1.0), ("qwen2", 1.0), ("gemma", 0.0), ("starcoder2", 0.0)])
def test_tied_embeddings_default_is_the_familys(read, family, untied):
    assert read(model_type=family).model.untied == untied
    assert read(model_type=family, tie_word_embeddings=True).model.untied == 0.0
    assert read(model_type=family, tie_word_embeddings=False).model.untied == 1.0


def test_nested_text_config_is_read_and_a_missing_vision_config_is_said_aloud(tmp_path):
    text = {key: value for key, value in SMALL.items() if key not in ("model_type", "torch_dtype")}
    text |= {"model_type": "qwen3_vl_text", "head_dim": 16, "dtype": "float16"}
    config = {"model_type": "qwen3_vl", "tie_word_embeddings": True, "text_config": text}
    (tmp_path / "config.json").write_text(json.dumps(config))
    entry = workloads.model(str(tmp_path))
    assert entry.architecture == "qwen3_vl" and entry.model.untied == 0.0 and entry.precision == "fp16"
    assert entry.model.encoder is None and any("no vision_config" in note for note in entry.notes)


@pytest.mark.parametrize("spelling", ["num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"])
def test_four_spellings_of_the_number_of_experts(read, spelling):
    keys = {spelling: 8, "num_experts_per_tok": 2, "intermediate_size": 96}
    layer = read(model_type="mixtral", **keys).model.blocks[0].feedforward
    assert (layer.experts, layer.top_k, layer.intermediate, layer.shared) == (8.0, 2.0, 96.0, None)


def test_expert_spellings_that_disagree_are_refused(read):
    with pytest.raises(ValueError, match="num_experts is 8 but num_local_experts is 4"):
        read(model_type="mixtral", num_experts=8, num_local_experts=4, num_experts_per_tok=2)


def test_qwen_sparse_step_and_dense_layers(read):
    # Layers with experts: (i + 1) % 2 == 0, so 1 and 3; layer 3 is listed as dense, which leaves 1.
    model = read(model_type="qwen3_moe", head_dim=16, decoder_sparse_step=2, mlp_only_layers=[3], **QWEN_MOE).model
    counts = {type(block.feedforward): block.count for block in model.blocks}
    assert counts == {FeedForward: 3.0, Experts: 1.0}


def test_shared_experts_that_are_one_wide_layer_with_a_gate(read):
    keys = {"shared_expert_intermediate_size": 128, **QWEN_MOE}
    block = read(model_type="qwen2_moe", **keys).model.blocks[0]
    assert block.feedforward.shared.intermediate == 128.0
    # Two norms 128, q, k and v biases 64 + 2*32 = 128, the shared experts' gate 64.
    assert block.other_parameters == 128.0 + 128.0 + 64.0


def test_dense_prefix_then_experts_with_shared_ones(read):
    keys = {"n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
    model = read(model_type="glm4_moe", head_dim=16, first_k_dense_replace=1, n_shared_experts=2, **keys).model
    dense, sparse = model.blocks
    assert (dense.count, dense.feedforward.intermediate) == (1.0, 96.0)
    assert (sparse.count, sparse.feedforward.shared.intermediate) == (3.0, 64.0)
    assert sparse.other_parameters == dense.other_parameters + 8.0  # the score correction, one per expert


def test_llama4_interleaves_experts_and_chunks():
    # 48 layers, experts in every second, every fourth without positions and so without chunks. Layer 4n + 3 sees
    # everything and has experts: 12. Layers 4n and 4n + 2 are dense and chunked: 24. Layer 4n + 1: 12.
    blocks = workloads.model("Llama-4-Maverick-17B-128E").model.blocks
    found = {(b.attention.window, b.attention.window_kind, type(b.feedforward)): b.count for b in blocks}
    assert found == {
        (8192.0, "chunked", FeedForward): 24.0,
        (8192.0, "chunked", Experts): 12.0,
        (None, None, Experts): 12.0,
    }
    experts = next(b.feedforward for b in blocks if isinstance(b.feedforward, Experts))
    dense = next(b.feedforward for b in blocks if isinstance(b.feedforward, FeedForward))
    assert (experts.intermediate, experts.shared.intermediate, dense.intermediate) == (8192.0, 8192.0, 16384.0)


def test_llama4_stated_layers_win_over_the_interval(read):
    keys = {"num_local_experts": 4, "num_experts_per_tok": 1, "intermediate_size_mlp": 128, "head_dim": 16}
    model = read(model_type="llama4_text", no_rope_layers=[1, 1, 1, 1], moe_layers=[2], **keys).model
    assert {b.attention.window for b in model.blocks} == {8192.0}
    assert sum(b.count for b in model.blocks if isinstance(b.feedforward, Experts)) == 1.0


def test_gpt_oss_sinks_biases_and_alternating_windows():
    blocks = workloads.model("gpt-oss-20b").model.blocks
    assert {(b.count, b.attention.window, b.attention.window_kind) for b in blocks} == {
        (12.0, 128.0, "sliding"),
        (12.0, None, None),
    }
    # Norms 2*2880, biases of q, k and v (64 + 2*8)*64 and of o 2880, 64 sinks, router bias 32, expert biases
    # 32 * (2*2880 + 2880).
    assert blocks[0].other_parameters == 5760 + 5120 + 2880 + 64 + 32 + 32 * 8640


@pytest.mark.parametrize(
    ("changes", "windows"),
    [
        ({"model_type": "mistral", "sliding_window": 32}, {32.0: 4.0}),
        ({"model_type": "mistral", "sliding_window": None}, {None: 4.0}),
        ({"model_type": "mistral"}, {4096.0: 4.0}),  # the class default
        ({"model_type": "qwen2", "sliding_window": 32}, {None: 4.0}),
        ({"model_type": "qwen2", "use_sliding_window": False, "sliding_window": 32}, {None: 4.0}),
        (
            {"model_type": "qwen2", "use_sliding_window": True, "sliding_window": 32, "max_window_layers": 3},
            {None: 3.0, 32.0: 1.0},
        ),
        ({"model_type": "gemma2", "sliding_window": 32}, {32.0: 2.0, None: 2.0}),
        ({"model_type": "gemma3_text", "sliding_window": 32, "sliding_window_pattern": 4}, {32.0: 3.0, None: 1.0}),
        (
            {
                "model_type": "olmo3",
                "sliding_window": 32,
                "layer_types": ["full_attention"] * 3 + ["sliding_attention"],
            },
            {None: 3.0, 32.0: 1.0},
        ),
        ({"model_type": "llama", "sliding_window": 32}, {None: 4.0}),  # Llama's code reads no such key
    ],
)
def test_windows(read, changes, windows):
    blocks = read(**changes).model.blocks
    assert {b.attention.window: b.count for b in blocks} == windows
    assert all((b.attention.window_kind is None) == (b.attention.window is None) for b in blocks)


def test_layers_with_dimensions_of_their_own():
    blocks = workloads.model("MiMo-V2-Flash").model.blocks
    full = {(b.attention.kv_heads, b.attention.value_dim) for b in blocks if b.attention.window is None}
    sliding = {(b.attention.kv_heads, b.attention.value_dim) for b in blocks if b.attention.window is not None}
    assert (full, sliding) == ({(4.0, 128.0)}, {(8.0, 128.0)})
    assert sum(b.count for b in blocks if b.attention.window is None) == 9.0


def test_ungated_feed_forward_and_learned_positions(tmp_path):
    config = {"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 4, "n_positions": 32, "vocab_size": 100}
    (tmp_path / "config.json").write_text(json.dumps(config | {"torch_dtype": "float32"}))
    model = workloads.model(str(tmp_path)).model
    layer = model.blocks[0].feedforward
    assert (layer.up_projections, layer.intermediate, model.untied) == (1.0, 256.0, 0.0)
    assert model.other_parameters == 2 * 64 + 32 * 64  # the final norm with its bias, and 32 positions


def test_qwen1_states_the_width_of_both_up_projections():
    assert workloads.model("Qwen-72B").model.blocks[0].feedforward.intermediate == 24576.0


def test_identical_layers_merge_wherever_they_stand(read):
    types = ["full_attention", "sliding_attention"] * 2
    assert [b.count for b in read(model_type="gemma2", layer_types=types, sliding_window=8).model.blocks] == [2.0, 2.0]


def test_prediction_layers_stand_apart(read):
    plain, more = read(), read(num_nextn_predict_layers=1)
    assert plain.model.blocks == more.model.blocks and plain.model.prediction is None
    [block], head = more.model.blocks, more.model.prediction
    assert (head.count, head.block.count, head.block.attention) == (1.0, 1.0, block.attention)
    assert parameter_count(plain.model) == parameter_count(more.model)


def test_a_config_named_after_its_model_takes_the_quantisation_beside_it(tmp_path):
    (tmp_path / "x--small_config.json").write_text(json.dumps(SMALL))
    (tmp_path / "x--small_hf_quant_config.json").write_text(json.dumps({"quantization": {"quant_algo": "FP8"}}))
    entry = workloads.model(str(tmp_path / "x--small_config.json"))
    assert (entry.precision, entry.precision_source) == ("fp8 (static scales)", "hf_quant_config.json")
