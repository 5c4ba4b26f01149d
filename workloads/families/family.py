"""Traits of a family of models that its configs leave out: biases, norms, defaults and module names."""

import dataclasses
from typing import Any

Switch = bool | tuple[str, bool]
"""Whether a family has something: always or never, or as a config key says, with the key's default."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Modules:
    """Names of linear layers in a family's checkpoints, which quantisation configs use.

    Where several layers are one in some exports, `fused_` has the name of that one.
    """

    layers: str = "layers"  # what stands before a layer's index
    qkv: tuple[str, ...] = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
    fused_qkv: str = "self_attn.qkv_proj"
    output: str = "self_attn.o_proj"
    dense: str = "mlp"
    moe: str = "mlp"
    up: tuple[str, ...] = ("gate_proj", "up_proj")
    fused_up: str = "gate_up_proj"
    down: str = "down_proj"
    expert_up: tuple[str, ...] = ("gate_proj", "up_proj")
    expert_down: str = "down_proj"
    shared: str = "shared_experts"
    latent_query_down: str = "self_attn.q_a_proj"
    latent_down: str = "self_attn.kv_a_proj_with_mqa"
    fused_latent_down: str = "self_attn.fused_qkv_a_proj"
    latent_query: str = "self_attn.q_b_proj"
    latent_direct_query: str = "self_attn.q_proj"
    latent_up: str = "self_attn.kv_b_proj"
    indexer: str = "self_attn.indexer.wq_b"
    group: str = "self_attn.wo_a"
    linear_input: tuple[str, ...] = ()  # of linear attention, without its small projections to gates
    fused_linear_input: str = ""
    linear_output: str = ""
    narrowing: tuple[str, ...] = ()  # of experts that work in a narrower space: to it and back

    def kind(self, module: str) -> str:
        """What the linear layer of this name, without that of its parent, is for: a key of `tensors.KINDS`."""
        last = module.rpartition(".")[2]
        if module in self.qkv:
            # One name is the fused layer of all three, which is then a kind of its own.
            return dict(zip(self.qkv, ("query", "key", "value"), strict=True))[module] if len(self.qkv) == 3 else "qkv"
        if module == self.output:
            return "output"
        if module == self.down or last == self.expert_down:
            return "down"
        # Where there are two names, the first is the gate's.
        for names in (self.up, self.expert_up):
            if last in names:
                return "gate" if len(names) > 1 and last == names[0] else "up"
        return "other"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExpertLayers:
    """Keys of a family's mixture-of-experts layers.

    `layout` says which layers have experts: "all"; "step" (`decoder_sparse_step`, `mlp_only_layers`); "first_dense"
    (`first_k_dense_replace`, `num_dense_layers`); "interleaved" (`moe_layers`, `interleave_moe_layer_step`); "range"
    (`moe_layer_start_index`, `moe_layer_end_index`, `moe_layer_interval`); "list" (`moe_layer_freq`); "enumerated"
    (`moe_layers_enum`, else `first_k_dense_replace`); "period" (`expert_layer_period`, `expert_layer_offset`);
    "flag" (`enable_moe_block`); "stated" (all where the number of experts is above 0). `mlp_layer_types` wins.
    """

    layout: str
    intermediate: tuple[str, ...] = ("moe_intermediate_size",)
    dense_intermediate: str = "intermediate_size"
    shared: str | None = None  # key of the number of shared experts, each as wide as a routed one
    shared_intermediate: str | None = None  # key of the width of all shared experts together
    always_shared: float = 0.0  # shared experts that every layer has without a key
    shared_gate: bool = False  # a weight per hidden dimension that scales the shared experts' output
    router_bias: bool = False
    expert_bias: bool = False
    score_correction: bool = False  # a bias per expert that only the choice of experts sees
    width: str | None = None  # key of the width of the experts' inputs and outputs, where it is not the hidden size
    width_norm: bool = False  # a norm over that width
    beside_dense: bool = False  # every layer has its dense feed-forward too, beside the experts
    scaled_router: bool = False  # weights that scale the router's input, and a scale per expert


@dataclasses.dataclass(frozen=True, kw_only=True)
class Family:
    """One `model_type`, as its published modelling code defines it.

    `mixer` is the kind of its attention, a key of `huggingface.MIXERS`. `linear` is that of the layers that `pattern`
    names: "interval" (`layer_types`, else all but every `full_attention_interval`-th layer); "sparse" (`layer_types`,
    else all but every fourth, which has an indexer); "kimi" (`linear_attn_config`); "letters"
    (`hybrid_override_pattern`, one letter per layer, which has one mixer or one feed-forward); "indices"
    (`attn_layer_indices`); "types" (`layer_types` or `attn_type_list`); "period" (`attn_layer_period`,
    `attn_layer_offset`); "shared" (`layers_block_type`, `hybrid_layer_ids`: layers that have a shared one in front);
    "convolutions" (`layer_types` or `full_attn_idxs`); "all". With "double" a layer is two of attention and a dense
    feed-forward, and one of experts beside them.

    `sizes` says whose attention has dimensions of its own: None; "swa" (sliding layers, under `swa_`); "global" (full
    layers, `global_head_dim`, `num_global_key_value_heads`); "sliding" (sliding layers, `attention_other_setting`);
    "blocks" (each layer, `block_configs`); "heads" (each layer, `num_attention_heads_per_layer`).

    `windows` says which layers see a window: None; "all" (`sliding_window` everywhere); "late" (`use_sliding_window`
    from layer `max_window_layers` on); "period" (all but every `period`-th layer); "first" (all but the first
    of every `global_attn_every_n_layers`); "chunked" (`attention_chunk_size` on layers with rotary positions);
    "pattern" (`hybrid_layer_pattern`); "named" (`attention_layers`, `attention_types`); "listed" (`layer_types`).
    """

    architectures: tuple[str, ...]
    mixer: str = "softmax"
    linear: str | None = None
    pattern: str | None = None
    sizes: str | None = None
    selection: str | None = None  # sparse attention: "tokens" (`index_topk`) or "blocks" (`sparse_attention_config`)
    gate: str | None = None  # output gate of attention: "element" or "head"
    causal: bool = True
    generates: bool = True
    fills_in: bool = False  # it has a head over words, though it does not decode token by token
    query_rank: str | None = None  # key of the rank of queries that softmax attention projects down and up again
    shared_cache: bool = False  # the last `num_kv_shared_layers` have keys and values of earlier ones
    per_layer_inputs: bool = False  # embeddings of every layer's own (`hidden_size_per_layer_input`)
    altup: bool = False  # several streams of which a layer works on one (`altup_num_inputs`), and low-rank residuals
    parallel: Switch = False  # attention and feed-forward read the same input
    prediction_dense: bool = False  # multi-token-prediction layers have a window and a dense feed-forward
    encoder: str | None = None  # what its encoder is, a key of `encoders.VISION` or `encoder_decoder.ENCODER_DECODERS`
    tied: bool = False  # default of tie_word_embeddings
    kv_heads_default: str | None = "heads"  # one per query head; None: required; "multi_query": one where it is true
    head_dim_default: int | str | None = "hidden/heads"  # None: required
    up_projections: float = 2.0
    norms: float = 2.0  # norm vectors of hidden size per layer
    post_norms: Switch = False  # a norm after each sublayer too
    streams: str | None = None  # key of the number of residual streams that are mixed before and after each sublayer
    streams_end_even: bool = False  # streams end as their mean, which needs no weights
    norm_bias: Switch = False  # every norm has a bias vector too
    norm_free: bool = False  # norms without weights
    qk_norm: Switch = False
    qk_norm_width: str = "head"  # "head": one vector that heads share; "heads": one over all heads
    attention_bias: Switch = False  # of queries, keys, values and output
    output_bias: Switch | None = None  # of the output; None: as the others
    ffn_bias: Switch = False
    head_bias: Switch = False
    scan_norms: bool = False  # norms of what a selective scan selects
    adjusted_width: bool = False  # a feed-forward is two thirds of the config's size (`block_auto_adjust_ff_dim`)
    sinks: Switch = False  # one learned logit per head that takes probability from all keys
    windows: str | None = None
    period: int = 0
    window_default: int | None = None
    positions_extra: int | None = None  # learned positions: rows beyond the maximum position; None: not learned
    positions: Switch = True  # whether learned positions are there, for families that have them
    token_types: bool = False  # learned token types (`type_vocab_size`)
    embedding_norm: bool = False  # a norm after the embedding
    final_norm: bool = True
    pooler: bool = False  # a square layer over the first token
    classifier_pooler: bool = False  # the same, before a classifier alone
    relative_positions: bool = False  # learned vectors of relative positions (`position_buckets`), with a norm
    experts: ExpertLayers | None = None
    modules: Modules = Modules()
    intermediate_factor: float | None = None  # hidden sizes per intermediate size where a config does not say
    intermediate_scale: float = 1.0  # width of one projection over the config's intermediate_size
    defaults: tuple[tuple[str, int], ...] = ()  # published class defaults of keys that configs leave out
    class_defaults: tuple[tuple[str, object], ...] = ()  # of keys that text models nested in others leave out
    text_first: tuple[str, ...] = ()  # keys that have a size for text and one for pictures, of which the first is read
    unless: tuple[tuple[str, object], ...] = ()  # key, and the only value of it that is read
    text_type: str | None = None  # model_type of the nested text_config, for families that nest one
    any_text: bool = False  # the language model may be of any family; `text_type` where it does not say
    reads_value_dim: bool = False  # whether values may be narrower than keys (`v_head_dim`)
    note: str | None = None  # said aloud with every model of the family

    @property
    def by_layer(self) -> bool:
        """Whether configs list sizes of single layers."""
        return self.sizes in ("blocks", "heads") or self.mixer == "compressed" or self.selection is not None

    def like(self, *architectures: str, **traits: Any) -> "Family":
        """A family that differs from this one in `traits`, and in its architectures where they are given."""
        return dataclasses.replace(self, architectures=architectures or self.architectures, **traits)
