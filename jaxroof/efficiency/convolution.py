"""Convolutions as matrix products: implicit GEMM with padded channels, and minimal filtering (Winograd)."""

import dataclasses
from collections.abc import Callable

from jaxroof.efficiency.timing import Timing
from jaxroof.hardware import Hardware, clock, matrix_peak, threaded
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.smooth import ceiling, cheapest
from jaxroof.numerics.struct import Array, Scalar, given
from jaxroof.op import ConvolutionShape, Kernel
from jaxroof.units import unit_time

CHANNEL_BYTES = 16.0
"""B that the channels of one place are padded to: 8 of fp16 and 16 of int8 on tensor cores (NVIDIA, cuDNN
documentation, tensor core operations), one register of Arm's vector units."""

IMAGE_CHANNELS = 4.0
"""Channels that those of an image are padded to: libraries have kernels of their own for the first layer."""

TRANSFORMS = {2.0: (32.0, 24.0, False), 4.0: (156.0, 90.0, True)}
"""Edge of a tile of minimal filtering -> FLOP per tile and channel that transform its input and its result, and whether
these are kernels of their own. Lavin and Gray, arXiv:1509.09308, sections 4.1 to 4.3; cuDNN's of edge 2 is one kernel.
"""

TAPS = 3.0
"""Edge of the window that minimal filtering is for."""

ADDING_SHARE = 0.5
"""Of the vector peak, which counts a product and a sum per clock, that sums alone reach."""


def cheapest_algorithm(
    op: Kernel, winograd: Scalar | None, hardware: Hardware, timing: Callable[[Kernel], Timing]
) -> Timing:
    """Timing of a convolution by the fastest algorithm that its library has.

    Args:
      op: with a `ConvolutionShape`.
      winograd: share of a product's rate that those of minimal filtering reach; None: the library has none.
      timing: of a product.

    Source: cuDNN's heuristics and TensorRT's builder choose by time as well.
    """
    # Without its dimensions there is nothing to choose by.
    if not isinstance(op.shape, ConvolutionShape):
        return timing(op)
    direct = timing(implicit_product(op, hardware))
    if winograd is None or not op.shape.minimal:
        return direct
    timings, best = [direct], [direct.total]
    # Minimal filtering F(e x e, 3 x 3): fewer products, at the price of adding up transformed tiles on vector units.
    for edge in TRANSFORMS:
        product, added = filtered_product(op, edge, winograd, hardware)
        timed = timing(product)
        # Transforms do not overlap the products: their time adds, and is vector time.
        timings.append(Timing(timed.total + added, {**timed.resources, "vector": added}))
        best.append(timings[-1].total)
    # The value is the exact minimum, its gradient shared near ties; resources are those of the algorithm that was
    # taken.
    total = cheapest(*best)
    resources = {**timings[0].resources, "vector": timings[0].resources.get("vector", jnp.zeros(()))}
    for other in timings[1:]:
        chosen = other.total <= total
        resources = {name: jnp.where(chosen, other.resources.get(name, 0.0), time) for name, time in resources.items()}
    return Timing(total, resources)


def implicit_product(op: Kernel, hardware: Hardware) -> Kernel:
    """The product that reads its rows from the image: channels padded to `CHANNEL_BYTES`, or, where a compiler fills a
    systolic array, inputs and outputs to its edge.
    """
    # `compiled` is a switch of data, so both variants are computed and one is selected.
    shape, compiled = op.shape, threaded(hardware) < 1.0
    edge = array_edge(hardware, op.precision or "")
    # A systolic array multiplies full edges whatever it is given: zeros in padded rows and columns take the same
    # clocks.
    inputs = jnp.where(compiled, padded(shape.inputs, edge), padded_channels(op) * shape.window)
    outputs = jnp.where(compiled, padded(shape.outputs, edge), shape.outputs)
    # Padded channels are multiplied like others, and all of the main loop is as much longer.
    more = (inputs * outputs) / (shape.inputs * shape.outputs)
    return dataclasses.replace(
        op,
        matrix_flops=op.matrix_flops * more,
        shape=dataclasses.replace(shape, inputs=inputs, outputs=outputs),
    )


def filtered_product(op: Kernel, edge: float, share: Scalar, hardware: Hardware) -> tuple[Kernel, Array]:
    """The products of minimal filtering with tiles of `edge` x `edge` results, and s of the transforms, shape ().

    (edge + 2)^2 products of tiles x channels x filters take the place of 9 edge^2: 16 of 36, or 36 of 144. Where one
    kernel does all, its tiles of results are those of the convolution, with that much shorter a main loop.
    """
    shape = op.shape
    inputs_flops, results_flops, apart = TRANSFORMS[edge]
    # (e + 2)^2 points of the transformed tile, one small product over channels for each.
    points, channels, filled = (edge + TAPS - 1.0) ** 2, shape.inputs / shape.window, padded_channels(op)
    images = shape.rows / (shape.height * shape.width)
    # Tiles at the image's border are whole ones: their results outside of it are computed and dropped.
    tiles = images * ceiling(shape.height * (1.0 / edge)) * ceiling(shape.width * (1.0 / edge))
    flops = tiles * (channels * inputs_flops + shape.outputs * results_flops)
    adding = flops * unit_time(hardware, "vector", ADDING_SHARE)
    each = edge * edge  # results of a tile
    # One fused kernel: transformed tiles stay in shared memory, so bytes are those of the convolution, and the inputs
    # of a result shrink from 9 per channel to points / e^2.
    rows, inputs, matrices, moved = tiles * each, filled * (points / each), 1.0, op.bytes
    if apart:  # the transformed input and result are written and read again
        rows, inputs, matrices = tiles * points, filled, points
        moved = moved + 2.0 * points * tiles * op.operand_bytes * (channels + shape.outputs)
    product = dataclasses.replace(
        op,
        kernels=op.kernels * (3.0 if apart else 1.0),
        # The transforms leave the products' kernels a smaller share of the peak than a plain GEMM's: work over `share`.
        matrix_flops=2.0 * points * tiles * filled * shape.outputs / share,
        bytes=moved,
        shape=dataclasses.replace(
            shape, rows=rows, inputs=inputs / share, matrices=matrices, window=1.0, stride=1.0, minimal=False
        ),
    )
    return product, adding


def padded_channels(op: Kernel) -> Array:
    """Channels of one group as matrix units work on them, shape ()."""
    channels = op.shape.inputs / op.shape.window
    unit = CHANNEL_BYTES / given(op.operand_bytes, "size of a convolution's operands")
    return jnp.where(channels > IMAGE_CHANNELS, padded(channels, unit), IMAGE_CHANNELS)


def padded(number: Scalar, unit: Scalar) -> Array:
    """The least multiple of `unit` that is no less, shape ()."""
    return unit * ceiling(number / unit)


def array_edge(hardware: Hardware, precision: str) -> Array:
    """Rows and columns of one core's square array of multipliers, shape (): sqrt(FLOP per clock and core / 2)."""
    # A square array of e x e multiply-adds does 2 e^2 FLOP per clock.
    return jnp.sqrt(0.5 * matrix_peak(hardware, precision) / (clock(hardware) * hardware.cores.count))
