"""Keys that no reader asked for: refused where they say how weights are stored, said aloud where of structure."""

import json

import pytest

import workloads
from tests.workloads.test_quantization_formats import LLAMA
from workloads.config import Config


def read(tmp_path, **keys):
    (tmp_path / "config.json").write_text(json.dumps({**LLAMA, **keys}))
    return workloads.model(str(tmp_path))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("quantization_settings", {"bits": 3}),
        ("weight_bits", 4),
        ("compression", {"format": "x"}),
        ("sparsity_config", {"format": "sparse-24-bitmask"}),
        ("pruning", {"ratio": 0.5}),
        ("pruned_heads", {"0": [1]}),
        ("gptq", True),
    ],
)
def test_storage_is_refused(tmp_path, key, value):
    with pytest.raises(ValueError, match=f"{key} = .* says how weights are stored, and is not read"):
        read(tmp_path, **{key: value})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("sliding_window", 4096),
        ("attention_type", "sparse"),
        ("num_memory_layers", 2),
        ("use_hyper_connections", True),
        ("per_layer_experts", 3),
        ("cross_layer_sharing", [1, 2]),
    ],
)
def test_structure_is_said_aloud(tmp_path, key, value):
    notes = [note for note in read(tmp_path, **{key: value}).notes if note.startswith("not read")]
    assert len(notes) == 1 and f"{key} = {value!r}" in notes[0]


@pytest.mark.parametrize(
    "keys",
    [
        {"rope_theta": 1e6, "rope_scaling": {"type": "yarn"}, "rms_norm_eps": 1e-6, "hidden_act": "silu"},
        {"attention_dropout": 0.1, "initializer_range": 0.02, "use_cache": True, "pretraining_tp": 2},
        {"bos_token_id": 1, "eos_token_id": [2, 3], "transformers_version": "5", "_attn_implementation": "sdpa"},
        {"sliding_window": 4096, "use_sliding_window": False, "max_window_layers": 28},
        {"num_experts": None, "quantization_settings": {}, "sparse_attention": False, "weight_bits": 0},
        {"architectures": ["LlamaForCausalLM"], "head_dim": 64, "attention_bias": True, "mlp_bias": False},
    ],
)
def test_harmless_keys_pass(tmp_path, keys):
    assert not [note for note in read(tmp_path, **keys).notes if note.startswith("not read")]


def test_many_keys_are_one_note(tmp_path):
    (note,) = [n for n in read(tmp_path, **{f"num_x{i}": 1 for i in range(11)}).notes if n.startswith("not read")]
    assert "num_x7 = 1, and 3 more" in note and "num_x8" not in note


def test_the_record_of_keys_reaches_nested_tables():
    config = Config("c", {"inner": {"a": 1, "b": 2}})
    inner = config.table("inner")
    inner.value("a")
    assert (inner.looked_up("a"), config.table("inner").looked_up("a"), inner.looked_up("b")) == (True, True, False)
