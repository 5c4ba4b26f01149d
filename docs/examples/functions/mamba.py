"""A selective state space model, Mamba-130M: a forward pass over whole sequences.

Source: Gu and Dao, Mamba: Linear-Time Sequence Modeling with Selective State Spaces, arXiv:2312.00752, algorithm 2 and
section 3.4; sizes of the published checkpoint mamba-130m.
"""

from typing import Any

import jax
import jax.numpy as jnp

from docs.examples.functions.arrays import array, rms_norm

LAYERS, WIDTH, INNER, STATE, RANK, TAPS, VOCABULARY = 24, 768, 1536, 16, 48, 4, 50280

params = {
    "embedding": array(VOCABULARY, WIDTH),
    "norm": array(WIDTH),
    "blocks": {
        "norm": array(LAYERS, WIDTH),
        "into": array(LAYERS, WIDTH, 2 * INNER),
        "taps": array(LAYERS, TAPS, INNER),
        "selection": array(LAYERS, INNER, RANK + 2 * STATE),
        "step": array(LAYERS, RANK, INNER),
        "decay": array(LAYERS, INNER, STATE, dtype="float32"),
        "skip": array(LAYERS, INNER),
        "out": array(LAYERS, INNER, WIDTH),
    },
}
"""Weights; those of blocks are stacked."""


def selective_scan(x: jax.Array, step: jax.Array, decay: jax.Array, into: jax.Array, out: jax.Array) -> jax.Array:
    """States of 16 numbers per channel, updated token after token.

    h = exp(step decay) h + step x into, y = sum over states of h out: x and step (sequences, tokens, channels), decay
    (channels, states), into and out (sequences, tokens, states).
    """

    def one(state: jax.Array, now: Any) -> tuple[jax.Array, jax.Array]:
        x, step, into, out = now
        state = state * jnp.exp(step[:, :, None] * decay) + (step * x)[:, :, None] * into[:, None]
        return state, (state * out[:, None]).sum(-1)

    start = jnp.zeros((x.shape[0], *decay.shape), jnp.float32)
    _, found = jax.lax.scan(one, start, tuple(part.swapaxes(0, 1) for part in (x, step, into, out)))
    return found.swapaxes(0, 1)


def block(x: jax.Array, weights: dict[str, jax.Array]) -> jax.Array:
    """One layer: x (sequences, tokens, width)."""
    inner, gate = jnp.split(rms_norm(x, weights["norm"]) @ weights["into"], 2, -1)
    tokens = x.shape[1]
    padded = jnp.pad(inner, ((0, 0), (TAPS - 1, 0), (0, 0)))
    mixed = sum(padded[:, tap : tap + tokens] * weights["taps"][tap] for tap in range(TAPS))
    inner = jax.nn.silu(mixed)
    rank, into, out = jnp.split(inner @ weights["selection"], [RANK, RANK + STATE], -1)
    step = jax.nn.softplus(rank @ weights["step"])
    found = selective_scan(inner, step, -jnp.exp(weights["decay"]), into, out).astype(x.dtype)
    return x + ((found + inner * weights["skip"]) * jax.nn.silu(gate)) @ weights["out"]


def forward(params: dict[str, Any], tokens: jax.Array) -> jax.Array:
    """Logits of tokens (sequences, tokens)."""
    x = params["embedding"][tokens]
    x, _ = jax.lax.scan(lambda x, weights: (block(x, weights), None), x, params["blocks"])
    return rms_norm(x, params["norm"]) @ params["embedding"].T
