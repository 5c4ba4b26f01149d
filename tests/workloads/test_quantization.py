"""Bytes per weight worked by hand, which layers they are for, and where the precision is taken from."""

import json

import pytest

import workloads
from jaxroof import Deployment, decode
from jaxroof.step.forward import step_ops
from sweeps.ask.cases import model_deployment

DENSE = {
    "model_type": "qwen3",
    "num_hidden_layers": 4,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "intermediate_size": 96,
    "vocab_size": 100,
    "torch_dtype": "bfloat16",
}
SPARSE = DENSE | {
    "model_type": "qwen3_moe",
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
}


def group(bits, kind, strategy, size=None, activations=None, targets=("Linear",), symmetric=True):
    """One group of a compressed-tensors config."""
    weights = {"num_bits": bits, "type": kind, "strategy": strategy, "group_size": size, "symmetric": symmetric}
    if strategy == "block":
        weights["block_structure"] = [128, 128]
    inputs = None if activations is None else {"num_bits": activations[0], "type": activations[1]}
    return {"targets": list(targets), "weights": weights, "input_activations": inputs}


def compressed(*groups, ignore=("lm_head",), **more):
    """A compressed-tensors quantization_config."""
    config_groups = {f"group_{i}": entry for i, entry in enumerate(groups)}
    return {"quant_method": "compressed-tensors", "config_groups": config_groups, "ignore": list(ignore)} | more


@pytest.fixture
def read(tmp_path):
    """Reads a config with a quantization_config or a hf_quant_config.json, from a folder of a given name."""

    def reader(config=DENSE, quantization=None, hf_quant=None, folder="model", weights=None, **changes):
        place = tmp_path / folder
        place.mkdir(exist_ok=True)
        values = config | ({} if quantization is None else {"quantization_config": quantization}) | changes
        (place / "config.json").write_text(json.dumps({k: v for k, v in values.items() if v is not ...}))
        if hf_quant is not None:
            (place / "hf_quant_config.json").write_text(json.dumps({"quantization": hf_quant}))
        return workloads.model(str(place), weights=weights)

    return reader


@pytest.mark.parametrize(
    ("dtype", "stored", "compute"), [("bfloat16", 2.0, "bf16"), ("float16", 2.0, "fp16"), ("float32", 2.0, "bf16")]
)
def test_unquantised(read, dtype, stored, compute):
    entry = read(torch_dtype=dtype)
    qkv = entry.model.blocks[0].attention.qkv
    assert (qkv.bytes, qkv.compute, entry.precision, entry.precision_source) == (
        stored,
        compute,
        compute,
        "torch_dtype",
    )


@pytest.mark.parametrize(
    ("quantization", "stored", "compute"),
    [
        ({"quant_method": "fp8", "activation_scheme": "static"}, 1.0, "fp8"),
        # One float32 scale per 128 x 128 weights: 1 + 4/16384.
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, 1.000244140625, "fp8"),
        ({"quant_method": "fbgemm_fp8"}, 1.0, "fp8"),
        # 4 bits, a float16 scale and a 4-bit zero per 128: 0.5 + 2/128 + 0.5/128.
        ({"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": True}, 0.51953125, "bf16"),
        # 8 bits: 1 + 2/128 + 1/128.
        ({"quant_method": "gptq", "bits": 8, "group_size": 128}, 1.0234375, "bf16"),
        ({"quant_method": "gptq", "bits": 4, "group_size": -1}, 0.5, "bf16"),
        ({"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}, 0.51953125, "bf16"),
        ({"quant_method": "awq", "bits": 4, "group_size": 64, "zero_point": False}, 0.53125, "bf16"),
        (compressed(group(8, "float", "channel", activations=(8, "float"))), 1.0, "fp8"),
        (compressed(group(8, "float", "block", activations=(8, "float"))), 1.000244140625, "fp8"),
        (compressed(group(8, "float", "tensor")), 1.0, "bf16"),
        (compressed(group(8, "int", "channel", activations=(8, "int"))), 1.0, "int8"),
        # 0.5 + 2/128, symmetric; with zeros 0.5/128 more.
        (compressed(group(4, "int", "group", 128)), 0.515625, "bf16"),
        (compressed(group(4, "int", "group", 128, symmetric=False)), 0.51953125, "bf16"),
        (compressed(group(4, "int", "group", 128, activations=(8, "float"))), 0.515625, "fp8"),
        # NVFP4: 4 bits and an FP8 scale per 16.
        (compressed(group(4, "float", "tensor_group", 16, activations=(4, "float"))), 0.5625, "fp4"),
        (compressed(group(4, "float", "tensor_group", 16)), 0.5625, "bf16"),
        # MXFP4: 4 bits and an 8-bit exponent per 32.
        (compressed(group(4, "float", "group", 32)), 0.53125, "bf16"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"]}, 0.5625, "fp4"),
    ],
)
def test_bytes_per_weight_and_matrix_precision(read, quantization, stored, compute):
    entry = read(quantization=quantization)
    block = entry.model.blocks[0]
    for weights in (block.attention.qkv, block.attention.output, block.feedforward.up, block.feedforward.down):
        assert weights.bytes == pytest.approx(stored, rel=1e-12) and weights.compute == compute
    assert (entry.model.embedding.bytes, entry.model.head.bytes) == (2.0, 2.0)
    assert entry.precision_source == "quantization_config"


@pytest.mark.parametrize(
    ("quantization", "compute", "dequantised"),
    [
        # Weights of as many bits as the matrix unit's operands go in as they are; of fewer, the kernel converts them.
        ({"quant_method": "fp8"}, "fp8", False),
        (compressed(group(8, "float", "tensor")), "bf16", True),
        (compressed(group(8, "int", "channel", activations=(8, "int"))), "int8", False),
        (compressed(group(8, "int", "channel")), "bf16", True),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, "bf16", True),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, "bf16", True),
        (compressed(group(4, "int", "group", 128, activations=(8, "int"))), "int8", True),
        (compressed(group(4, "int", "group", 128, activations=(8, "float"))), "fp8", True),
        (compressed(group(4, "float", "group", 16, activations=(4, "float"))), "fp4", False),
        (compressed(group(4, "float", "group", 16)), "bf16", True),
        (compressed(group(4, "float", "group", 32, activations=(8, "float"))), "fp8", True),
        (compressed(group(4, "float", "group", 32, activations=(4, "float"))), "fp4", False),
    ],
)
def test_weights_that_the_kernel_converts(read, quantization, compute, dequantised):
    up = read(quantization=quantization).model.blocks[0].feedforward.up
    assert (up.compute, up.dequantised) == (compute, dequantised)


@pytest.mark.parametrize(
    ("algorithm", "stored", "compute"),
    [
        ("FP8", 1.0, "fp8"),
        ("NVFP4", 0.5625, "fp4"),
        ("W4A16_AWQ", 0.515625, "bf16"),
        ("W4A8_AWQ", 0.515625, "fp8"),
        ("FP8_PB_WO", 1.000244140625, "bf16"),
        ("W8A8_SQ_PER_CHANNEL", 1.0, "int8"),
        ("MXFP8", 1.03125, "fp8"),
    ],
)
def test_modelopt_algorithms(read, algorithm, stored, compute):
    entry = read(hf_quant={"quant_algo": algorithm, "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]})
    up = entry.model.blocks[0].feedforward.up
    assert (up.bytes, up.compute) == (pytest.approx(stored, rel=1e-12), compute)
    assert (entry.precision_source, entry.kv_precision) == ("hf_quant_config.json", "fp8")


def test_modelopt_mixed_precision_per_layer(read):
    layers = {f"model.layers.{i}.self_attn": {"quant_algo": "FP8"} for i in range(4)}
    layers |= {"model.layers.0.mlp": {"quant_algo": "NVFP4", "group_size": 16}}
    entry = read(hf_quant={"quant_algo": "MIXED_PRECISION", "quantized_layers": layers})
    found = {(b.attention.qkv.compute, b.feedforward.up.compute): b.count for b in entry.model.blocks}
    assert found == {("fp8", "fp4"): 1.0, ("fp8", "bf16"): 3.0}
    assert entry.precision == "fp8 (static scales) + nvfp4"


def test_gpt_oss_quantises_the_experts_alone():
    entry = workloads.model("gpt-oss-20b")
    block = entry.model.blocks[0]
    assert (block.feedforward.up.bytes, block.feedforward.up.compute) == (0.53125, "bf16")
    assert block.attention.qkv.bytes == block.attention.output.bytes == block.feedforward.router.bytes == 2.0
    assert entry.precision == "mxfp4 (weights only)"


@pytest.mark.parametrize(
    ("excluded", "expected"),
    [
        # count of layers by whether (qkv, o_proj, up, down) are FP8
        (["lm_head"], {(True, True, True, True): 4}),
        (["self_attn"], {(False, False, True, True): 4}),
        (["model.layers.0"], {(False, False, False, False): 1, (True, True, True, True): 3}),
        (["model.layers.*.self_attn"], {(False, False, True, True): 4}),
        (["model.layers.1*"], {(False, False, False, False): 1, (True, True, True, True): 3}),
        (["*o_proj"], {(True, False, True, True): 4}),
        (["re:.*layers\\.[01]\\.mlp.*"], {(True, True, False, False): 2, (True, True, True, True): 2}),
        (["language_model.model.layers.3.mlp.down_proj"], {(True, True, True, False): 1, (True, True, True, True): 3}),
        (["self_attn.qkv_proj", "mlp.gate_up_proj"], {(False, True, False, True): 4}),
        (["gate"], {(True, True, True, True): 4}),  # gate_proj is another name
    ],
)
@pytest.mark.parametrize("key", ["modules_to_not_convert", "ignored_layers"])
def test_modules_left_unquantised(read, excluded, expected, key):
    blocks = read(quantization={"quant_method": "fp8", key: excluded}).model.blocks
    found = {
        tuple(
            f.bytes == 1.0 for f in (b.attention.qkv, b.attention.output, b.feedforward.up, b.feedforward.down)
        ): b.count
        for b in blocks
    }
    assert found == expected


def test_the_router_stays_unquantised_and_experts_follow_their_own_names(read):
    layer = read(SPARSE, quantization={"quant_method": "fp8"}).model.blocks[0].feedforward
    assert (layer.router.bytes, layer.up.bytes, layer.down.bytes) == (2.0, 1.0, 1.0)
    excluded = {"quant_method": "fp8", "modules_to_not_convert": ["mlp.experts"]}
    block = read(SPARSE, quantization=excluded).model.blocks[0]
    assert (block.attention.qkv.bytes, block.feedforward.up.bytes) == (1.0, 2.0)


def test_targets_of_a_group_by_name(read):
    experts = group(4, "int", "group", 32, targets=["re:.*mlp.experts.*"])
    block = read(SPARSE, quantization=compressed(experts)).model.blocks[0]
    assert (block.attention.qkv.bytes, block.feedforward.up.bytes) == (2.0, 0.5625)


def test_gptq_may_name_the_modules_that_it_quantises(read):
    names = [["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"], ["self_attn.o_proj"]]
    gptq = {"quant_method": "gptq", "bits": 4, "group_size": 128, "modules_in_block_to_quantize": names}
    block = read(quantization=gptq).model.blocks[0]
    assert (block.attention.qkv.bytes, block.attention.output.bytes) == (0.51953125, 0.51953125)
    assert (block.feedforward.up.bytes, block.feedforward.down.bytes) == (2.0, 2.0)


def test_the_head_is_quantised_only_where_the_config_says_so(read):
    gptq = {"quant_method": "gptq", "bits": 4, "group_size": 128}
    assert read(quantization=gptq).model.head.bytes == 2.0
    assert read(quantization=gptq | {"lm_head": True}).model.head.bytes == 0.51953125
    every_linear = compressed(group(8, "float", "channel", activations=(8, "float")), ignore=())
    assert read(quantization=every_linear).model.head.bytes == 1.0
    assert read(quantization=every_linear, tie_word_embeddings=True).model.head.bytes == 2.0


def test_layers_fused_into_one_product_have_to_agree(read):
    with pytest.raises(ValueError, match="linear layers that run as one are quantised differently"):
        read(quantization={"quant_method": "fp8", "modules_to_not_convert": ["v_proj"]})


def test_kv_precision_of_compressed_tensors(read):
    scheme = {"num_bits": 8, "type": "float"}
    config = compressed(group(8, "float", "tensor", activations=(8, "float")), kv_cache_scheme=scheme)
    assert read(quantization=config).kv_precision == "fp8"
    config["kv_cache_scheme"] = {"num_bits": 4, "type": "float"}
    assert read(quantization=config).kv_precision == "fp4"
    assert read(quantization={"quant_method": "fp8"}).kv_precision is None


def test_precedence_config_then_hf_quant_then_name_then_dtype(read):
    fp8, nvfp4 = {"quant_method": "fp8"}, {"quant_algo": "NVFP4"}
    both = read(quantization=fp8, hf_quant=nvfp4, folder="Small-AWQ")
    assert (both.precision, both.precision_source) == ("fp8", "quantization_config")
    beside = read(hf_quant=nvfp4, folder="Small-w4a16")
    assert (beside.precision, beside.precision_source) == ("nvfp4", "hf_quant_config.json")
    named = read(folder="Small-AWQ-INT4")
    assert named.precision == "w4a16 (awq, group 128)"
    assert named.precision_source == "name ends in AWQ-INT4 (naming convention)"
    assert any("naming convention" in note for note in named.notes)
    assert read(folder="Small").precision_source == "torch_dtype"


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("neuralmagic/Meta-Llama-3.1-70B-Instruct-FP8", "fp8"),
        ("RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic", "fp8"),
        ("RedHatAI/Meta-Llama-3.1-70B-Instruct-quantized.w4a16", "w4a16 (compressed-tensors, group 128)"),
        ("RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w8a8", "w8a8 (compressed-tensors)"),
        ("TheBloke/Llama-2-70B-Chat-AWQ", "w4a16 (awq, group 128)"),
        ("TheBloke/Mixtral-8x7B-Instruct-v0.1-GPTQ", "w4a16 (gptq, group 128)"),
        ("nvidia/MiniMax-M2.5-NVFP4", "nvfp4"),
    ],
)
def test_requantised_repositories_by_naming_convention(name, label):
    entry = workloads.model(name)
    assert entry.precision == label
    assert entry.precision_source.endswith("(naming convention)")
    assert any("naming convention" in note for note in entry.notes)


def test_requantised_repositories_with_facts_of_their_own():
    entry = workloads.model("nvidia/Qwen3-30B-A3B-NVFP4")
    assert (entry.precision_source, entry.kv_precision) == ("hf_quant_config.json", "fp8")
    assert workloads.model("Qwen/Qwen3-32B-FP8").precision == "fp8 (block 128x128)"
    # Feed-forwards of all but the first and the last of 126 layers are FP8; attention is not.
    blocks = workloads.model("meta-llama/Llama-3.1-405B-Instruct-FP8").model.blocks
    found = {(b.attention.qkv.bytes, b.feedforward.up.bytes): b.count for b in blocks}
    assert found == {(2.0, 2.0): 2.0, (2.0, 1.0): 124.0}


@pytest.mark.parametrize(
    ("weights", "stored", "compute"),
    [
        ("fp8", 1.0, "fp8"),
        ("int8", 1.0, "int8"),
        ("w8a16", 1.0, "bf16"),
        ("w4a16", 0.51953125, "bf16"),
        ("w4a8", 0.515625, "fp8"),  # 0.5 + 2/128, symmetric
        ("nvfp4", 0.5625, "fp4"),
        ("mxfp4", 0.53125, "bf16"),
        ("mxfp8", 1.03125, "fp8"),
    ],
)
def test_override(weights, stored, compute):
    entry = workloads.model("Qwen3-30B-A3B-FP8", weights=weights)
    block, model = entry.model.blocks[0], entry.model
    for linear in (block.attention.qkv, block.attention.output, block.feedforward.up, block.feedforward.down):
        assert (linear.bytes, linear.compute) == (stored, compute)
    assert block.feedforward.router.bytes == model.embedding.bytes == model.head.bytes == 2.0
    assert entry.precision_source == "weights"
    assert any(f'weights="{weights}" replaces fp8 (block 128x128)' in note for note in entry.notes)


@pytest.mark.parametrize("weights", [None, "fp8", "w4a16", "bf16", "fp32"])
def test_a_float32_checkpoint_runs_at_16_bits_unless_it_is_asked_for(read, weights):
    """Engines cast it, with quantised weights and without: nothing is left in fp32, attention neither."""
    entry = read(torch_dtype="float32", weights=weights)
    head, attention = entry.model.head, model_deployment(entry, "fp8").attention_compute
    assert {head.compute, attention} == {"fp32" if weights == "fp32" else "bf16"}
    assert head.bytes == (4.0 if weights == "fp32" else 2.0)
    kept = [note for note in entry.notes if note.startswith("torch_dtype is float32: ")]
    assert len(kept) == (weights in (None, "fp8", "w4a16"))


def test_a_quantised_float32_checkpoint_runs_the_rest_at_16_bits(read):
    entry = read(quantization_config={"quant_method": "fp8", "activation_scheme": "static"}, torch_dtype="float32")
    layer, model = entry.model.blocks[0].attention.qkv, entry.model
    assert (layer.bytes, layer.compute) == (1.0, "fp8")
    assert {(part.bytes, part.compute) for part in (model.head, model.embedding)} == {(2.0, "bf16")}


@pytest.mark.parametrize(("weights", "stored"), [("bf16", 2.0), ("fp16", 2.0), ("tf32", 4.0), ("fp32", 4.0)])
def test_override_of_the_whole_model(weights, stored):
    model = workloads.model("Qwen3-30B-A3B-FP8", weights=weights).model
    layer = model.blocks[0].feedforward
    for part in (layer.up, layer.router, model.embedding, model.head):
        assert (part.bytes, part.compute, part.dequantised) == (stored, weights, False)


@pytest.mark.parametrize(
    ("table", "calibrated"),
    [
        ({"quant_method": "fp8", "activation_scheme": "static"}, True),
        ({"quant_method": "fp8", "activation_scheme": "dynamic"}, False),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, True),
        ({"quant_method": "modelopt", "quant_algo": "FP8_PER_CHANNEL_PER_TOKEN"}, False),
    ],
)
def test_scales_of_activations_in_the_checkpoint(read, table, calibrated):
    """Without scales in the checkpoint a kernel of its own takes them before each product."""
    model = read(quantization_config=table).model
    ops = step_ops(model, Deployment(), decode(4.0, 100.0))
    assert model.blocks[0].feedforward.up.calibrated is calibrated
    assert ("up_proj_quantize" in ops) is not calibrated
