"""Families by the published sizes of one model each, against the number of parameters that its card states."""

import json

import pytest

import workloads
from jaxroof import Deployment, decode
from jaxroof.memory.capacity import active_parameter_count, encoder_parameter_count, kv_bytes_per_token, parameter_count
from jaxroof.step.forward import step_ops

pytestmark = pytest.mark.usefixtures("float64")  # counts beyond 2**24 are compared exactly


def sizes(layers, hidden, heads, kv_heads, intermediate, vocabulary, **more) -> dict:
    """Keys that most configs have."""
    keys = {
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "intermediate_size": intermediate,
        "vocab_size": vocabulary,
    }
    return {**keys, "torch_dtype": "bfloat16", **more}


def mixture(experts, top_k, width, shared=0, dense=0) -> dict:
    """Keys of experts, of shared ones, and of layers without any."""
    keys = {"num_experts": experts, "num_experts_per_tok": top_k, "moe_intermediate_size": width}
    keys |= {"num_shared_experts": shared} if shared else {}
    return keys | {"first_k_dense_replace": dense}


MLA = {"kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}
T5 = {"is_encoder_decoder": True, "num_heads": 32, "d_kv": 64, "feed_forward_proj": "gated-gelu"}
BART = {"d_model": 1024, "max_position_embeddings": 1024, "is_encoder_decoder": True}
BART |= {f"{stack}_{key}": n for stack in ("encoder", "decoder") for key, n in (("layers", 12), ("ffn_dim", 4096))}
BART |= {"encoder_attention_heads": 16, "decoder_attention_heads": 16}
LFM2 = ["conv", "conv", "full_attention", "conv", "conv", "full_attention", "conv", "conv", "full_attention", "conv"]
LFM2 += ["full_attention", "conv", "full_attention", "conv", "full_attention", "conv"]
LFM2_MOE = ["full_attention" if i in (2, 6, 10, 14, 18, 21) else "conv" for i in range(24)]

# Repository -> config, parameters in billions, billions that one token runs (None: not on the card).
# A card's figure is right to half a unit of its last digit; where it is a count, to one in ten thousand.
CARDS = {
    "XiaomiMiMo/MiMo-7B-Base": ("mimo", sizes(36, 4096, 32, 8, 11008, 151680, head_dim=128), 7.62, None),
    "openbmb/MiniCPM-2B-sft-bf16": ("minicpm", sizes(40, 2304, 36, 36, 5760, 122753), 2.72, None),
    "openbmb/MiniCPM4-8B": ("minicpm", sizes(32, 4096, 32, 2, 16384, 73448, tie_word_embeddings=False), 8.19, None),
    "EleutherAI/gpt-neo-2.7B": (
        "gpt_neo",
        {
            **{"hidden_size": 2560, "num_layers": 32, "num_heads": 20, "vocab_size": 50257, "intermediate_size": None},
            **{"max_position_embeddings": 2048, "window_size": 256, "torch_dtype": "float32"},
            "attention_types": [[["global", "local"], 16]],
        },
        2.65,
        None,
    ),
    "nomic-ai/nomic-embed-text-v1.5": (
        "nomic_bert",
        {"n_layer": 12, "n_embd": 768, "n_head": 12, "n_inner": 3072, "vocab_size": 30528, "torch_dtype": "float32"},
        0.136731648,
        None,
    ),
    "microsoft/deberta-v3-base": (
        "deberta-v2",
        {
            **sizes(12, 768, 12, 12, 3072, 128100, max_position_embeddings=512, type_vocab_size=0),
            **{"relative_attention": True, "position_buckets": 256, "position_biased_input": False},
            "norm_rel_ebd": "layer_norm",
        },
        0.184,
        None,
    ),
    "microsoft/deberta-v3-large": (
        "deberta-v2",
        {
            **sizes(24, 1024, 16, 16, 4096, 128100, max_position_embeddings=512, type_vocab_size=0),
            **{"relative_attention": True, "position_buckets": 256, "position_biased_input": False},
            "norm_rel_ebd": "layer_norm",
        },
        0.434,
        None,
    ),
    "GSAI-ML/LLaDA-8B-Base": (
        "llada",
        {
            **{"n_layers": 32, "d_model": 4096, "n_heads": 32, "n_kv_heads": 32, "mlp_hidden_size": 12288},
            **{"vocab_size": 126464, "weight_tying": False, "torch_dtype": "bfloat16"},
        },
        8.02,
        None,
    ),
    "Dream-org/Dream-v0-Base-7B": ("dream", sizes(28, 3584, 28, 4, 18944, 152064), 7.62, None),
    "google/mt5-xl": (
        "mt5",
        {**T5, "d_model": 2048, "d_ff": 5120, "num_layers": 24, "vocab_size": 250112, "torch_dtype": "float32"},
        3.74,
        None,
    ),
    "google/umt5-xxl": (
        "umt5",
        {
            **{**T5, "d_model": 4096, "d_ff": 10240, "num_layers": 24, "num_heads": 64, "vocab_size": 256384},
            **{"tie_word_embeddings": False, "torch_dtype": "float32"},
        },
        13.0,
        None,
    ),
    "facebook/mbart-large-50": ("mbart", {**BART, "vocab_size": 250054, "torch_dtype": "float32"}, 0.610879488, None),
    "facebook/nllb-200-distilled-600M": (
        "m2m_100",
        {**BART, "vocab_size": 256206, "torch_dtype": "float32"},
        0.615,
        None,
    ),
    "Helsinki-NLP/opus-mt-en-de": (
        "marian",
        {
            **{**BART, "d_model": 512, "max_position_embeddings": 512, "vocab_size": 58101, "torch_dtype": "float32"},
            **{
                f"{stack}_{key}": n for stack in ("encoder", "decoder") for key, n in (("layers", 6), ("ffn_dim", 2048))
            },
            **{"encoder_attention_heads": 8, "decoder_attention_heads": 8},
        },
        0.0744,
        None,
    ),
    "deepseek-ai/deepseek-moe-16b-base": (
        "deepseek",
        sizes(28, 2048, 16, 16, 10944, 102400, **mixture(64, 6, 1408, 2, 1)),
        16.4,
        2.8,
    ),
    "rednote-hilab/dots.llm1.inst": (
        "dots1",
        sizes(62, 4096, 32, 32, 10944, 152064, **mixture(128, 6, 1408, 2, 1)),
        142.8,
        14.0,
    ),
    "inclusionAI/Ling-mini-2.0": (
        "bailing_moe_v2",
        sizes(20, 2048, 16, 4, 5120, 157184, head_dim=128, **mixture(256, 8, 512, 1, 1)),
        16.3,
        1.4,
    ),
    "inclusionAI/Ling-flash-2.0": (
        "bailing_moe_v2",
        sizes(32, 4096, 32, 4, 9216, 157184, head_dim=128, **mixture(256, 8, 1024, 1, 1)),
        103.0,
        6.1,
    ),
    "LGAI-EXAONE/K-EXAONE-236B-A23B": (
        "exaone_moe",
        sizes(48, 6144, 64, 8, 18432, 153600, head_dim=128, sliding_window=128, **mixture(128, 8, 2048, 1, 1)),
        236.0,
        23.0,
    ),
    "upstage/Solar-Open-100B": (
        "solar_open",
        sizes(48, 4096, 64, 8, 10240, 196608, head_dim=128, **mixture(128, 8, 1280, 1)),
        102.6,
        12.0,
    ),
    "arcee-ai/Trinity-Mini": (
        "afmoe",
        {
            **sizes(32, 2048, 32, 4, 6144, 200192, head_dim=128, sliding_window=2048, global_attn_every_n_layers=4),
            **{"num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 1024, "num_shared_experts": 1},
            "num_dense_layers": 2,
        },
        26.0,
        3.0,
    ),
    "allenai/FlexOlmo-7x7B-1T": (
        "flex_olmo",
        sizes(32, 4096, 32, 32, 11008, 100352, num_experts=7, num_experts_per_tok=5),
        33.0,
        None,
    ),
    "tencent/Hy3-preview": (
        "hy_v3",
        sizes(80, 4096, 64, 8, 13312, 120832, head_dim=128, **mixture(192, 8, 1536, 1, 1)),
        295.0,
        21.0,
    ),
    "mistralai/Mistral-Small-4-119B-2603": (
        "mistral4",
        {
            **sizes(36, 4096, 32, 32, 12288, 131072, **mixture(128, 4, 2048, 1, 0)),
            **{"q_lora_rank": 1024, "kv_lora_rank": 256, "qk_nope_head_dim": 64, "qk_rope_head_dim": 64},
            "v_head_dim": 128,
        },
        119.0,
        6.5,
    ),
    "LiquidAI/LFM2-1.2B": (
        "lfm2",
        sizes(16, 2048, 32, 8, 12288, 65536, conv_L_cache=3, layer_types=LFM2),
        1.17,
        None,
    ),
    "LiquidAI/LFM2-8B-A1B": (
        "lfm2_moe",
        {
            **sizes(24, 2048, 32, 8, 7168, 65536, conv_L_cache=3, layer_types=LFM2_MOE, num_dense_layers=2),
            **{"num_experts": 32, "num_experts_per_tok": 4, "moe_intermediate_size": 1792},
        },
        8.34,
        1.5,
    ),
    "tiiuae/Falcon-H1-7B-Base": (
        "falcon_h1",
        {
            **sizes(44, 3072, 12, 2, 12288, 130048, head_dim=128, tie_word_embeddings=False),
            **{"mamba_n_heads": 24, "mamba_d_head": 128, "mamba_d_state": 256, "mamba_n_groups": 1, "mamba_d_conv": 4},
            "mamba_d_ssm": 3072,
        },
        7.59,
        None,
    ),
    "ai21labs/AI21-Jamba-Mini-1.5": (
        "jamba",
        {
            **sizes(32, 4096, 32, 8, 14336, 65536, num_experts=16, num_experts_per_tok=2, mamba_d_state=16),
            **{"attn_layer_period": 8, "attn_layer_offset": 4, "expert_layer_period": 2, "expert_layer_offset": 1},
            **{"mamba_d_conv": 4, "mamba_expand": 2, "mamba_dt_rank": 256, "tie_word_embeddings": False},
        },
        51.6,
        12.0,
    ),
    "state-spaces/mamba-2.8b-hf": (
        "mamba",
        {
            **{"num_hidden_layers": 64, "hidden_size": 2560, "vocab_size": 50280, "state_size": 16, "conv_kernel": 4},
            **{"expand": 2, "time_step_rank": 160, "torch_dtype": "float32"},
        },
        2.77,
        None,
    ),
    "tiiuae/falcon-mamba-7b": (
        "falcon_mamba",
        {
            **{"num_hidden_layers": 64, "hidden_size": 4096, "vocab_size": 65024, "state_size": 16, "conv_kernel": 4},
            **{"expand": 16, "intermediate_size": 8192, "time_step_rank": 256, "torch_dtype": "bfloat16"},
            "tie_word_embeddings": False,
        },
        7.27,
        None,
    ),
    "meituan-longcat/LongCat-Flash-Chat": (
        "longcat_flash",
        {
            **{"num_layers": 28, "hidden_size": 6144, "num_attention_heads": 64, "ffn_hidden_size": 12288, **MLA},
            **{"q_lora_rank": 1536, "n_routed_experts": 512, "zero_expert_num": 256, "moe_topk": 12},
            **{"expert_ffn_hidden_size": 2048, "vocab_size": 131072, "torch_dtype": "bfloat16"},
        },
        562.0,
        27.0,
    ),
    "allenai/Olmo-Hybrid-7B": (
        "olmo_hybrid",
        {
            **sizes(32, 3840, 30, 30, 11008, 100352, linear_conv_kernel_dim=4, linear_num_key_heads=30),
            **{"linear_num_value_heads": 30, "linear_key_head_dim": 96, "linear_value_head_dim": 192},
        },
        7.43,
        None,
    ),
}

CARDS["stepfun-ai/step3"] = (  # its language model, of 321 billion with what sees
    "step3_text",
    {
        **sizes(61, 7168, 64, None, 18432, 128815, head_dim=256, num_attention_groups=1, share_q_dim=2048),
        **{"moe_num_experts": 48, "moe_top_k": 3, "moe_intermediate_size": 5120, "share_expert_dim": 5120},
        "moe_layers_enum": ",".join(map(str, range(4, 60))),
    },
    316.0,
    38.0,
)
GEMMA_TYPES = (["sliding_attention"] * 4 + ["full_attention"]) * 7
CARDS[
    "google/gemma-3n-E4B-it"
] = (  # its language model, as transformers builds it; 7.85 billion with what sees and hears
    "gemma3n_text",
    {
        **sizes(35, 2048, 8, 2, [16384] * 35, 262400, head_dim=256, sliding_window=512, layer_types=GEMMA_TYPES),
        **{"num_kv_shared_layers": 15, "hidden_size_per_layer_input": 256, "vocab_size_per_layer_input": 262144},
        **{"laurel_rank": 64, "altup_num_inputs": 4},
    },
    6.835235568,
    None,
)

CLOSE = {  # relative, where a card rounds or counts otherwise
    "google/umt5-xxl": 0.02,  # 13 billion by name
    "inclusionAI/Ling-flash-2.0": 0.01,  # the sum of its files has the prediction layer too
    "openbmb/MiniCPM4-8B": 0.005,
    "upstage/Solar-Open-100B": 0.001,
    "arcee-ai/Trinity-Mini": 0.01,
    "tencent/Hy3-preview": 0.002,
    "meituan-longcat/LongCat-Flash-Chat": 0.004,  # its router has rows for experts that do nothing
    "LGAI-EXAONE/K-EXAONE-236B-A23B": 0.005,
    "allenai/FlexOlmo-7x7B-1T": 0.01,
}

ACTIVE_CLOSE = {
    "arcee-ai/Trinity-Mini": 0.16,  # 3 without the embedding's 0.41
    "meituan-longcat/LongCat-Flash-Chat": 0.05,  # 18.6 to 31.3, 27 on average
}


@pytest.fixture
def read(tmp_path):
    """Reads a config."""

    def reader(values, suffix=""):
        (tmp_path / "config.json").write_text(json.dumps(values))
        return workloads.model(f"{tmp_path}{suffix}")

    return reader


@pytest.mark.parametrize("name", CARDS)
def test_parameters_are_those_of_the_card(read, name):
    kind, values, billions, active = CARDS[name]
    model = read({"model_type": kind, **values}).model
    found = float(parameter_count(model) + encoder_parameter_count(model)) / 1e9
    digits = len(str(billions).partition(".")[2].rstrip("0"))
    tolerance = CLOSE.get(name, max(0.51 * 10.0**-digits / billions, 1e-4))
    assert found == pytest.approx(billions, rel=tolerance), f"{found:.4f}"
    if active is not None:
        found = float(active_parameter_count(model)) / 1e9
        assert found == pytest.approx(active, rel=ACTIVE_CLOSE.get(name, 0.08)), f"{found:.3f}"


WRAPPERS = {
    # Repository -> its model_type, text model and what its table leaves to class defaults, billions of the text model.
    "CohereLabs/aya-vision-8b": ("aya_vision", "cohere2", sizes(32, 4096, 32, 8, 14336, 256000), 8.03),
    "moonshotai/Kimi-VL-A3B-Instruct": (
        "kimi_vl",
        "deepseek_v3",
        {**sizes(27, 2048, 16, 16, 11264, 163840, **MLA), **mixture(64, 6, 1408, 2, 1)},
        15.96,
    ),
    "llava-hf/llava-v1.6-mistral-7b-hf": (
        "llava_next",
        "mistral",
        {"vocab_size": 32064, "torch_dtype": "float16"},
        7.24,
    ),
    "HuggingFaceM4/Idefics3-8B-Llama3": ("idefics3", "llama", sizes(32, 4096, 32, 8, 14336, 128259), 8.03),
    "HuggingFaceTB/SmolVLM2-2.2B-Instruct": (
        "smolvlm",
        "llama",
        sizes(24, 2048, 32, 32, 8192, 49280, head_dim=64),
        1.81,
    ),
    "google/paligemma-3b-pt-224": ("paligemma", "gemma", sizes(18, 2048, 8, 1, 16384, 257216), 2.51),
    "mistralai/Voxtral-Mini-3B-2507": ("voxtral", "llama", sizes(30, 3072, 32, 8, 8192, 131072, head_dim=128), 4.01),
    "internlm/Intern-S1": (
        "interns1",
        "qwen3_moe",
        sizes(94, 4096, 64, 4, 12288, 153216, head_dim=128, **mixture(128, 8, 1536)),
        235.1,
    ),
    "zai-org/GLM-4.5V": (
        "glm4v_moe",
        "glm4v_moe_text",
        sizes(46, 4096, 96, 8, 10944, 151552, head_dim=128, **mixture(128, 8, 1408, 1, 1)),
        106.9,
    ),
}


@pytest.mark.parametrize("name", WRAPPERS)
@pytest.mark.parametrize("table", ["text_config", "llm_config", "language_config"])
def test_a_wrapper_is_its_text_model_and_says_so(read, name, table):
    kind, inner, values, billions = WRAPPERS[name]
    text = {"model_type": inner, **values}
    if inner == "glm4v_moe_text":
        text["attention_bias"] = True
    entry = read({"model_type": kind, table: text, "vision_config": {"hidden_size": 1152}, "audio_config": {"d": 1}})
    assert float(parameter_count(entry.model)) / 1e9 == pytest.approx(billions, rel=0.004)
    assert entry.architecture == kind and entry.model.encoder is None
    assert entry.notes[0] == f"{kind}: its text model is read, {inner}"
    assert entry.notes[1] == "vision tower and audio encoder left out: prompts are text"


def test_a_thinker_inside_of_a_thinker(read):
    values = sizes(48, 2048, 32, 4, 768, 152064, head_dim=128, **mixture(128, 8, 768))
    text = {"model_type": "qwen3_omni_moe_text", **values}
    outer = {"model_type": "qwen3_omni_moe", "thinker_config": {"text_config": text, "audio_config": {"d_model": 1}}}
    entry = read({**outer, "talker_config": {"text_config": {}}})
    assert float(parameter_count(entry.model)) / 1e9 == pytest.approx(30.5, rel=0.002)
    assert any("speech output left out" in note for note in entry.notes)


def test_a_wrapper_of_a_text_model_that_is_not_covered_is_refused(read):
    with pytest.raises(ValueError, match="model_type 'odd_vl' is not covered yet, nor is 'odd' of its text model"):
        read({"model_type": "odd_vl", "text_config": {"model_type": "odd"}})
    with pytest.raises(ValueError, match=r"\(odd_vl\): needs a recurrent network"):
        read({"model_type": "odd_vl", "text_config": {"model_type": "rwkv"}})


SEES = {"vision_config": {"hidden_size": 1152}}
QWEN3 = sizes(28, 1024, 16, 8, 3072, 151669, head_dim=128, tie_word_embeddings=True)


@pytest.mark.parametrize(
    ("kind", "architecture", "more", "head"),
    [
        # One row per label; a bias where single tokens are labelled; reward models have a square layer before it.
        ("qwen3", "Qwen3ForSequenceClassification", {}, 2 * 1024),
        ("qwen3", "Qwen3ForSequenceClassification", {"num_labels": 1}, 1024),
        ("qwen3", "Qwen3ForTokenClassification", {"id2label": {"0": "a", "1": "b", "2": "c"}}, 3 * 1024 + 3),
        ("qwen3", "Qwen3Model", {}, 0),
        ("qwen2", "Qwen2ForRewardModel", {}, 1024 * 1024 + 1024 + 1024 + 1),
        ("qwen2", "Qwen2ForProcessRewardModel", {"num_labels": 2}, 1024 * 1024 + 1024 + 2 * 1024 + 2),
        ("llama", "LlamaForSequenceClassification", {"num_labels": 5}, 5 * 1024),
        ("internlm2", "InternLM2ForRewardModel", {}, 1024),
    ],
)
def test_heads_that_are_not_of_words(read, kind, architecture, more, head):
    words = read({"model_type": kind, **QWEN3}).model
    model = read({"model_type": kind, **QWEN3, "architectures": [architecture], **more}).model
    assert parameter_count(model) == parameter_count(words) + head
    assert words.generates and not model.generates


def test_an_unknown_type_of_a_known_class(read):
    for architecture in ("Qwen3ForCausalLM", "Qwen3ForSequenceClassification"):
        entry = read({"model_type": "qwen3_ref", "architectures": [architecture], **QWEN3})
        assert entry.notes[0] == "model_type qwen3_ref is not known: read as qwen3, by its architecture"
        assert entry.architecture == "qwen3_ref"
    with pytest.raises(ValueError, match="model_type 'qwen3_ref' is not covered yet"):
        read({"model_type": "qwen3_ref", "architectures": ["OddForCausalLM"], **QWEN3})


def test_a_wrapper_whose_text_model_has_no_table_of_its_own(read):
    keys = sizes(24, 1024, 16, 8, 3584, 120818, head_dim=128, tie_word_embeddings=True)
    entry = read({"model_type": "hunyuan_vl", "architectures": ["HunYuanVLForConditionalGeneration"], **keys, **SEES})
    assert entry.notes[1] == "vision tower left out: prompts are text"
    entry = read({"model_type": "odd_vl", **keys, **SEES}, " as hunyuan_v1_dense")
    assert entry.notes[1] == "vision tower left out: prompts are text"
    ernie = {"moe_num_experts": [64, 64], "moe_intermediate_size": [1536, 512], "moe_k": 6, "moe_num_shared_experts": 2}
    ernie |= {"moe_layer_start_index": [1, 1], "moe_layer_end_index": [27, 27], "model_type": "ernie4_5_moe_vl"}
    entry = read({**sizes(28, 2560, 20, 4, 12288, 103424), **ernie})
    assert float(parameter_count(entry.model)) / 1e9 == pytest.approx(21.8, abs=0.05)
    assert "experts of pictures are left out: prompts are text" in entry.notes


def test_a_config_read_as_another_type(read):
    odd = {"model_type": "odd_moe", "architectures": ["OddForCausalLM"], **QWEN3, **mixture(8, 2, 256)}
    with pytest.raises(ValueError, match="--as TYPE reads it as one that is"):
        read(odd)
    entry = read(odd, " as qwen3_moe")
    assert entry.notes[0] == "read as qwen3_moe, as asked, not as odd_moe"
    assert entry.model == read({**odd, "model_type": "qwen3_moe", "architectures": []}).model
    inside = {
        "model_type": "odd_vl",
        "text_config": odd,
        "vision_config": {"hidden_size": 1},
        "torch_dtype": "bfloat16",
    }
    assert read(inside, " as qwen3_moe").model == entry.model
    with pytest.raises(ValueError, match="it cannot be read as 'qwen3_mo'; did you mean qwen3_moe"):
        read(odd, " as qwen3_mo")


@pytest.mark.parametrize(
    ("pattern", "windowed"),
    [("LLLG", 21), ("lg", 14), ("G", 0), ("GLLLLL", 23)],
)
def test_a_pattern_in_letters(read, pattern, windowed):
    values = {**QWEN3, "model_type": "exaone4", "sliding_window": 4096, "sliding_window_pattern": pattern}
    counts = {block.attention.window: block.count for block in read(values).model.blocks}
    assert counts.get(4096.0, 0.0) == windowed and counts.get(None, 0.0) == 28 - windowed
    with pytest.raises(ValueError, match="sliding_window_pattern is 'LX'; it must be letters L"):
        read({**values, "sliding_window_pattern": "LX"})


def test_no_window_and_no_pattern_is_attention_to_everything(read):
    values = {**QWEN3, "model_type": "exaone4", "sliding_window": None, "sliding_window_pattern": None}
    (block,) = read(values).model.blocks
    assert block.attention.window is None
    with pytest.raises(ValueError, match="sliding_window is missing, which its sliding layers need"):
        read({**QWEN3, "model_type": "exaone4"})


def test_lists_that_say_nothing_new(read):
    values = {**QWEN3, "model_type": "minimax_m2", **mixture(8, 2, 256), "qk_norm_type": "per_layer"}
    plain = read(values)
    assert read({**values, "attn_type_list": [1] * 28}) == plain
    with pytest.raises(ValueError, match="attn_type_list is there, which minimax_m2 is read without"):
        read({**values, "attn_type_list": [1] * 27 + [0]})
    assert read({**values, "sparse_attention_config": {"use_sparse_attention": False}}).model == plain.model
    with pytest.raises(ValueError, match="sparse_attention_config is there, which minimax_m2 is read without"):
        read({**values, "sparse_attention_config": {"sparse_block_size": 64}})
    glm = {**sizes(4, 1024, 16, 16, 512, 1000, **MLA), **mixture(8, 2, 256, 0, 1), "model_type": "glm_moe_dsa"}
    glm |= {"q_lora_rank": 256, "index_topk": 64, "index_head_dim": 32, "index_n_heads": 4}
    plain = read(glm).model
    assert read({**glm, "layer_types": ["deepseek_sparse_attention"] * 4}).model == plain
    assert read({**glm, "layer_types": ["indexed_attention"] * 4}).model == plain
    assert read({**glm, "mlp_layer_types": ["dense", *["sparse"] * 3]}).model == plain
    assert read({**glm, "moe_layer_freq": [0, 1, 1, 1]}).model == plain
    with pytest.raises(ValueError, match="layer_types has 'deepseek_sparse_attention'; covered are"):
        read({**QWEN3, "model_type": "qwen3", "layer_types": ["deepseek_sparse_attention"] * 28})


def test_queries_that_are_projected_down_and_up_again(read):
    """512 to a rank of 96 and one group of keys and values of 64 each; 96 to 8 heads of 64 on two devices."""
    keys = {
        "head_dim": 64,
        "num_attention_groups": 1,
        "share_q_dim": 96,
        "share_expert_dim": 32,
        "moe_layers_enum": "1",
    }
    keys |= {"moe_num_experts": 4, "moe_top_k": 2, "moe_intermediate_size": 32, "model_type": "step3_text"}
    model = read({**sizes(1, 512, 8, None, 1024, 1000), **keys}).model
    matrices = 512 * (96 + 128) + 96 * 512 + 512 * 512 + 3 * 512 * 1024
    assert parameter_count(model) == matrices + 96 + 2 * 512 + 2 * 1000 * 512 + 512
    ops = step_ops(model, Deployment(tp=2.0), decode(3.0, 100.0))
    assert (ops["qkv_proj"].shape.outputs, ops["q_up_proj"].shape.inputs) == (96 + 128, 96)
    assert ops["q_up_proj"].shape.outputs == 4 * 64
    with pytest.raises(ValueError, match="share_q_dim is there, which llama is read without"):
        read({**sizes(1, 512, 8, 8, 1024, 1000), "model_type": "llama", "share_q_dim": 96})


def test_layers_that_share_keys_and_values(read):
    """Two of four layers project and cache keys and values; the others, of doubled width, queries alone."""
    keys = {"model_type": "gemma4_text", "num_kv_shared_layers": 2, "use_double_wide_mlp": True}
    values = {**sizes(4, 512, 4, 2, 1024, 1000, head_dim=64, global_head_dim=64, sliding_window=32), **keys}
    values |= {"layer_types": ["full_attention"] * 4, "hidden_size_per_layer_input": 16}
    entry = read(values)
    own, shared, inputs = entry.model.blocks
    assert (own.count, own.attention.shares_cache, own.feedforward.intermediate) == (2.0, False, 1024.0)
    assert (shared.count, shared.attention.shares_cache, shared.feedforward.intermediate) == (2.0, True, 2048.0)
    assert (inputs.count, inputs.attention, inputs.feedforward.intermediate) == (4.0, None, 16.0)
    assert kv_bytes_per_token(entry.model, Deployment()) == 2 * 2 * (64 + 64) * 2
    norms, width = 4 * 512, 4 * 64
    layer = 512 * width * 2 + 512 * 2 * 2 * 64 + 3 * 512 * 1024 + norms + 2 * 64
    other = 512 * width * 2 + 3 * 512 * 2048 + norms + 64
    side = 2 * 512 * 16 + 512
    outside = 1000 * 512 + 512 + (1000 + 512) * 4 * 16 + 16
    assert parameter_count(entry.model) == 2 * layer + 2 * other + 4 * side + outside
    ops = step_ops(entry.model, Deployment(), decode(3.0, 100.0))
    assert ops["0.qkv_proj"].shape.outputs == width + 2 * 2 * 64 and ops["1.qkv_proj"].shape.outputs == width
    assert ops["0.decode_attention"].bytes == ops["1.decode_attention"].bytes
    with pytest.raises(ValueError, match="num_kv_shared_layers is 5; there are 4 layers"):
        read({**values, "num_kv_shared_layers": 5})


def test_layers_with_and_without_an_indexer(read):
    glm = {**sizes(4, 1024, 16, 16, 512, 1000, **MLA), **mixture(8, 2, 256, 0, 0), "model_type": "glm_moe_dsa"}
    glm |= {"q_lora_rank": 256, "index_topk": 64, "index_head_dim": 32, "index_n_heads": 4}
    types = ["indexed_attention", "full_attention", "indexed_attention", "full_attention"]
    counts = {
        block.attention.selection is None: block.count for block in read({**glm, "layer_types": types}).model.blocks
    }
    assert counts == {True: 2.0, False: 2.0}
