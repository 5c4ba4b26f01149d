"""Multi-head latent attention and compressed attention, with and without an indexer."""

from workloads.families.classic import ATTENTION_BIAS
from workloads.families.family import ExpertLayers, Family, Modules

# Latent attention: DeepSeek-V2 (arXiv 2405.04434). The bias that corrects the choice of experts in place of a
# balancing loss: DeepSeek-V3 (arXiv 2412.19437).
_DEEPSEEK_V3 = Family(
    architectures=("DeepseekV3ForCausalLM",),
    mixer="latent",
    reads_value_dim=True,
    attention_bias=ATTENTION_BIAS,
    experts=ExpertLayers(layout="first_dense", shared="n_shared_experts", score_correction=True),
)
_KIMI_K2 = _DEEPSEEK_V3.like("DeepseekV3ForCausalLM", "KimiK2ForCausalLM")

_MINICPM3 = Family(
    architectures=("MiniCPM3ForCausalLM",),
    mixer="latent",
    reads_value_dim=True,
    tied=True,
    attention_bias=ATTENTION_BIAS,
)

LATENT: dict[str, Family] = {
    # DeepSeek-V2 balances experts by a loss, so its router has no correcting bias.
    "deepseek_v2": _DEEPSEEK_V3.like(
        "DeepseekV2ForCausalLM", experts=ExpertLayers(layout="first_dense", shared="n_shared_experts")
    ),
    "deepseek_v3": _DEEPSEEK_V3,
    # DeepSeek-V3.2: an indexer chooses the `index_topk` tokens that a query attends to.
    "deepseek_v32": _DEEPSEEK_V3.like("DeepseekV32ForCausalLM", selection="tokens"),
    "glm_moe_dsa": _DEEPSEEK_V3.like("GlmMoeDsaForCausalLM", selection="tokens"),
    "glm4_moe_lite": _DEEPSEEK_V3.like("Glm4MoeLiteForCausalLM"),
    "kimi_k2": _KIMI_K2,
    "kimi_k25": _KIMI_K2.like("KimiK25ForConditionalGeneration", text_type="kimi_k2", encoder="moonvit"),
    "mistral4": _DEEPSEEK_V3.like(
        "Mistral4ForCausalLM", experts=ExpertLayers(layout="first_dense", shared="n_shared_experts")
    ),
    # LongCat-Flash (arXiv 2509.01322): shortcut-connected experts beside two pairs of attention and feed-forward.
    "longcat_flash": _DEEPSEEK_V3.like(
        "LongcatFlashForCausalLM",
        "LongcatCausalLM",
        pattern="double",
        experts=ExpertLayers(layout="all", intermediate=("expert_ffn_hidden_size",), score_correction=True),
        modules=Modules(dense="mlps"),
        note=(
            "every layer of its config is three here: two of attention and a dense feed-forward, one of experts, which "
            "run after them, not beside; experts that do nothing get an even share of the choices"
        ),
    ),
    "axk1": _DEEPSEEK_V3.like("AXK1ForCausalLM", norms=3.0),
    "minicpm3": _MINICPM3,
    "youtu": _MINICPM3.like("YoutuForCausalLM"),
    "deepseek_v4": Family(
        architectures=("DeepseekV4ForCausalLM",),
        mixer="compressed",
        selection="tokens",
        # Hyper-connections (Zhu et al., arXiv 2409.19606): `hc_mult` residual streams, mixed around each sublayer.
        streams="hc_mult",
        experts=ExpertLayers(layout="all", shared="n_shared_experts", score_correction=True),
        modules=Modules(
            dense="ffn",
            moe="ffn",
            up=("w1", "w3"),
            fused_up="w13",
            down="w2",
            expert_up=("w1", "w3"),
            expert_down="w2",
            output="attn.wo_b",
            group="attn.wo_a",
            latent_query_down="attn.wq_a",
            latent_down="attn.wkv",
            fused_latent_down="attn.wqkv_a",
            latent_query="attn.wq_b",
            indexer="attn.indexer.wq_b",
        ),
    ),
}
"""`model_type` -> family."""
