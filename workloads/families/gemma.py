"""Gemma: tied heads, norms before and after every sublayer, windows on most layers."""

from workloads.families.classic import ATTENTION_BIAS
from workloads.families.family import ExpertLayers, Family, Modules

# Gemma (arXiv 2403.08295): heads of 256 dimensions by the class's default, whatever the hidden size.
_GEMMA = Family(
    architectures=("GemmaForCausalLM",),
    tied=True,
    kv_heads_default=None,
    head_dim_default=256,
    attention_bias=ATTENTION_BIAS,
)
# Gemma 2 (arXiv 2408.00118): norms before and after both sublayers; every other layer has a window.
_GEMMA2 = _GEMMA.like("Gemma2ForCausalLM", norms=4.0, windows="period", period=2, window_default=4096)
# Gemma 3 (arXiv 2503.19786): five layers with a window for each that attends to all tokens.
_GEMMA3 = _GEMMA2.like(
    "Gemma3ForCausalLM",
    qk_norm=True,
    period=6,
    defaults=(("num_attention_heads", 8), ("num_key_value_heads", 4), ("vocab_size", 262208)),
)
_GEMMA4 = _GEMMA3.like(
    "Gemma4ForCausalLM",
    sizes="global",
    defaults=(),
    experts=ExpertLayers(layout="flag", beside_dense=True, scaled_router=True),
    modules=Modules(moe="moe"),
    shared_cache=True,
    per_layer_inputs=True,
)

# Gemma 3n: AltUp (Baykal et al., arXiv 2301.13310), and embeddings that each layer has of its own.
_GEMMA3N = _GEMMA3.like(
    "Gemma3nForCausalLM",
    period=5,
    defaults=(),
    shared_cache=True,
    per_layer_inputs=True,
    altup=True,
    note="the streams of AltUp are priced as the traffic of as many norms",
)

GEMMA: dict[str, Family] = {
    "gemma": _GEMMA,
    "gemma2": _GEMMA2,
    # VaultGemma has no norms after the sublayers, unlike Gemma 2.
    "vaultgemma": _GEMMA2.like("VaultGemmaForCausalLM", norms=2.0, windows="listed"),
    "gemma3": _GEMMA3.like("Gemma3ForConditionalGeneration", text_type="gemma3_text", encoder="gemma3"),
    "gemma3_text": _GEMMA3,
    "gemma3n_text": _GEMMA3N,
    "gemma4": _GEMMA4.like("Gemma4ForConditionalGeneration", text_type="gemma4_text", encoder="gemma4"),
    "gemma4_text": _GEMMA4,
    "gemma4_unified_text": _GEMMA4.like("Gemma4UnifiedForCausalLM"),
}
"""`model_type` -> family."""
