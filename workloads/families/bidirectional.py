"""Encoders without a decoder, and models that encode one text or sound and decode another."""

from workloads.family import Family, Modules

_BERT = Family(
    architectures=("BertModel", "BertForMaskedLM", "BertForPreTraining"),
    causal=False,
    generates=False,
    tied=True,
    up_projections=1.0,
    norm_bias=True,
    attention_bias=True,
    ffn_bias=True,
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
        dense="",
        up=("intermediate.dense",),
        down="output.dense",
    ),
    unless=(("is_decoder", False), ("position_embedding_type", "absolute")),
)
_ROBERTA = _BERT.like("RobertaModel", "RobertaForMaskedLM")

BIDIRECTIONAL: dict[str, Family] = {
    "bert": _BERT,
    "roberta": _ROBERTA,
    "xlm-roberta": _BERT.like("XLMRobertaModel", "XLMRobertaForMaskedLM", "XLMRobertaForSequenceClassification"),
    "distilbert": _BERT.like(
        "DistilBertModel",
        "DistilBertForMaskedLM",
        token_types=False,
        pooler=False,
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
        modules=Modules(qkv=("attn.Wqkv",), output="attn.Wo", up=("Wi",), down="Wo"),
    ),
    "whisper": Family(architectures=("WhisperForConditionalGeneration",), encoder="whisper"),
    "bart": Family(
        architectures=("BartForConditionalGeneration", "BartModel", "BartForSequenceClassification"), encoder="bart"
    ),
    "t5": Family(architectures=("T5ForConditionalGeneration",), encoder="t5"),
}
"""`model_type` -> family."""
