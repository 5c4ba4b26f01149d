"""Decoders with experts and softmax attention, windows, sinks and block-sparse attention among them."""

import dataclasses

from workloads.families.classic import ATTENTION_BIAS, ERNIE, HUNYUAN, LLAMA, MISTRAL, OLMO2
from workloads.families.family import ExpertLayers, Family, Modules

# Mixtral (Jiang et al., arXiv 2401.04088): `w1` is an expert's gate, `w3` its up and `w2` its down projection.
MIXTRAL_MODULES = Modules(moe="block_sparse_moe", expert_up=("w1", "w3"), expert_down="w2")

_ALL = ExpertLayers(layout="all", intermediate=("intermediate_size",))
# Llama 4: layers with rotary positions attend within chunks of `attention_chunk_size` tokens.
_LLAMA4 = LLAMA.like(
    "Llama4ForCausalLM",
    "Llama4ForConditionalGeneration",
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
# Step 3.5: one layer of four attends to all tokens; the others have a window and heads of their own.
_STEP = Family(
    architectures=("Step3p5ForCausalLM",),
    kv_heads_default=None,
    qk_norm=True,
    gate="head",
    sizes="sliding",
    prediction_dense=True,
    windows="period",
    period=4,
    experts=ExpertLayers(layout="enumerated", shared_intermediate="share_expert_dim", score_correction=True),
    modules=Modules(moe="moe", shared="share_expert"),
)

# Routing of DeepSeek-V3 (arXiv 2412.19437): shared experts, and a bias that corrects the choice of experts.
_SHARED = ExpertLayers(layout="first_dense", shared="n_shared_experts", score_correction=True)
_GLM4_MOE = Family(
    architectures=("Glm4MoeForCausalLM",),
    kv_heads_default=None,
    head_dim_default=None,
    qk_norm=("use_qk_norm", False),
    attention_bias=ATTENTION_BIAS,
    output_bias=False,
    experts=_SHARED,
)
_BAILING = Family(
    architectures=("BailingMoeV2ForCausalLM",),
    kv_heads_default=None,
    qk_norm=("use_qk_norm", True),
    attention_bias=("use_qkv_bias", False),
    output_bias=("use_bias", False),
    ffn_bias=("use_bias", False),
    experts=_SHARED,
    modules=Modules(qkv=("attention.query_key_value",), output="attention.dense"),
)

_ERNIE_MOE = ERNIE.like(
    "Ernie4_5_MoeForCausalLM",
    experts=ExpertLayers(layout="range", shared="moe_num_shared_experts", score_correction=True),
)
_ERNIE_VL = _ERNIE_MOE.like(
    "Ernie4_5_VLMoeForConditionalGeneration",
    "Ernie4_5_VLMoeTextModel",
    # Each of these may be a list: the size of the text's experts, then that of the pictures'.
    text_first=(
        "moe_num_experts",
        "moe_intermediate_size",
        "moe_layer_start_index",
        "moe_layer_end_index",
        "moe_layer_interval",
    ),
    note="experts of pictures are left out: prompts are text",
)

MIXTURES: dict[str, Family] = {
    "mixtral": MISTRAL.like("MixtralForCausalLM", window_default=None, experts=_ALL, modules=MIXTRAL_MODULES),
    "phimoe": MISTRAL.like(
        "PhiMoEForCausalLM",
        "PhimoeForCausalLM",
        window_default=None,
        norm_bias=True,
        attention_bias=ATTENTION_BIAS,
        head_bias=("lm_head_bias", False),
        experts=_ALL,
        modules=MIXTRAL_MODULES,
    ),
    "llama4": _LLAMA4.like(text_type="llama4_text", encoder="llama4"),
    "llama4_text": _LLAMA4,
    # gpt-oss (model card, arXiv 2508.10925): alternating windows, learned sinks, biases of router and experts.
    "gpt_oss": Family(
        architectures=("GptOssForCausalLM",),
        kv_heads_default=None,
        head_dim_default=64,
        attention_bias=("attention_bias", True),
        sinks=True,
        windows="period",
        period=2,
        window_default=128,
        experts=dataclasses.replace(_ALL, router_bias=True, expert_bias=True),
    ),
    "minimax_m2": Family(
        architectures=("MiniMaxM2ForCausalLM",),
        kv_heads_default=None,
        head_dim_default=None,
        qk_norm=("use_qk_norm", True),
        qk_norm_width="heads",
        experts=dataclasses.replace(_ALL, score_correction=True),
        modules=MIXTRAL_MODULES,
        unless=(("qk_norm_type", "per_layer"), ("shared_intermediate_size", 0)),
    ),
    "minimax_m3": Family(
        architectures=("MiniMaxM3ForCausalLM",),
        kv_heads_default=None,
        head_dim_default=None,
        qk_norm=("use_qk_norm", True),
        selection="blocks",
        experts=ExpertLayers(
            layout="list",
            dense_intermediate="dense_intermediate_size",
            shared_intermediate="shared_intermediate_size",
            score_correction=True,
        ),
        modules=MIXTRAL_MODULES,
        unless=(("qk_norm_type", "per_head"), ("attention_output_gate", False)),
    ),
    "minimax_m3_vl_text": Family(
        architectures=("MiniMaxM3VLForCausalLM", "MiniMaxM3VLForConditionalGeneration"),
        kv_heads_default=None,
        head_dim_default=None,
        qk_norm=("use_qk_norm", True),
        # Attention reads only the blocks of keys that a query chooses, on layers of `sparse_attention_config`.
        selection="blocks",
        experts=ExpertLayers(
            layout="list",
            intermediate=("intermediate_size",),
            dense_intermediate="dense_intermediate_size",
            shared_intermediate="shared_intermediate_size",
            score_correction=True,
        ),
        modules=MIXTRAL_MODULES,
        unless=(("attention_output_gate", False),),
    ),
    # MiMo-V2-Flash: layers with a window have sizes of heads under keys of their own, `swa_`.
    "mimo_v2_flash": Family(
        architectures=("MiMoV2FlashForCausalLM",),
        kv_heads_default=None,
        head_dim_default=None,
        attention_bias=ATTENTION_BIAS,
        output_bias=False,
        sizes="swa",
        windows="pattern",
        reads_value_dim=True,
        sinks=True,
        experts=ExpertLayers(layout="list", score_correction=True),
    ),
    "glm4_moe": _GLM4_MOE,
    "glm4v_moe_text": _GLM4_MOE.like(
        "Glm4vMoeForConditionalGeneration",
        head_dim_default="hidden/heads",
        qk_norm=False,
        attention_bias=("attention_bias", True),
    ),
    "deepseek": LLAMA.like("DeepseekForCausalLM", experts=dataclasses.replace(_SHARED, score_correction=False)),
    "dots1": _GLM4_MOE.like(
        "Dots1ForCausalLM", head_dim_default="hidden/heads", qk_norm=True, output_bias=None, windows="late"
    ),
    "solar_open": _GLM4_MOE.like(
        "SolarOpenForCausalLM", qk_norm=("use_qk_norm", False), experts=dataclasses.replace(_SHARED, layout="all")
    ),
    "exaone_moe": LLAMA.like(
        "ExaoneMoEForCausalLM",
        "ExaoneMoeForCausalLM",
        attention_bias=False,
        ffn_bias=False,
        qk_norm=True,
        windows="period",
        period=4,
        experts=_SHARED,
    ),
    "hy_v3": LLAMA.like("HYV3ForCausalLM", qk_norm=True, experts=_SHARED),
    "afmoe": LLAMA.like(
        "AfmoeForCausalLM", norms=4.0, qk_norm=True, gate="element", windows="period", period=4, experts=_SHARED
    ),
    "flex_olmo": OLMO2.like("FlexOlmoForCausalLM", experts=_ALL),
    "granitemoeshared": LLAMA.like(
        "GraniteMoeSharedForCausalLM",
        ffn_bias=False,
        experts=dataclasses.replace(_ALL, shared_intermediate="shared_intermediate_size"),
        modules=dataclasses.replace(MIXTRAL_MODULES, dense="shared_mlp"),
    ),
    "granitemoe_swa": LLAMA.like(
        "GraniteMoeSWAForCausalLM",
        ffn_bias=False,
        sinks=True,
        windows="listed",
        experts=dataclasses.replace(_ALL, shared_intermediate="shared_intermediate_size"),
        modules=dataclasses.replace(MIXTRAL_MODULES, dense="shared_mlp"),
    ),
    "aria_text": LLAMA.like("AriaTextForCausalLM", experts=dataclasses.replace(_ALL, shared="moe_num_shared_experts")),
    "bailing_moe": _BAILING.like(
        "BailingMoeForCausalLM", qk_norm=False, experts=dataclasses.replace(_SHARED, layout="all")
    ),
    "bailing_moe_v2": _BAILING,
    "ernie4_5_moe": _ERNIE_MOE,
    "ernie4_5_vl_moe_text": _ERNIE_VL,
    "ernie4_5_moe_vl": _ERNIE_VL,
    "olmoe": OLMO2.like("OlmoeForCausalLM", experts=_ALL),
    "granitemoe": LLAMA.like("GraniteMoeForCausalLM", ffn_bias=False, experts=_ALL, modules=MIXTRAL_MODULES),
    "hunyuan_v1_moe": HUNYUAN.like(
        "HunYuanMoEV1ForCausalLM",
        experts=dataclasses.replace(_ALL, always_shared=1.0),
        modules=Modules(shared="shared_mlp"),
        # Attention across layers shares keys and values between them, which is not counted: it is refused.
        unless=(("use_cla", False),),
    ),
    "dbrx": Family(
        architectures=("DbrxForCausalLM",),
        kv_heads_default=None,
        # DBRX nests the sizes of its experts; the dot leads into that table.
        experts=ExpertLayers(layout="all", intermediate=("ffn_config.ffn_hidden_size",)),
        modules=Modules(
            layers="blocks",
            qkv=("norm_attn_norm.attn.Wqkv",),
            output="norm_attn_norm.attn.out_proj",
            moe="ffn",
            expert_up=("w1", "v1"),
            expert_down="w2",
        ),
    ),
    # Step-3 (arXiv 2507.19427): queries are projected down to `share_q_dim` and up again.
    "step3_text": Family(
        architectures=("Step3TextForCausalLM",),
        kv_heads_default=None,
        head_dim_default=None,
        query_rank="share_q_dim",
        experts=ExpertLayers(layout="enumerated", shared_intermediate="share_expert_dim"),
        modules=Modules(moe="moe", shared="share_expert"),
    ),
    "step3p5": _STEP,
    "step3p7": _STEP.like("Step3p7FlashForCausalLM", "Step3p7ForConditionalGeneration", text_type="step3p5"),
}
"""`model_type` -> family."""
