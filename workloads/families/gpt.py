"""Decoders of GPT's kind: ungated feed-forward, layer norms with biases, many with parallel sublayers."""

import dataclasses

from workloads.families.family import Family, Modules

GPT2_MODULES = Modules(layers="h", qkv=("attn.c_attn",), output="attn.c_proj", up=("c_fc",), down="c_proj")
_FUSED = Modules(
    qkv=("attention.query_key_value",), output="attention.dense", up=("dense_h_to_4h",), down="dense_4h_to_h"
)
_SELF_FUSED = dataclasses.replace(
    _FUSED, layers="h", qkv=("self_attention.query_key_value",), output="self_attention.dense"
)
# GPT-2 (Radford et al., 2019): learned positions, biases everywhere, a feed-forward of four hidden sizes.
_GPT2 = Family(
    architectures=("GPT2LMHeadModel",),
    tied=True,
    up_projections=1.0,
    norm_bias=True,
    attention_bias=True,
    ffn_bias=True,
    positions_extra=0,
    intermediate_factor=4.0,
    modules=GPT2_MODULES,
)

# GPT-J: both sublayers read one normalised input; its positions are rotary, so none are learned.
_GPTJ = _GPT2.like(
    "GPTJForCausalLM",
    tied=False,
    parallel=True,
    norms=1.0,
    attention_bias=False,
    head_bias=True,
    positions_extra=None,
    modules=Modules(
        layers="h",
        qkv=("attn.q_proj", "attn.k_proj", "attn.v_proj"),
        fused_qkv="attn.qkv_proj",
        output="attn.out_proj",
        up=("fc_in",),
        down="fc_out",
    ),
)

GPT: dict[str, Family] = {
    "gpt2": _GPT2,
    "gpt-sw3": _GPT2,
    "gpt_neo": _GPT2.like(
        "GPTNeoForCausalLM",
        attention_bias=False,
        output_bias=True,
        windows="named",
        window_default=256,
        modules=Modules(
            layers="h",
            qkv=("attn.attention.q_proj", "attn.attention.k_proj", "attn.attention.v_proj"),
            fused_qkv="attn.attention.qkv_proj",
            output="attn.attention.out_proj",
            up=("c_fc",),
            down="c_proj",
        ),
    ),
    # Multi-query attention (Shazeer, arXiv 1911.02150) where `multi_query` is true: one head of keys and values.
    "gpt_bigcode": _GPT2.like("GPTBigCodeForCausalLM", kv_heads_default="multi_query"),
    "gptj": _GPTJ,
    "codegen": _GPTJ.like(
        "CodeGenForCausalLM",
        modules=Modules(layers="h", qkv=("attn.qkv_proj",), output="attn.out_proj", up=("fc_in",), down="fc_out"),
    ),
    # nanochat: norms without weights, and an activation without a gate.
    "nanochat": Family(
        architectures=("NanoChatForCausalLM",),
        kv_heads_default=None,
        up_projections=1.0,
        norm_free=True,
        attention_bias=("attention_bias", False),
        modules=Modules(up=("fc1",), down="fc2"),
    ),
    "gpt_neox": _GPT2.like(
        "GPTNeoXForCausalLM",
        tied=False,
        parallel=("use_parallel_residual", True),
        attention_bias=("attention_bias", True),
        positions_extra=None,
        intermediate_factor=None,
        modules=_FUSED,
    ),
    "opt": _GPT2.like(
        "OPTForCausalLM",
        attention_bias=("enable_bias", True),
        ffn_bias=("enable_bias", True),
        # `OPTLearnedPositionalEmbedding` of Transformers shifts positions by two: its table has two rows more.
        positions_extra=2,
        intermediate_factor=None,
        unless=(("do_layer_norm_before", True), ("layer_norm_elementwise_affine", True)),
        modules=Modules(output="self_attn.out_proj", dense="", up=("fc1",), down="fc2"),
    ),
    # BLOOM (arXiv 2211.05100): biases by distance (ALiBi) in place of learned positions; the embedding has a norm.
    "bloom": _GPT2.like("BloomForCausalLM", embedding_norm=True, positions_extra=None, modules=_SELF_FUSED),
    # Falcon (Almazrouei et al., arXiv 2311.16867): multi-query attention, parallel sublayers.
    "falcon": Family(
        architectures=("FalconForCausalLM", "RWForCausalLM"),
        tied=True,
        kv_heads_default="multi_query",
        up_projections=1.0,
        parallel=("parallel_attn", True),
        norm_bias=True,
        attention_bias=("bias", False),
        ffn_bias=("bias", False),
        intermediate_factor=4.0,
        modules=_SELF_FUSED,
    ),
    "mpt": Family(
        architectures=("MPTForCausalLM",),
        tied=True,
        up_projections=1.0,
        intermediate_factor=4.0,
        # Biases, and a feed-forward of another width, would change counts: such configs are refused.
        unless=(("no_bias", True), ("expansion_ratio", 4)),
        modules=Modules(layers="blocks", qkv=("attn.Wqkv",), output="attn.out_proj", dense="ffn", up=("up_proj",)),
    ),
    "phi": Family(
        architectures=("PhiForCausalLM",),
        up_projections=1.0,
        parallel=True,
        norms=1.0,
        norm_bias=True,
        attention_bias=True,
        ffn_bias=True,
        head_bias=True,
        unless=(("qk_layernorm", False),),
        modules=Modules(output="self_attn.dense", up=("fc1",), down="fc2"),
    ),
    "starcoder2": Family(
        architectures=("Starcoder2ForCausalLM",),
        tied=True,
        kv_heads_default=None,
        up_projections=1.0,
        norm_bias=True,
        attention_bias=("use_bias", True),
        ffn_bias=("use_bias", True),
        windows="all",
        # Another norm or a gated feed-forward would have other weights: such configs are refused.
        unless=(("norm_type", "layer_norm"), ("mlp_type", "default")),
        modules=Modules(up=("c_fc",), down="c_proj"),
    ),
}
"""`model_type` -> family."""
