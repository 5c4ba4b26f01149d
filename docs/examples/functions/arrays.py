"""Shapes of arrays, and the norms that several of the functions share."""

import jax
import jax.numpy as jnp

from workloads.traced.sizes import Dim


def array(*shape: Dim, dtype: str = "bfloat16") -> jax.ShapeDtypeStruct:
    """An array of this shape that is never made."""
    return jax.ShapeDtypeStruct(shape, jnp.dtype(dtype))


def layer_norm(x: jax.Array) -> jax.Array:
    """Rows with mean 0 and variance 1, computed in float32."""
    wide = x.astype(jnp.float32)
    centred = wide - wide.mean(-1, keepdims=True)
    return (centred * jax.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-6)).astype(x.dtype)


def rms_norm(x: jax.Array, scale: jax.Array) -> jax.Array:
    """Rows with a mean square of 1, computed in float32, times `scale`."""
    wide = x.astype(jnp.float32)
    return (wide * jax.lax.rsqrt((wide * wide).mean(-1, keepdims=True) + 1e-5)).astype(x.dtype) * scale
