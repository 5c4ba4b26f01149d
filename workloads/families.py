"""Which families of models can be read, and what each is: the one table of `model_type`s."""

import dataclasses

from workloads.family import ExpertLayers, Family, Modules

PARALLEL_NOTE = "attention and feed-forward read the same input in this family; they are priced one after the other"
VISION_NOTE = "language model only: the vision encoder is neither counted nor priced"
GPT2_MODULES = Modules(
    layers="h",
    qkv=("attn.c_attn",),
    fused_qkv="attn.c_attn",
    output="attn.c_proj",
    up=("c_fc",),
    fused_up="c_fc",
    down="c_proj",
)
MIXTRAL_MODULES = Modules(moe="block_sparse_moe", expert_up=("w1", "w3"), expert_down="w2")

_LLAMA = Family(
    architectures=("LlamaForCausalLM",),
    qkv_bias=("attention_bias", False),
    output_bias=("attention_bias", False),
    ffn_bias=("mlp_bias", False),
)
_MISTRAL = Family(architectures=("MistralForCausalLM",), kv_heads_default=None, windows="all", window_default=4096)
_QWEN2 = Family(
    architectures=("Qwen2ForCausalLM",), kv_heads_default=None, qkv_bias=True, windows="late", window_default=4096
)
_QWEN_EXPERTS = ExpertLayers(layout="step")
_QWEN2_MOE = dataclasses.replace(
    _QWEN2,
    architectures=("Qwen2MoeForCausalLM",),
    qkv_bias=("qkv_bias", True),
    experts=dataclasses.replace(_QWEN_EXPERTS, shared_intermediate="shared_expert_intermediate_size", shared_gate=True),
    modules=Modules(shared="shared_expert"),
)
_QWEN3 = dataclasses.replace(
    _QWEN2,
    architectures=("Qwen3ForCausalLM",),
    head_dim_default=128,
    qk_norm=True,
    qkv_bias=("attention_bias", False),
    output_bias=("attention_bias", False),
)
_QWEN3_MOE = dataclasses.replace(
    _QWEN3, architectures=("Qwen3MoeForCausalLM",), head_dim_default=None, experts=_QWEN_EXPERTS
)
_GEMMA = Family(
    architectures=("GemmaForCausalLM",),
    tied=True,
    kv_heads_default=None,
    head_dim_default=256,
    qkv_bias=("attention_bias", False),
    output_bias=("attention_bias", False),
)
_GEMMA2 = dataclasses.replace(
    _GEMMA, architectures=("Gemma2ForCausalLM",), norms=4.0, windows="period", period=2, window_default=4096
)
_GEMMA3 = dataclasses.replace(
    _GEMMA2,
    architectures=("Gemma3ForCausalLM",),
    qk_norm=True,
    period=6,
    defaults=(("num_attention_heads", 8), ("num_key_value_heads", 4), ("vocab_size", 262208)),
)
_GPT2 = Family(
    architectures=("GPT2LMHeadModel",),
    tied=True,
    up_projections=1.0,
    norm_bias=True,
    qkv_bias=True,
    output_bias=True,
    ffn_bias=True,
    positions_extra=0,
    intermediate_factor=4.0,
    modules=GPT2_MODULES,
)
_COHERE = Family(
    architectures=("CohereForCausalLM",),
    tied=True,
    norms=1.0,
    qk_norm=("use_qk_norm", False),
    qk_norm_width="heads",
    qkv_bias=("attention_bias", False),
    output_bias=("attention_bias", False),
    note=PARALLEL_NOTE,
)
_OLMO = Family(
    architectures=("OlmoForCausalLM",),
    norm_free=True,
    qkv_bias=("attention_bias", False),
    output_bias=("attention_bias", False),
)
_OLMO2 = dataclasses.replace(
    _OLMO, architectures=("Olmo2ForCausalLM",), norm_free=False, qk_norm=True, qk_norm_width="heads"
)
_LLAMA4 = dataclasses.replace(
    _LLAMA,
    architectures=("Llama4ForCausalLM", "Llama4ForConditionalGeneration"),
    ffn_bias=False,
    kv_heads_default=None,
    windows="chunked",
    experts=ExpertLayers(
        layout="interleaved",
        intermediate=("intermediate_size",),
        dense_intermediate="intermediate_size_mlp",
        always_shared=1.0,
    ),
    modules=Modules(dense="feed_forward", moe="feed_forward", shared="shared_expert"),
)
_ERNIE = Family(
    architectures=("Ernie4_5ForCausalLM", "Ernie4_5_ForCausalLM"),
    tied=True,
    kv_heads_default=None,
    head_dim_default="hidden/heads",
    qkv_bias=("use_bias", False),
    output_bias=("use_bias", False),
    ffn_bias=("use_bias", False),
)

FAMILIES: dict[str, Family] = {
    "llama": _LLAMA,
    "mistral": _MISTRAL,
    "mistral3": dataclasses.replace(
        _MISTRAL, architectures=("Mistral3ForConditionalGeneration",), text_type="mistral", note=VISION_NOTE
    ),
    "mixtral": dataclasses.replace(
        _MISTRAL,
        architectures=("MixtralForCausalLM",),
        window_default=None,
        experts=ExpertLayers(layout="all", intermediate=("intermediate_size",)),
        modules=MIXTRAL_MODULES,
    ),
    "llama4": dataclasses.replace(_LLAMA4, text_type="llama4_text", note=VISION_NOTE),
    "llama4_text": _LLAMA4,
    "qwen": Family(
        architectures=("QWenLMHeadModel",),
        head_dim_default=None,
        qkv_bias=True,
        intermediate_scale=0.5,  # the config gives the width of both up projections together
        unless=(("no_bias", True),),
        modules=Modules(
            layers="h",
            qkv=("attn.c_attn",),
            fused_qkv="attn.c_attn",
            output="attn.c_proj",
            up=("w1", "w2"),
            fused_up="gate_up_proj",
            down="c_proj",
        ),
    ),
    "qwen2": _QWEN2,
    "qwen2_5_vl": dataclasses.replace(
        _QWEN2, architectures=("Qwen2_5_VLForConditionalGeneration",), text_type="qwen2_5_vl_text", note=VISION_NOTE
    ),
    "qwen2_moe": _QWEN2_MOE,
    "qwen3": _QWEN3,
    "qwen3_moe": _QWEN3_MOE,
    "qwen3_vl": dataclasses.replace(
        _QWEN3, architectures=("Qwen3VLForConditionalGeneration",), text_type="qwen3_vl_text", note=VISION_NOTE
    ),
    "qwen3_vl_moe": dataclasses.replace(
        _QWEN3_MOE,
        architectures=("Qwen3VLMoeForConditionalGeneration",),
        text_type="qwen3_vl_moe_text",
        note=VISION_NOTE,
    ),
    "gpt_oss": Family(
        architectures=("GptOssForCausalLM",),
        kv_heads_default=None,
        head_dim_default=64,
        qkv_bias=("attention_bias", True),
        output_bias=("attention_bias", True),
        sinks=True,
        windows="period",
        period=2,
        window_default=128,
        experts=ExpertLayers(layout="all", intermediate=("intermediate_size",), router_bias=True, expert_bias=True),
    ),
    "minimax_m2": Family(
        architectures=("MiniMaxM2ForCausalLM",),
        kv_heads_default=None,
        head_dim_default=None,
        qk_norm=("use_qk_norm", True),
        qk_norm_width="heads",
        experts=ExpertLayers(layout="all", intermediate=("intermediate_size",), score_correction=True),
        modules=MIXTRAL_MODULES,
        unless=(("qk_norm_type", "per_layer"), ("shared_intermediate_size", 0)),
    ),
    "mimo_v2_flash": Family(
        architectures=("MiMoV2FlashForCausalLM",),
        kv_heads_default=None,
        head_dim_default=None,
        qkv_bias=("attention_bias", False),
        windows="pattern",
        reads_value_dim=True,
        sinks=True,
        experts=ExpertLayers(layout="list", score_correction=True),
    ),
    "glm4_moe": Family(
        architectures=("Glm4MoeForCausalLM",),
        kv_heads_default=None,
        head_dim_default=None,
        qk_norm=("use_qk_norm", False),
        qkv_bias=("attention_bias", False),
        experts=ExpertLayers(layout="first_dense", shared="n_shared_experts", score_correction=True),
    ),
    "ernie4_5": _ERNIE,
    "ernie4_5_moe": dataclasses.replace(
        _ERNIE,
        architectures=("Ernie4_5_MoeForCausalLM",),
        experts=ExpertLayers(layout="range", shared="moe_num_shared_experts", score_correction=True),
    ),
    "gemma": _GEMMA,
    "gemma2": _GEMMA2,
    "gemma3": dataclasses.replace(
        _GEMMA3, architectures=("Gemma3ForConditionalGeneration",), text_type="gemma3_text", note=VISION_NOTE
    ),
    "gemma3_text": _GEMMA3,
    "phi3": Family(
        architectures=("Phi3ForCausalLM",),
        windows="all",
        modules=Modules(qkv=("self_attn.qkv_proj",), up=("gate_up_proj",)),
    ),
    "olmo": _OLMO,
    "olmo2": _OLMO2,
    "olmo3": dataclasses.replace(
        _OLMO2, architectures=("Olmo3ForCausalLM",), windows="period", period=4, window_default=4096
    ),
    "olmoe": dataclasses.replace(
        _OLMO2,
        architectures=("OlmoeForCausalLM",),
        experts=ExpertLayers(layout="all", intermediate=("intermediate_size",)),
    ),
    "starcoder2": Family(
        architectures=("Starcoder2ForCausalLM",),
        tied=True,
        kv_heads_default=None,
        up_projections=1.0,
        norm_bias=True,
        qkv_bias=("use_bias", True),
        output_bias=("use_bias", True),
        ffn_bias=("use_bias", True),
        windows="all",
        unless=(("norm_type", "layer_norm"), ("mlp_type", "default")),
        modules=Modules(up=("c_fc",), fused_up="c_fc", down="c_proj"),
    ),
    "internlm2": Family(
        architectures=("InternLM2ForCausalLM",),
        qkv_bias=("bias", False),
        output_bias=("bias", False),
        modules=Modules(
            qkv=("attention.wqkv",),
            fused_qkv="attention.wqkv",
            output="attention.wo",
            dense="feed_forward",
            up=("w1", "w3"),
            down="w2",
        ),
    ),
    "cohere": _COHERE,
    "gpt2": _GPT2,
    "opt": Family(
        architectures=("OPTForCausalLM",),
        tied=True,
        up_projections=1.0,
        norm_bias=True,
        qkv_bias=("enable_bias", True),
        output_bias=("enable_bias", True),
        ffn_bias=("enable_bias", True),
        positions_extra=2,
        unless=(("do_layer_norm_before", True), ("layer_norm_elementwise_affine", True)),
        modules=Modules(output="self_attn.out_proj", dense="", up=("fc1",), fused_up="fc1", down="fc2"),
    ),
    "gpt_neox": Family(
        architectures=("GPTNeoXForCausalLM",),
        up_projections=1.0,
        norm_bias=True,
        qkv_bias=("attention_bias", True),
        output_bias=("attention_bias", True),
        ffn_bias=True,
        modules=Modules(
            qkv=("attention.query_key_value",),
            fused_qkv="attention.query_key_value",
            output="attention.dense",
            up=("dense_h_to_4h",),
            fused_up="dense_h_to_4h",
            down="dense_4h_to_h",
        ),
        note=PARALLEL_NOTE,
    ),
}
"""`model_type` -> family. A type that is not here is refused by name."""
