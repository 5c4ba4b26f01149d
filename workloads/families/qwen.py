"""Qwen with softmax attention alone, dense and with experts, with and without an encoder."""

import dataclasses

from workloads.families.classic import ATTENTION_BIAS, DENOISED
from workloads.families.family import ExpertLayers, Family, Modules

# Qwen2 (arXiv 2407.10671): biases of queries, keys and values, none of the output.
_QWEN2 = Family(
    architectures=("Qwen2ForCausalLM",),
    kv_heads_default=None,
    attention_bias=True,
    output_bias=False,
    windows="late",
    window_default=4096,
)
_EXPERTS = ExpertLayers(layout="step")
SHARED_EXPERTS = dataclasses.replace(_EXPERTS, shared_intermediate="shared_expert_intermediate_size", shared_gate=True)
# Qwen3 (arXiv 2505.09388): norms of queries and of keys in place of the biases.
QWEN3 = _QWEN2.like(
    "Qwen3ForCausalLM", head_dim_default=128, qk_norm=True, attention_bias=ATTENTION_BIAS, output_bias=None
)
_QWEN3_MOE = QWEN3.like("Qwen3MoeForCausalLM", head_dim_default=None, experts=_EXPERTS)

QWEN: dict[str, Family] = {
    "qwen": Family(
        architectures=("QWenLMHeadModel",),
        head_dim_default=None,
        attention_bias=True,
        output_bias=False,
        intermediate_scale=0.5,  # the config gives the width of both up projections together
        unless=(("no_bias", True),),
        modules=Modules(layers="h", qkv=("attn.c_attn",), output="attn.c_proj", up=("w1", "w2"), down="c_proj"),
    ),
    "qwen2": _QWEN2,
    "qwen2_vl_text": _QWEN2,
    "qwen2_5_vl_text": _QWEN2,
    "qwen2_5_omni_text": _QWEN2,
    "mimo": _QWEN2.like("MiMoForCausalLM", attention_bias=("attention_bias", True)),
    # Dream is trained to fill in masked tokens: it attends to both sides.
    "dream": _QWEN2.like("DreamModel", causal=False, generates=False, fills_in=True, note=DENOISED),
    "qwen2_vl": _QWEN2.like("Qwen2VLForConditionalGeneration", text_type="qwen2_vl_text", encoder="qwen2_vl"),
    "qwen2_5_vl": _QWEN2.like("Qwen2_5_VLForConditionalGeneration", text_type="qwen2_5_vl_text", encoder="qwen2_5_vl"),
    "qwen2_moe": _QWEN2.like(
        "Qwen2MoeForCausalLM",
        attention_bias=("qkv_bias", True),
        experts=SHARED_EXPERTS,
        modules=Modules(shared="shared_expert"),
    ),
    "qwen3": QWEN3,
    "qwen3_moe": _QWEN3_MOE,
    "mellum": _QWEN3_MOE.like("MellumForCausalLM", windows="listed"),
    "laguna": _QWEN3_MOE.like(
        "LagunaForCausalLM",
        gate="head",
        sizes="heads",
        windows="listed",
        experts=dataclasses.replace(SHARED_EXPERTS, shared_gate=False, score_correction=True),
        unless=(("gating", True),),
    ),
    "kolibri1": _QWEN3_MOE.like(
        "Kolibri1ForCausalLM",
        norms=4.0,
        windows="listed",
        experts=dataclasses.replace(SHARED_EXPERTS, shared_gate=False),
    ),
    "qwen3_vl_text": QWEN3,
    "qwen3_vl_moe_text": _QWEN3_MOE,
    "qwen3_omni_moe_text": _QWEN3_MOE,
    "flint": _QWEN3_MOE.like(
        "FlintForCausalLM",
        windows="listed",
        sinks=True,
        experts=dataclasses.replace(SHARED_EXPERTS, shared_gate=False),
        modules=Modules(shared="shared_expert"),
    ),
    "qwen3_vl": QWEN3.like("Qwen3VLForConditionalGeneration", text_type="qwen3_vl_text", encoder="qwen3_vl"),
    "qwen3_vl_moe": _QWEN3_MOE.like(
        "Qwen3VLMoeForConditionalGeneration", text_type="qwen3_vl_moe_text", encoder="qwen3_vl"
    ),
}
"""`model_type` -> family."""
