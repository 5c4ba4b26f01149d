"""Models that encode one text or sound and decode another: Whisper, BART, T5 and what differs little from them."""

import dataclasses
from collections.abc import Callable

from jaxroof.layers.attention import Attention
from jaxroof.model import Block, Encoder, FeedForward, Model, WeightFormat
from jaxroof.numerics.struct import given
from workloads.config import Config
from workloads.models.encoders import UNBIASED, Tower, encoder_of
from workloads.precisions.formats import Tensor
from workloads.precisions.storage import Quantization, linear_format

T5_BUCKETS = 32  # published class default of relative_attention_num_buckets
BART_POSITIONS_EXTRA = 2  # rows of its learned positions beyond the longest sequence


def _whisper(config: Config, linear: WeightFormat, base: WeightFormat) -> Model:
    """Whisper. Its two convolutions over three frames stand as one projection of 3 mel spectra and 3 hidden vectors.

    That is their weights exactly; of the operations it leaves out one half of the first convolution, 2 % of a token's
    at most. Keys have no bias.
    """
    hidden, mel = config.count("d_model"), config.count("num_mel_bins")
    positions = config.count("max_source_positions")
    # Two convolutions of kernel 3: their weights as one matrix, and biases, positions and last norm beside.
    encoder = _tower(config, hidden, 3.0 * (mel + hidden), hidden * (positions + 4.0))
    decoder = _decoder_block(config, hidden, linear, key_bias=False)
    other = hidden * (config.count("max_target_positions") + 2.0)
    return _model(config, encoder_of(encoder, [], linear), base, hidden, decoder, other, key_bias=False)


def _bart(config: Config, linear: WeightFormat, base: WeightFormat) -> Model:
    """BART: post-norms, and a norm after each stack's embedding in place of one after its last layer."""
    hidden = config.count("d_model")
    positions = config.count("max_position_embeddings") + BART_POSITIONS_EXTRA
    # Learned positions of each stack, and the norm behind its embedding.
    other = hidden * (positions + 2.0)
    encoder = encoder_of(_tower(config, hidden, None, other), [], linear)
    return _model(config, encoder, base, hidden, _decoder_block(config, hidden, linear), other)


def _marian(config: Config, linear: WeightFormat, base: WeightFormat) -> Model:
    """Marian: BART without norms outside of the layers, and without rows beyond the longest sequence."""
    # Neither the two rows of positions nor the norm (two vectors).
    outside = config.count("d_model") * (BART_POSITIONS_EXTRA + 2.0)
    return _outside(_bart(config, linear, base), -outside, -outside)


def _pegasus(config: Config, linear: WeightFormat, base: WeightFormat) -> Model:
    """Pegasus: Marian with a norm after each stack's last layer."""
    norm = 2.0 * config.count("d_model")
    return _outside(_marian(config, linear, base), norm, norm)


def _m2m(config: Config, linear: WeightFormat, base: WeightFormat) -> Model:
    """M2M-100 and NLLB: Pegasus whose positions are computed, not stored."""
    positions = config.count("d_model") * config.count("max_position_embeddings")
    return _outside(_pegasus(config, linear, base), -positions, -positions)


def _outside(model: Model, encoder: float, decoder: float) -> Model:
    """A model with so many more parameters beside the layers of its encoder and its decoder."""
    stack = given(model.encoder, "encoder")
    stack = dataclasses.replace(stack, other_parameters=stack.other_parameters + encoder)
    return dataclasses.replace(model, encoder=stack, other_parameters=model.other_parameters + decoder)


def _mbart(config: Config, linear: WeightFormat, base: WeightFormat) -> Model:
    """mBART: BART with a norm after each stack's last layer too."""
    norm = 2.0 * config.count("d_model")
    return _outside(_bart(config, linear, base), norm, norm)


def _mt5(config: Config, linear: WeightFormat, base: WeightFormat) -> Model:
    """mT5: T5 whose head has weights of its own."""
    model = _t5(config, linear, base)
    return dataclasses.replace(model, untied=float(not config.flag("tie_word_embeddings", False)))


def _umt5(config: Config, linear: WeightFormat, base: WeightFormat) -> Model:
    """UMT5: T5 with a table of relative positions in every layer."""
    model = _t5(config, linear, base)
    table = float(config.count("num_heads") * config.count("relative_attention_num_buckets", default=T5_BUCKETS))
    (block,) = model.blocks
    # One table is counted already: each further layer adds one.
    return _outside(model, (config.count("num_layers") - 1.0) * table, (block.count - 1.0) * table)


def _t5(config: Config, linear: WeightFormat, base: WeightFormat) -> Model:
    """T5: no biases, one table of relative positions per stack."""
    # T5 states the width of a head (d_kv), which need not be hidden / heads.
    hidden, heads, head_dim = config.count("d_model"), config.count("num_heads"), config.count("d_kv")
    layers = config.count("num_layers")
    gated = config.text("feed_forward_proj", default="relu").startswith("gated")
    intermediate, up = config.number("d_ff"), 2.0 if gated else 1.0
    tower = Tower(
        hidden=float(hidden),
        layers=float(layers),
        heads=float(heads),
        head_dim=float(head_dim),
        intermediate=intermediate,
        **UNBIASED,
        gated=gated,
        inputs=None,
        other_parameters=hidden + float(heads * config.count("relative_attention_num_buckets", default=T5_BUCKETS)),
    )
    block = Block(
        count=config.number("num_decoder_layers", default=layers),
        attention=_attention(heads, head_dim, linear, causal=True),
        cross=_attention(heads, head_dim, linear, causal=False),
        feedforward=FeedForward(intermediate=intermediate, up_projections=up, up=linear, down=linear),
        # Three norms without bias: self-attention, cross-attention, feed-forward.
        other_parameters=3.0 * hidden,
    )
    return _model(config, encoder_of(tower, [], linear), base, hidden, block, tower.other_parameters)


def _tower(config: Config, hidden: int, inputs: float | None, other_parameters: float) -> Tower:
    heads = _stack_heads(config, hidden, "encoder")
    return Tower(
        hidden=float(hidden),
        layers=config.number("encoder_layers"),
        heads=float(heads),
        head_dim=hidden / heads,
        intermediate=config.number("encoder_ffn_dim"),
        inputs=inputs,
        other_parameters=other_parameters,
    )


def _decoder_block(config: Config, hidden: int, linear: WeightFormat, key_bias: bool = True) -> Block:
    heads = _stack_heads(config, hidden, "decoder")
    intermediate = config.number("decoder_ffn_dim")
    biases = 3.0 + key_bias  # of queries, values, outputs and keys
    return Block(
        count=config.number("decoder_layers"),
        attention=_attention(heads, hidden // heads, linear, causal=True),
        cross=_attention(heads, hidden // heads, linear, causal=False),
        feedforward=FeedForward(intermediate=intermediate, up_projections=1.0, up=linear, down=linear),
        # Three norms with bias, biases of both attentions, of both feed-forward matrices.
        other_parameters=hidden * (3.0 * 2.0 + 2.0 * biases + 1.0) + intermediate,
    )


def _attention(heads: int, head_dim: int, linear: WeightFormat, causal: bool) -> Attention:
    return Attention(
        heads=float(heads),
        kv_heads=float(heads),
        head_dim=float(head_dim),
        value_dim=float(head_dim),
        window=None,
        causal=causal,
        qkv=linear,
        output=linear,
    )


def _model(
    config: Config,
    encoder: Encoder,
    base: WeightFormat,
    hidden: int,
    decoder: Block,
    other_parameters: float,
    key_bias: bool = True,
) -> Model:
    # Whisper's key projections have no bias, in the encoder either.
    if not key_bias:
        blocks = (dataclasses.replace(b, other_parameters=b.other_parameters - hidden) for b in encoder.blocks)
        encoder = dataclasses.replace(encoder, blocks=tuple(blocks))
    return Model(
        hidden=float(hidden),
        vocabulary=config.number("vocab_size"),
        blocks=(decoder,),
        embedding=base,
        head=base,
        untied=float(not config.flag("tie_word_embeddings", True)),
        other_parameters=other_parameters,
        encoder=dataclasses.replace(encoder, embedding=base),
    )


def _stack_heads(config: Config, hidden: int, stack: str) -> int:
    heads = config.count(f"{stack}_attention_heads")
    if hidden % heads:
        raise config.error(f"{stack}_attention_heads is {heads}; it must divide the hidden size {hidden}")
    return heads


ENCODER_DECODERS: dict[str | None, Callable[[Config, WeightFormat, WeightFormat], Model]] = {
    "whisper": _whisper,
    "bart": _bart,
    "marian": _marian,
    "m2m": _m2m,
    "mbart": _mbart,
    "pegasus": _pegasus,
    "t5": _t5,
    "mt5": _mt5,
    "umt5": _umt5,
}
"""`Family.encoder` -> the model of a config, given the format of its linear layers and that of all else."""


def encoder_decoder(config: Config, kind: str, quantised: Quantization, base: WeightFormat) -> Model:
    """The model of a config with an encoder and a decoder; all its linear layers have one format.

    Raises:
      ValueError: a missing or wrong size, by its key.
    """
    linear = linear_format(quantised, [Tensor(("layers.0.fc1", "fc1"))], base, config.name)
    return ENCODER_DECODERS[kind](config, linear, base)
