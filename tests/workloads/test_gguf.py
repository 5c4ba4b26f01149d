"""Mixtures of GGUF types: published sizes of files that llama-quantize makes, and rules by hand."""

import pytest

import workloads
from jaxroof import Deployment
from jaxroof.memory import capacity
from workloads.precisions.formats import Tensor
from workloads.precisions.gguf import FILE_TYPES, Mixture, file_type

BITS = {
    "iq1_s": 2.0042,
    "iq1_m": 2.1460,
    "iq2_xxs": 2.3824,
    "iq2_xs": 2.5882,
    "iq2_s": 2.7403,
    "iq2_m": 2.9294,
    "iq3_xxs": 3.2548,
    "iq3_xs": 3.4977,
    "iq3_s": 3.6606,
    "iq3_m": 3.7628,
    "iq4_xs": 4.4597,
    "iq4_nl": 4.6818,
    "q2_k_s": 2.9697,
    "q2_k": 3.1593,
    "q3_k_s": 3.6429,
    "q3_k_l": 4.2979,
    "q4_k_s": 4.6672,
    "q4_k_m": 4.8944,
    "q5_k_s": 5.5704,
    "q5_k_m": 5.7036,
    "q6_k": 6.5633,
    "q8_0": 8.5008,
}
"""Bits per weight of Llama 3.1 8B. Source: llama.cpp, tools/quantize/README.md (norms there have 32 bits, here 16)."""

SIZES = {
    ("Qwen3-30B-A3B", "q4_k_m"): 17.28,
    ("Llama-2-7B", "q4_0"): 3.56,
    ("Llama-2-7B", "q4_k_m"): 3.80,
    ("Llama-3.3-70B-Instruct", "q4_k_m"): 39.59,
    ("Qwen2.5-7B-Instruct", "q4_k_m"): 4.36,
    ("Qwen3-32B", "q4_k_m"): 18.40,
    ("Mixtral-8x7B-Instruct-v0.1", "q4_k_m"): 26.49,
    ("Qwen2.5-0.5B", "q4_k_m"): 373.71 / 1024,
    ("gpt-oss-20b", "mxfp4_moe"): 11.27,
}
"""GiB of files as llama-bench prints them. Sources: llama.cpp issues #17067 and #14235 (Qwen3-30B-A3B, 4.86 bits), and
tables of its backends. Values of 80 layers get 5 bits, of eight experts 8; 896 columns take no blocks of 256."""


def stored(name, weights):
    model = workloads.model(name, weights=weights).model
    return float(capacity.weight_bytes(model, Deployment())), float(capacity.parameter_count(model))


@pytest.mark.parametrize("weights", BITS)
def test_bits_of_llama_3_1_8b(weights):
    size, parameters = stored("Llama-3.1-8B", weights)
    assert 8.0 * size / parameters == pytest.approx(BITS[weights], rel=5e-4)


@pytest.mark.parametrize(("name", "weights"), SIZES)
def test_sizes_of_other_models(name, weights):
    size, _ = stored(name, weights)
    assert size / 2**30 == pytest.approx(SIZES[name, weights], rel=0.002)  # two decimals, and 16-bit norms


def test_layers_that_get_more_bits():
    """Of 32 layers the first and last four, and every third between: 4 to 27 where (i - 4) mod 3 = 2."""
    mixture = Mixture("q4_k_m", layers=32, group=4.0)
    types = [mixture.tensor_type(Tensor(("d",), "down", 4096.0, layer=i)) for i in range(32)]
    more = {*range(4), *range(28, 32), *(i for i in range(4, 28) if (i - 4) % 3 == 2)}
    assert {i for i, found in enumerate(types) if found == "q6_k"} == more
    assert set(types) == {"q4_k", "q6_k"}


@pytest.mark.parametrize(
    ("wanted", "inputs", "found"),
    [("q4_k_m", 512.0, "q4_k"), ("q4_k_m", 96.0, "q5_0"), ("q6_k", 96.0, "q8_0"), ("iq4_xs", 96.0, "iq4_nl")]
    + [("q3_k_s", 96.0, "q4_0"), ("q4_k_m", 80.0, "f16"), ("q8_0", 80.0, "f16")],
)
def test_columns_that_blocks_do_not_divide(wanted, inputs, found):
    assert Mixture(wanted, layers=32).tensor_type(Tensor(("q",), "query", inputs, layer=9)) == found


def test_routers_stay_at_32_bits():
    model = workloads.model("Qwen3-30B-A3B", weights="q4_k_m").model
    assert {block.feedforward.router.bytes for block in model.blocks} == {4.0}


def test_a_tied_table_has_the_type_of_the_head():
    assert Mixture("q4_k_m", tied=True).tensor_type(Tensor(("e",), "embedding", 1024.0)) == "q6_k"
    assert Mixture("q4_k_m").tensor_type(Tensor(("e",), "embedding", 1024.0)) == "q4_k"


def test_names_of_file_types():
    assert [file_type(text) for text in ("Q4_K_M", "q4-k-m", "Q4_K", "q4km")] == ["q4_k_m", "q4_k_m", "q4_k_m", None]
    assert all(file_type(name) == name for name in FILE_TYPES)


def test_a_model_runs_in_fp16_with_weights_that_kernels_convert():
    model = workloads.model("Qwen3-0.6B", weights="q4_k_m").model
    qkv = model.blocks[0].attention.qkv
    assert (qkv.compute, qkv.dequantised, model.head.compute) == ("fp16", True, "fp16")
    assert workloads.model("Qwen3-0.6B", weights="q4_k_m-fp32").model.head.compute == "fp32"


def test_names_of_files_mean_their_models():
    """As with other endings, a name that is not in the catalogue is its model at that precision."""
    named, asked = workloads.model("Qwen3-30B-A3B-Q4_K_M"), workloads.model("Qwen3-30B-A3B", weights="q4_k_m")
    assert named.model == asked.model and named.precision == "q4_k_m (GGUF)"
    assert workloads.model("unsloth/Llama-3.1-8B-Instruct-bnb-4bit").precision.startswith("nf4")
    with pytest.raises(ValueError, match="no model of this name"):
        workloads.model("Qwen3-30B-A3B-UD-Q4_K_XL")
