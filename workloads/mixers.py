"""Mixers, through which tokens see each other, by the names that families give them."""

from collections.abc import Callable

from jaxroof.model import Mixer
from workloads.attention import attention
from workloads.latent import compressed_attention, latent_attention
from workloads.layer import Layer
from workloads.linear_attention import gated_delta_net, kimi_delta_attention, lightning_attention, mamba2

MIXERS: dict[str, Callable[[Layer], Mixer]] = {
    "softmax": attention,
    "latent": latent_attention,
    "compressed": compressed_attention,
    "gated delta": gated_delta_net,
    "kimi delta": kimi_delta_attention,
    "mamba2": mamba2,
    "lightning": lightning_attention,
}
"""`Family.mixer` or `Family.linear` -> the struct of one layer."""
