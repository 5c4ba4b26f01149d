"""Small products beside every layer: embeddings of each layer's own, and low-rank residuals (Gemma 3n, Gemma 4)."""

from jaxroof.model import Block, FeedForward, WeightFormat
from workloads.config import Config
from workloads.family import Family


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
