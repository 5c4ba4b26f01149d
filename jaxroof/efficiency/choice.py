"""Time of an indexer: scores of cached keys for every query, and the choice of the best of each row."""

from jaxroof.efficiency.hull import Hull
from jaxroof.efficiency.timing import Constants, Spread, Timing, clock_cycles, factor, fixed_time, on_cores, reached
from jaxroof.hardware import Hardware, clock, gpu_cores, matrix_peak
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.smooth import ceiling, maximum
from jaxroof.numerics.struct import Scalar, number, part, static, struct
from jaxroof.op import Kernel, kernel_precision
from jaxroof.units import unit_time

SCORE_BYTES = 4.0
"""B of one score; float32."""


@struct
class ScoreKernel:
    """Constants of the kernel that scores cached keys."""

    launch_cycles: Scalar = clock_cycles("clock cycles per run", "launches inside a graph of it and the kernels around")
    launch_time: Scalar = fixed_time("time per run that no clock shortens")
    matrix: Scalar = reached("share of the matrix peak")
    vector: Scalar = factor("vector operations per score of a head, at the vector peak", "rectify, weight, add")
    bandwidth: Scalar = reached("share of HBM bandwidth")
    tile_rows: Scalar = number("1", "rows of a tile, heads of its queries", most=1e4)
    tile_cycles: Scalar = clock_cycles("clock cycles of a core per tile", "first loads, last stores")
    tail: Scalar = factor("times of one tile's time on one core, which no number of cores shortens", "in prompts")
    asynchronous: Constants | None = part(
        "on asynchronous cores without tensor memory", default=None
    )  # in place of those above
    tensor_memory: Constants | None = part("on asynchronous cores with it", default=None)  # the same
    spread: Spread | None = part(default=None)
    hull: Hull | None = static(default=None)


def score_timing(kernel: ScoreKernel, op: Kernel, hardware: Hardware) -> Timing:
    """Time of one run: launch, and the products, then the weighted sum of the heads, beside keys and scores.

    score = heads (2 width / (peak matrix) + vector / vector peak),   s of one query-key pair on all cores
    rows = ceil(tile_rows / heads) queries of a tile, one where keys are paged;  tiles = sequences ceil(queries / rows)
    compute = max(tiles rows keys seen score, tail rows keys score cores) + tile_cycles max(tiles / cores, 1) / clock
    time = launch + max(compute, bytes / (bandwidth HBM)),   seen = pairs / (queries keys)

    Args:
      kernel: constants. Where keys are paged there is no `tail`: cores share the keys of a query.
      op: with a `ScoreShape`.
      hardware: where it runs.

    Raises:
      ValueError: while tracing, when the hardware has no matrix figure for the op's precision.

    Source: deepseek-ai/DeepGEMM, fp8_mqa_logits: one block of threads per tile of queries; the form is ours.
    """
    kernel = on_cores(kernel, hardware.cores, kernel.asynchronous, kernel.tensor_memory)
    shape, cores = op.shape, hardware.cores
    peak = matrix_peak(hardware, kernel_precision(op))
    products = 2.0 * shape.width / (peak * kernel.matrix)
    sums = kernel.vector / (cores.count * cores.vector_flops)
    score = shape.heads * (products + sums)
    width = gpu_cores(hardware)
    # A tile without all of its rows takes as long as a full one. An indexer without heads runs nothing.
    rows = 1.0 if shape.paged else ceiling(kernel.tile_rows / maximum(shape.heads, 1.0))
    tiles = shape.sequences * (shape.queries if shape.paged else ceiling(shape.queries / rows))
    queries = jnp.where(shape.queries > 0.0, shape.queries, 1.0)
    pairs = tiles * rows * (shape.pairs / queries)
    compute = pairs * score
    if not shape.paged:
        compute = maximum(compute, op.kernels * kernel.tail * rows * shape.keys * score * width)
    # Tiles of a core follow each other; the first one's start is paid however few there are.
    compute = compute + op.kernels * kernel.tile_cycles * maximum(tiles / width, 1.0) / clock(hardware)
    times = {"matrix": pairs * shape.heads * products, "vector": pairs * shape.heads * sums}
    times["hbm"] = op.bytes * unit_time(hardware, "hbm", kernel.bandwidth)
    times["launch"] = op.kernels * (kernel.launch_cycles / clock(hardware) + kernel.launch_time)
    return Timing(times["launch"] + maximum(compute, times["hbm"]), times)


@struct
class ChoiceKernel:
    """Constants of the kernel that chooses the best scores."""

    launch_cycles: Scalar = clock_cycles("clock cycles per run", "launch inside a graph, fill and drain")
    launch_time: Scalar = fixed_time("time per run that no clock shortens")
    row_cycles: Scalar = clock_cycles(
        "clock cycles of a core per row", "histograms, their sums, writing what is chosen"
    )
    core_bytes: Scalar = number("B/clock/core", "bytes of scores that a core takes per clock cycle", most=1e4)
    bandwidth: Scalar = reached("share of HBM bandwidth")
    spread: Spread | None = part(default=None)
    hull: Hull | None = static(default=None)


def choice_timing(kernel: ChoiceKernel, op: Kernel, hardware: Hardware) -> Timing:
    """Time of one run: launch, and rows that a core each works through; one no longer than its choice is taken whole.

    row = (row_cycles + 4 width / core_bytes) / clock where width > kept, else 0
    time = launch + max(max(rows / cores, 1) row, bytes / (bandwidth HBM))

    Source: sgl-project/sglang, sgl-kernel (fast_topk: one block of threads per row, radix passes); the form is ours.
    """
    shape = op.shape
    cycle = 1.0 / clock(hardware)
    long = op.kernels * (shape.width > shape.kept)
    row = long * (kernel.row_cycles + SCORE_BYTES * shape.width / kernel.core_bytes) * cycle
    rounds = maximum(shape.rows / gpu_cores(hardware), 1.0)
    times = {"vector": rounds * row, "hbm": op.bytes * unit_time(hardware, "hbm", kernel.bandwidth)}
    times["launch"] = op.kernels * (kernel.launch_cycles * cycle + kernel.launch_time)
    return Timing(times["launch"] + maximum(times["vector"], long * times["hbm"]), times)
