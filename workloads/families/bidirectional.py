"""Encoders without a decoder, and models that encode one text or sound and decode another."""

import dataclasses

from workloads.families.family import Family, Modules

# BERT (Devlin et al., arXiv 1810.04805) normalises after each sublayer and after the embedding: no final norm.
_BERT = Family(
    architectures=("BertModel", "BertForMaskedLM", "BertForPreTraining"),
    causal=False,
    generates=False,
    tied=True,
    up_projections=1.0,
    norm_bias=True,
    attention_bias=True,
    ffn_bias=True,
    # Learned positions, exactly `max_position_embeddings` of them.
    positions_extra=0,
    token_types=True,
    embedding_norm=True,
    final_norm=False,
    pooler=True,
    modules=Modules(
        layers="layer",
        qkv=("attention.self.query", "attention.self.key", "attention.self.value"),
        fused_qkv="attention.self.qkv_proj",
        output="attention.output.dense",
        # `intermediate` and `output` are modules of the layer itself, without an `mlp` around them.
        dense="",
        up=("intermediate.dense",),
        down="output.dense",
    ),
    unless=(("is_decoder", False), ("position_embedding_type", "absolute")),
)
# RoBERTa (Liu et al., arXiv 1907.11692) has BERT's layers; only its training differs.
_ROBERTA = _BERT.like("RobertaModel", "RobertaForMaskedLM")

BIDIRECTIONAL: dict[str, Family] = {
    "bert": _BERT,
    "roberta": _ROBERTA,
    "xlm-roberta": _BERT.like("XLMRobertaModel", "XLMRobertaForMaskedLM", "XLMRobertaForSequenceClassification"),
    # DistilBERT (Sanh et al., arXiv 1910.01108) has no token types; only its classifier has a square layer.
    "distilbert": _BERT.like(
        "DistilBertModel",
        "DistilBertForMaskedLM",
        token_types=False,
        pooler=False,
        classifier_pooler=True,
        unless=(),
        modules=Modules(
            layers="transformer.layer",
            qkv=("attention.q_lin", "attention.k_lin", "attention.v_lin"),
            fused_qkv="attention.qkv_lin",
            output="attention.out_lin",
            dense="ffn",
            up=("lin1",),
            down="lin2",
        ),
    ),
    "mpnet": _BERT.like("MPNetModel", "MPNetForMaskedLM", token_types=False, unless=()),
    "eurobert": Family(
        architectures=("EuroBertModel", "EuroBertForMaskedLM"),
        causal=False,
        generates=False,
        attention_bias=("attention_bias", False),
        ffn_bias=("mlp_bias", False),
    ),
    "camembert": _ROBERTA.like("CamembertModel", "CamembertForMaskedLM"),
    # Nomic's BERT has rotary positions and a gated feed-forward, so no positions are learned.
    "nomic_bert": _BERT.like(
        "NomicBertModel",
        "NomicBertForMaskedLM",
        up_projections=2.0,
        attention_bias=("qkv_proj_bias", False),
        ffn_bias=("mlp_fc1_bias", False),
        positions_extra=None,
        pooler=False,
        unless=(("is_decoder", False), ("num_experts", 0)),
        modules=Modules(layers="layers", qkv=("attn.Wqkv",), output="attn.out_proj", up=("fc11", "fc12"), down="fc2"),
    ),
    # DeBERTa (He et al., arXiv 2006.03654) adds products with relative positions to the scores of attention.
    "deberta-v2": _BERT.like(
        "DebertaV2Model",
        "DebertaV2ForMaskedLM",
        positions=("position_biased_input", True),
        pooler=False,
        classifier_pooler=True,
        relative_positions=True,
        modules=dataclasses.replace(
            _BERT.modules,
            qkv=("attention.self.query_proj", "attention.self.key_proj", "attention.self.value_proj"),
        ),
        unless=(("is_decoder", False), ("share_att_key", True), ("conv_kernel_size", 0)),
        note="products of queries and keys with relative positions (disentangled attention) are counted, not priced",
    ),
    # ModernBERT (Warner et al., arXiv 2412.13663): one layer of three attends to all tokens, the others to a window.
    "modernbert": Family(
        architectures=("ModernBertModel", "ModernBertForMaskedLM"),
        causal=False,
        generates=False,
        tied=True,
        norm_bias=("norm_bias", False),
        attention_bias=("attention_bias", False),
        ffn_bias=("mlp_bias", False),
        embedding_norm=True,
        windows="first",
        period=3,
        window_default=128,
        # `Wi` is the gate and the up projection in one.
        modules=Modules(qkv=("attn.Wqkv",), output="attn.Wo", up=("Wi",), down="Wo"),
    ),
    # From here on models have an encoder and a decoder; `encoder` is a key of `encoder_decoder.ENCODER_DECODERS`.
    "whisper": Family(architectures=("WhisperForConditionalGeneration",), encoder="whisper"),
    "bart": Family(
        architectures=("BartForConditionalGeneration", "BartModel", "BartForSequenceClassification"), encoder="bart"
    ),
    "marian": Family(architectures=("MarianMTModel", "MarianModel"), encoder="marian"),
    "pegasus": Family(architectures=("PegasusForConditionalGeneration", "PegasusModel"), encoder="pegasus"),
    "m2m_100": Family(architectures=("M2M100ForConditionalGeneration", "M2M100Model"), encoder="m2m"),
    "mbart": Family(
        architectures=("MBartForConditionalGeneration", "MBartModel", "MBartForSequenceClassification"),
        encoder="mbart",
    ),
    "t5": Family(architectures=("T5ForConditionalGeneration",), encoder="t5"),
    "mt5": Family(architectures=("MT5ForConditionalGeneration",), encoder="mt5"),
    "umt5": Family(architectures=("UMT5ForConditionalGeneration",), encoder="umt5"),
}
"""`model_type` -> family."""
