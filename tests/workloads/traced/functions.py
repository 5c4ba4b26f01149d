"""Tiny functions of JAX arrays that tests trace, and their arguments."""

import math

import jax
import jax.numpy as jnp

BF16, F32, INT = jnp.bfloat16, jnp.float32, jnp.int32


def array(*shape, dtype=BF16):
    return jax.ShapeDtypeStruct(shape, dtype)


def total(ops, field):
    """Sum of a number over all runs of ops that have it."""
    return sum(float(op.count * (getattr(op, field, None) or 0.0)) for op in ops.values())


def mlp(x, up, down):
    return jax.nn.gelu(x @ up) @ down


def loss(weights, x):
    return jnp.mean((jax.nn.relu(x @ weights[0]) @ weights[1]) ** 2)


def attention(q, k, v):
    return jax.nn.dot_product_attention(q, k, v, is_causal=True)


def windowed(q, k, v, window=16):
    """Attention of plain products under a causal mask of `window` keys."""
    i, j = jnp.arange(q.shape[1])[:, None], jnp.arange(k.shape[1])[None]
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(q.shape[-1])
    scores = jnp.where((j <= i) & (j > i - window), scores, -1e30)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, -1), v)


def masked(q, k, v, mask):
    """Attention under a mask that is an argument."""
    scores = jnp.where(mask[:, None, None], jnp.einsum("bqhd,bkhd->bhqk", q, k), -1e30)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, -1), v)


def adamw(weight, first, second, gradient, step):
    first = 0.9 * first + 0.1 * gradient
    second = 0.99 * second + 0.01 * gradient * gradient
    change = first / (1 - 0.9**step) / (jnp.sqrt(second / (1 - 0.99**step)) + 1e-8)
    return weight - 1e-3 * (change + 0.01 * weight), first, second


def layers(x, weights):
    return jax.lax.scan(lambda x, weight: (jnp.tanh(x @ weight), None), x, weights)[0]


def residual(x, one, other, scale):
    """A residual block of two 3x3 convolutions."""

    def convolved(x, weight):
        return jax.lax.conv_general_dilated(
            x, weight, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), preferred_element_type=x.dtype
        )

    return jax.nn.relu(x + convolved(jax.nn.relu(convolved(x, one) * scale), other))


def messages_of_edges(x, weight, source, target):
    """One layer of a graph network."""
    return jax.ops.segment_sum(jax.nn.relu(x[source] @ weight), target, num_segments=x.shape[0])


def state_space(x, decay, into, out):
    """A selective scan: x [batch, steps, width], decay [width, state], into and out [batch, steps, state]."""

    def step(state, now):
        x, into, out = now
        state = state * jnp.exp(decay) + x[:, :, None] * into[:, None, :]
        return state, (state * out[:, None, :]).sum(-1)

    start = jnp.zeros((x.shape[0], *decay.shape), x.dtype)
    return jax.lax.scan(step, start, tuple(each.swapaxes(0, 1) for each in (x, into, out)))[1]


def layer_norm(x, scale, shift):
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-6) * scale + shift


def vit(weights, x, heads=4):
    """One block of a vision transformer."""
    batch, tokens, width = x.shape
    y = layer_norm(x, weights["scale"], weights["shift"])
    q, k, v = (part.reshape(batch, tokens, heads, -1) for part in jnp.split(y @ weights["qkv"], 3, -1))
    scores = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(width // heads), -1)
    x = x + jnp.einsum("bhqk,bkhd->bqhd", scores, v).reshape(x.shape) @ weights["out"]
    return x + jax.nn.gelu(layer_norm(x, weights["scale"], weights["shift"]) @ weights["up"]) @ weights["down"]


def vit_weights(width=64, dtype=F32):
    sizes = {"qkv": (width, 3 * width), "out": (width, width), "up": (width, 4 * width), "down": (4 * width, width)}
    norms = dict.fromkeys(("scale", "shift"), array(width, dtype=dtype))
    return norms | {name: array(*size, dtype=dtype) for name, size in sizes.items()}


def counted(x):
    return jax.lax.while_loop(lambda c: c[0] < 10, lambda c: (c[0] + 1, c[1] @ c[1]), (0, x))[1]


def converging(x):
    return jax.lax.while_loop(lambda x: jnp.sum(x) > 1.0, lambda x: x @ x, x)


def either(which, x):
    return jax.lax.cond(which, lambda x: x @ x @ x, lambda x: x @ x, x)


HEADS, KV_HEADS, HEAD_DIM, HIDDEN, WIDTH = 32, 8, 128, 4096, 14336
"""Of Llama-3.1-8B."""

LLAMA = {
    "attention_norm": array(HIDDEN),
    "qkv": array(HIDDEN, (HEADS + 2 * KV_HEADS) * HEAD_DIM),
    "out": array(HEADS * HEAD_DIM, HIDDEN),
    "mlp_norm": array(HIDDEN),
    "up": array(HIDDEN, 2 * WIDTH),
    "down": array(WIDTH, HIDDEN),
}
"""Weights of a block."""


def rms_norm(x, scale):
    wide = x.astype(F32)
    return (wide * jax.lax.rsqrt(jnp.mean(wide * wide, -1, keepdims=True) + 1e-5)).astype(x.dtype) * scale


def rotated(x, cosine, sine):
    one, other = jnp.split(x, 2, -1)
    return jnp.concatenate([one * cosine - other * sine, other * cosine + one * sine], -1)


def llama(weights, x):
    """A block of Llama-3.1-8B, written without thought for kernels."""
    batch, tokens, _ = x.shape
    angles = jnp.arange(tokens)[:, None] / 5e5 ** (jnp.arange(HEAD_DIM // 2) / (HEAD_DIM // 2))
    turn = [function(angles)[None, :, None].astype(x.dtype) for function in (jnp.cos, jnp.sin)]
    y = rms_norm(x, weights["attention_norm"]) @ weights["qkv"]
    q, k, v = jnp.split(y, [HEADS * HEAD_DIM, (HEADS + KV_HEADS) * HEAD_DIM], -1)
    q, k = (rotated(part.reshape(batch, tokens, -1, HEAD_DIM), *turn) for part in (q, k))
    q = q.reshape(batch, tokens, KV_HEADS, HEADS // KV_HEADS, HEAD_DIM)
    scores = jnp.einsum("bqkgd,bskd->bkgqs", q, k).astype(F32) / HEAD_DIM**0.5
    scores = jnp.where(jnp.tril(jnp.ones((tokens, tokens), bool)), scores, -1e30)
    shares = jax.nn.softmax(scores, -1).astype(x.dtype)
    seen = jnp.einsum("bkgqs,bskd->bqkgd", shares, v.reshape(batch, tokens, KV_HEADS, HEAD_DIM))
    x = x + seen.reshape(batch, tokens, -1) @ weights["out"]
    gate, up = jnp.split(rms_norm(x, weights["mlp_norm"]) @ weights["up"], 2, -1)
    return x + (jax.nn.silu(gate) * up) @ weights["down"]


def batch_norm_loss(x, scale, shift, gradient):
    """Sum of a batch norm with ReLU, computed in float32, times `gradient`."""
    wide = x.astype(F32)
    mean = wide.mean((0, 1, 2))
    variance = (wide * wide).mean((0, 1, 2)) - mean * mean
    y = jax.nn.relu((wide - mean) * jax.lax.rsqrt(variance + 1e-5) * scale + shift).astype(x.dtype)
    return (y.astype(F32) * gradient.astype(F32)).sum()


def resnet50_weights(dtype=F32):
    """Kernels of the stem, of 16 bottlenecks and of the head; norms are left out: they multiply nothing."""
    blocks, width = [], 64
    for count, inner in zip((3, 4, 6, 3), (64, 128, 256, 512), strict=True):
        for i in range(count):
            shapes = [(1, 1, width, inner), (3, 3, inner, inner), (1, 1, inner, 4 * inner)]
            shapes += [(1, 1, width, 4 * inner)] if i == 0 else []
            blocks.append([array(*shape, dtype=dtype) for shape in shapes])
            width = 4 * inner
    return array(7, 7, 3, 64, dtype=dtype), blocks, array(2048, 1000, dtype=dtype)


def resnet50(weights, x):
    """The products of ResNet-50 v1.5: strides are in the 3x3 convolutions."""
    stem, blocks, head = weights

    def convolved(x, weight, stride=1):
        numbers = ("NHWC", "HWIO", "NHWC")
        return jax.lax.conv_general_dilated(x, weight, (stride, stride), "SAME", dimension_numbers=numbers)

    x = jax.nn.relu(convolved(x, stem, 2))
    x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
    for i, (first, second, third, *shortcut) in enumerate(blocks):
        stride = 2 if shortcut and i else 1
        y = convolved(jax.nn.relu(convolved(jax.nn.relu(convolved(x, first)), second, stride)), third)
        x = jax.nn.relu(y + (convolved(x, shortcut[0], stride) if shortcut else x))
    return x.mean((1, 2)) @ head


QKV = array(2, 64, 8, 32), array(2, 64, 2, 32), array(2, 64, 2, 32)
"""Queries of 8 heads and keys and values of 2, 64 tokens of 2 sequences."""

EXAMPLES = {
    "products": (lambda x, a, b: x @ a @ b, array(128, 256), array(256, 512), array(512, 64)),
    "mlp": (mlp, array(64, 128), array(128, 512), array(512, 128)),
    "causal attention": (attention, *QKV),
    "windowed attention": (windowed, *[array(2, 64, 8, 32)] * 3),
    "masked attention": (masked, *[array(2, 64, 8, 32)] * 3, array(2, 64, dtype=bool)),
    "residual": (residual, array(4, 16, 16, 32), *[array(3, 3, 32, 32)] * 2, array(32)),
    "vit": (vit, vit_weights(), array(2, 32, 64, dtype=F32)),
    "graph": (
        *(messages_of_edges, array(100, 64, dtype=F32), array(64, 32, dtype=F32)),
        *[array(500, dtype=INT)] * 2,
    ),
    "state space": (
        *(state_space, array(2, 16, 32, dtype=F32), array(32, 8, dtype=F32)),
        *[array(2, 16, 8, dtype=F32)] * 2,
    ),
    "gradient": (
        *(jax.value_and_grad(loss), (array(128, 512, dtype=F32), array(512, 128, dtype=F32))),
        array(64, 128, dtype=F32),
    ),
    "adamw": (adamw, *[array(1024, 1024, dtype=F32)] * 4, array(dtype=F32)),
    "layers": (layers, array(64, 128), array(12, 128, 128)),
    "experts": (jax.lax.ragged_dot, array(64, 128), array(8, 128, 256), array(8, dtype=INT)),
}
"""Function and arguments."""
