"""Zamba2: parameters against published files, cache and state by hand, refusals of configs with contradictions.

Sizes are those of Zyphra/Zamba2-1.2B, 2.7B and 7B (config.json); the files of their weights in bf16 have 2.43, 4.94 +
0.384 and 4.81 + 4.97 + 4.93 GB on the Hugging Face Hub.
"""

import json

import pytest

import workloads
from jaxroof import Deployment
from jaxroof.layers.composite import SharedTransformer
from jaxroof.layers.linear_attention import LinearAttention
from jaxroof.memory.capacity import kv_bytes_per_token, parameter_count, state_bytes_of_sequence, weight_bytes

pytestmark = pytest.mark.usefixtures("float64")  # counts beyond 2**24 are compared exactly


def config(layers, hidden, places, copies, state, groups, adapted) -> dict:
    """Keys of a published config."""
    return {
        "model_type": "zamba2",
        "architectures": ["Zamba2ForCausalLM"],
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        **{"num_attention_heads": 32, "num_key_value_heads": 32, "num_query_groups": 32, "vocab_size": 32000},
        **{"attention_hidden_size": 2 * hidden, "attention_head_dim": hidden // 16, "kv_channels": hidden // 32},
        **{"intermediate_size": 4 * hidden, "ffn_hidden_size": 4 * hidden, "adapter_rank": 128},
        "hybrid_layer_ids": places,
        "layers_block_type": ["hybrid" if i in places else "mamba" for i in range(layers)],
        **{"num_mem_blocks": copies, "use_shared_attention_adapter": adapted, "use_shared_mlp_adapter": True},
        **{"mamba_d_conv": 4, "mamba_d_state": state, "mamba_expand": 2, "mamba_headdim": 64, "mamba_ngroups": groups},
        **{"n_mamba_heads": hidden // 32, "add_bias_linear": False, "use_conv_bias": True, "chunk_size": 256},
        **{"num_logits_to_keep": 1, "torch_dtype": "bfloat16", "max_position_embeddings": 4096},
    }


SMALL = config(38, 2048, [5, 11, 17, 23, 29, 35], 1, 128, 1, True)
MIDDLE = config(54, 2560, [6, 12, 18, 24, 30, 36, 42, 47, 51], 2, 64, 1, False)
LARGE = config(81, 3584, [6, *range(11, 78, 6)], 2, 64, 2, False)

FILES = [(SMALL, 1.2, 2.43e9), (MIDDLE, 2.7, 4.94e9 + 0.384e9), (LARGE, 7.4, 4.81e9 + 4.97e9 + 4.93e9)]
"""Config, billions of parameters by the technical report (arXiv:2411.15242), B of the files."""


@pytest.fixture
def read(tmp_path):
    """Reads a config, some keys changed; a key set to `...` is left out."""

    def reader(values, **changes):
        kept = {key: value for key, value in (values | changes).items() if value is not ...}
        (tmp_path / "config.json").write_text(json.dumps(kept))
        return workloads.model(str(tmp_path))

    return reader


@pytest.mark.parametrize(("values", "billions", "size"), FILES)
def test_parameters_are_those_of_the_files(read, values, billions, size):
    entry = read(values)
    # Files are given in three digits, and a report's figures in two.
    assert float(weight_bytes(entry.model, Deployment())) == pytest.approx(size, rel=2e-3)
    assert float(parameter_count(entry.model)) / 1e9 == pytest.approx(billions, abs=0.05)
    assert entry.notes == ()


def test_parameters_cache_and_state_by_hand(read):
    model = read(MIDDLE).model
    mamba, places = model.blocks
    assert (mamba.count, type(mamba.attention)) == (54.0, LinearAttention)
    assert (places.count, type(places.attention), places.attention.uses) == (9.0, SharedTransformer, 4.5)
    assert places.attention.attention_rank is None and places.attention.feedforward_rank == 128.0
    # In: gates and values of 80 heads of 64, B and C of 64, a time step per head; out: 5120 to 2560.
    layer = 2560 * (2 * 5120 + 2 * 64 + 80) + 5120 * 2560
    layer += (5120 + 128) * 5 + 3 * 80 + 5120 + 2560  # convolution with a bias; decay, skip, step; two norms
    shared = 5120 * 3 * 5120 + 5120 * 2560 + 2560 * 2 * 10240 + 10240 * 2560 + 5120 + 2560
    own = 2560 * 128 + 128 * 2 * 10240 + 2560 * 2560
    assert parameter_count(model) == 54 * layer + 2 * shared + 9 * own + 32000 * 2560 + 2560
    # Keys and values of 32 heads of 160 in nine places, 2 B each.
    assert kv_bytes_per_token(model, Deployment()) == 9 * 2 * 32 * 160 * 2 == 184320
    # 80 heads of 64 x 64 numbers of 4 B, and three tokens of 2 B to look back on, in every layer.
    assert state_bytes_of_sequence(model, Deployment()) == 54 * (80 * 64 * 64 * 4 + 3 * (5120 + 128) * 2)


def test_a_layer_of_products_for_queries_keys_and_values(read):
    _, places = read(SMALL).model.blocks
    assert (places.attention.uses, places.attention.attention_rank) == (6.0, 128.0)
    _, alone = read(SMALL, num_mem_blocks=8).model.blocks  # more copies than places: one each
    assert alone.attention.uses == 1.0


def test_either_key_says_where_shared_layers_are(read):
    expected = parameter_count(read(MIDDLE).model)
    assert parameter_count(read(MIDDLE, layers_block_type=...).model) == expected
    assert parameter_count(read(MIDDLE, hybrid_layer_ids=...).model) == expected
    assert parameter_count(read(MIDDLE, attention_head_dim=..., attention_hidden_size=...).model) == expected


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"hybrid_layer_ids": ..., "layers_block_type": ...}, "layers_block_type is missing (or hybrid_layer_ids)"),
        ({"hybrid_layer_ids": [6, 12]}, "hybrid_layer_ids is [6, 12], but layers_block_type has hybrid at [6, 12, 18"),
        ({"hybrid_layer_ids": [54], "layers_block_type": ...}, "it must be a list of layer indices from 0 to 53"),
        ({"hybrid_layer_ids": ..., "layers_block_type": ["mamba"] * 54}, "layers_block_type has no hybrid layer"),
        ({"layers_block_type": ["attention"] * 54}, "layers_block_type has 'attention'; covered are mamba, hybrid"),
        ({"attention_hidden_size": 2560}, "attention_hidden_size is 2560; it must be twice the hidden size 2560"),
        ({"n_mamba_heads": ...}, "mamba_num_heads is missing (or mamba_n_heads, n_mamba_heads)"),
        ({"num_mem_blocks": 0}, "num_mem_blocks is 0; it must be a positive integer"),
        ({"add_bias_linear": True}, "add_bias_linear is True; zamba2 is read only with False"),
    ],
)
def test_configs_that_contradict_themselves_are_refused(read, changes, says):
    with pytest.raises(ValueError) as caught:
        read(MIDDLE, **changes)
    assert says in str(caught.value) and "\n" not in str(caught.value)
