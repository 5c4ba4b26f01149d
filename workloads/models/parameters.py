"""Parameters of a model beside its matrices: norms, biases, convolutions, sinks, learned positions."""

from collections.abc import Callable
from typing import Any

from jaxroof.layers.attention import Attention
from jaxroof.layers.composite import SideBySide
from jaxroof.layers.compressed_attention import CompressedAttention
from jaxroof.layers.latent_attention import LatentAttention
from jaxroof.layers.linear_attention import LinearAttention, ShortConvolution
from jaxroof.layers.selective_scan import SelectiveScan
from jaxroof.model import Block, Experts, FeedForward, Mixer, WeightFormat
from jaxroof.numerics.struct import Scalar, given
from workloads.config import Config
from workloads.families.family import Family, Switch

POSITION_KEYS = ("max_position_embeddings", "n_positions", "seq_length", "max_seq_len", "model_max_length")
"""The spellings of the longest sequence."""


def layer_parameters(
    config: Config, family: Family, hidden: float, mixer: Mixer | None, feedforward: FeedForward | Experts | None
) -> float:
    """Parameters of one layer that are in no matrix: norms, biases, convolutions, sinks, score corrections."""
    # A layer with one sublayer has half of the norms of one with two.
    parts = (mixer is not None) + (feedforward is not None)
    parameters = layer_norms(config, family) * parts / 2.0 * norm_parameters(config, family, hidden)
    if family.streams is not None:
        parameters += parts * _stream_parameters(config, family, hidden)
    if mixer is not None:
        parameters += MIXER_PARAMETERS[type(mixer)](config, family, hidden, mixer)
    if isinstance(feedforward, Experts):
        return parameters + _expert_parameters(config, family, hidden, feedforward)
    if feedforward is not None and switched(config, family.ffn_bias):
        # Bias of each up projection and of the down projection.
        parameters += feedforward.up_projections * feedforward.intermediate + hidden
    return parameters


def model_parameters(config: Config, family: Family, hidden: float, vocabulary: float) -> float:
    """Parameters outside the layers that are in no embedding or head: norms, learned positions, a pooler."""
    parameters = norm_parameters(config, family, hidden) * (family.final_norm + family.embedding_norm)
    if family.positions_extra is not None and switched(config, family.positions):
        parameters += (config.count(*POSITION_KEYS) + family.positions_extra) * hidden
    if family.token_types:
        parameters += config.count("type_vocab_size", default=2, minimum=0) * hidden
    if family.relative_positions and config.flag("relative_attention", False):
        # DeBERTa: two tables of relative positions, to either side.
        buckets = config.count("position_buckets", default=-1, minimum=-1)
        reach = config.count("max_relative_positions", default=-1, minimum=-1)
        reach = reach if reach > 0 else config.count(*POSITION_KEYS)
        parameters += 2.0 * (buckets if buckets > 0 else reach) * hidden
        parameters += 2.0 * hidden * ("layer_norm" in config.text("norm_rel_ebd", default="none"))
    if family.pooler:
        parameters += hidden * hidden + hidden
    if switched(config, family.head_bias):
        parameters += vocabulary
    if family.streams is not None and not family.streams_end_even:
        streams = config.count(family.streams)
        # The mix of streams behind the last layer.
        parameters += streams * streams * hidden + streams + 1.0
    return parameters


def layer_norms(config: Config, family: Family) -> float:
    """Norm vectors of hidden size per layer."""
    return family.norms + (2.0 if switched(config, family.post_norms) else 0.0)


def norm_parameters(config: Config, family: Family, hidden: float) -> float:
    """Parameters of one norm over the hidden size."""
    if family.norm_free:
        return 0.0
    return hidden * (2.0 if switched(config, family.norm_bias) else 1.0)


def switched(config: Config, switch: Switch) -> bool:
    """Whether a model has what `switch` describes."""
    return switch if isinstance(switch, bool) else config.flag(*switch)


def _attention_parameters(
    config: Config, family: Family, hidden: float, attention: Attention | LatentAttention
) -> float:
    biased = switched(config, family.attention_bias)
    parameters = hidden * (biased if family.output_bias is None else switched(config, family.output_bias))
    if attention.selection is not None:
        pool, width = attention.selection.stride, attention.selection.head_dim
        # An indexer normalises its keys, with a bias.
        parameters += 2.0 * width  # a norm with a bias of the indexer's keys
        parameters += pool * width if pool > 1.0 else 0.0  # what gates of a pool add by position
    if isinstance(attention, LatentAttention):
        # Norms of the compressed query and of the latent vector.
        rank = attention.query_rank or 0.0
        return parameters + rank + attention.latent + biased * (rank + attention.latent + attention.rope_dim)
    parameters += 0.0 if attention.query_rank is None else attention.query_rank  # a norm between
    values = attention.value_projection * attention.value_dim
    # Biases of queries, keys and values as far as they are projected.
    parameters += biased * (attention.heads * attention.head_dim + attention.kv_heads * (attention.head_dim + values))
    return parameters + _qk_norm(config, family, attention) + attention.heads * _has_sinks(config, family, attention)


def _compressed_parameters(config: Config, family: Family, hidden: float, attention: CompressedAttention) -> Scalar:
    """Norms, sinks, and what the compressors add to their gates by position."""
    parameters = attention.query_rank + attention.head_dim + attention.heads
    widths = [] if attention.ratio is None else [attention.head_dim]
    widths += [] if attention.selection is None else [attention.selection.head_dim]
    return parameters + sum(width * ((attention.ratio or 0.0) * attention.overlap + 1.0) for width in widths)


def _linear_parameters(config: Config, family: Family, hidden: float, attention: LinearAttention) -> float:
    """The short convolution, decays and step sizes per head or channel, and the norm of the output."""
    values = attention.heads * attention.value_dim
    # Convolution over queries, keys and values, a tap at a time.
    channels = 2.0 * attention.key_heads * attention.key_dim + values
    parameters = (attention.convolution or 0.0) * channels
    if family.linear == "mamba2":
        biased = config.value("use_conv_bias", "mamba_conv_bias", default=True) is True
        # Decay, time step bias and skip per head, norm of the values.
        return parameters + biased * channels + 3.0 * attention.heads + values
    if family.linear == "lightning":
        return parameters + values
    # Kimi's decays are per channel, others per head.
    steps = values if family.linear in ("kimi delta", "full-rank kimi delta") else attention.heads
    return parameters + attention.heads + steps + attention.value_dim


def _scan_parameters(config: Config, family: Family, hidden: float, scan: SelectiveScan) -> float:
    """Convolution, decays, what skips the state, the bias of time steps, and norms of what is selected."""
    biased = config.value("use_conv_bias", "mamba_conv_bias", default=True) is True
    # Taps, bias, decays per state, skip and time step bias.
    parameters = scan.channels * (scan.taps + biased + scan.state + 2.0)
    return parameters + family.scan_norms * (scan.rank + 2.0 * scan.state)


def _convolution_parameters(config: Config, family: Family, hidden: float, mixer: ShortConvolution) -> float:
    biased = config.flag("conv_bias", False)
    return mixer.channels * (mixer.taps + biased) + biased * (3.0 * mixer.channels + hidden)


def _beside_parameters(config: Config, family: Family, hidden: float, mixer: Any) -> float:
    """Those of attention and of Mamba-2, whose output has a norm only where `mamba_rms_norm` says so."""
    recurrence = mixer.recurrence
    parameters = _attention_parameters(config, family, hidden, mixer.attention)
    normed = config.flag("mamba_rms_norm", False)
    parameters += _linear_parameters(config, family, hidden, recurrence)
    # Without its output norm.
    return parameters - (not normed) * recurrence.heads * recurrence.value_dim


MIXER_PARAMETERS: dict[type, Callable[[Config, Family, float, Any], float]] = {
    Attention: _attention_parameters,
    LatentAttention: _attention_parameters,
    CompressedAttention: _compressed_parameters,
    LinearAttention: _linear_parameters,
    SelectiveScan: _scan_parameters,
    ShortConvolution: _convolution_parameters,
    SideBySide: _beside_parameters,
}
"""Struct of a mixer -> the parameters of one layer's that are in no matrix."""


def _stream_parameters(config: Config, family: Family, hidden: float) -> float:
    """Parameters that mix n residual streams around a sublayer: n (n + 2) weights of all streams, each with a bias.

    Source: DeepSeek-AI, DeepSeek-V4, 2026, section 2.2 (hyper-connections).
    """
    streams = config.count(given(family.streams, "key of the number of residual streams"))
    mixed = streams * (streams + 2.0)
    return mixed * streams * hidden + mixed + 3.0


def _qk_norm(config: Config, family: Family, attention: Attention) -> Scalar:
    if not switched(config, family.qk_norm):
        return 0.0
    if family.qk_norm_width == "head":
        # A head's norm is shared by all heads; layers without keys of their own norm queries alone.
        return (1.0 if attention.shares_cache else 2.0) * attention.head_dim
    return (attention.heads + attention.kv_heads) * attention.head_dim


def _has_sinks(config: Config, family: Family, attention: Attention) -> bool:
    if family.windows != "pattern":
        return switched(config, family.sinks)
    key = "add_swa_attention_sink_bias" if attention.window is not None else "add_full_attention_sink_bias"
    return config.flag(key, False)


def _expert_parameters(config: Config, family: Family, hidden: float, layer: Experts) -> Scalar:
    rules = given(family.experts, "experts in the family of models")
    # Router bias, score correction, scale: one number per expert each.
    parameters = layer.experts * (rules.router_bias + rules.score_correction + rules.scaled_router)
    parameters += rules.expert_bias * layer.experts * (layer.up_projections * layer.intermediate + hidden)
    parameters += hidden * (rules.scaled_router + (rules.shared_gate and layer.shared is not None))
    # Beside a dense layer: norms of the experts' input and output, and of the dense layer's output.
    parameters += rules.beside_dense * 3.0 * norm_parameters(config, family, hidden)
    return parameters + rules.width_norm * (layer.width or 0.0)


# Small products beside every layer: embeddings of each layer's own, and low-rank residuals (Gemma 3n, Gemma 4).


def side_blocks(config: Config, family: Family, hidden: float, layers: int, base: WeightFormat) -> tuple[Block, ...]:
    """Products of every layer beside its attention and feed-forward, as feed-forwards of their ranks.

    An embedding of the layer's own scales what a product takes from the hidden state, and another brings it back;
    a low-rank residual is two products; each ends in a norm. None are quantised.

    Source: transformers, modeling_gemma3n.py and modeling_gemma4.py (per_layer_input_gate, per_layer_projection,
    laurel).
    """
    ranks = [config.count("laurel_rank")] if family.altup else []
    ranks += [_width(config)] if family.per_layer_inputs and _width(config) else []
    return tuple(_product(float(rank), hidden, layers, base) for rank in ranks)


def layer_input_parameters(config: Config, family: Family, hidden: float, layers: int) -> float:
    """Parameters of the embeddings of every layer's own, of what makes inputs of the token's, and of streams."""
    parameters = 0.0
    width = _width(config) if family.per_layer_inputs else 0
    if width:
        words = config.count("vocab_size_per_layer_input", default=config.value("vocab_size"))
        parameters += (words + hidden) * layers * width + width
    if family.altup:
        config.value("activation_sparsity_pattern")  # of activations, which engines multiply as dense ones
        streams = config.number("altup_num_inputs", default=4)
        # Of every layer: predictions and corrections of each stream, a router with a norm, a scale; outside: a square
        # matrix to and from each further stream.
        # Cubic in streams: predictions and corrections mix all of them.
        layer = streams**3 + streams**2 + streams * hidden + 2.0 * hidden
        parameters += layers * layer + 2.0 * (streams - 1.0) * hidden**2
    return parameters


def _width(config: Config) -> int:
    return config.count("hidden_size_per_layer_input", default=0, minimum=0)


def _product(rank: float, hidden: float, layers: int, base: WeightFormat) -> Block:
    return Block(
        count=float(layers),
        attention=None,
        feedforward=FeedForward(intermediate=rank, up_projections=1.0, up=base, down=base),
        norms=1.0,
        other_parameters=hidden,
    )
