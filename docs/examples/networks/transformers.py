"""Transformers that read a whole text or image at once: BERT and ViT, as they were published."""

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp

from docs.examples.networks.vocabulary import Network, Weights, added, convolved, multiplied

WORDS = 30522
"""Of BERT's English vocabulary without capitals."""


@functools.partial(jax.jit, static_argnames="dtype")
def layer_norm(x: jax.Array, scale: jax.Array, shift: jax.Array, dtype: Any) -> jax.Array:
    """Every token with mean 0 and variance 1, scaled and shifted."""
    wide = x.astype(jnp.float32)
    wide = wide - wide.mean(-1, keepdims=True)
    wide = wide * jax.lax.rsqrt((wide * wide).mean(-1, keepdims=True) + 1e-6)
    return (wide * scale + shift).astype(dtype)


def _normed(take: Weights, x: jax.Array) -> jax.Array:
    return layer_norm(x, take.sizes(x.shape[-1]), take.sizes(x.shape[-1]), take.dtype)


@jax.jit
def gelu(x: jax.Array) -> jax.Array:
    """Hendrycks and Gimpel, arXiv:1606.08415."""
    return jax.nn.gelu(x.astype(jnp.float32)).astype(x.dtype)


def _attended(take: Weights, x: jax.Array, heads: int) -> jax.Array:
    """Self-attention of all tokens to all tokens."""
    batch, tokens, hidden = x.shape
    split = (batch, tokens, heads, hidden // heads)
    q, k, v = (part.reshape(split) for part in jnp.split(multiplied(take, x, 3 * hidden), 3, -1))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k, preferred_element_type=jnp.float32) / math.sqrt(split[-1])
    shares = jax.nn.softmax(scores, -1).astype(v.dtype)
    return multiplied(take, jnp.einsum("bhqk,bkhd->bqhd", shares, v).reshape(x.shape), hidden)


def _bert(layers: int, hidden: int, heads: int) -> Any:
    """Devlin et al., arXiv:1810.04805; the head says where an answer begins and ends."""

    def body(take: Weights, words: jax.Array) -> jax.Array:
        tokens = words.shape[1]
        x = take(WORDS, hidden)[words] + take(512, hidden)[:tokens] + take(2, hidden)[0]
        x = _normed(take, x)
        for _ in range(layers):
            x = _normed(take, added(x, _attended(take, x, heads)))
            inner = multiplied(take, gelu(multiplied(take, x, 4 * hidden)), hidden)
            x = _normed(take, added(x, inner))
        return multiplied(take, x, 2)

    return body


def _vit(layers: int, hidden: int, heads: int, patch: int) -> Any:
    """Dosovitskiy et al., arXiv:2010.11929."""

    def body(take: Weights, x: jax.Array) -> jax.Array:
        x = convolved(take, x, hidden, patch, patch, padding="VALID") + take.sizes(hidden)
        x = x.reshape(x.shape[0], -1, hidden)
        first = jnp.broadcast_to(take(hidden), (x.shape[0], 1, hidden))
        x = jnp.concatenate([first, x], 1)
        x = x + take(x.shape[1], hidden)
        for _ in range(layers):
            x = added(x, _attended(take, _normed(take, x), heads))
            inner = gelu(multiplied(take, _normed(take, x), 4 * hidden))
            x = added(x, multiplied(take, inner, hidden))
        return multiplied(take, _normed(take, x)[:, 0], 1000)

    return body


bert_base = Network(_bert(12, 768, 12), 128, words=WORDS)
bert_large = Network(_bert(24, 1024, 16), 384, words=WORDS)
vit_s16 = Network(_vit(12, 384, 6, 16), 224)
vit_b16 = Network(_vit(12, 768, 12, 16), 224)
