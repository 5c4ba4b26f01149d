"""A diffusion transformer, DiT-XL/2, on latents of 32 x 32: one denoising step.

Source: Peebles and Xie, Scalable Diffusion Models with Transformers, arXiv:2212.09748, table 1 and section 3.2.
"""

from typing import Any

import jax
import jax.numpy as jnp

from docs.examples.functions.arrays import array, layer_norm

LAYERS, WIDTH, HEADS, PATCH, CHANNELS, SIDE = 28, 1152, 16, 2, 4, 32
FREQUENCIES = 256
"""Numbers that a time step is spread over, before its two layers."""

PATCHES = (SIDE // PATCH) ** 2

params = {
    "patches": array(PATCH * PATCH * CHANNELS, WIDTH),
    "places": array(PATCHES, WIDTH),
    "time": [array(FREQUENCIES, WIDTH), array(WIDTH, WIDTH)],
    "blocks": {
        "modulation": array(LAYERS, WIDTH, 6 * WIDTH),
        "qkv": array(LAYERS, WIDTH, 3 * WIDTH),
        "out": array(LAYERS, WIDTH, WIDTH),
        "up": array(LAYERS, WIDTH, 4 * WIDTH),
        "down": array(LAYERS, 4 * WIDTH, WIDTH),
    },
    "modulation": array(WIDTH, 2 * WIDTH),
    "noise": array(WIDTH, 2 * PATCH * PATCH * CHANNELS),
}
"""Weights; those of blocks are stacked."""


def modulated(x: jax.Array, shift: jax.Array, scale: jax.Array) -> jax.Array:
    """A norm whose shift and scale a sample's condition gives."""
    return layer_norm(x) * (1 + scale[:, None]) + shift[:, None]


def block(x: jax.Array, weights: dict[str, jax.Array], condition: jax.Array) -> jax.Array:
    """One block with adaptive norms: x (images, patches, width), condition (images, width)."""
    parts = jnp.split(jax.nn.silu(condition) @ weights["modulation"], 6, -1)
    shift, scale, gate, shift_up, scale_up, gate_up = parts
    heads = (*x.shape[:2], HEADS, -1)
    q, k, v = jnp.split(modulated(x, shift, scale) @ weights["qkv"], 3, -1)
    seen = jax.nn.dot_product_attention(q.reshape(heads), k.reshape(heads), v.reshape(heads)).reshape(x.shape)
    x = x + gate[:, None] * (seen @ weights["out"])
    inner = jax.nn.gelu(modulated(x, shift_up, scale_up) @ weights["up"])
    return x + gate_up[:, None] * (inner @ weights["down"])


def forward(params: dict[str, Any], latents: jax.Array, steps: jax.Array, condition: jax.Array) -> jax.Array:
    """Noise of latents (images, 32, 32, 4) at time steps (images,), given what they should show (images, width)."""
    images, side = latents.shape[0], SIDE // PATCH
    angles = steps[:, None] * jnp.exp(-9.2 * jnp.arange(FREQUENCIES // 2) / (FREQUENCIES // 2))
    spread = jnp.concatenate([jnp.cos(angles), jnp.sin(angles)], -1).astype(latents.dtype)
    condition = condition + jax.nn.silu(spread @ params["time"][0]) @ params["time"][1]
    cut = latents.reshape(images, side, PATCH, side, PATCH, CHANNELS).swapaxes(2, 3)
    x = cut.reshape(images, PATCHES, -1) @ params["patches"] + params["places"]
    x, _ = jax.lax.scan(lambda x, weights: (block(x, weights, condition), None), x, params["blocks"])
    shift, scale = jnp.split(jax.nn.silu(condition) @ params["modulation"], 2, -1)
    return modulated(x, shift, scale) @ params["noise"]
