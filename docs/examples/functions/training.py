"""A training step of a small transformer: gradients summed over micro-batches, then AdamW, in plain JAX.

The layout of GPT-2, 124 million parameters; weights and moments in float32, products in bf16, layers checkpointed.
Source: Radford et al., Language Models are Unsupervised Multitask Learners, 2019, table 2; Loshchilov and Hutter,
Decoupled Weight Decay Regularization, arXiv:1711.05101, algorithm 2.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp

from docs.examples.functions.arrays import array, layer_norm

LAYERS, WIDTH, HEADS, VOCABULARY = 12, 768, 12, 50304
RATE, FIRST, SECOND, DECAY = 3e-4, 0.9, 0.95, 0.1

params = {
    "embedding": array(VOCABULARY, WIDTH, dtype="float32"),
    "blocks": {
        "qkv": array(LAYERS, WIDTH, 3 * WIDTH, dtype="float32"),
        "out": array(LAYERS, WIDTH, WIDTH, dtype="float32"),
        "up": array(LAYERS, WIDTH, 4 * WIDTH, dtype="float32"),
        "down": array(LAYERS, 4 * WIDTH, WIDTH, dtype="float32"),
    },
}
"""Weights; those of blocks are stacked."""

state = {"weights": params, "first": params, "second": params, "step": array(dtype="float32")}
"""What a step changes: weights, both moments of their gradients, and the number of steps."""


def block(x: jax.Array, weights: dict[str, jax.Array]) -> jax.Array:
    """One layer: x (sequences, tokens, width) in bf16."""
    qkv, out, up, down = (weights[name].astype(x.dtype) for name in ("qkv", "out", "up", "down"))
    heads = (*x.shape[:2], HEADS, -1)
    q, k, v = (part.reshape(heads) for part in jnp.split(layer_norm(x) @ qkv, 3, -1))
    x = x + jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(x.shape) @ out
    return x + jax.nn.gelu(layer_norm(x) @ up) @ down


def loss(weights: dict[str, Any], tokens: jax.Array, following: jax.Array) -> jax.Array:
    """Mean cross entropy of the tokens that follow, both (sequences, tokens)."""
    embedding = weights["embedding"].astype(jnp.bfloat16)
    layer = jax.checkpoint(lambda x, weights: (block(x, weights), None))
    x, _ = jax.lax.scan(layer, embedding[tokens], weights["blocks"])
    logits = (layer_norm(x) @ embedding.T).astype(jnp.float32)
    chosen = jnp.take_along_axis(logits, following[..., None], -1)[..., 0]
    return (jax.nn.logsumexp(logits, -1) - chosen).mean()


def adamw(state: dict[str, Any], gradients: dict[str, Any]) -> dict[str, Any]:
    """The state after one update of every weight."""
    step = state["step"] + 1.0
    first = jax.tree.map(lambda m, g: FIRST * m + (1 - FIRST) * g, state["first"], gradients)
    second = jax.tree.map(lambda v, g: SECOND * v + (1 - SECOND) * g * g, state["second"], gradients)

    def changed(weight: jax.Array, m: jax.Array, v: jax.Array) -> jax.Array:
        change = m / (1 - FIRST**step) / (jnp.sqrt(v / (1 - SECOND**step)) + 1e-8)
        return weight - RATE * (change + DECAY * weight)

    return {
        "weights": jax.tree.map(changed, state["weights"], first, second),
        "first": first,
        "second": second,
        "step": step,
    }


@functools.partial(jax.jit, donate_argnums=0)
def train(state: dict[str, Any], tokens: jax.Array, following: jax.Array) -> tuple[dict[str, Any], jax.Array]:
    """The state after one step, written over the old one, and the loss: tokens (micro-batches, sequences, tokens)."""
    weights = state["weights"]

    def one(gradients: dict[str, Any], batch: tuple[jax.Array, jax.Array]) -> tuple[dict[str, Any], jax.Array]:
        value, own = jax.value_and_grad(loss)(weights, *batch)
        return jax.tree.map(jnp.add, gradients, own), value

    start = jax.tree.map(jnp.zeros_like, weights)
    gradients, losses = jax.lax.scan(one, start, (tokens, following))
    return adamw(state, jax.tree.map(lambda g: g / tokens.shape[0], gradients)), losses.mean()
