"""Refusals of models in one line that names the model, the key, its value and what is allowed."""

import json

import pytest

import workloads
from workloads.models.catalogue import catalogue

GOOD = {
    "model_type": "mixtral",
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
    "vocab_size": 100,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "torch_dtype": "bfloat16",
}


def refusal(tmp_path, **changes) -> str:
    """The one line that refuses GOOD with some keys changed. A key set to `...` is left out."""
    values = {key: value for key, value in (GOOD | changes).items() if value is not ...}
    (tmp_path / "config.json").write_text(json.dumps(values))
    with pytest.raises(ValueError) as caught:
        workloads.model(str(tmp_path))
    message = str(caught.value)
    assert "\n" not in message and str(tmp_path) in message
    return message


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("hidden_size", ..., "hidden_size is missing"),
        ("num_hidden_layers", ..., "num_hidden_layers is missing"),
        ("num_attention_heads", ..., "num_attention_heads is missing"),
        ("num_key_value_heads", ..., "num_key_value_heads is missing"),
        ("vocab_size", ..., "vocab_size is missing"),
        ("intermediate_size", ..., "intermediate_size is missing"),
        ("num_local_experts", ..., "num_experts is missing (or num_local_experts, n_routed_experts, moe_num_experts, "),
        ("num_experts_per_tok", ..., "num_experts_per_tok is missing"),
        ("hidden_size", 0, "hidden_size is 0; it must be a positive integer"),
        ("hidden_size", -64, "hidden_size is -64; it must be a positive integer"),
        ("hidden_size", float("nan"), "hidden_size is nan; it must be a positive integer"),
        ("hidden_size", float("inf"), "hidden_size is inf; it must be a positive integer"),
        ("hidden_size", "64", "hidden_size is '64'; it must be a positive integer"),
        ("model_type", "a\nb", r"model_type is 'a\nb'; it must be a string of one line"),
        ("hidden_size", True, "hidden_size is True; it must be a positive integer"),
        ("hidden_size", [64], "hidden_size is [64]; it must be a positive integer"),
        ("hidden_size", 62, "hidden size 62 is not a multiple of 4 heads"),
        ("num_hidden_layers", 10**9, "num_hidden_layers is 1000000000; it must be at most 2000"),
        ("num_key_value_heads", 3, "num_key_value_heads is 3; it must divide the 4 attention heads"),
        ("num_experts_per_tok", 5, "num_experts_per_tok is 5; it must be at most the 4 experts"),
        ("n_shared_experts", 1, "n_shared_experts is 1; shared experts are not read with this model_type"),
        ("tie_word_embeddings", "yes", "tie_word_embeddings is 'yes'; it must be true or false"),
        ("sliding_window", -1, "sliding_window is -1; it must be a positive integer"),
        ("layer_types", ["full_attention"], "layer_types has 1 values; it must be a list of 2, one per layer"),
        ("layer_types", ["full_attention", "conv"], "layer_types has 'conv'; covered are full_attention"),
        ("torch_dtype", "float8", "torch_dtype is 'float8'; it must be one of bfloat16"),
        ("torch_dtype", ..., "torch_dtype is missing and nothing else says the precision"),
        ("model_type", ..., "model_type is missing"),
        ("model_type", "llama", "num_local_experts is 4, but llama is read as a dense model"),
        ("architectures", ["GptOssForCausalLM"], "architecture 'GptOssForCausalLM' of mixtral"),
        ("text_config", 3, "text_config is 3; it must be an object"),
        ("text_config", {"model_type": "llama"}, "text_config of model_type 'llama' inside mixtral is not covered"),
        ("v_head_dim", 8, "v_head_dim is 8; mixtral is read without it"),
    ],
)
def test_keys_that_are_missing_or_wrong(tmp_path, key, value, says):
    assert says in refusal(tmp_path, **{key: value})


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"model_type": "zamba"}, "needs state-space layers with a decay per channel (Mamba-1)"),
        ({"model_type": "hymba"}, "needs attention and state-space layers side by side"),
        ({"model_type": "gemma4_assistant"}, "needs the cache of the model that it drafts for"),
        ({"model_type": "phi3small"}, "needs attention to fixed blocks"),
        ({"model_type": "siglip"}, "needs an encoder of images alone"),
        ({"model_type": "rwkv"}, "needs a recurrent network"),
        ({"num_kv_shared_layers": 2}, "needs layers that share another layer's keys and values"),
    ],
)
def test_architectures_that_are_not_covered(tmp_path, changes, says):
    message = refusal(tmp_path, **changes)
    assert says in message and message.endswith("not covered yet")
    assert f"({changes.get('model_type', 'mixtral')})" in message


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"kv_lora_rank": 512}, "kv_lora_rank is there, which mixtral is read without"),
        ({"index_topk": 2048}, "index_topk is there, which mixtral is read without"),
        ({"layer_types": ["linear_attention", "full_attention"]}, "layer_types has 'linear_attention'; covered are"),
        ({"linear_num_key_heads": 4}, "linear_num_key_heads is there, which mixtral is read without"),
        ({"mamba_num_heads": 4}, "mamba_num_heads is there, which mixtral is read without"),
        ({"compress_ratios": [4, 128]}, "compress_ratios is there, which mixtral is read without"),
        ({"is_encoder_decoder": True}, "is_encoder_decoder is there, which mixtral is read without"),
    ],
)
def test_keys_of_another_family_are_refused(tmp_path, changes, says):
    assert says in refusal(tmp_path, **changes)


@pytest.mark.parametrize(
    ("name", "changes", "says"),
    [
        ("DeepSeek-V3", {"kv_lora_rank": ...}, "kv_lora_rank is missing"),
        ("DeepSeek-V3", {"qk_rope_head_dim": 0}, "qk_rope_head_dim is 0; it must be a positive integer"),
        ("DeepSeek-V3", {"topk_group": 9}, "topk_group is 9; it must be at most the 8 groups of n_group"),
        ("DeepSeek-V3.2", {"index_topk": ...}, "index_topk is missing"),
        ("GLM-5.2-FP8", {"indexer_types": ["full"] * 77 + ["half"]}, "indexer_types has 'half'; it must be 'full' or"),
        ("DeepSeek-V4-Pro", {"compress_ratios": [4] * 60}, "compress_ratios must be a list of at least 61 ratios"),
        ("DeepSeek-V4-Pro", {"compress_ratios": [8] * 61}, "compress_ratios has 8; it must be one of 0, 4, 128"),
        ("DeepSeek-V4-Pro", {"o_groups": "x"}, "o_groups is 'x'; it must be a positive integer"),
        ("Nemotron-H-8B", {"hybrid_override_pattern": "M*"}, "must be 52 letters of M * - E, one per layer"),
        ("Nemotron-H-8B", {"hybrid_override_pattern": "X" * 52}, "must be 52 letters of M * - E, one per layer"),
        ("Nemotron-H-8B", {"n_groups": 7}, "n_groups is 7; it must divide the 128 heads"),
        ("Kimi-Linear-48B-A3B", {"linear_attn_config": {}}, "full_attn_layers must be a list of layers from 1 to 27"),
        ("MiniMax-Text-01", {"attn_type_list": [2] * 80}, "a list of 0 (linear) and 1 (full)"),
        ("MiniMax-M3", {"sparse_attention_config": {"sparse_topk_blocks": 0}}, "sparse_topk_blocks is 0; it must be"),
        (
            "Llama-3.3-Nemotron-Super-49B",
            {"block_configs": []},
            "block_configs must be a list of objects, one per layer",
        ),
        ("Step-3.7-Flash", {"moe_layers_enum": "3-44"}, "moe_layers_enum is '3-44'; it must be layer indices"),
        ("Whisper-large-v3", {"decoder_layers": ...}, "decoder_layers is missing"),
        ("BERT-base", {"is_decoder": True}, "is_decoder is True; bert is read only with False"),
        ("Falcon-40B", {"num_kv_heads": -8}, "num_kv_heads is -8; it must be a positive integer"),
    ],
)
def test_keys_of_one_family_that_are_missing_or_wrong(tmp_path, name, changes, says):
    values = {key: value for key, value in (dict(catalogue()[name].config) | changes).items() if value is not ...}
    (tmp_path / "config.json").write_text(json.dumps(values))
    with pytest.raises(ValueError) as caught:
        workloads.model(str(tmp_path))
    assert says in str(caught.value) and "\n" not in str(caught.value) and str(tmp_path) in str(caught.value)


def test_an_unknown_model_type_is_refused_even_if_its_keys_look_familiar(tmp_path):
    message = refusal(tmp_path, model_type="mixtral2")
    assert "model_type 'mixtral2' is not covered yet; --as TYPE reads it as one that is, such as mixtral" in message


@pytest.mark.parametrize(
    ("quantization", "says"),
    [
        ({}, "quant_method is missing"),
        ({"quant_method": "fp3"}, "quant_method 'fp3' is not known; known are auto-round, autoround, awq"),
        ({"quant_method": "aqlm"}, "quant_method 'aqlm' is not covered: weights are indices into code books"),
        ({"quant_method": "fp8", "weight_block_size": [0, 128]}, "weight_block_size is [0, 128]"),
        ({"quant_method": "fp8", "activation_scheme": "odd"}, "it must be 'dynamic' or 'static'"),
        ({"quant_method": "gptq", "bits": 5, "group_size": 128}, "bits is 5; it must be 2, 3, 4 or 8"),
        ({"quant_method": "gptq", "bits": 4}, "group_size is missing"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 0}, "group_size is 0"),
        ({"quant_method": "compressed-tensors"}, "config_groups is missing"),
        ({"quant_method": "fp8", "modules_to_not_convert": "lm_head"}, "must be a list of module names"),
        ({"quant_method": "fp8", "modules_to_not_convert": ["re:("]}, "is not a pattern that is read: missing )"),
        ({"quant_method": "fp8", "modules_to_not_convert": ["*"]}, "its quantisation names no linear layer"),
        ({"quant_method": "modelopt", "quant_algo": "FP3"}, "quant_algo 'FP3' is not known; known are FP8"),
        ({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"}, "quantized_layers is missing"),
    ],
)
def test_quantisation_that_is_unknown_or_wrong(tmp_path, quantization, says):
    assert says in refusal(tmp_path, quantization_config=quantization)


@pytest.mark.parametrize(("content", "says"), [("{", "not JSON"), ("[1]", "must hold a JSON object"), ("", "not JSON")])
def test_files_that_are_not_configs(tmp_path, content, says):
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(ValueError, match=says) as caught:
        workloads.model(str(tmp_path))
    assert "\n" not in str(caught.value)


def test_files_and_folders_that_are_not_there(tmp_path):
    with pytest.raises(ValueError, match="no such file or folder"):
        workloads.model(str(tmp_path / "nothing" / "config.json"))
    with pytest.raises(ValueError, match=r"has no config\.json"):
        workloads.model(str(tmp_path))


def test_bytes_that_are_not_text(tmp_path):
    (tmp_path / "config.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="cannot be read"):
        workloads.model(str(tmp_path))


def test_an_unknown_name_comes_with_near_ones():
    with pytest.raises(ValueError, match=r"^lama-2-7b: no model of this name .*; near are Llama-2-7B"):
        workloads.model("lama-2-7b")


@pytest.mark.parametrize("nothing", ["", None, 7])
def test_a_name_that_is_no_name(nothing):
    with pytest.raises(ValueError, match="a model is given by its name or path"):
        workloads.model(nothing)


def test_an_unknown_precision():
    with pytest.raises(
        ValueError, match=r"weights is 'int3'; it must be one of fp8, fp8-static, .*int8, w8a16, w4a16, w4a8, nvfp4"
    ):
        workloads.model("Llama-2-7B", weights="int3")


@pytest.mark.parametrize("weights", ["bf16-fp16", "fp16-fp16", "-fp16", "int3-fp16", "w4a16-fp32"])
def test_only_a_quantised_precision_leaves_a_rest_in_fp16(weights):
    with pytest.raises(ValueError, match=f"weights is '{weights}'; it must be one of fp8"):
        workloads.model("Llama-2-7B", weights=weights)


def test_a_quantised_model_whose_rest_is_fp16():
    """Bytes are those of w4a16; what is not quantised, and so attention, is multiplied in fp16."""
    plain, half = (workloads.model("Llama-3.2-1B", weights=name) for name in ("w4a16", "w4a16-fp16"))
    assert half.model.head.compute == "fp16" and plain.model.head.compute == "bf16"
    own, other = (model.model.blocks[0].attention.qkv for model in (half, plain))
    assert (own.compute, own.dequantised, own.bytes) == ("fp16", True, other.bytes)
    assert half.precision == "w4a16 (group 128), rest fp16" and "runs in fp16" in half.notes[-1]


@pytest.mark.parametrize(
    "name",
    [
        "Qwen1.5-MoE-A2.7B",
        "MiMo-V2-Flash",
        "Llama-4-Scout-17B-16E",
        "DeepSeek-V4-Flash",
        "Kimi-K3",
        "Nemotron-3-Super-120B-A12B",
        "Step-3.7-Flash",
        "Whisper-large-v3",
    ],
)
def test_junk_under_any_key_is_read_or_refused_in_one_line(tmp_path, name):
    junk = [0, -1, 1.5, float("nan"), "x", True, [], ["a", [1]], {"a": 1}, 10**400]
    source = json.dumps(dict(catalogue()[name].config))
    for path in _paths(json.loads(source)):
        for value in junk:
            values = json.loads(source)
            place = values
            for key in path[:-1]:
                place = place[key]
            place[path[-1]] = value
            (tmp_path / "config.json").write_text(json.dumps(values))
            try:
                workloads.model(str(tmp_path))
            except ValueError as error:
                assert "\n" not in str(error) and str(tmp_path) in str(error)


def _paths(values: dict, above: tuple = ()) -> list[tuple]:
    """Every key of nested tables, from the outside in."""
    found = []
    for key, value in values.items():
        found.append((*above, key))
        if isinstance(value, dict):
            found += _paths(value, (*above, key))
    return found
