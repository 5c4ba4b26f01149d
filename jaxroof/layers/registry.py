"""Kinds of mixers and feed-forwards by the struct that describes one."""

from jaxroof.layers.attention import ATTENTION, Attention
from jaxroof.layers.composite import SHARED_TRANSFORMER, SharedTransformer, SideBySide, side_by_side
from jaxroof.layers.compressed_attention import COMPRESSED_ATTENTION, CompressedAttention
from jaxroof.layers.feedforward import EXPERTS, FEED_FORWARD
from jaxroof.layers.latent_attention import LATENT_ATTENTION, LatentAttention
from jaxroof.layers.linear_attention import LINEAR_ATTENTION, SHORT_CONVOLUTION, LinearAttention, ShortConvolution
from jaxroof.layers.protocol import FeedForwardKind, MixerKind
from jaxroof.layers.selective_scan import SELECTIVE_SCAN, SelectiveScan
from jaxroof.model import Experts, FeedForward, Mixer

MIXERS: dict[type, MixerKind] = {
    Attention: ATTENTION,
    LatentAttention: LATENT_ATTENTION,
    CompressedAttention: COMPRESSED_ATTENTION,
    LinearAttention: LINEAR_ATTENTION,
    SelectiveScan: SELECTIVE_SCAN,
    ShortConvolution: SHORT_CONVOLUTION,
    SharedTransformer: SHARED_TRANSFORMER,
}
"""Struct of a mixer -> its functions."""

FEED_FORWARDS: dict[type, FeedForwardKind] = {FeedForward: FEED_FORWARD, Experts: EXPERTS}
"""Struct of a feed-forward -> its functions."""


def mixer_kind(mixer: Mixer) -> MixerKind:
    """The functions of a mixer's kind."""
    return MIXERS[type(mixer)]


def feed_forward_kind(layer: FeedForward | Experts) -> FeedForwardKind:
    """The functions of a feed-forward's kind."""
    return FEED_FORWARDS[type(layer)]


MIXERS[SideBySide] = side_by_side(mixer_kind)
