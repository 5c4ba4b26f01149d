"""Times sweeps of traced functions over a million points: `python -m tests.bench.functions`.

A block of Llama-3.1-8B and a small convolutional network, each traced once, over numbers of an H100, over symbolic
sizes, and over both; metrics, one of them in float32, and elasticities. Each sweep returns an xarray Dataset; the first
one of a kind compiles its loops, which the second finds again.
"""

import argparse
import resource
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

import sweeps

F32 = jnp.float32
BANDWIDTH, PEAK = "hardware.memory.hbm.bandwidth", "hardware.matrix.bf16"
HEADS, KV_HEADS, HEAD_DIM, HIDDEN, WIDTH = 32, 8, 128, 4096, 14336
"""Of Llama-3.1-8B."""


def norm(x):
    """A norm of rows without a scale."""
    wide = x.astype(F32)
    return (wide * jax.lax.rsqrt(jnp.mean(wide * wide, -1, keepdims=True) + 1e-5)).astype(x.dtype)


def block(weights, x):
    """A block of a transformer."""
    qkv, out, up, down = weights
    heads = (*x.shape[:2], -1, HEAD_DIM)
    q, k, v = jnp.split(norm(x) @ qkv, [HEADS * HEAD_DIM, (HEADS + KV_HEADS) * HEAD_DIM], -1)
    seen = jax.nn.dot_product_attention(q.reshape(heads), k.reshape(heads), v.reshape(heads), is_causal=True)
    x = x + seen.reshape(*x.shape[:2], -1) @ out
    gate, value = jnp.split(norm(x) @ up, 2, -1)
    return x + (jax.nn.silu(gate) * value) @ down


def convolutions(weights, x):
    """Convolutions of 3 x 3 at four resolutions, each with a residual."""
    for inner, wider in weights:
        numbers = ("NHWC", "HWIO", "NHWC")
        y = jax.lax.conv_general_dilated(x, inner, (1, 1), "SAME", dimension_numbers=numbers)
        x = jax.lax.conv_general_dilated(jax.nn.relu(x + y), wider, (2, 2), "SAME", dimension_numbers=numbers)
    return x


def array(*shape):
    """The shape of an array in bf16."""
    return jax.ShapeDtypeStruct(shape, jnp.bfloat16)


def functions():
    """Functions with symbolic sizes, by name, and values of these: a million and one."""
    b, s = jax.export.symbolic_shape("b, s")
    widths = (HIDDEN, (HEADS + 2 * KV_HEADS) * HEAD_DIM), (HIDDEN, HIDDEN), (HIDDEN, 2 * WIDTH), (WIDTH, HIDDEN)
    weights = [array(*shape) for shape in widths]
    many, one = {"b": range(1, 1025), "s": range(64, 65537, 64)}, {"b": [1], "s": [2048]}
    yield "block of a transformer", sweeps.from_function(block, weights, array(b, s, HIDDEN)), many, one
    images, size = jax.export.symbolic_shape("images, size")
    layers = [(array(3, 3, n, n), array(3, 3, n, 2 * n)) for n in (64, 128, 256, 512)]
    network = sweeps.from_function(convolutions, layers, array(images, 16 * size, 16 * size, 64))
    yield "convolutions", network, {"images": range(1, 1025), "size": range(1, 1025)}, {"images": [8], "size": [8]}


def main(words: list[str] | None = None) -> None:
    """Print points per second of every sweep, first and again, and the peak memory of the process."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.functions", description=__doc__)
    parser.add_argument("--points", type=int, default=1000, help="values of each of two numbers of the hardware")
    options = parser.parse_args(words)
    leaves = {BANDWIDTH: np.geomspace(1e12, 8e12, options.points), PEAK: np.geomspace(2e14, 4e15, options.points)}
    few = {BANDWIDTH: leaves[BANDWIDTH]}
    for name, asked, many, one in functions():
        some = {size: list(values)[:32] for size, values in many.items()}
        print(f"{name}, {len(asked.traced.kernels)} distinct kernels")
        for what, over, settings, more in (
            ("two numbers of the hardware", one, leaves, {}),
            ("the same, time alone, float32", one, leaves, {"metrics": ["time"], "dtype": "float32"}),
            ("two sizes", many, {}, {}),
            ("two sizes and a number of the hardware", some, few, {}),
            ("elasticities in 13 numbers", one, leaves, {"elasticities": [PEAK, "hardware.cores", "hardware.memory"]}),
        ):
            report(what, lambda: asked.sweep("H100-SXM", over, settings=settings, **more))  # noqa: B023
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"peak memory {peak / 1e9:.2f} GB", file=sys.stdout)


def report(what: str, run) -> None:
    """Run twice and print points per second of both."""
    rates, points = [], 0
    for _ in range(2):
        begun = time.perf_counter()
        points = run()["time"].size
        rates.append(points / (time.perf_counter() - begun) / 1e6)
    print(
        f"  {what:40} {points:9,} points: {rates[0]:6.2f} M/s with compilation, {rates[1]:6.2f} M/s again", flush=True
    )


if __name__ == "__main__":
    main()
