"""Bytes that stay in on-chip memory which a compiler fills: what kernels pass on, and weights from run to run."""

import dataclasses
from collections.abc import Sequence

from jaxroof.hardware import OnChip
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.smooth import positive_part
from jaxroof.numerics.struct import Scalar
from jaxroof.op import Kernel, Ops, ProductShape
from workloads.traced.kernels import TracedKernel
from workloads.traced.sizes import Sizes


def with_on_chip(ops: Ops, kernels: Sequence[TracedKernel], at: Sizes, on_chip: OnChip) -> Ops:
    """The ops of kernels with the bytes alone that device memory moves.

    A kernel's arrays that other kernels make or read are on the chip as far as they fit. Weights stay there in what
    the largest of these leave, all to the same share:

    bytes = all - min(passed on, capacity) - share weights,
    share = keeps_weights min(1, max(0, capacity - largest passed on) / weights of all kernels)

    Equal kernels are one op, of their mean.

    Args:
      ops: of `kernels`, in the same order.
      at: sizes of the symbols.

    Source: Coral documentation, Edge TPU Compiler, parameter data caching; Jouppi et al., ISCA 2017, unified buffer.
    """
    largest, every = jnp.asarray(0.0), jnp.asarray(0.0)
    means = []
    for kernel in kernels:
        passed = weights = runs = jnp.asarray(0.0)
        for run in kernel.runs:
            count, moved = at.elements(run.times), run.passed.at(at)
            largest = jnp.maximum(largest, moved)
            passed = passed + count * jnp.minimum(moved, on_chip.capacity)
            weights = weights + count * run.weights.at(at)
            runs = runs + count
        every = every + weights
        runs = jnp.maximum(runs, 1e-30)  # none in a loop without trips
        means.append((passed / runs, weights / runs))
    room = positive_part(on_chip.capacity - largest)
    share = on_chip.keeps_weights * jnp.minimum(1.0, room / jnp.maximum(every, 1.0))
    return {
        name: _moved(op, passed, share, weights) if isinstance(op, Kernel) else op
        for (name, op), (passed, weights) in zip(ops.items(), means, strict=True)
    }


def _moved(op: Kernel, passed: Scalar, share: Scalar, weights: Scalar) -> Kernel:
    """An op without the bytes that stay on the chip; its weights are as many, and smaller in memory."""
    shape = op.shape
    if isinstance(shape, ProductShape):
        shape = dataclasses.replace(shape, weight_bytes=shape.weight_bytes * (1.0 - share))
    return dataclasses.replace(op, bytes=positive_part(op.bytes - passed - share * weights), shape=shape)
