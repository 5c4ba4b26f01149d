"""Drafts that read the hidden states of a model: their sizes by hand, their runs in a step, and what is refused."""

import json

import pytest

import workloads
from jaxroof import Deployment, decode, mixed, prefill
from jaxroof.memory.capacity import kv_bytes_per_token, parameter_count, weight_bytes
from jaxroof.step.forward import step_ops
from sweeps.ask.deployments import with_draft

EAGLE3 = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLMEagle3"],
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 1,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "draft_vocab_size": 32000,
    "torch_dtype": "bfloat16",
}


@pytest.fixture
def written(tmp_path):
    """Writes EAGLE3 with some keys changed and gives its folder. A key set to `...` is left out."""

    def writer(**changes):
        values = {key: value for key, value in (EAGLE3 | changes).items() if value is not ...}
        (tmp_path / "config.json").write_text(json.dumps(values))
        return str(tmp_path)

    return writer


def test_parameters_by_hand(written, float64):
    # Features 3 * 4096 * 4096; queries, keys and values 2 * 4096 * (4096 + 2 * 1024); output 4096^2; feed-forward
    # 3 * 4096 * 14336; head 32000 * 4096; norms of embedding, hidden state, feed-forward and output.
    model = workloads.model(written()).model
    assert parameter_count(model) == 50_331_648 + 50_331_648 + 16_777_216 + 176_160_768 + 131_072_000 + 4 * 4096
    # A draft of Qwen3-4B that SpecForge trained, 202,700,416 numbers, of which 151,936 and 32,000 map its vocabulary.
    sizes = {"hidden_size": 2560, "intermediate_size": 9728, "vocab_size": 151936}
    assert parameter_count(workloads.model(written(**sizes)).model) == 202_700_416 - 151_936 - 32_000


@pytest.mark.parametrize(
    "changes",
    [
        {"architectures": ["Eagle3LlamaForCausalLM"]},
        {"architectures": ["Qwen3ForCausalLMEagle3"], "model_type": "qwen3", "head_dim": 128},
        {"architectures": ["Eagle3Speculator"], "speculators_model_type": "eagle3"},
    ],
)
def test_other_names_of_the_same_draft(written, changes):
    model = workloads.model(written(**changes)).model
    assert (model.outputs, model.features.inputs, model.blocks[0].attention.inputs) == (32000.0, 3 * 4096.0, 2.0)


def test_a_draft_inside_a_speculators_config(written):
    keys = ("model_type", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "vocab_size")
    layer = {key: EAGLE3[key] for key in (*keys, "num_key_value_heads")}
    gone = dict.fromkeys(layer, ...)
    changes = {
        "architectures": ["Eagle3Speculator"],
        "speculators_model_type": "eagle3",
        "transformer_layer_config": layer,
    }
    model = workloads.model(written(**(gone | changes))).model
    assert (model.hidden, model.outputs, model.features.inputs) == (4096.0, 32000.0, 3 * 4096.0)


def test_another_width_has_an_embedding_of_its_own(written):
    model = workloads.model(written(hidden_size=6144, num_attention_heads=48, target_hidden_size=8192)).model
    assert not model.shared_embedding and model.features.inputs == 3 * 8192.0


def test_the_first_version_joins_an_embedding_and_a_state_and_has_no_head_of_its_own(written):
    model = workloads.model(written(architectures=["EagleLlamaForCausalLM"], draft_vocab_size=...)).model
    assert (model.features.inputs, model.features.every_run, model.untied) == (2 * 4096.0, True, 0.0)
    assert model.blocks[0].attention.inputs is None and model.shared_embedding


def test_runs_in_a_step(written, float64):
    """Of 4 sequences and 3 drafts: one run over 4 * (1 + 3) tokens, which takes the states in, and two over 4."""
    entry = with_draft(workloads.model("Llama-3.1-8B"), written())
    ops = step_ops(entry.model, Deployment(drafts=3.0), decode(4.0, 1000.0))
    first, further = ops["draft.qkv_proj"], ops["drafts.qkv_proj"]
    assert (first.shape.rows, first.shape.inputs, first.shape.outputs) == (16.0, 8192.0, 6144.0)
    assert (further.shape.rows, further.count) == (4.0, 2.0)
    assert (ops["draft.features"].shape.inputs, ops["draft.features"].shape.rows) == (3 * 4096.0, 16.0)
    assert "drafts.features" not in ops
    assert (ops["draft.head"].shape.rows, ops["draft.head"].shape.outputs, ops["draft.head"].count) == (
        4.0,
        32000.0,
        1.0,
    )
    prompt = step_ops(entry.model, Deployment(drafts=3.0), mixed(prefill(1.0, 100.0), decode(4.0, 1000.0)))
    assert prompt["draft.qkv_proj"].shape.rows == 116.0 and prompt["draft.head"].shape.rows == 5.0


def test_no_drafts_are_no_work(written, float64):
    entry = with_draft(workloads.model("Llama-3.1-8B"), written())
    ops = step_ops(entry.model, Deployment(drafts=0.0), decode(4.0, 1000.0))
    assert {float(op.count) for name, op in ops.items() if name.startswith("draft")} == {0.0}


def test_memory_beside_the_model(written, float64):
    entry, plain = with_draft(workloads.model("Llama-3.1-8B"), written()), workloads.model("Llama-3.1-8B")
    drafting = Deployment(drafts=3.0)
    more = weight_bytes(entry.model, drafting) - weight_bytes(plain.model, Deployment())
    assert more == 2.0 * parameter_count(workloads.model(written()).model)
    # One layer of 8 heads of 128 keys and values beside the model's 32.
    assert kv_bytes_per_token(entry.model, drafting) == 33 * 2 * 8 * 128 * 2


def test_refusals(written):
    with pytest.raises(ValueError, match="is a draft that reads another model's hidden states: give it as draft"):
        with_draft(workloads.model(written()), None)
    with pytest.raises(
        ValueError, match="reads hidden states of 12,288 numbers in all; those of Qwen2.5-7B have 3,584"
    ):
        with_draft(workloads.model("Qwen2.5-7B"), written())
    assert any(
        "3 of the model's hidden states" in note
        for note in with_draft(workloads.model("Llama-3.1-8B"), written()).notes
    )
