"""Layers with a state in place of a cache, alone or between layers with softmax or latent attention."""

import dataclasses

from workloads.families.classic import ATTENTION_BIAS, LLAMA, OLMO2
from workloads.families.family import ExpertLayers, Family, Modules
from workloads.families.latent import LATENT
from workloads.families.mixtures import MIXTRAL_MODULES
from workloads.families.qwen import QWEN3, SHARED_EXPERTS

# Qwen3-Next: gated delta layers (Yang et al., arXiv 2412.06464) between layers of gated softmax attention.
_QWEN3_NEXT = QWEN3.like(
    "Qwen3NextForCausalLM",
    head_dim_default=256,
    gate="element",
    linear="gated delta",
    pattern="interval",
    windows=None,
    experts=SHARED_EXPERTS,
    modules=Modules(
        shared="shared_expert",
        linear_input=("linear_attn.in_proj_qkvz",),
        fused_linear_input="linear_attn.in_proj_qkvz",
        linear_output="linear_attn.out_proj",
    ),
)
# Qwen3.5 stores the projection to the output's gate (`in_proj_z`) apart from that of queries, keys and values.
_QWEN35_MODULES = dataclasses.replace(
    _QWEN3_NEXT.modules, linear_input=("linear_attn.in_proj_qkv", "linear_attn.in_proj_z")
)
_QWEN35_MOE = _QWEN3_NEXT.like("Qwen3_5MoeForCausalLM", modules=_QWEN35_MODULES)
_QWEN35 = _QWEN35_MOE.like("Qwen3_5ForCausalLM", experts=None)
# Kimi Linear (arXiv 2510.26692): Kimi delta attention between layers of latent attention.
_KIMI_LINEAR = LATENT["kimi_k2"].like(
    "KimiLinearForCausalLM",
    linear="kimi delta",
    pattern="kimi",
    experts=ExpertLayers(
        layout="first_dense",
        shared="num_shared_experts",
        score_correction=True,
        width="routed_expert_hidden_size",
        width_norm=True,
    ),
    modules=dataclasses.replace(
        MIXTRAL_MODULES,
        linear_input=("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
        fused_linear_input="self_attn.qkv_proj",
        linear_output="self_attn.o_proj",
    ),
)
_GLM5_NEXT = LATENT["glm_moe_dsa"].like(
    "Glm5NextForCausalLM",
    linear="kimi delta",
    pattern="sparse",
    streams="hc_mult",
    streams_end_even=True,
    defaults=(("index_kpool", 16),),
    modules=Modules(
        linear_input=("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
        fused_linear_input="self_attn.qkv_proj",
        linear_output="self_attn.o_proj",
    ),
    unless=(("mhc", True), ("index_kpool_compress", True)),
)
# MiniMax-01 (arXiv 2501.08313): lightning attention, which is linear, between layers of softmax attention.
_MINIMAX = Family(
    architectures=("MiniMaxText01ForCausalLM", "MiniMaxM1ForCausalLM", "MiniMaxForCausalLM"),
    kv_heads_default=None,
    head_dim_default=None,
    linear="lightning",
    pattern="types",
    experts=ExpertLayers(layout="all", intermediate=("intermediate_size",)),
    modules=dataclasses.replace(
        MIXTRAL_MODULES,
        linear_input=("self_attn.qkv_proj", "self_attn.output_gate"),
        fused_linear_input="self_attn.qkv_proj",
        linear_output="self_attn.out_proj",
    ),
    unless=(("shared_intermediate_size", 0),),
)
_MAMBA_MODULES = Modules(linear_input=("mamba.in_proj",), linear_output="mamba.out_proj")

# Mamba (Gu and Dao, arXiv 2312.00752): a selective scan in every layer.
_MAMBA = Family(
    architectures=("MambaForCausalLM",),
    tied=True,
    linear="scan",
    pattern="all",
    modules=Modules(linear_input=("mixer.in_proj",), linear_output="mixer.out_proj"),
    unless=(("use_bias", False),),
)
# LFM2: short gated convolutions between layers of softmax attention.
_LFM2 = Family(
    architectures=("Lfm2ForCausalLM",),
    tied=True,
    kv_heads_default=None,
    qk_norm=True,
    linear="convolution",
    pattern="convolutions",
    adjusted_width=True,
    modules=Modules(
        output="self_attn.out_proj",
        dense="feed_forward",
        moe="feed_forward",
        up=("w1", "w3"),
        down="w2",
        expert_up=("w1", "w3"),
        expert_down="w2",
        linear_input=("conv.in_proj",),
        linear_output="conv.out_proj",
    ),
)

LINEAR: dict[str, Family] = {
    "qwen3_next": _QWEN3_NEXT,
    "qwen3_5": _QWEN35.like("Qwen3_5ForConditionalGeneration", text_type="qwen3_5_text", encoder="qwen3_vl"),
    "qwen3_5_text": _QWEN35,
    "qwen3_5_moe": _QWEN35_MOE.like(
        "Qwen3_5MoeForConditionalGeneration", text_type="qwen3_5_moe_text", encoder="qwen3_vl"
    ),
    "qwen3_5_moe_text": _QWEN35_MOE,
    "mamba": _MAMBA,
    "falcon_mamba": _MAMBA.like("FalconMambaForCausalLM"),
    # Jamba (Lieber et al., arXiv 2403.19887): attention on one layer of a period, selective scans on the others.
    "jamba": LLAMA.like(
        "JambaForCausalLM",
        attention_bias=False,
        ffn_bias=False,
        linear="scan",
        pattern="period",
        scan_norms=True,
        experts=ExpertLayers(layout="period", intermediate=("intermediate_size",)),
        modules=dataclasses.replace(_MAMBA_MODULES, dense="feed_forward", moe="feed_forward"),
        unless=(("mamba_proj_bias", False),),
    ),
    # Falcon-H1 (arXiv 2507.22448): attention and Mamba-2 side by side in every layer.
    "falcon_h1": LLAMA.like(
        "FalconH1ForCausalLM",
        mixer="beside mamba2",
        linear="mamba2",
        modules=dataclasses.replace(_MAMBA_MODULES, dense="feed_forward"),
        unless=(("mamba_proj_bias", False), ("projectors_bias", False)),
    ),
    "lfm2": _LFM2,
    "lfm2_moe": _LFM2.like(
        "Lfm2MoeForCausalLM",
        adjusted_width=False,
        experts=ExpertLayers(layout="first_dense", score_correction=True),
    ),
    "bailing_hybrid": LATENT["deepseek_v3"].like(
        "BailingHybridForCausalLM",
        gate="head",
        linear="full-rank kimi delta",
        pattern="interval",
        modules=Modules(
            linear_input=("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
            fused_linear_input="self_attn.qkv_proj",
            linear_output="self_attn.o_proj",
        ),
    ),
    "olmo_hybrid": OLMO2.like(
        "OlmoHybridForCausalLM",
        linear="gated delta",
        pattern="interval",
        modules=Modules(
            linear_input=("linear_attn.q_proj", "linear_attn.k_proj", "linear_attn.v_proj", "linear_attn.g_proj"),
            fused_linear_input="linear_attn.in_proj_qkvz",
            linear_output="linear_attn.o_proj",
        ),
    ),
    "kimi_linear": _KIMI_LINEAR,
    "glm5_next": _GLM5_NEXT.like(
        "Glm5NextForConditionalGeneration",
        text_type="glm5_next_text",
        note="its vision tower is neither counted nor priced: prompts are text",
    ),
    "glm5_next_text": _GLM5_NEXT,
    "kimi_k3": _KIMI_LINEAR.like(
        "KimiK3ForConditionalGeneration",
        text_type="kimi_linear",
        encoder="moonvit",
        note="attention over the outputs of earlier layers (attn_res_block_size) is neither counted nor priced",
    ),
    "minimax": _MINIMAX,
    "minimax_m1": _MINIMAX,
    "minimax_text_01": _MINIMAX,
    # Mamba-2 (Dao and Gu, arXiv 2405.21060): a state per head, whose decay is one number.
    "mamba2": Family(
        architectures=("Mamba2ForCausalLM",),
        linear="mamba2",
        pattern="all",
        modules=Modules(linear_input=("mixer.in_proj",), linear_output="mixer.out_proj"),
        unless=(("use_bias", False),),
    ),
    "bamba": LLAMA.like(
        "BambaForCausalLM",
        linear="mamba2",
        pattern="indices",
        modules=dataclasses.replace(_MAMBA_MODULES, dense="feed_forward"),
        unless=(("mamba_proj_bias", False),),
    ),
    # Zamba2 (arXiv 2411.15242): blocks of attention and feed-forward whose weights several layers share.
    "zamba2": Family(
        architectures=("Zamba2ForCausalLM",),
        tied=True,
        linear="mamba2",
        pattern="shared",
        intermediate_factor=4.0,
        modules=dataclasses.replace(
            _MAMBA_MODULES,
            qkv=tuple(f"shared_transformer.self_attn.{name}_proj" for name in "qkv"),
            fused_qkv="shared_transformer.self_attn.qkv_proj",
            output="shared_transformer.self_attn.o_proj",
            dense="shared_transformer.feed_forward",
        ),
        unless=(("add_bias_linear", False),),
    ),
    "granitemoehybrid": LLAMA.like(
        "GraniteMoeHybridForCausalLM",
        ffn_bias=False,
        linear="mamba2",
        pattern="types",
        # Without experts the shared feed-forward is the dense one, so both have the same key.
        experts=ExpertLayers(
            layout="stated",
            intermediate=("intermediate_size",),
            dense_intermediate="shared_intermediate_size",
            shared_intermediate="shared_intermediate_size",
        ),
        modules=dataclasses.replace(_MAMBA_MODULES, dense="shared_mlp", moe="block_sparse_moe"),
        unless=(("mamba_proj_bias", False),),
    ),
    # Nemotron-H (arXiv 2504.03624): a layer is one mixer or one feed-forward, as its letter says.
    "nemotron_h": Family(
        architectures=("NemotronHForCausalLM",),
        kv_heads_default=None,
        up_projections=1.0,
        linear="mamba2",
        pattern="letters",
        attention_bias=ATTENTION_BIAS,
        ffn_bias=("mlp_bias", False),
        experts=ExpertLayers(
            layout="all",
            shared_intermediate="moe_shared_expert_intermediate_size",
            score_correction=True,
            # Experts work in a space of this width; `narrowing` names the projections into it and back.
            width="moe_latent_size",
        ),
        modules=Modules(
            qkv=("mixer.q_proj", "mixer.k_proj", "mixer.v_proj"),
            fused_qkv="mixer.qkv_proj",
            output="mixer.o_proj",
            dense="mixer",
            moe="mixer",
            up=("up_proj",),
            expert_up=("up_proj",),
            linear_input=("mixer.in_proj",),
            linear_output="mixer.out_proj",
            narrowing=("fc1_latent_proj", "fc2_latent_proj"),
        ),
        unless=(("use_bias", False), ("mamba_proj_bias", False)),
    ),
}
"""`model_type` -> family."""
