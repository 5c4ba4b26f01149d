"""Work of traced functions: matrix FLOP digit by digit, bytes and kernels by hand."""

import jax
import jax.numpy as jnp
import pytest
from functions import (
    BF16,
    EXAMPLES,
    F32,
    INT,
    QKV,
    adamw,
    array,
    attention,
    batch_norm_loss,
    mlp,
    resnet50,
    resnet50_weights,
    total,
)

from jaxroof.op import AttentionShape, Collective
from workloads.traced.function import traced
from workloads.traced.fusion import POLICIES, grouped
from workloads.traced.rules import with_shared_nodes
from workloads.traced.sizes import Sizes
from workloads.traced.walk import graph_of


def kinds(ops):
    return [op.kind for op in ops.values() if not isinstance(op, Collective)]


FLOPS = {
    "products": 2 * 128 * 512 * (256 + 64),
    "mlp": 2 * 2 * 64 * 128 * 512,
    # scores and values: 2 x 8 heads x 64 x 65 / 2 pairs x 2 (32 + 32)
    "causal attention": 2 * 8 * 64 * 65 // 2 * 2 * 64,
    # rows 0 to 15 see i + 1 keys, the other 48 see 16
    "windowed attention": 2 * 8 * (16 * 17 // 2 + 48 * 16) * 2 * 64,
    "masked attention": 2 * 8 * 64 * 64 * 2 * 64,
    # two convolutions of 4 x 16 x 16 places, 9 x 32 inputs, 32 outputs
    "residual": 2 * 2 * 4 * 256 * 288 * 32,
    # qkv, out, up, down, and attention of 4 heads of 16 over 32 tokens of 2 sequences
    "vit": 2 * 64 * 64 * 64 * (3 + 1 + 4 + 4) + 2 * 4 * 32 * 32 * 2 * 32,
    "graph": 2 * 500 * 64 * 32,
    "state space": 0,
    # forward, and of the gradient both weights' and the hidden layer's inputs: 5 products of the same size
    "gradient": 5 * 2 * 64 * 128 * 512,
    "adamw": 0,
    "layers": 12 * 2 * 64 * 128 * 128,
    "experts": 2 * 64 * 128 * 256,
}
"""Matrix FLOP of `EXAMPLES`, worked by hand."""


@pytest.mark.parametrize("policy", ["eager", "loops", "framework", "compiler"])
@pytest.mark.parametrize("name", FLOPS)
def test_matrix_flops_are_exact(name, policy):
    (function, *arguments), flops = EXAMPLES[name], FLOPS[name]
    found = traced(function, *arguments, policy=policy).ops()
    if "attention" in name and policy in ("eager", "loops"):  # every query meets every key
        flops = 2 * 8 * 64 * 64 * 2 * 64
    assert total(found, "matrix_flops") == flops


def test_bytes_and_kernels_of_a_perceptron():
    """Each operand once: 16-bit x, weights, and the hidden layer of 64 x 512."""
    arguments = array(64, 128), array(128, 512), array(512, 128)
    products = 2 * (64 * 128 + 128 * 512 + 64 * 512)
    eager = traced(mlp, *arguments, policy="eager").ops()
    assert total(eager, "kernels") == 10  # 2 products, x^3, 4 products with numbers, 2 sums, tanh
    framework = traced(mlp, *arguments, policy="framework").ops()
    assert total(framework, "kernels") == 3
    # the activation reads and writes once more
    assert total(framework, "bytes") == 2 * products + 2 * 2 * 64 * 512
    compiler = traced(mlp, *arguments, policy="compiler").ops()
    assert total(compiler, "kernels") == 2 and total(compiler, "bytes") == 2 * products
    assert total(compiler, "exps") == 64 * 512  # one tanh per hidden element


def test_an_optimiser_moves_28_bytes_per_parameter():
    """Weight, both moments and the gradient are read, the first three written, 4 B each."""
    found = traced(adamw, *[array(1024, 1024, dtype=F32)] * 4, array(dtype=F32), policy="framework").ops()
    assert total(found, "kernels") == 1
    assert total(found, "bytes") == pytest.approx(28 * 1024**2, rel=1e-6)


def test_rows_of_a_norm_and_a_softmax_are_one_kernel():
    def normed(x):
        return jax.nn.softmax(x / jnp.sqrt((x * x).mean(-1, keepdims=True) + 1.0), -1)

    found = traced(normed, array(256, 1024, dtype=F32), policy="framework").ops()
    assert total(found, "kernels") == 1 and total(found, "bytes") == 2 * 4 * 256 * 1024
    # a batch norm's mean is of all rows: every block of threads waits for it
    batch = traced(lambda x: x - x.mean(0), array(256, 1024, dtype=F32), policy="framework").ops()
    assert total(batch, "kernels") == 2 and total(batch, "bytes") == pytest.approx(3 * 4 * 256 * 1024, rel=0.01)


def test_a_convolution_is_an_implicit_product():
    (op,) = (op for op in traced(*EXAMPLES["residual"], policy="framework").ops().values() if op.shape)
    assert op.count == 2 and (op.shape.rows, op.shape.inputs, op.shape.outputs) == (4 * 256, 288, 32)


def test_a_depthwise_convolution_is_vector_work():
    def depthwise(x, weight):
        return jax.lax.conv_general_dilated(
            x, weight, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=32
        )

    (op,) = traced(depthwise, array(4, 16, 16, 32), array(3, 3, 1, 32)).ops().values()
    assert op.kind == "depthwise" and op.vector_flops == 2 * 4 * 256 * 9 * 32


def test_gradient_of_a_convolution_with_a_stride():
    """The gradient in the inputs multiplies only what was not put between: as many products as the forward pass."""

    def strided(x, weight):
        out = jax.lax.conv_general_dilated(x, weight, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return out.sum()

    arguments = array(4, 16, 16, 32, dtype=F32), array(2, 2, 32, 32, dtype=F32)
    forward = 2 * 4 * 64 * 4 * 32 * 32
    assert total(traced(jax.grad(strided), *arguments).ops(), "matrix_flops") == forward
    assert total(traced(jax.grad(strided, (0, 1)), *arguments).ops(), "matrix_flops") == 2 * forward


def test_attention_keeps_its_shape():
    (op,) = traced(attention, *QKV, policy="framework").ops().values()
    assert op.kind == "prefill_attention" and isinstance(op.shape, AttentionShape)
    assert (op.shape.sequences, op.shape.queries, op.shape.keys, op.shape.pairs) == (2, 64, 64, 64 * 65 / 2)
    assert (op.shape.heads, op.shape.kv_heads, op.shape.key_width, op.shape.value_width) == (8, 2, 32, 32)
    assert op.shape.causal and op.bytes == 2 * 2 * 64 * 32 * (8 + 2 + 2 + 8) and op.exps == 2 * 8 * 64 * 65 / 2


def test_decode_attention_reads_its_cache_once():
    (op,) = (
        traced(lambda q, k, v: jax.nn.dot_product_attention(q, k, v), array(4, 1, 8, 32), *[array(4, 256, 2, 32)] * 2)
        .ops()
        .values()
    )
    assert op.kind == "decode_attention" and op.kernels == 2 and op.shape.pairs == 256
    assert op.bytes == 2 * 4 * 32 * (2 * 2 * 256 + 2 * 8)


def test_latent_attention_adds_two_products():
    """Scores of 4 heads to one latent of 64 and one rotated key of 16; values are the latents."""

    def absorbed(q, rotated, latents, keys):
        scores = jnp.einsum("bqhc,bkc->bhqk", q, latents) + jnp.einsum("bqhr,bkr->bhqk", rotated, keys)
        return jnp.einsum("bhqk,bkc->bqhc", jax.nn.softmax(scores, -1), latents)

    sizes = array(2, 1, 4, 64), array(2, 1, 4, 16), array(2, 128, 64), array(2, 128, 16)
    (op,) = traced(absorbed, *sizes, policy="framework").ops().values()
    assert op.kind == "decode_attention" and op.shape.latent
    assert op.matrix_flops == 2 * 2 * 4 * 128 * (64 + 16 + 64)
    assert (op.shape.sequences, op.shape.queries, op.shape.heads, op.shape.kv_heads) == (2, 1, 4, 1)
    assert op.bytes == 2 * (2 * 128 * 80 + 2 * 4 * (64 + 16 + 64))  # latents are read once


def test_heads_that_share_one_key():
    def shared(q, k, v):
        scores = jax.nn.softmax(jnp.einsum("bqhd,bkd->bhqk", q, k), -1)
        return jnp.einsum("bhqk,bkd->bqhd", scores, v)

    (op,) = traced(shared, array(2, 64, 8, 32), *[array(2, 64, 32)] * 2, policy="framework").ops().values()
    assert (op.shape.sequences, op.shape.queries, op.shape.heads, op.shape.kv_heads) == (2, 64, 8, 1)


def test_a_softmax_over_experts_is_no_attention():
    def routed(x, router, results):
        return jnp.einsum("te,ted->td", jax.nn.softmax(x @ router, -1), results)

    found = traced(routed, array(64, 32), array(32, 8), array(64, 8, 32), policy="framework").ops()
    assert kinds(found).count("linear") == 2 and "prefill_attention" not in kinds(found)


def test_the_gradient_of_attention_is_five_products():
    def summed(q, k, v):
        return attention(q, k, v).astype(F32).sum()

    arguments = [array(2, 64, 8, 32)] * 3
    forward = 2 * 8 * 64 * 65 // 2 * 2 * 64
    found = traced(jax.grad(jax.checkpoint(summed), (0, 1, 2)), *arguments, policy="framework").ops()
    assert total(found, "matrix_flops") == 2.5 * forward
    both = traced(jax.value_and_grad(summed, (0, 1, 2)), *arguments, policy="framework").ops()
    assert total(both, "matrix_flops") == 3.5 * forward
    assert sorted(kinds(both)).count("prefill_attention") == 2


def test_kept_attention_weights_are_not_fused():
    def summed(weights, x):
        def step(x, weight):
            q = (x @ weight).reshape(2, 64, 4, 16)
            return attention(q, q, q).reshape(x.shape), None

        return jax.lax.scan(step, x, weights)[0].astype(F32).sum()

    arguments = array(3, 64, 64), array(2, 64, 64)
    plain = traced(jax.grad(summed), *arguments, policy="framework")
    assert "prefill_attention" not in kinds(plain.ops()) and "jax.checkpoint" in " ".join(plain.notes)


def test_experts_touch_few_matrices_when_rows_are_few():
    (op,) = traced(jax.lax.ragged_dot, array(1, 128), array(8, 128, 256), array(8, dtype=INT)).ops().values()
    assert op.kind == "experts" and op.shape.matrices == pytest.approx(1.0)
    assert op.bytes == pytest.approx(2 * (128 + 128 * 256 + 256) + 4 * 8)


def test_weights_of_eight_bits_are_converted_on_the_way():
    def product(x, weight, scale):
        return x @ (weight.astype(BF16) * scale)

    (op,) = traced(product, array(64, 128), array(128, 256, dtype=jnp.int8), array(256)).ops().values()
    assert op.shape.weight_bytes == 1.0 and op.bytes == 128 * 256 + 2 * (64 * 128 + 64 * 256 + 256)


def test_sums_of_eight_bit_products_stay_in_their_kernel():
    """64 x 256 sums of int8 products leave as 1 B each; the next layer reads no more."""

    def layer(x, weight, scale):
        sums = jax.lax.dot(x, weight, preferred_element_type=jnp.int32)
        return jnp.clip(jnp.round(sums * scale), -128, 127).astype(jnp.int8)

    arguments = array(64, 128, dtype=jnp.int8), array(128, 256, dtype=jnp.int8), array(dtype=F32)
    for policy in ("framework", "compiler"):
        (op,) = traced(layer, *arguments, policy=policy).ops().values()
        assert op.precision == "int8" and op.shape.output_bytes == 1.0
        assert op.bytes == pytest.approx(64 * 128 + 128 * 256 + 64 * 256, abs=4)


def test_a_wider_copy_is_not_written_beside_its_original():
    """Two quantised products and a sum: each reads two arrays of 1 B per element, none a copy of 4 B."""

    def branch(x, weight):
        product = jax.lax.dot(x, weight, preferred_element_type=jnp.int32)
        narrow = jnp.clip(product >> 8, -128, 127).astype(jnp.int8)
        other = jax.lax.dot(narrow, weight, preferred_element_type=jnp.int32)
        return jnp.clip((other >> 8) + narrow.astype(jnp.int32), -128, 127).astype(jnp.int8)

    found = traced(branch, array(64, 64, dtype=jnp.int8), array(64, 64, dtype=jnp.int8), policy="compiler").ops()
    assert total(found, "kernels") == 2
    assert total(found, "bytes") == pytest.approx((3 + 3) * 64 * 64, abs=8)


def test_an_operator_is_one_kernel():
    """A jitted function without products is one kernel, and what is outside of one is not joined to it."""

    def block(x, y):
        return jax.nn.silu(x) * y

    arguments = array(64, 128), array(64, 128)
    kernels = {policy: total(traced(block, *arguments, policy=policy).ops(), "kernels") for policy in POLICIES}
    assert kernels["operators"] == 2 and kernels["framework"] == kernels["compiler"] == 1 < kernels["eager"]
    assert total(traced(block, *arguments, policy="operators").ops(), "bytes") == (2 + 3) * 2 * 64 * 128


def test_gradients_keep_what_values_are_made_of():
    """A batch norm of 16-bit elements: statistics read x; sums read x and the gradient, and so does the kernel that
    writes the gradient of x: 2 + 4 + 6 bytes per element.
    """
    arguments = array(16, 32, 32, 64), array(64, dtype=F32), array(64, dtype=F32), array(16, 32, 32, 64)
    found = traced(jax.value_and_grad(batch_norm_loss, (0, 1, 2)), *arguments, policy="framework").ops()
    assert total(found, "kernels") == 3
    assert total(found, "bytes") == pytest.approx(12 * 16 * 32 * 32 * 64, rel=0.01)


def test_resnet50_has_its_published_work():
    """4.09 G multiplications and sums per image: torchvision, ResNet50_Weights, 4.09 GFLOPS in its count."""
    image = array(1, 224, 224, 3, dtype=F32)
    forward = total(traced(resnet50, resnet50_weights(), image).ops(), "matrix_flops")
    assert forward / 2 == pytest.approx(4.09e9, rel=0.001)
    gradient = jax.grad(lambda *each: resnet50(*each).sum())
    both = total(traced(gradient, resnet50_weights(), image).ops(), "matrix_flops")
    assert both / forward == pytest.approx(2.97, abs=0.01)  # the image itself has no gradient


@pytest.mark.parametrize("policy", ["operators", "loops", "framework", "compiler"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_kernels_can_run_one_after_the_other(name, policy):
    """Every kernel comes after those whose results it reads, and all work is done by some kernel."""
    function, *arguments = EXAMPLES[name]
    region = graph_of(jax.make_jaxpr(function)(*arguments), ["x"] * len(jax.tree.leaves(arguments)), None)
    groups = grouped(with_shared_nodes(region), policy, Sizes({}), set())
    order = groups.in_order()
    place = {id(group): i for i, group in enumerate(order)}
    for group in order:
        assert all(place[id(maker)] < place[id(group)] for maker in groups.producers(group))
    done = {id(node) for group in order for node in group.nodes}
    assert done == {id(node) for node in region.nodes if not (node.is_view or node.known)}
