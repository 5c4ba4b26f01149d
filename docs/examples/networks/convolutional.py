"""Convolutional networks for images: plain, residual, inception, and mobile ones, as they were published."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from docs.examples.networks.vocabulary import (
    Activation,
    Network,
    Weights,
    added,
    averaged,
    biased,
    biased_unit,
    convolved,
    depthwise,
    multiplied,
    pooled,
    relu,
    relu6,
    rounded,
    sigmoid,
    swish,
    unit,
)

CLASSES = 1000
"""Of ImageNet."""


def _alexnet(take: Weights, x: jax.Array) -> jax.Array:
    """One column: Krizhevsky, arXiv:1404.5997."""
    x = pooled(biased_unit(take, x, 64, 11, 4, ((2, 2), (2, 2))), padding="VALID")
    x = pooled(biased_unit(take, x, 192, 5), padding="VALID")
    for features in (384, 256, 256):
        x = biased_unit(take, x, features)
    return _classified(take, pooled(x, padding="VALID"))


def _classified(take: Weights, x: jax.Array) -> jax.Array:
    """Three products over all places: of VGG and AlexNet."""
    x = x.reshape(x.shape[0], -1)
    for features in (4096, 4096):
        x = relu(multiplied(take, x, features))
    return multiplied(take, x, CLASSES)


def _vgg(counts: Sequence[int]) -> Callable[[Weights, jax.Array], jax.Array]:
    def body(take: Weights, x: jax.Array) -> jax.Array:
        for count, features in zip(counts, (64, 128, 256, 512, 512), strict=True):
            for _ in range(count):
                x = biased_unit(take, x, features)
            x = pooled(x, 2)
        return _classified(take, x)

    return body


def _squeezenet(stem: tuple[int, int], pools: Sequence[int]) -> Callable[[Weights, jax.Array], jax.Array]:
    """Iandola et al., arXiv:1602.07360: features and window of the first convolution, and modules before a pooling,
    whose sizes round up.
    """
    up = ((0, 0), (0, 1), (0, 1), (0, 0))

    def body(take: Weights, x: jax.Array) -> jax.Array:
        x = pooled(biased_unit(take, x, *stem, 2, "VALID"), padding=up)
        for place, squeezed in enumerate((16, 16, 32, 32, 48, 48, 64, 64)):
            x = pooled(x, padding=up) if place in pools else x
            inner = biased_unit(take, x, squeezed, 1)
            x = jnp.concatenate([biased_unit(take, inner, 4 * squeezed, k) for k in (1, 3)], -1)
        return averaged(biased_unit(take, x, CLASSES, 1))

    return body


def _resnet(counts: Sequence[int], bottleneck: bool) -> Callable[[Weights, jax.Array], jax.Array]:
    """He et al., arXiv:1512.03385; version 1.5: strides are in the 3x3 convolutions."""

    def body(take: Weights, x: jax.Array) -> jax.Array:
        x = pooled(unit(take, x, 64, 7, 2))
        for stage, count in enumerate(counts):
            inner = 64 * 2**stage
            features = 4 * inner if bottleneck else inner
            for i in range(count):
                stride = 2 if i == 0 and stage else 1
                if bottleneck:
                    y = unit(take, unit(take, x, inner), inner, 3, stride)
                    y = unit(take, y, features, activation=None)
                else:
                    y = unit(take, unit(take, x, inner, 3, stride), features, 3, activation=None)
                same = x.shape[-1] == features and stride == 1
                x = relu(added(y, x if same else unit(take, x, features, 1, stride, activation=None)))
        return multiplied(take, averaged(x), CLASSES)

    return body


def _mobilenet_v1(take: Weights, x: jax.Array) -> jax.Array:
    """Howard et al., arXiv:1704.04861, table 1."""
    x = unit(take, x, 32, 3, 2, activation=relu6)
    widths = (64, 128, 128, 256, 256, *(512,) * 6, 1024, 1024)
    for place, features in enumerate(widths):
        x = depthwise(take, x, 3, 2 if place in (1, 3, 5, 11) else 1)
        x = unit(take, x, features, activation=relu6)
    return multiplied(take, averaged(x), CLASSES)


Stage = tuple[int, int, int, int, int]
"""Expansion, features, blocks, stride of the first, and window of a stage of inverted residuals."""


def _inverted(
    take: Weights, x: jax.Array, expansion: float, features: int, stride: int, window: int, act: Activation, se: bool
) -> jax.Array:
    """An inverted residual: Sandler et al., arXiv:1801.04381; `se`: with squeeze and excitation, arXiv:1709.01507."""
    y, inner = x, int(x.shape[-1] * expansion)
    if expansion != 1:
        y = unit(take, y, inner, activation=act)
    y = depthwise(take, y, window, stride, act)
    if se:
        squeezed = averaged(y)[:, None, None]
        squeezed = swish(_plain(take, squeezed, max(1, x.shape[-1] // 4)))
        y = _scaled(y, sigmoid(_plain(take, squeezed, inner)))
    y = unit(take, y, features, activation=None)
    return added(y, x) if x.shape[-1] == features and stride == 1 else y


def _plain(take: Weights, x: jax.Array, features: int) -> jax.Array:
    return biased(convolved(take, x, features), take.sizes(features), take.dtype)


@jax.jit
def _scaled(x: jax.Array, gate: jax.Array) -> jax.Array:
    return x * gate


def _mobile(
    stem: int, stages: Sequence[Stage], head: int, act: Activation, se: bool = False, separable: int | None = None
) -> Callable[[Weights, jax.Array], jax.Array]:
    """A stem, stages of inverted residuals, and a head; `separable`: features of a depthwise and a 1x1 before them."""

    def body(take: Weights, x: jax.Array) -> jax.Array:
        x = unit(take, x, stem, 3, 2, activation=act)
        if separable is not None:
            x = unit(take, depthwise(take, x, 3, activation=act), separable, activation=None)
        for expansion, features, count, stride, window in stages:
            for i in range(count):
                x = _inverted(take, x, expansion, features, stride if i == 0 else 1, window, act, se)
        return multiplied(take, averaged(unit(take, x, head, activation=act)), CLASSES)

    return body


MOBILENET_V2: tuple[Stage, ...] = (
    (1, 16, 1, 1, 3),
    (6, 24, 2, 2, 3),
    (6, 32, 3, 2, 3),
    (6, 64, 4, 2, 3),
    (6, 96, 3, 1, 3),
    (6, 160, 3, 2, 3),
    (6, 320, 1, 1, 3),
)
"""Sandler et al., arXiv:1801.04381, table 2."""

MNASNET: tuple[Stage, ...] = (
    (3, 24, 3, 2, 3),
    (3, 40, 3, 2, 5),
    (6, 80, 3, 2, 5),
    (6, 96, 2, 1, 3),
    (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)
"""MnasNet-B1: Tan et al., arXiv:1807.11626, and its published code."""

EFFICIENTNET: tuple[Stage, ...] = (
    (1, 16, 1, 1, 3),
    (6, 24, 2, 2, 3),
    (6, 40, 2, 2, 5),
    (6, 80, 3, 2, 3),
    (6, 112, 3, 1, 5),
    (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)
"""Tan and Le, arXiv:1905.11946, table 1."""


def _efficientnet(width: float, depth: float, lite: bool = False) -> Callable[[Weights, jax.Array], jax.Array]:
    """EfficientNet by its two multipliers; `lite`: without squeeze and excitation, stem and head as they are
    (tensorflow/tpu, models/official/efficientnet/lite).
    """
    last, stages = len(EFFICIENTNET) - 1, []
    for place, (expansion, features, count, stride, window) in enumerate(EFFICIENTNET):
        count = count if lite and place in (0, last) else math.ceil(depth * count)
        stages.append((expansion, rounded(width * features), count, stride, window))
    stem, head = (32, 1280) if lite else (rounded(width * 32), rounded(width * 1280))
    return _mobile(stem, stages, head, relu6 if lite else swish, not lite)


def _shufflenet_v2(take: Weights, x: jax.Array) -> jax.Array:
    """Of width 1: Ma et al., arXiv:1807.11164, table 5."""
    x = pooled(unit(take, x, 24, 3, 2))
    for features, count in ((116, 4), (232, 8), (464, 4)):
        half = features // 2
        for i in range(count):
            if i == 0:
                aside = unit(take, depthwise(take, x, 3, 2, None), half)
                y = x
            else:
                aside, y = jnp.split(x, 2, -1)
            y = depthwise(take, unit(take, y, half), 3, 2 if i == 0 else 1, None)
            y = unit(take, y, half)
            paired = jnp.stack([aside, y], -1)
            x = paired.reshape(*paired.shape[:-2], features)
    return multiplied(take, averaged(unit(take, x, 1024)), CLASSES)


MODULES = (
    ((64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64)),
    (
        (192, 96, 208, 16, 48, 64),
        (160, 112, 224, 24, 64, 64),
        (128, 128, 256, 24, 64, 64),
        (112, 144, 288, 32, 64, 64),
        (256, 160, 320, 32, 128, 128),
    ),
    ((256, 160, 320, 32, 128, 128), (384, 192, 384, 48, 128, 128)),
)
"""Features of the branches of GoogLeNet's modules: Szegedy et al., arXiv:1409.4842, table 1."""


def _inception_v1(take: Weights, x: jax.Array) -> jax.Array:
    """With norms, and 3x3 in place of 5x5 convolutions, as in TensorFlow's and PyTorch's published code."""
    x = pooled(unit(take, x, 64, 7, 2))
    x = pooled(unit(take, unit(take, x, 64), 192, 3))
    for place, modules in enumerate(MODULES):
        for one, before, three, reduced, five, pool in modules:
            branches = [unit(take, x, one), unit(take, unit(take, x, before), three, 3)]
            branches += [unit(take, unit(take, x, reduced), five, 3), unit(take, pooled(x, 3, 1), pool)]
            x = jnp.concatenate(branches, -1)
        x = pooled(x) if place < 2 else x
    return multiplied(take, averaged(x), CLASSES)


def _chain(take: Weights, x: jax.Array, *steps: Any) -> jax.Array:
    """Convolutions one after the other: features, window and, where they are not 1 and "SAME", stride and padding."""
    for features, window, *rest in steps:
        stride, padding = rest or (1, "SAME")
        x = unit(take, x, features, window, stride, padding=padding)
    return x


def _inception_v4(take: Weights, x: jax.Array) -> jax.Array:
    """Szegedy et al., arXiv:1602.07261, figures 3 to 9."""
    valid = (1, "VALID")
    x = _chain(take, x, (32, 3, 2, "VALID"), (32, 3, *valid), (64, 3))
    x = jnp.concatenate([pooled(x, padding="VALID"), _chain(take, x, (96, 3, 2, "VALID"))], -1)
    long = _chain(take, x, (64, 1), (64, (1, 7)), (64, (7, 1)), (96, 3, *valid))
    x = jnp.concatenate([_chain(take, x, (64, 1), (96, 3, *valid)), long], -1)
    x = jnp.concatenate([_chain(take, x, (192, 3, 2, "VALID")), pooled(x, padding="VALID")], -1)
    for _ in range(4):
        branches = [_chain(take, x, (96, 1)), _chain(take, x, (64, 1), (96, 3))]
        branches += [_chain(take, x, (64, 1), (96, 3), (96, 3))]
        branches += [_chain(take, pooled(x, 3, 1, largest=False), (96, 1))]
        x = jnp.concatenate(branches, -1)
    reduced = _chain(take, x, (192, 1), (224, 3), (256, 3, 2, "VALID"))
    x = jnp.concatenate([_chain(take, x, (384, 3, 2, "VALID")), reduced, pooled(x, padding="VALID")], -1)
    for _ in range(7):
        branches = [_chain(take, x, (384, 1)), _chain(take, x, (192, 1), (224, (1, 7)), (256, (7, 1)))]
        branches += [_chain(take, x, (192, 1), (192, (7, 1)), (224, (1, 7)), (224, (7, 1)), (256, (1, 7)))]
        branches += [_chain(take, pooled(x, 3, 1, largest=False), (128, 1))]
        x = jnp.concatenate(branches, -1)
    reduced = _chain(take, x, (256, 1), (256, (1, 7)), (320, (7, 1)), (320, 3, 2, "VALID"))
    x = jnp.concatenate([_chain(take, x, (192, 1), (192, 3, 2, "VALID")), reduced, pooled(x, padding="VALID")], -1)
    for _ in range(3):
        middle, deep = _chain(take, x, (384, 1)), _chain(take, x, (384, 1), (448, (3, 1)), (512, (1, 3)))
        branches = [_chain(take, x, (256, 1)), *(_chain(take, middle, (256, k)) for k in ((1, 3), (3, 1)))]
        branches += [*(_chain(take, deep, (256, k)) for k in ((3, 1), (1, 3)))]
        branches += [_chain(take, pooled(x, 3, 1, largest=False), (256, 1))]
        x = jnp.concatenate(branches, -1)
    return multiplied(take, averaged(x), CLASSES)


alexnet = Network(_alexnet, 224)
vgg16 = Network(_vgg((2, 2, 3, 3, 3)), 224)
vgg19 = Network(_vgg((2, 2, 4, 4, 4)), 224)
squeezenet_v1 = Network(_squeezenet((96, 7), (3, 7)), 224)
squeezenet = Network(_squeezenet((64, 3), (2, 4)), 224)
resnet18 = Network(_resnet((2, 2, 2, 2), bottleneck=False), 224)
resnet34 = Network(_resnet((3, 4, 6, 3), bottleneck=False), 224)
resnet50 = Network(_resnet((3, 4, 6, 3), bottleneck=True), 224)
resnet101 = Network(_resnet((3, 4, 23, 3), bottleneck=True), 224)
resnet152 = Network(_resnet((3, 8, 36, 3), bottleneck=True), 224)
mobilenet_v1 = Network(_mobilenet_v1, 224)
mobilenet_v2 = Network(_mobile(32, MOBILENET_V2, 1280, relu6), 224)
mnasnet = Network(_mobile(32, MNASNET, 1280, relu, separable=16), 224)
shufflenet_v2 = Network(_shufflenet_v2, 224)
googlenet = Network(_inception_v1, 224)
inception_v4 = Network(_inception_v4, 299)
efficientnet_b0 = Network(_efficientnet(1.0, 1.0), 224)
efficientnet_b4 = Network(_efficientnet(1.4, 1.8), 380)
efficientnet_lite0 = Network(_efficientnet(1.0, 1.0, lite=True), 224)
efficientnet_lite1 = Network(_efficientnet(1.0, 1.1, lite=True), 240)
efficientnet_lite2 = Network(_efficientnet(1.1, 1.2, lite=True), 260)
efficientnet_lite3 = Network(_efficientnet(1.2, 1.4, lite=True), 280)
efficientnet_lite4 = Network(_efficientnet(1.4, 1.8, lite=True), 300)
