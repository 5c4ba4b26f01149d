"""Dense decoders of Llama's kind: gated feed-forward, root-mean-square norms, rotary positions."""

from workloads.families.family import Family, Modules

ATTENTION_BIAS = ("attention_bias", False)
DENOISED = (
    "a diffusion model: one pass over all tokens is one step of denoising, priced as that of an encoder, without "
    "its output head; how many steps an answer takes is not in the config"
)
# Checkpoints whose queries, keys and values are one layer, and whose gate and up projections are one.
FUSED_UP = Modules(qkv=("self_attn.qkv_proj",), up=("gate_up_proj",))

# Defaults of `LlamaConfig` in Transformers, the sizes of Llama 7B (Touvron et al., arXiv 2302.13971).
LLAMA_DEFAULTS = (
    ("hidden_size", 4096),
    ("num_hidden_layers", 32),
    ("num_attention_heads", 32),
    ("intermediate_size", 11008),
    ("vocab_size", 32000),
)
LLAMA = Family(
    architectures=("LlamaForCausalLM",),
    attention_bias=ATTENTION_BIAS,
    ffn_bias=("mlp_bias", False),
    class_defaults=LLAMA_DEFAULTS,
)
# Mistral 7B (Jiang et al., arXiv 2310.06825): 8 heads of keys and values, a window of 4096 tokens on all layers.
MISTRAL = Family(
    architectures=("MistralForCausalLM",),
    kv_heads_default=None,
    windows="all",
    window_default=4096,
    class_defaults=tuple((dict(LLAMA_DEFAULTS) | {"intermediate_size": 14336, "num_key_value_heads": 8}).items()),
)
# OLMo (Groeneveld et al., arXiv 2402.00838): layer norms without weights.
# OLMo 2 (arXiv 2501.00656): norms with weights, two of them over all queries and over all keys.
_OLMO = Family(architectures=("OlmoForCausalLM",), norm_free=True, attention_bias=ATTENTION_BIAS)
OLMO2 = _OLMO.like("Olmo2ForCausalLM", norm_free=False, qk_norm=True, qk_norm_width="heads")
ERNIE = Family(
    architectures=("Ernie4_5ForCausalLM", "Ernie4_5_ForCausalLM"),
    tied=True,
    kv_heads_default=None,
    attention_bias=("use_bias", False),
    ffn_bias=("use_bias", False),
)
# Command R: attention and feed-forward read the same normalised input, so a layer has one norm.
_COHERE = Family(
    architectures=("CohereForCausalLM",),
    tied=True,
    parallel=True,
    norms=1.0,
    qk_norm=("use_qk_norm", False),
    qk_norm_width="heads",
    attention_bias=ATTENTION_BIAS,
)
_GLM = Family(
    architectures=("GlmForCausalLM",),
    kv_heads_default=None,
    head_dim_default=128,
    attention_bias=ATTENTION_BIAS,
    output_bias=False,
    modules=Modules(up=("gate_up_proj",)),
)
# A norm before and a norm after each sublayer: four per layer.
GLM4V = _GLM.like("Glm4vForConditionalGeneration", norms=4.0, attention_bias=True, head_dim_default="hidden/heads")
HUNYUAN = LLAMA.like("HunYuanDenseV1ForCausalLM", ffn_bias=False, qk_norm=True)
PHI3 = Family(architectures=("Phi3ForCausalLM",), windows="all", modules=FUSED_UP)

_INTERNVL = LLAMA.like(
    "InternVLForConditionalGeneration", "InternVLChatModel", text_type="qwen2", any_text=True, encoder="internvl"
)

# Apertus (arXiv 2509.14233): xIELU, an activation without a gate, hence one up projection.
_APERTUS = LLAMA.like("ApertusForCausalLM", up_projections=1.0, qk_norm=True)

CLASSIC: dict[str, Family] = {
    "llama": LLAMA,
    "mistral": MISTRAL,
    "ministral3": MISTRAL.like("Ministral3ForCausalLM", window_default=None, head_dim_default="hidden/heads"),
    "mistral3": MISTRAL.like("Mistral3ForConditionalGeneration", text_type="mistral", any_text=True, encoder="pixtral"),
    "llava": LLAMA.like("LlavaForConditionalGeneration", text_type="llama", any_text=True, encoder="llava"),
    "internvl": _INTERNVL,
    "internvl_chat": _INTERNVL,
    "internlm2": Family(
        architectures=("InternLM2ForCausalLM",),
        attention_bias=("bias", False),
        modules=Modules(
            qkv=("attention.wqkv",), output="attention.wo", dense="feed_forward", up=("w1", "w3"), down="w2"
        ),
    ),
    "internlm3": LLAMA.like(
        "InternLM3ForCausalLM",
        "LlamaForCausalLM",
        attention_bias=("qkv_bias", False),
        output_bias=("bias", False),
        ffn_bias=("bias", False),
    ),
    "baichuan": Family(
        architectures=("BaichuanForCausalLM", "BaiChuanForCausalLM"), modules=Modules(qkv=("self_attn.W_pack",))
    ),
    "chatglm": Family(
        architectures=("ChatGLMModel", "ChatGLMForConditionalGeneration"),
        kv_heads_default=None,
        attention_bias=("add_qkv_bias", True),
        output_bias=("add_bias_linear", False),
        ffn_bias=("add_bias_linear", False),
        modules=Modules(
            qkv=("self_attention.query_key_value",),
            output="self_attention.dense",
            up=("dense_h_to_4h",),
            down="dense_4h_to_h",
        ),
        unless=(("multi_query_attention", True),),
    ),
    "glm": _GLM,
    "glm4": _GLM.like("Glm4ForCausalLM", norms=4.0),
    "exaone": Family(
        architectures=("ExaoneForCausalLM", "LlamaForCausalLM"),
        modules=Modules(
            layers="h",
            qkv=("attn.attention.q_proj", "attn.attention.k_proj", "attn.attention.v_proj"),
            fused_qkv="attn.attention.qkv_proj",
            output="attn.attention.out_proj",
            up=("c_fc_0", "c_fc_1"),
            down="c_proj",
        ),
    ),
    "exaone4": LLAMA.like(
        "Exaone4ForCausalLM", attention_bias=False, ffn_bias=False, qk_norm=True, windows="period", period=4
    ),
    "granite": LLAMA.like("GraniteForCausalLM"),
    "granite_docling_text": LLAMA.like("GraniteDoclingTextForCausalLM"),
    "emu3_text_model": LLAMA.like("Emu3TextModel"),
    "phi4_multimodal": PHI3.like(
        "Phi4MultimodalForCausalLM",
        note="what sees and hears, and its adapters, are left out: prompts are text",
    ),
    "paddleocr_vl_text": ERNIE.like("PaddleOCRTextModel"),
    "granite_swa": LLAMA.like("GraniteSWAForCausalLM", tied=True, windows="listed", sinks=True),
    "minicpm": LLAMA.like("MiniCPMForCausalLM", tied=True),
    # LLaDA (Nie et al., arXiv 2502.09992) attends to tokens on both sides and fills in masked ones.
    "llada": LLAMA.like(
        "LLaDAModelLM", causal=False, generates=False, fills_in=True, unless=(("weight_tying", False),), note=DENOISED
    ),
    "glm4v_text": GLM4V,
    "glm_ocr_text": GLM4V.like("GlmOcrForConditionalGeneration"),
    "cwm": LLAMA.like("CwmForCausalLM", windows="listed"),
    "helium": LLAMA.like("HeliumForCausalLM"),
    "hyperclovax": LLAMA.like("HyperCLOVAXForCausalLM", post_norms=("use_post_norm", False)),
    "jais2": LLAMA.like(
        "Jais2ForCausalLM",
        up_projections=1.0,
        norm_bias=True,
        attention_bias=("attention_bias", True),
        ffn_bias=("mlp_bias", True),
    ),
    "ministral": MISTRAL.like("MinistralForCausalLM", windows="listed"),
    "hunyuan_vl_text": HUNYUAN.like("HunYuanVLForConditionalGeneration"),
    "seed_oss": LLAMA.like("SeedOssForCausalLM", head_dim_default=128, output_bias=("attention_out_bias", False)),
    "smollm3": LLAMA.like("SmolLM3ForCausalLM", tied=True),
    "hunyuan_v1_dense": HUNYUAN,
    "apertus": _APERTUS,
    "apertus1p5_text": _APERTUS.like("Apertus1p5TextForCausalLM"),
    "arcee": LLAMA.like("ArceeForCausalLM", up_projections=1.0),
    # Nemotron-4 (arXiv 2402.16819): squared ReLU without a gate, and layer norms with biases.
    "nemotron": LLAMA.like("NemotronForCausalLM", up_projections=1.0, norm_bias=True),
    # Puzzle (Bercovich et al., arXiv 2411.19146) searches for the sizes of each layer; `block_configs` lists them.
    "nemotron-nas": LLAMA.like("DeciLMForCausalLM", sizes="blocks"),
    "ernie4_5": ERNIE,
    "phi3": PHI3,
    "olmo": _OLMO,
    "olmo2": OLMO2,
    "olmo3": OLMO2.like("Olmo3ForCausalLM", windows="period", period=4, window_default=4096),
    "cohere": _COHERE,
    "cohere2": _COHERE.like("Cohere2ForCausalLM", qk_norm=False, windows="period", period=4, window_default=4096),
    "stablelm": Family(
        architectures=("StableLmForCausalLM",),
        norm_bias=True,
        attention_bias=("use_qkv_bias", False),
        output_bias=False,
        parallel=("use_parallel_residual", False),
        qk_norm=("qk_layernorm", False),
        qk_norm_width="heads",
        # With parallel sublayers the layer has one norm in place of two: such configs are refused.
        unless=(("use_parallel_residual", False),),
    ),
}
"""`model_type` -> family."""
