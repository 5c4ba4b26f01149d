"""Random functions and their gradients under every policy: kernels that can run, the same products, fewer bytes."""

import random

import jax
import jax.numpy as jnp
import pytest
from functions import F32, array

from workloads.traced.function import traced
from workloads.traced.fusion import POLICIES, grouped
from workloads.traced.rules import with_shared_nodes
from workloads.traced.sizes import Sizes
from workloads.traced.walk import graph_of

STEPS = (
    lambda a, b, w, v: a @ w,
    lambda a, b, w, v: a + b,
    lambda a, b, w, v: jnp.tanh(a) * b,
    lambda a, b, w, v: jax.nn.softmax(a, -1),
    lambda a, b, w, v: a - a.mean(-1, keepdims=True),
    lambda a, b, w, v: a * b.sum(0),
    lambda a, b, w, v: (a @ b.T) @ a,
    lambda a, b, w, v: jax.nn.softmax(a @ b.T, -1) @ a,
    lambda a, b, w, v: a.astype(jnp.bfloat16).astype(F32) + v,
    lambda a, b, w, v: jax.lax.scan(lambda h, t: (jnp.sin(h) * t @ w, h.sum()), a, jnp.stack([v, v]))[0],
    lambda a, b, w, v: jnp.concatenate([a[:, :16], b[:, 16:]], 1),
    lambda a, b, w, v: jnp.where(a > 0.0, a, b),
    lambda a, b, w, v: jax.checkpoint(lambda a: jnp.exp(a) @ w)(a),
    lambda a, b, w, v: a[::-1] * jnp.max(b),
)
"""What makes an array of two, a square matrix and a vector."""

ARGUMENTS = array(64, 32, dtype=F32), array(32, 32, dtype=F32), array(32, dtype=F32)


def made(seed):
    def function(x, w, v):
        chance, arrays = random.Random(seed), [x]
        for _ in range(chance.randint(4, 30)):
            arrays.append(chance.choice(STEPS)(chance.choice(arrays), chance.choice(arrays), w, v))
        return (arrays[-1] @ w).sum() + chance.choice(arrays).sum()

    return function


@pytest.mark.parametrize("seed", [*range(8), 37, 113])
@pytest.mark.parametrize("what", ["value", "gradient"])
def test_random_functions(seed, what):
    function = made(seed) if what == "value" else jax.grad(made(seed), (0, 1))
    flops, moved = {}, {}
    for policy in POLICIES:
        ops = traced(function, *ARGUMENTS, policy=policy).ops().values()
        flops[policy] = sum(float(op.count * (op.matrix_flops or 0.0)) for op in ops)
        moved[policy] = sum(float(op.count * op.bytes) for op in ops)
        region = with_shared_nodes(graph_of(jax.make_jaxpr(function)(*ARGUMENTS), ["x", "w", "v"], None))
        assert grouped(region, policy, Sizes({}), set()).can_run
    assert flops["eager"] == flops["loops"]
    assert moved["loops"] <= moved["eager"] * 1.01 and moved["compiler"] <= moved["framework"] <= moved["eager"] * 1.01
