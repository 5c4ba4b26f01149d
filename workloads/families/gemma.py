"""Gemma: tied heads, norms before and after every sublayer, windows on most layers."""

import dataclasses

from workloads.families.classic import ATTENTION_BIAS
from workloads.family import ExpertLayers, Family, Modules

_GEMMA = Family(
    architectures=("GemmaForCausalLM",),
    tied=True,
    kv_heads_default=None,
    head_dim_default=256,
    qkv_bias=ATTENTION_BIAS,
    output_bias=ATTENTION_BIAS,
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
_GEMMA4 = dataclasses.replace(
    _GEMMA3,
    architectures=("Gemma4ForCausalLM",),
    sizes="global",
    defaults=(),
    experts=ExpertLayers(layout="flag", beside_dense=True, scaled_router=True),
    modules=Modules(moe="moe"),
    unless=(("num_kv_shared_layers", 0), ("hidden_size_per_layer_input", 0), ("use_double_wide_mlp", False)),
)

GEMMA: dict[str, Family] = {
    "gemma": _GEMMA,
    "gemma2": _GEMMA2,
    "gemma3": dataclasses.replace(
        _GEMMA3, architectures=("Gemma3ForConditionalGeneration",), text_type="gemma3_text", encoder="gemma3"
    ),
    "gemma3_text": _GEMMA3,
    "gemma4": dataclasses.replace(
        _GEMMA4, architectures=("Gemma4ForConditionalGeneration",), text_type="gemma4_text", encoder="gemma4"
    ),
    "gemma4_text": _GEMMA4,
}
"""`model_type` -> family."""
