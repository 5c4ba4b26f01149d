"""A diffusion UNet: that of DDPM on images of 32 x 32, one denoising step.

Source: Ho, Jain and Abbeel, Denoising Diffusion Probabilistic Models, arXiv:2006.11239, appendix B.
"""

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp

from docs.examples.functions.arrays import array

SIDE, COLOURS, CHANNELS = 32, 3, 128
LEVELS = (1, 2, 2, 2)
"""Channels of every resolution, in units of `CHANNELS`."""

BLOCKS = 2
"""Residual blocks per resolution on the way down; one more on the way up."""

ATTENTION = (16,)
"""Resolutions with attention."""

TIME = 4 * CHANNELS
GROUPS = 32

Block = dict[str, Any]


def _block(inputs: int, outputs: int, side: int | None = None) -> Block:
    """Weights of a residual block, with attention where its resolution has that."""
    found: Block = {"first": array(3, 3, inputs, outputs), "time": array(TIME, outputs)}
    found["second"] = array(3, 3, outputs, outputs)
    if inputs != outputs:
        found["shortcut"] = array(1, 1, inputs, outputs)
    if side in ATTENTION:
        found["attention"] = {"qkv": array(outputs, 3 * outputs), "out": array(outputs, outputs)}
    return found


def _weights() -> dict[str, Any]:
    """Weights of the network; `kept` are the channels of what the way up reads again."""
    down, up, kept, channels, side = [], [], [CHANNELS], CHANNELS, SIDE
    for level, factor in enumerate(LEVELS):
        for _ in range(BLOCKS):
            down.append(_block(channels, factor * CHANNELS, side))
            channels = factor * CHANNELS
            kept.append(channels)
        if level < len(LEVELS) - 1:
            down.append({"halved": array(3, 3, channels, channels)})
            kept.append(channels)
            side //= 2
    middle = [_block(channels, channels, ATTENTION[0]), _block(channels, channels)]
    for level, factor in reversed(list(enumerate(LEVELS))):
        for _ in range(BLOCKS + 1):
            up.append(_block(channels + kept.pop(), factor * CHANNELS, side))
            channels = factor * CHANNELS
        if level > 0:
            up.append({"doubled": array(3, 3, channels, channels)})
            side *= 2
    ends = {"first": array(3, 3, COLOURS, CHANNELS), "last": array(3, 3, CHANNELS, COLOURS)}
    return ends | {"time": [array(CHANNELS, TIME), array(TIME, TIME)], "down": down, "middle": middle, "up": up}


params = _weights()
"""Weights of products; norms multiply nothing and are left without."""


def convolved(x: jax.Array, weight: jax.Array, stride: int = 1) -> jax.Array:
    """A convolution of images with their channels last."""
    return jax.lax.conv_general_dilated(x, weight, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def group_norm(x: jax.Array) -> jax.Array:
    """Groups of channels of an image with mean 0 and variance 1, computed in float32."""
    wide = x.astype(jnp.float32).reshape(*x.shape[:3], GROUPS, -1)
    mean, square = (each.mean((1, 2, 4), keepdims=True) for each in (wide, wide * wide))
    return ((wide - mean) * jax.lax.rsqrt(square - mean * mean + 1e-6)).reshape(x.shape).astype(x.dtype)


def attended(x: jax.Array, weights: Block) -> jax.Array:
    """Attention between all places of an image, one head."""
    images, _, _, channels = x.shape
    y = group_norm(x).reshape(images, -1, channels)
    q, k, v = (part[:, :, None] for part in jnp.split(y @ weights["qkv"], 3, -1))
    return x + (jax.nn.dot_product_attention(q, k, v)[:, :, 0] @ weights["out"]).reshape(x.shape)


def block(x: jax.Array, weights: Block, time: jax.Array) -> jax.Array:
    """A residual block: x (images, side, side, channels), time (images, TIME)."""
    y = convolved(jax.nn.silu(group_norm(x)), weights["first"])
    y = y + (jax.nn.silu(time) @ weights["time"])[:, None, None]
    y = convolved(jax.nn.silu(group_norm(y)), weights["second"])
    y = y + (convolved(x, weights["shortcut"]) if "shortcut" in weights else x)
    return attended(y, weights["attention"]) if "attention" in weights else y


def _ways_down(x: jax.Array, blocks: list[Block], time: jax.Array) -> Iterator[jax.Array]:
    """What every block on the way down makes."""
    for weights in blocks:
        x = convolved(x, weights["halved"], 2) if "halved" in weights else block(x, weights, time)
        yield x


def forward(params: dict[str, Any], images: jax.Array, steps: jax.Array) -> jax.Array:
    """Noise of images (images, 32, 32, 3) at time steps (images,)."""
    angles = steps[:, None] * jnp.exp(-9.2 * jnp.arange(CHANNELS // 2) / (CHANNELS // 2))
    spread = jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], -1).astype(images.dtype)
    time = jax.nn.silu(spread @ params["time"][0]) @ params["time"][1]
    x = convolved(images, params["first"])
    kept = [x, *_ways_down(x, params["down"], time)]
    x = kept[-1]
    for weights in params["middle"]:
        x = block(x, weights, time)
    for weights in params["up"]:
        if "doubled" in weights:
            x = convolved(x.repeat(2, 1).repeat(2, 2), weights["doubled"])
        else:
            x = block(jnp.concatenate([x, kept.pop()], -1), weights, time)
    return convolved(jax.nn.silu(group_norm(x)), params["last"])
