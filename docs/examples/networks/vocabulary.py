"""Vocabulary of networks: weights taken in order, convolutions, norms, activations, and networks as functions."""

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

BITS = 127.0
"""Largest 8-bit number."""


Activation = Callable[[jax.Array], jax.Array]


class Weights:
    """The weights of a network, taken one after the other.

    Args:
      given: of every weight, in order; None: shapes are noted in `shapes`, and zeros taken.
      dtype: of what is multiplied: float32, float16, bfloat16, or int8, whose sums are scaled back to int8.
      training: norms take the statistics of the batch.
    """

    def __init__(self, given: Iterator[jax.Array] | None, dtype: Any, training: bool = False):
        self._given, self.dtype, self.training = given, jnp.dtype(dtype), training
        self.shapes: list[jax.ShapeDtypeStruct] = []

    def __call__(self, *shape: int, dtype: Any = None) -> jax.Array:
        """The next weight, of `shape`; `dtype` where it is not that of products."""
        kind = self.dtype if dtype is None else jnp.dtype(dtype)
        if self._given is None:
            self.shapes.append(jax.ShapeDtypeStruct(shape, kind))
            return jnp.zeros(shape, kind)
        return next(self._given).astype(kind)

    def sizes(self, *shape: int) -> jax.Array:
        """The next weight of a norm or bias, which are of float32 whatever products are."""
        return self(*shape, dtype=jnp.float32)

    @property
    def sums(self) -> Any:
        """Type that products add up to."""
        return jnp.int32 if self.dtype == jnp.int8 else self.dtype


def convolved(
    take: Weights,
    x: jax.Array,
    features: int,
    window: int | tuple[int, int] = 1,
    stride: int = 1,
    groups: int = 1,
    padding: str = "SAME",
) -> jax.Array:
    """`x`, of (image, row, column, channel), under `features` filters."""
    height, width = (window, window) if isinstance(window, int) else window
    filters = take(height, width, x.shape[-1] // groups, features)
    return jax.lax.conv_general_dilated(
        x,
        filters,
        (stride, stride),
        padding,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=groups,
        preferred_element_type=take.sums,
    )


def multiplied(take: Weights, x: jax.Array, features: int) -> jax.Array:
    """`x` times a matrix, with a bias."""
    product = jnp.matmul(x, take(x.shape[-1], features), preferred_element_type=take.sums)
    return biased(product, take.sizes(features), take.dtype)


@functools.partial(jax.jit, static_argnames="dtype")
def biased(x: jax.Array, bias: jax.Array, dtype: Any) -> jax.Array:
    """Sums of a product and a bias."""
    return stored(x.astype(bias.dtype) + bias, dtype)


def stored(x: jax.Array, dtype: Any) -> jax.Array:
    """`x` as it is passed on: of 8 bits rounded and held in range."""
    if dtype == jnp.int8:
        x = jnp.clip(jnp.round(x), -BITS, BITS)
    return x.astype(dtype)


@functools.partial(jax.jit, static_argnames="dtype")
def batch_norm(x: jax.Array, scale: jax.Array, shift: jax.Array, dtype: Any) -> jax.Array:
    """With known statistics: a product and a sum per element."""
    return stored(x.astype(scale.dtype) * scale + shift, dtype)


@jax.custom_vjp
def batch_norm_trained(x: jax.Array, scale: jax.Array, shift: jax.Array) -> jax.Array:
    """With the statistics of the batch; its gradient is made of its input, as libraries have it."""
    return _normed_by_batch(x, scale, shift)[0]


@jax.jit
def _normed_by_batch(x: jax.Array, scale: jax.Array, shift: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    wide = x.astype(jnp.float32)
    mean = wide.mean((0, 1, 2))
    slope = jax.lax.rsqrt((wide * wide).mean((0, 1, 2)) - mean * mean + 1e-5)
    return ((wide - mean) * slope * scale + shift).astype(x.dtype), mean, slope


@jax.jit
def _norm_gradient(kept: Any, gradient: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    x, scale, mean, slope = kept
    along, wide = (x.astype(jnp.float32) - mean) * slope, gradient.astype(jnp.float32)
    shifts, scales = wide.sum((0, 1, 2)), (wide * along).sum((0, 1, 2))
    number = x.size / x.shape[-1]
    down = (wide - shifts / number - along * (scales / number)) * slope * scale
    return down.astype(x.dtype), scales.astype(scale.dtype), shifts.astype(scale.dtype)


def _norm_forward(x: jax.Array, scale: jax.Array, shift: jax.Array) -> Any:
    y, mean, slope = _normed_by_batch(x, scale, shift)
    return y, (x, scale, mean, slope)


batch_norm_trained.defvjp(_norm_forward, _norm_gradient)


def normed(take: Weights, x: jax.Array) -> jax.Array:
    """`x` after a norm of its channels."""
    scale, shift = take.sizes(x.shape[-1]), take.sizes(x.shape[-1])
    return batch_norm_trained(x, scale, shift) if take.training else batch_norm(x, scale, shift, take.dtype)


def _activation(
    name: str, function: Callable[[jax.Array], jax.Array], gradient: Callable[..., jax.Array], whole: bool = False
) -> Activation:
    """An activation as a library has it: one kernel, and one for the gradient, which is made of the input.

    Args:
      name: that its kernels have.
      whole: 8-bit numbers need no scale in it.
    """

    def body(x: jax.Array) -> jax.Array:
        if whole or x.dtype != jnp.int8:
            return function(x)
        return stored(function(x.astype(jnp.float32)), x.dtype)

    body.__name__ = name
    forward = jax.jit(body)
    own = jax.custom_vjp(forward)
    own.defvjp(lambda x: (forward(x), x), jax.jit(lambda x, slope: (slope * gradient(x).astype(slope.dtype),)))
    return own


def _swish_gradient(x: jax.Array) -> jax.Array:
    share = jax.lax.logistic(x)
    return share * (1 + x * (1 - share))


relu = _activation("relu", lambda x: jnp.maximum(x, 0), lambda x: x > 0, whole=True)
relu6 = _activation("relu6", lambda x: jnp.minimum(jnp.maximum(x, 0), 6), lambda x: (x > 0) & (x < 6), whole=True)
swish = _activation("swish", lambda x: x * jax.lax.logistic(x), _swish_gradient)
sigmoid = _activation("sigmoid", jax.lax.logistic, lambda x: jax.lax.logistic(x) * (1 - jax.lax.logistic(x)))


@jax.jit
def added(x: jax.Array, y: jax.Array) -> jax.Array:
    """The sum of two branches."""
    if x.dtype == jnp.int8:
        return stored(x.astype(jnp.float32) + y.astype(jnp.float32), jnp.int8)
    return x + y


def unit(
    take: Weights,
    x: jax.Array,
    features: int,
    window: int | tuple[int, int] = 1,
    stride: int = 1,
    groups: int = 1,
    activation: Activation | None = relu,
    padding: str = "SAME",
) -> jax.Array:
    """A convolution, its norm and an activation."""
    x = normed(take, convolved(take, x, features, window, stride, groups, padding))
    return x if activation is None else activation(x)


def biased_unit(
    take: Weights, x: jax.Array, features: int, window: int = 3, stride: int = 1, padding: Any = "SAME"
) -> jax.Array:
    """A convolution, a bias and a rectifier, as before norms were usual."""
    return relu(biased(convolved(take, x, features, window, stride, padding=padding), take.sizes(features), take.dtype))


def depthwise(
    take: Weights, x: jax.Array, window: int, stride: int = 1, activation: Activation | None = relu6
) -> jax.Array:
    """A filter per channel, its norm and an activation."""
    return unit(take, x, x.shape[-1], window, stride, x.shape[-1], activation)


def pooled(x: jax.Array, window: int = 3, stride: int = 2, padding: Any = "SAME", largest: bool = True) -> jax.Array:
    """The largest or the mean of every window."""
    shape, strides = (1, window, window, 1), (1, stride, stride, 1)
    if largest:
        start = np.array(-BITS if x.dtype == jnp.int8 else -np.inf, x.dtype)  # known, or it would have no gradient
        return jax.lax.reduce_window(x, start, jax.lax.max, shape, strides, padding)
    wide = x.astype(jnp.float32) if x.dtype == jnp.int8 else x
    total = jax.lax.reduce_window(wide, np.array(0, wide.dtype), jax.lax.add, shape, strides, padding)
    return stored(total / (window * window), x.dtype)


@jax.jit
def averaged(x: jax.Array) -> jax.Array:
    """The mean over rows and columns."""
    return stored(x.astype(jnp.float32).mean((1, 2)), x.dtype)


def rounded(channels: float, least: int = 8) -> int:
    """Channels as a multiple of 8, at most a tenth below: Sandler et al., arXiv:1801.04381, and its published code."""
    found = max(least, int(channels + 4) // 8 * 8)
    return found + 8 if found < 0.9 * channels else found


@dataclasses.dataclass(frozen=True)
class Network:
    """A published network as a function of its weights and its input.

    Attributes:
      body: from weights, taken one by one, and an input to class scores.
      size: rows and columns of an image; tokens of a text.
      dtype: name of the type that is multiplied.
      words: words it knows, of a text; None: of images.
    """

    body: Callable[[Weights, jax.Array], jax.Array]
    size: int
    dtype: str = "float32"
    words: int | None = None

    def __call__(self, weights: list[jax.Array], x: jax.Array) -> jax.Array:
        """Class scores of a batch; `weights` as `self.weights()` lists them."""
        return self.body(Weights(iter(weights), self.dtype), x)

    @property
    def float16(self) -> "Network":
        """The same with products of 16 bits."""
        return dataclasses.replace(self, dtype="float16")

    @property
    def int8(self) -> "Network":
        """The same with weights and activations of 8 bits."""
        return dataclasses.replace(self, dtype="int8")

    def weights(self) -> list[jax.ShapeDtypeStruct]:
        """Shapes and types of its weights, in the order that they are taken."""
        take = Weights(None, self.dtype)
        jax.eval_shape(lambda x: self.body(take, x), self.input(1))
        return take.shapes

    def input(self, batch: Any) -> jax.ShapeDtypeStruct:
        """Shape and type of a batch of images or texts."""
        if self.words is not None:
            return jax.ShapeDtypeStruct((batch, self.size), jnp.int32)
        return jax.ShapeDtypeStruct((batch, self.size, self.size, 3), self.dtype)

    @property
    def parameters(self) -> int:
        """Number of its weights."""
        return sum(math.prod(weight.shape) for weight in self.weights())


def training_step(
    network: Network, weights: list[jax.Array], momenta: list[jax.Array], x: jax.Array, classes: jax.Array
) -> tuple[list[jax.Array], list[jax.Array]]:
    """Weights and momenta after one step of stochastic gradient descent, in float32; products as the network has them.

    Args:
      weights, momenta: float32, as `network.weights()` lists them.
      x: a batch.
      classes: right class per image, int32.
    """

    def loss(own: list[jax.Array]) -> jax.Array:
        scores = network.body(Weights(iter(own), network.dtype, training=True), x).astype(jnp.float32)
        picked = jnp.take_along_axis(jax.nn.log_softmax(scores), classes[:, None], 1)
        return -picked.mean()

    return updated(weights, momenta, jax.grad(loss)(weights))


@jax.jit
def updated(
    weights: list[jax.Array], momenta: list[jax.Array], gradients: list[jax.Array]
) -> tuple[list[jax.Array], list[jax.Array]]:
    """Weights and momenta after a step along gradients."""
    momenta = [0.9 * old + slope for old, slope in zip(momenta, gradients, strict=True)]
    return [weight - 0.1 * step for weight, step in zip(weights, momenta, strict=True)], momenta
