"""Functions that are shipped: matrix FLOP as worked by hand, weights as published, and what runs on an H100."""

import jax
import pytest

import sweeps
from docs.examples.functions import dit, graph, mamba, training, unet
from docs.examples.functions.arrays import array


@pytest.fixture(autouse=True)
def usual_promotion():
    """JAX as users have it."""
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        yield


def symbols(text):
    return jax.export.symbolic_shape(text)


def matrix_flops(asked, **sizes):
    return sum(float(op.count * (getattr(op, "matrix_flops", None) or 0.0)) for op in asked.ops(**sizes).values())


def names(asked, **sizes):
    return {name.rpartition("/")[2].partition(".")[0] for name in asked.ops(**sizes)}


def parameters(tree):
    return sum(leaf.size for leaf in jax.tree.leaves(tree))


def test_a_diffusion_transformer():
    """118.64 G multiplications are published for XL/2 at 256 x 256, arXiv:2212.09748, table 1."""
    (b,) = symbols("b")
    latents = array(b, 32, 32, 4), array(b, dtype="float32"), array(b, 1152)
    asked = sweeps.from_function(dit.forward, dit.params, *latents)
    d, patches, layers = 1152, 256, 28
    # qkv, out, up and down of every patch; scores and values of all pairs; six numbers per width of a condition
    block = 12 * d * d * patches + 2 * patches * patches * d + 6 * d * d
    # patches of 16 numbers in, of 32 out; time steps of 256 numbers; the last shift and scale
    ends = patches * (16 + 32) * d + 256 * d + d * d + 2 * d * d
    assert matrix_flops(asked, b=3) == 3 * 2 * (layers * block + ends)
    assert layers * block + ends == pytest.approx(118.64e9, rel=1e-3)
    assert {"attention", "matmul", "norm", "activation"} <= names(asked, b=3)


def test_a_diffusion_unet():
    """35.7 million weights are published for CIFAR-10, arXiv:2006.11239, appendix B."""
    (b,) = symbols("b")
    asked = sweeps.from_function(unet.forward, unet.params, array(b, 32, 32, 3), array(b, dtype="float32"))
    assert parameters(unet.params) == pytest.approx(35.7e6, rel=1e-3)

    def block(side, inputs, outputs):
        places = side * side
        shortcut = inputs * outputs if inputs != outputs else 0
        attention = (4 * outputs**2 + 2 * places * outputs) * places if side == 16 else 0
        return places * (9 * outputs * (inputs + outputs) + shortcut) + 512 * outputs + attention

    down = [(32, 128, 128)] * 2 + [(16, 128, 256), (16, 256, 256)] + [(8, 256, 256)] * 2 + [(4, 256, 256)] * 2
    up = [(4, 512, 256)] * 3 + [(8, 512, 256)] * 3 + [(16, 512, 256)] * 2 + [(16, 384, 256)]
    up += [(32, 384, 128)] + [(32, 256, 128)] * 2
    total = sum(block(*each) for each in (*down, *up))
    total += 2 * block(4, 256, 256) + (4 * 256**2 + 2 * 16 * 256) * 16  # in the middle, one with attention
    halved = 16**2 * 9 * 128**2 + (8**2 + 4**2) * 9 * 256**2
    doubled = (8**2 + 16**2 + 32**2) * 9 * 256**2
    ends = 2 * 32**2 * 9 * 3 * 128 + 128 * 512 + 512 * 512
    assert matrix_flops(asked, b=2) == 2 * 2 * (total + halved + doubled + ends)
    assert {"attention", "convolution", "norm"} <= names(asked, b=2) and "gather" not in names(asked, b=2)


def test_a_graph_network():
    n, e = symbols("n, e")
    edges = array(e, 8, dtype="float32"), array(e, dtype="int32"), array(e, dtype="int32")
    asked = sweeps.from_function(graph.forward, graph.params, array(n, 12, dtype="float32"), *edges)
    w = 128
    of_edges = 8 * w + 2 * w * w + 15 * (3 + 2) * w * w
    of_nodes = 12 * w + 2 * w * w + 15 * (2 + 2) * w * w + 2 * w * w + 3 * w
    assert matrix_flops(asked, n=2000, e=11000) == 2 * (2000 * of_nodes + 11000 * of_edges)
    assert "scatter-add" in names(asked, n=2000, e=11000)
    # a sum of messages reads and writes sums of nodes, and reads every message and its receiver: 4 B each
    (sums,) = (op for name, op in asked.ops(n=2000, e=11000).items() if "scatter-add" in name)
    assert sums.count == 15 and sums.bytes == pytest.approx(4 * (11000 * (w + 1) + 11000 * w), rel=0.6)


def test_a_selective_state_space_model():
    """130 million weights: the name of the checkpoint."""
    b, s = symbols("b, s")
    assert parameters(mamba.params) == pytest.approx(130e6, rel=0.01)
    of_token = 24 * (768 * 2 * 1536 + 1536 * (48 + 32) + 48 * 1536 + 1536 * 768) + 768 * 50280
    arguments = mamba.params, array(b, s, dtype="int32")
    slow = sweeps.from_function(mamba.forward, *arguments)
    asked = sweeps.from_function(mamba.forward, *arguments, fused_loops=True)
    for each in (slow, asked):
        assert matrix_flops(each, b=8, s=512) == 2 * 8 * 512 * of_token
    scans = [op for name, op in asked.ops(b=8, s=512).items() if name.endswith("scan")]
    # one exponential per state and token of a layer; the loop launches a kernel or two per token where it is not fused
    assert [(op.count, op.exps) for op in scans] == [(24.0, 8 * 512 * 1536 * 16)]
    kernels = [each.answer("H100-SXM", b=8, s=512).metrics["kernels"] for each in (slow, asked)]
    assert kernels[0] >= 24 * 512 + kernels[1] - 24


def test_a_training_step():
    """Weights of blocks four times, forward, again and two gradients, but for the last product, whose result nobody
    needs again; attention once more forward, and 2.5 times backward; the head without a checkpoint.
    """
    m, b, s = symbols("m, b, s")
    tokens = array(m, b, s, dtype="int32")
    asked = sweeps.from_function(training.train, training.state, tokens, tokens)
    assert parameters(training.params) == pytest.approx(124e6, rel=0.01)
    d, layers, length = 768, 12, 1024
    dense = d * d * ((3 + 1 + 4) * 4 + 4 * 3)
    attention = 2 * d * (length + 1) / 2 * (2 + 2.5)
    of_token = layers * (dense + attention) + 3 * 50304 * d
    assert matrix_flops(asked, m=4, b=8, s=length) == 2 * 4 * 8 * length * of_token
    metrics = asked.answer("H100-SXM", m=4, b=8, s=length).metrics
    # weights, moments and gradients in float32; logits of a micro-batch and their gradient
    least = 4 * 4 * parameters(training.params) + 2 * 4 * 8 * length * 50304
    assert least <= metrics["peak_bytes"] <= 2 * least
