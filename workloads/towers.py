"""Encoders of identical layers and a projector, counted from their sizes."""

import dataclasses
from typing import Any

from jaxroof.layers.attention import Attention
from jaxroof.model import Block, Encoder, FeedForward, Projection, WeightFormat


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tower:
    """Sizes of an encoder whose layers differ at most in their window."""

    hidden: float
    layers: float
    heads: float
    head_dim: float
    intermediate: float
    inputs: float | None
    merged: float = 1.0
    gated: bool = False
    attention_bias: bool = True
    ffn_bias: bool = True
    norm_bias: bool = True
    norms: float = 2.0  # norm vectors per layer
    qk_norm: bool = False
    scales: float = 0.0  # vectors per layer that scale its sublayers
    windowed_layers: float = 0.0
    window: float | None = None  # tokens in a window of those
    other_parameters: float = 0.0  # beside the layers


UNBIASED: dict[str, Any] = dict.fromkeys(("attention_bias", "ffn_bias", "norm_bias"), False)
"""Traits of a tower without biases."""


def encoder_of(tower: Tower, projector: list[tuple[float, float]], base: WeightFormat) -> Encoder:
    """An encoder of `tower`'s layers and of projections of (inputs, outputs), none of them quantised."""
    kinds = [(tower.layers - tower.windowed_layers, None), (tower.windowed_layers, tower.window)]
    return Encoder(
        hidden=tower.hidden,
        blocks=tuple(_block(tower, count, window, base) for count, window in kinds if count),
        inputs=tower.inputs,
        merged=tower.merged,
        projector=tuple(Projection(inputs=inputs, outputs=outputs, weights=base) for inputs, outputs in projector),
        embedding=base,
        other_parameters=tower.other_parameters,
    )


def _block(tower: Tower, count: float, window: float | None, base: WeightFormat) -> Block:
    width = tower.heads * tower.head_dim
    up = 2.0 if tower.gated else 1.0
    other = tower.hidden * (tower.norms * (1.0 + tower.norm_bias) + tower.scales)
    other += tower.attention_bias * (3.0 * width + tower.hidden)
    other += tower.ffn_bias * (up * tower.intermediate + tower.hidden)
    return Block(
        count=count,
        attention=Attention(
            heads=tower.heads,
            kv_heads=tower.heads,
            head_dim=tower.head_dim,
            value_dim=tower.head_dim,
            window=window,
            window_kind=None if window is None else "chunked",
            causal=False,
            qk_norm=float(tower.qk_norm),
            qkv=base,
            output=base,
        ),
        feedforward=FeedForward(intermediate=tower.intermediate, up_projections=up, up=base, down=base),
        norms=tower.norms / 2.0,
        other_parameters=other + tower.qk_norm * 2.0 * tower.head_dim,
    )
