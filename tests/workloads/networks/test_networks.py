"""Published networks: their weights and multiplications, and types of what they compute."""

import jax
import jax.numpy as jnp
import pytest

import docs.examples.networks
from docs.examples.networks import Network, training_step
from workloads.traced.function import traced

PUBLISHED = {
    # network: weights, and multiplications of one input in millions; torchvision's and timm's tables, rounded as there
    "alexnet": (61_100_840, 714),
    "vgg16": (138_357_544, 15_470),
    "vgg19": (143_667_240, 19_632),
    "squeezenet": (1_235_496, 349),
    "squeezenet_v1": (1_248_424, 819),
    "resnet18": (11_689_512, 1_814),
    "resnet34": (21_797_672, 3_664),
    "resnet50": (25_557_032, 4_089),
    "resnet101": (44_549_160, 7_801),
    "resnet152": (60_192_808, 11_514),
    "mobilenet_v1": (4_231_976, 569),  # Howard et al., table 4: 4.2 M, 569 M
    "mobilenet_v2": (3_504_872, 301),  # 300 M
    "mnasnet": (4_383_312, 314),
    "shufflenet_v2": (2_278_604, 145),
    "googlenet": (6_624_904, 1_498),
    "inception_v4": (42_679_816, 12_254),
    "efficientnet_b0": (5_288_548, 386),
    "efficientnet_b4": (19_341_616, 4_394),
    "efficientnet_lite0": (4_652_008, 407),
    "efficientnet_lite1": (5_416_680, 631),
    "efficientnet_lite2": (6_092_072, 899),
    "efficientnet_lite3": (8_197_096, 1_440),
    "efficientnet_lite4": (13_006_568, 2_640),
    "vit_s16": (22_050_664, 4_599),
    "vit_b16": (86_567_656, 17_564),
    "bert_base": (108_893_186, 11_174),  # for questions of 128 tokens
    "bert_large": (334_094_338, 123_213),  # of 384
}

LITE = {"rel": 0.06}
"""EfficientNet-lite's publishers count sums of biases and activations too."""


def multiplications(network, policy="compiler"):
    """Of convolutions and matrix products, for one input."""
    total = 0.0
    for name, op in traced(network, network.weights(), network.input(1), policy=policy).ops().items():
        lone = op.vector_flops if policy == "eager" and "depthwise" in name else 0.0
        total += float(op.count * ((op.matrix_flops or 0.0) + lone)) / 2.0
    return total


@pytest.mark.parametrize("name", PUBLISHED)
def test_weights_and_multiplications_are_those_published(name):
    """Every primitive a kernel of its own: depthwise convolutions then have no other work on vector units."""
    network, (weights, millions) = getattr(docs.examples.networks, name), PUBLISHED[name]
    assert network.parameters == weights
    counted = LITE if "lite" in name else {"abs": 0.6}
    assert multiplications(network, "eager") / 1e6 == pytest.approx(millions, **counted)


def test_every_network_is_compared():
    examples = docs.examples.networks
    networks = {name for name in examples.__all__ if isinstance(getattr(examples, name), Network)}
    assert networks == set(PUBLISHED)


@pytest.mark.parametrize(("network", "dtype"), [("resnet18", jnp.float16), ("mobilenet_v2", jnp.int8)])
def test_products_have_the_type_that_is_asked_for(network, dtype):
    found = getattr(docs.examples.networks, network)
    found = found.int8 if dtype == jnp.int8 else found.float16
    result = jax.eval_shape(found, found.weights(), found.input(3))
    assert (result.shape, result.dtype) == ((3, 1000), dtype)


def test_a_narrow_network_passes_nothing_but_8_bit_numbers_on():
    """Results of all kernels: those of images have one byte per element, four times fewer than in float32."""
    narrow, wide = docs.examples.networks.resnet18.int8, docs.examples.networks.resnet18
    ops = [traced(one, one.weights(), one.input(64), policy="compiler").ops().values() for one in (narrow, wide)]
    moved = [sum(float(op.count * op.bytes) for op in each) for each in ops]
    assert moved[1] / moved[0] == pytest.approx(4.0, rel=0.02)


def test_a_training_step_has_three_times_the_products_of_a_forward_pass():
    """Of the first convolution nobody needs the gradient of its input: 118 of 1,814 M multiplications."""
    network = docs.examples.networks.resnet18
    weights = network.weights()
    arguments = weights, weights, network.input(2), jax.ShapeDtypeStruct((2,), jnp.int32)
    ops = traced(lambda *each: training_step(network, *each), *arguments, policy="operators").ops().values()
    products = sum(float(op.count * (op.matrix_flops or 0.0)) for op in ops) / 4.0
    assert products / multiplications(network) == pytest.approx(3.0 - 118 / 1814, rel=0.01)


def test_a_norm_in_training_has_the_gradient_of_its_formula():
    from docs.examples.networks.vocabulary import batch_norm_trained

    def formula(x, scale, shift):
        mean = x.mean((0, 1, 2))
        return (x - mean) * jax.lax.rsqrt((x * x).mean((0, 1, 2)) - mean * mean + 1e-5) * scale + shift

    keys = jax.random.split(jax.random.key(0), 4)
    x, weights = jax.random.normal(keys[0], (2, 3, 3, 4)), jax.random.normal(keys[1], (2, 3, 3, 4))
    scale, shift = jax.random.normal(keys[2], (4,)), jax.random.normal(keys[3], (4,))
    for place in range(3):
        own, plain = (
            jax.grad(lambda *each, f=function: (f(*each) * weights).sum(), place)(x, scale, shift)
            for function in (batch_norm_trained, formula)
        )
        assert jnp.allclose(own, plain, atol=1e-4)
