"""Stored bytes of made configs under every quantisation method, by hand, and what of them is refused by name."""

import json

import pytest

import workloads
from jaxroof import Deployment
from jaxroof.memory import capacity

LLAMA = {
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
LINEAR = 2 * (256 * (256 + 2 * 128) + 256 * 256 + 3 * 256 * 512)  # of both layers: 1,179,648
TABLE = 1000 * 256  # of the embedding, and of the head
OTHER = (2 * 2 + 1) * 256 * 2.0  # B of the norms

MIXTURE = {
    "model_type": "qwen3_moe",
    "hidden_size": 256,
    "moe_intermediate_size": 128,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "vocab_size": 1000,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
}
ATTENTION = 256 * (256 + 2 * 128) + 256 * 256  # of one layer: 196,608
EXPERTS = 8 * 3 * 256 * 128  # of one layer: 786,432
ROUTER = 256 * 8


def read(tmp_path, config, weights=None, **keys):
    (tmp_path / "config.json").write_text(json.dumps({**config, **keys}))
    return workloads.model(str(tmp_path), weights=weights)


def stored(entry) -> float:
    return float(capacity.weight_bytes(entry.model, Deployment()))


def refusal(tmp_path, config, **keys) -> str:
    with pytest.raises(ValueError) as caught:
        read(tmp_path, config, **keys)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def quark(weight, inputs=None, **keys):
    return {
        "quant_method": "quark",
        "global_quant_config": {"weight": weight, "input_tensors": inputs},
        "exclude": ["lm_head"],
        "export": {"kv_cache_group": []},
        **keys,
    }


def torchao(kind, **data):
    return {"quant_method": "torchao", "quant_type": {"default": {"_type": kind, "_data": data}}}


GROUP_FP4 = {"dtype": "fp4", "qscheme": "per_group", "group_size": 32, "scale_format": "e8m0"}
FP8 = {"dtype": "fp8_e4m3", "qscheme": "per_tensor", "is_dynamic": False}
INT4 = {"dtype": "uint4", "qscheme": "per_group", "group_size": 128}
BNB = {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}
W8A8 = {
    "format": "int-quantized",
    "ignore": ["lm_head"],
    "config_groups": {
        "group_0": {
            "targets": ["Linear"],
            "weights": {"num_bits": 8, "type": "int", "strategy": "channel"},
            "input_activations": {"num_bits": 8, "type": "int", "strategy": "token", "dynamic": True},
        }
    },
}

METHODS = [
    # bits per weight of linear layers, by hand -> precision of the products; the head and the embedding have 16
    (BNB, 4 + 32 / 64, "bf16"),
    (BNB | {"bnb_4bit_quant_type": "fp4", "bnb_4bit_use_double_quant": True}, 4 + 8 / 64 + 32 / (64 * 256), "bf16"),
    ({"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}, 4.5, "bf16"),  # of 2023, without a method
    ({"quant_method": "bitsandbytes", "load_in_8bit": True}, 8, "int8"),
    (quark(GROUP_FP4, GROUP_FP4 | {"is_dynamic": True}), 4 + 8 / 32, "fp4"),
    (quark(GROUP_FP4), 4 + 8 / 32, "bf16"),
    (quark(FP8, FP8), 8, "fp8"),
    (quark(INT4), 4 + (16 + 4) / 128, "bf16"),
    (quark({"dtype": "int8", "qscheme": "per_channel"}, {"dtype": "int8", "is_dynamic": True}), 8, "int8"),
    (quark({"dtype": "fp6_e3m2", "qscheme": "per_group", "group_size": 32}), 6 + 8 / 32, "bf16"),
    (quark([FP8, {"dtype": "int4", "qscheme": "per_channel"}], FP8), 4, "fp8"),
    (torchao("Int4WeightOnlyConfig", group_size=128), 4 + 32 / 128, "bf16"),
    (torchao("Int4WeightOnlyConfig", group_size=32), 4 + 32 / 32, "bf16"),
    (torchao("Int8WeightOnlyConfig"), 8, "bf16"),
    (torchao("Int8DynamicActivationInt8WeightConfig"), 8, "int8"),
    (torchao("Float8WeightOnlyConfig"), 8, "bf16"),
    (torchao("Float8DynamicActivationFloat8WeightConfig", granularity=[{"_type": "PerRow"}]), 8, "fp8"),
    (torchao("MXDynamicActivationMXWeightConfig", weight_dtype="torch.float4_e2m1fn_x2"), 4 + 8 / 32, "fp4"),
    (
        {"quant_method": "torchao", "quant_type": "int4_weight_only", "quant_type_kwargs": {"group_size": 64}},
        4 + 32 / 64,
        "bf16",
    ),
    ({"quant_method": "gptq", "bits": 4, "group_size": 128, "dynamic": {r"-:.*\.gate$": {}}}, 4 + 20 / 128, "bf16"),
    ({"quant_method": "auto-round", "bits": 4, "group_size": 128, "sym": True}, 4 + 20 / 128, "bf16"),
    ({"quant_method": "auto-round", "bits": 4, "group_size": 32, "data_type": "mx_fp", "act_bits": 4}, 4.25, "fp4"),
    (
        {"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": 4, "group_size": 64}}},
        4 + 32 / 64,
        "bf16",
    ),
    (
        {"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": 3, "group_size": 64}}},
        32 / 10 + 32 / 64,
        "bf16",
    ),
    ({"quant_method": "eetq", "weights": "int8"}, 8, "bf16"),
    ({"quant_method": "quanto", "weights": "int4", "activations": None}, 4 + 32 / 128, "bf16"),
    ({"quant_method": "bitnet"}, 2, "int8"),
    ({"quant_method": "fp_quant", "forward_dtype": "mxfp4"}, 4.25, "fp4"),
    ({"quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0}, 8, "fp8"),
    ({"quant_method": "blockwise_int8", "weight_block_size": [128, 128]}, 8 + 32 / 128**2, "int8"),
    ({"quant_algo": "FP8", "producer": {"name": "modelopt"}, "exclude_modules": ["lm_head"]}, 8, "fp8"),
    (W8A8, 8, "int8"),
]


@pytest.mark.parametrize(("quantization", "bits", "compute"), METHODS)
def test_stored_bytes_and_precision_of_the_products(tmp_path, quantization, bits, compute):
    entry = read(tmp_path, LLAMA, quantization_config=quantization)
    assert stored(entry) == pytest.approx(LINEAR * bits / 8 + 2 * TABLE * 2.0 + OTHER, rel=1e-9)
    assert entry.model.blocks[0].feedforward.down.compute == compute
    assert entry.model.head.compute == "bf16"
    assert not [note for note in entry.notes if "not read" in note]


@pytest.mark.parametrize(
    ("quantization", "bits"),
    [
        ({"group_size": 64, "bits": 4}, 4 + 32 / 64),
        ({"group_size": 32, "bits": 6, "mode": "affine"}, 6 + 32 / 32),
        ({"group_size": 32, "bits": 4, "mode": "mxfp4"}, 4 + 8 / 32),
    ],
)
@pytest.mark.parametrize("key", ["quantization", "quantization_config"])
def test_mlx_quantises_embedding_and_head_too(tmp_path, quantization, bits, key):
    entry = read(tmp_path, LLAMA, **{key: quantization})
    assert stored(entry) == pytest.approx((LINEAR + 2 * TABLE) * bits / 8 + OTHER)
    assert entry.precision_source == key


def test_mlx_modules_with_settings_of_their_own(tmp_path):
    """Routers of 8 bits, layer 1's experts down of 6, layer 0's keys of 16; a tied head is read as the embedding."""
    table = {
        "group_size": 64,
        "bits": 4,
        **{f"model.layers.{i}.mlp.gate": {"group_size": 64, "bits": 8} for i in range(2)},
        "model.layers.1.mlp.switch_mlp.down_proj": {"group_size": 64, "bits": 6},
        "model.layers.0.self_attn.k_proj": False,
    }
    entry = read(tmp_path, MIXTURE, quantization=table)
    key = 256 * 128
    bits = (2 * (ATTENTION + EXPERTS) + TABLE - key - EXPERTS / 3) * 4.5 + 2 * ROUTER * 8.5 + EXPERTS / 3 * 6.5
    assert stored(entry) == pytest.approx(bits / 8 + key * 2.0 + 2 * (2 * 256 + 2 * 64) * 2 + 256 * 2)
    assert entry.model.head == entry.model.embedding


def test_mlx_leaves_layers_that_groups_do_not_divide(tmp_path):
    """Groups of 96 divide no 256 inputs, but those of the layers down."""
    config = LLAMA | {"intermediate_size": 480}
    entry = read(tmp_path, config, quantization={"group_size": 96, "bits": 4})
    layer = entry.model.blocks[0].feedforward
    assert (layer.up.bytes, layer.down.bytes) == (2.0, 0.5 + 4.0 / 96)


@pytest.mark.parametrize("place", ["compression_config", "quantization_config"])
def test_the_key_of_compressed_tensors_of_2024(tmp_path, place):
    entry = read(tmp_path, LLAMA, **{place: W8A8 | {"quant_method": "compressed-tensors"}})
    assert (stored(entry), entry.precision_source) == (LINEAR + 2 * TABLE * 2.0 + OTHER, place)


def test_a_quantisation_inside_of_text_config(tmp_path):
    nested = LLAMA | {"model_type": "mistral", "quantization": {"group_size": 64, "bits": 4}}
    outer = {"model_type": "mistral3", "text_config": nested, "torch_dtype": "bfloat16"}
    assert stored(read(tmp_path, outer)) == pytest.approx((LINEAR + 2 * TABLE) * 4.5 / 8 + OTHER)


@pytest.mark.parametrize(
    ("file", "content", "bits"),
    [
        ("hf_quant_config.json", {"quantization": {"quant_algo": "FP8", "exclude_modules": ["lm_head"]}}, 8),
        ("quantize_config.json", {"bits": 4, "group_size": 128, "desc_act": False, "sym": True}, 4 + 20 / 128),
        ("quant_config.json", {"zero_point": True, "q_group_size": 128, "w_bit": 4, "version": "GEMM"}, 4 + 20 / 128),
    ],
)
def test_files_beside_a_config(tmp_path, file, content, bits):
    (tmp_path / file).write_text(json.dumps(content))
    entry = read(tmp_path, LLAMA)
    assert stored(entry) == pytest.approx(LINEAR * bits / 8 + 2 * TABLE * 2.0 + OTHER)
    assert entry.precision_source == file


def test_rules_of_gptq(tmp_path):
    """`-:` leaves the layers down at 16 bits, `+:` gives 8 bits to the outputs of attention; the first rule counts."""
    rules = {r"-:.*\.down_proj": {}, r"+:.*\.(o|down)_proj": {"bits": 8, "group_size": 64}}
    entry = read(
        tmp_path, LLAMA, quantization_config={"quant_method": "gptq", "bits": 4, "group_size": 128, "dynamic": rules}
    )
    down, output = 2 * 256 * 512, 2 * 256 * 256
    bits = (LINEAR - down - output) * (4 + 20 / 128) + output * (8 + 24 / 64) + down * 16
    assert stored(entry) == pytest.approx(bits / 8 + 2 * TABLE * 2.0 + OTHER)


def test_modules_of_auto_round(tmp_path):
    extra = {"model.layers.0.self_attn.o_proj": {"bits": 16, "data_type": "fp"}, r".*\.down_proj": {"bits": 8}}
    table = {"quant_method": "auto-round", "bits": 4, "group_size": 128, "sym": True, "extra_config": extra}
    entry = read(tmp_path, LLAMA, quantization_config=table)
    down, output = 2 * 256 * 512, 256 * 256
    bits = (LINEAR - down - output) * (4 + 20 / 128) + down * (8 + 24 / 128) + output * 16
    assert stored(entry) == pytest.approx(bits / 8 + 2 * TABLE * 2.0 + OTHER)


def test_modules_of_torchao(tmp_path):
    modules = {
        "_default": {"_type": "Int4WeightOnlyConfig", "_data": {"group_size": 128}},
        "model.layers.1.mlp.down_proj": {"_type": "Int8WeightOnlyConfig", "_data": {}},
        "model.layers.0.self_attn.v_proj": None,
    }
    entry = read(tmp_path, LLAMA, quantization_config=torchao("ModuleFqnToConfig", module_fqn_to_config=modules))
    down, value = 256 * 512, 256 * 128
    bits = (LINEAR - down - value) * 4.25 + down * 8 + value * 16
    assert stored(entry) == pytest.approx(bits / 8 + 2 * TABLE * 2.0 + OTHER)


def test_layers_and_cache_of_quark(tmp_path):
    """The group of keys and values says the cache's precision; a pattern gives layers down their own weights."""
    table = quark(
        GROUP_FP4,
        GROUP_FP4,
        export={"kv_cache_group": ["*k_proj", "*v_proj"], "pack_method": "reorder"},
        layer_quant_config={
            **{
                name: {"weight": GROUP_FP4, "input_tensors": GROUP_FP4, "output_tensors": FP8}
                for name in ("*k_proj", "*v_proj")
            },
            "*down_proj": {"weight": FP8, "input_tensors": FP8},
        },
    )
    entry = read(tmp_path, LLAMA, quantization_config=table)
    down = 2 * 256 * 512
    assert stored(entry) == pytest.approx((LINEAR - down) * 4.25 / 8 + down + 2 * TABLE * 2.0 + OTHER)
    assert entry.kv_precision == "fp8"


def test_experts_under_bitsandbytes(tmp_path):
    entry = read(tmp_path, MIXTURE, quantization_config=BNB | {"llm_int8_skip_modules": ["lm_head", "gate"]})
    linear = 2 * (ATTENTION + EXPERTS)
    other = TABLE + 2 * ROUTER + 2 * (2 * 256 + 2 * 64) + 256
    assert stored(entry) == pytest.approx(linear * 4.5 / 8 + other * 2.0)


def test_experts_of_fewer_bits_than_the_rest(tmp_path):
    """w4afp8: experts of 4 bits and a 16-bit scale per 128, multiplied in fp8; attention in fp8 blocks of 128 x 128."""
    entry = read(tmp_path, MIXTURE, quantization_config={"quant_method": "w4afp8", "ignored_layers": ["lm_head"]})
    other = TABLE + 2 * ROUTER + 2 * (2 * 256 + 2 * 64) + 256
    bits = 2 * EXPERTS * (4 + 16 / 128) + 2 * ATTENTION * (8 + 32 / 128**2)
    assert stored(entry) == pytest.approx(bits / 8 + other * 2.0)
    layer = entry.model.blocks[0].feedforward
    assert (layer.up.compute, layer.up.dequantised, layer.up.fallback) == ("fp8", True, None)


def test_what_engines_run_apart_may_differ_and_what_they_fuse_may_not(tmp_path):
    skipped = BNB | {"llm_int8_skip_modules": ["lm_head", "v_proj"]}
    bits = 4.5 * (1 - 128 / 512) + 16 * 128 / 512
    assert read(tmp_path, LLAMA, quantization_config=skipped).model.blocks[0].attention.qkv.bytes == bits / 8
    fused = {"quant_method": "awq", "bits": 4, "group_size": 128, "modules_to_not_convert": ["v_proj"]}
    assert "run as one are quantised differently" in refusal(tmp_path, LLAMA, quantization_config=fused)


def test_a_cache_scheme_that_is_a_name(tmp_path):
    table = {"quant_algo": "FP8", "producer": {"name": "modelopt"}, "ignore": ["lm_head"], "kv_cache_scheme": "FP8"}
    entry = read(tmp_path, LLAMA, quantization_config=table)
    assert (entry.kv_precision, entry.precision) == ("fp8", "fp8 (static scales)")


def test_zeros_that_are_stored_are_said_aloud_where_they_have_a_structure(tmp_path):
    for structure, notes in (("2:4", 1), ("unstructured", 0)):
        sparsity = {"format": "dense", "global_sparsity": 0.5, "sparsity_structure": structure, "targets": ["Linear"]}
        entry = read(tmp_path, LLAMA, quantization_config=W8A8 | {"sparsity_config": sparsity})
        said = [note for note in entry.notes if "sparsity_structure" in note]
        assert len(said) == notes and len([note for note in entry.notes if "not read" in note]) == notes
        assert stored(entry) == LINEAR + 2 * TABLE * 2.0 + OTHER


def test_a_gguf_file_is_refused_in_one_line(tmp_path):
    (tmp_path / "model-Q4_K_M.gguf").write_bytes(b"GGUF" + bytes(range(256)))
    with pytest.raises(ValueError, match='is a GGUF file, which is not read: .* weights="q4_k_m"'):
        workloads.model(str(tmp_path / "model-Q4_K_M.gguf"))


@pytest.mark.parametrize(
    ("quantization", "says"),
    [
        ({"quant_method": "vptq"}, "quant_method 'vptq' is not covered: weights are indices into code books"),
        ({"quant_method": "spqr"}, "'spqr' is not covered: outliers are stored apart"),
        ({"quant_method": "gguf"}, "'gguf' is not covered: the file holds its types; give the type of file"),
        ({"group": 3}, "quant_method is missing, and no key shows it; known are auto-round"),
        ({"quant_method": "bitsandbytes"}, "one of load_in_4bit and load_in_8bit must be true"),
        (BNB | {"bnb_4bit_quant_type": "nf3"}, "bnb_4bit_quant_type is 'nf3'; it must be nf4 or fp4"),
        ({"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": 7}}}, "nbits is 7; it must be one"),
        (torchao("Int3Config"), "torchao's class 'int3' is not known; known are int4weightonly"),
        (quark({"dtype": "int3"}), "weights of dtype 'int3' with group_size None are not covered"),
        (quark(GROUP_FP4, {"dtype": "int9"}), "dtype is 'int9'; it must be one of fp8_e4m3"),
        ({"quant_method": "mlx", "bits": 7}, "bits is 7; it must be one of 2, 3, 4, 5, 6, 8"),
        ({"quant_method": "mlx", "bits": 4, "mode": "odd"}, "mode is 'odd'; it must be affine, mxfp4"),
        (W8A8 | {"sparsity_config": {"format": "sparse-24-bitmask"}}, "stores weights without their zeros"),
        (W8A8 | {"format": "marlin-24"}, "format 'marlin-24' stores weights without their zeros"),
        ({"quant_method": "quanto", "weights": "int5"}, "weights is 'int5'; it must be one of int8, float8"),
        ({"quant_method": "fp_quant", "pseudoquantization": True}, "pseudoquantization is true"),
    ],
)
def test_what_is_refused_by_name(tmp_path, quantization, says):
    assert says in refusal(tmp_path, LLAMA, quantization_config=quantization)


@pytest.mark.parametrize(
    ("weights", "bits", "outer"),
    [
        ("nf4", 4 + 8 / 64 + 32 / (64 * 256), 16),
        ("nf4-single", 4.5, 16),
        ("mlx-4bit", 4.5, 4.5),
        ("mlx-mxfp4", 4.25, 4.25),
        ("q8_0", 8.5, 8.5),
        ("Q6_K", 6.5625, 6.5625),
    ],
)
def test_what_a_user_may_ask_for(tmp_path, weights, bits, outer):
    entry = read(tmp_path, LLAMA, weights=weights)
    assert stored(entry) == pytest.approx((LINEAR * bits + 2 * TABLE * outer) / 8 + OTHER)
