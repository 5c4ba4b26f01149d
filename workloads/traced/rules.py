"""Work of every primitive that is no element-wise one, and what it reads and writes."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.struct import Scalar
from workloads.traced.elementwise import ELEMENTWISE, FREE, MESSAGES, MOVES, REDUCTIONS
from workloads.traced.graph import VIEWS, Node, Region, Value, dtype_name
from workloads.traced.products import PRODUCTS
from workloads.traced.sizes import Shape, Sizes


class PrimitiveWork(NamedTuple):
    """Work of one run of a primitive."""

    vector_flops: Scalar = 0.0
    exps: Scalar = 0.0
    matrix_flops: Scalar | None = None  # on matrix units, at the precision of its first operand; None: none
    bytes: Scalar = 0.0  # B beside its operands and results, each once
    steps: Scalar = 0.0  # kernels beside the first, each of which waits for the one before


Rule = Callable[[Node, Sizes], PrimitiveWork]

RULES: dict[str, Rule] = {}
"""Primitive -> its work where symbols have given sizes."""

LOOPS = {"scan", "while", "cond"}

LIGHT = ("map", "move", "reduction")
"""Kinds of nodes that one kernel may do many of."""


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Decorator of the function that says the work of primitives of these names."""

    def declared(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return declared


def refusal(name: str) -> ValueError:
    """The error for a primitive that nothing is known of, with the line that adds it."""
    function = f'a function (node, sizes) -> Work under @workloads.traced.rules.rule("{name}")'
    if name.endswith("callback"):
        return ValueError(f"{name} runs Python on the host while the device waits: leave it out of what is priced")
    if name in KERNELS:
        more = "; or give it a cost_estimate" if name == "pallas_call" else ""
        return ValueError(
            f"nothing is known of what is inside {name}: {function} says its work; its bytes are known{more}"
        )
    return ValueError(
        f"nothing is known of the primitive {name}: if it is element-wise, add "
        f'workloads.traced.elementwise.ELEMENTWISE["{name}"] = (vector FLOP, exponentials) per element; if not, '
        f"{function}"
    )


KERNELS = ("pallas_call", "ffi_call", "custom_call", "tpu_custom_call", "triton_kernel_call", "cudnn_fusion")
"""Primitives that run a kernel of somebody's own, whose name says nothing about its work."""


def require_known(nodes: list[Node]) -> None:
    """ValueError in one line for the first primitive that nothing is known of; of those that are known values none."""
    for node in nodes:
        # A pallas_call is only known by what its author states.
        known = kind_of(node) != "" and not (RULES.get(node.name) is _estimated and _estimate(node) is None)
        if not (known or node.known or node.name in LOOPS or node.is_view):
            raise refusal(node.name)


def is_known(name: str) -> bool:
    """Whether the work of a primitive is known."""
    return any(name in names for names in (PRODUCTS, MESSAGES, REDUCTIONS, MOVES, ELEMENTWISE, FREE, VIEWS, RULES))


def kind_of(node: Node) -> str:
    """What a node is for fusion: product, message, map, move, reduction, kernel (of its own), free; "" if unknown."""
    if node.name in PRODUCTS:
        return "product"
    if node.name in MESSAGES:
        return "message"
    if node.name in REDUCTIONS:
        return "reduction"
    if node.name in MOVES:
        return "move"
    if node.name in ELEMENTWISE:
        return "map"
    if node.name in FREE or node.name in VIEWS:
        return "free"
    return "kernel" if node.name in RULES else ""


def shape_work(node: Node) -> tuple[Shape, float, float]:
    """Of a map, move or reduction: the shape that its work is per element of, its vector FLOP and its exponentials."""
    # Reductions cost by what they reduce, maps by what they make.
    if node.name in REDUCTIONS:
        return node.inputs[0].shape, REDUCTIONS[node.name], 0.0
    flops, exps = ELEMENTWISE.get(node.name, (0.0, 0.0))
    return node.outputs[0].shape, flops, exps


def read_shape(node: Node, place: int) -> Shape | None:
    """Shape of what a primitive reads of one operand, where that is not all of it; None: all."""
    if node.name in ("gather", "dynamic_slice"):
        # Indexed reads touch what they return, not the whole table.
        return node.outputs[0].shape if place == 0 else None
    if node.name == "dynamic_update_slice":
        # In place: the operand is neither read nor copied.
        return (0,) if place == 0 else None
    if node.name.startswith("scatter"):
        # Adding into places reads them first.
        adds = node.name != "scatter"
        return (node.inputs[2].shape if adds else (0,)) if place == 0 else None
    return None


def written_shape(node: Node) -> Shape | None:
    """Shape of what a primitive writes, where it changes a part of an operand in place; None: all of its results."""
    if node.name == "dynamic_update_slice":
        return node.inputs[1].shape
    if node.name.startswith("scatter") and not node.inputs[0].known:
        return node.inputs[2].shape
    return None


@rule("scatter", *(f"scatter-{kind}" for kind in ("add", "sub", "mul", "min", "max")))
def _scatter(node: Node, at: Sizes) -> PrimitiveWork:
    return PrimitiveWork(at.elements(node.inputs[2].shape))


@rule("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp")
def _running(node: Node, at: Sizes) -> PrimitiveWork:
    """A scan within blocks and one over their sums: two operations per element."""
    elements = at.elements(node.inputs[0].shape)
    return PrimitiveWork(2.0 * elements, elements if node.name == "cumlogsumexp" else 0.0)


DIGIT = 8.0
"""Bits of a key that one pass of a radix sort orders by: Adinets and Merrill, Onesweep, arXiv:2206.01784."""


@rule("sort", "top_k", "approx_top_k")
def _sorted(node: Node, at: Sizes) -> PrimitiveWork:
    """Comparisons of a merge: elements times the logarithm of the sorted length, or of the number that is kept.

    A sort reads and writes all operands once for every digit of the first one's key, pass after pass.
    """
    shape = node.inputs[0].shape
    length = at.number(shape[node.params.get("dimension", -1)] if shape else 1)
    selected = node.params.get("k")
    levels = math.log2(max(selected, 2)) if isinstance(selected, int) else jnp.log2(jnp.maximum(length, 2.0))
    if node.name != "sort":
        return PrimitiveWork(at.elements(shape) * levels)
    # Radix sort: one pass over all data for each digit of the key.
    passes = 8.0 * node.inputs[0].bytes / DIGIT
    each = 2.0 * sum(at.elements(value.shape) * value.bytes for value in node.inputs)
    return PrimitiveWork(at.elements(shape) * levels, bytes=(passes - 1.0) * each, steps=passes)


@rule("reduce_window_sum", "reduce_window_max", "reduce_window_min", "reduce_window")
def _windows(node: Node, at: Sizes) -> PrimitiveWork:
    return PrimitiveWork(at.elements(node.outputs[0].shape) * math.prod(node.params["window_dimensions"]))


@rule("select_and_scatter", "select_and_scatter_add", "select_and_gather_add")
def _window_gradient(node: Node, at: Sizes) -> PrimitiveWork:
    return PrimitiveWork(2.0 * at.elements(node.inputs[0].shape) * math.prod(node.params["window_dimensions"]))


@rule("bcoo_dot_general")
def _sparse_product(node: Node, at: Sizes) -> PrimitiveWork:
    """A product and a sum for every stored element and every further dimension of the dense operand."""
    stored, _, dense = node.inputs
    (_, over), (_, batch) = node.params["dimension_numbers"]
    free = tuple(size for axis, size in enumerate(dense.shape) if axis not in (*over, *batch))
    return PrimitiveWork(2.0 * at.elements(stored.shape) * at.elements(free))


@rule("fft")
def _fft(node: Node, at: Sizes) -> PrimitiveWork:
    """5 n log2 n of a complex transform: Van Loan, Computational Frameworks for the Fast Fourier Transform, 1992.

    Of a real one the complex side has half the elements, and the work is half.
    """
    length = at.elements(tuple(node.params["fft_lengths"]))
    inverse = "IRFFT" in str(node.params["fft_type"])
    side = (node.inputs if inverse else node.outputs)[0]
    return PrimitiveWork(5.0 * at.elements(side.shape) * jnp.log2(jnp.maximum(length, 2.0)))


CUBES = {
    **{"cholesky": 1 / 3, "lu": 2 / 3, "geqrf": 4 / 3, "geqp3": 4 / 3, "qr": 4 / 3, "householder_product": 4 / 3},
    **{"ormqr": 2.0, "tridiagonal": 4 / 3, "hessenberg": 10 / 3, "eigh": 9.0, "svd": 21.0, "schur": 25.0, "eig": 25.0},
}
"""Factorisation -> FLOP over n^3 of a square matrix, with vectors where it has them.

Source: Golub and Van Loan, Matrix Computations, 4th edition, sections 3.2, 4.2, 5.2, 7.4, 7.5, 8.3 and 8.6.
"""


CHAINS = {
    **{"cholesky": 0.25, "lu": 0.5, "geqrf": 0.5, "geqp3": 1.0, "qr": 0.5, "householder_product": 0.25},
    **{"ormqr": 0.25, "tridiagonal": 1.0, "hessenberg": 1.0, "eigh": 2.0, "svd": 3.0, "schur": 10.0, "eig": 10.0},
    "triangular_solve": 1 / 32,
}
"""Factorisation or solution -> kernels per column that wait for each other: a column is known when those before it are.

Ours, not fitted to measurements: panels of a few columns run in one kernel, reductions to a condensed form take one or
two products with a vector per column, and iterations for values follow them.
"""

AT_ONCE = 32.0
"""Columns that one block of threads works on without another kernel; ours."""


def _chain(node: Node, columns: Scalar) -> Scalar:
    return CHAINS[node.name] * jnp.maximum(columns - AT_ONCE, 0.0)


SEQUENTIAL = ("sort", *CHAINS)
"""Primitives whose kernels wait for each other."""


@rule(*CUBES)
def _factorised(node: Node, at: Sizes) -> PrimitiveWork:
    """Work in the size of the last dimension; its columns wait for each other."""
    shape = node.inputs[0].shape
    columns = at.number(shape[-1])
    return PrimitiveWork(CUBES[node.name] * at.elements(shape) * columns, steps=_chain(node, columns))


@rule("triangular_solve", "tridiagonal_solve", "lu_pivots_to_permutation")
def _solved(node: Node, at: Sizes) -> PrimitiveWork:
    """n^2 of a triangle per right-hand side; a few operations per row of three diagonals."""
    if node.name == "triangular_solve":
        # Columns depend on those before: kernels wait for one another, whatever the FLOP.
        steps = _chain(node, at.number(node.inputs[0].shape[-1]))
        return PrimitiveWork(at.elements(node.inputs[0].shape) * at.elements(node.inputs[1].shape[-1:]), steps=steps)
    return PrimitiveWork(8.0 * at.elements(node.outputs[0].shape))


def _estimate(node: Node) -> Any:
    """The cost that the author of a kernel states; None where there is none."""
    return node.params.get("cost_estimate")


@rule("pallas_call")
def _estimated(node: Node, at: Sizes) -> PrimitiveWork:
    """Work as the kernel's `cost_estimate` says. Its FLOP are those of matrix units where it reads matrices of floating
    point; bytes beyond its operands and results are read again.

    Source: jax.experimental.pallas.CostEstimate.
    """
    stated = _estimate(node)
    seen = sum(at.elements(value.shape) * value.bytes for value in (*node.inputs, *node.outputs))
    # Tiles that a kernel reads again are in its stated bytes, beyond operands and results.
    more = jnp.maximum(float(stated.bytes_accessed) - seen, 0.0)
    multiplies = any(len(value.shape) > 1 and "float" in dtype_name(value.dtype) for value in node.inputs)
    flops = float(stated.flops)
    if multiplies:
        return PrimitiveWork(0.0, float(stated.transcendentals), flops, bytes=more)
    return PrimitiveWork(flops, float(stated.transcendentals), bytes=more)


# Equal nodes of a graph as one, as every compiler and every author of a kernel has them.


REPEATED = ("rematted_computation", "checkpoint")
"""Scopes whose nodes are computed again on purpose."""


def with_shared_nodes(region: Region, values: dict[int, Value] | None = None) -> Region:
    """The region, in place, with one node for all that compute the same of the same operands.

    What is computed again on purpose (`jax.checkpoint`), messages, loops and random numbers stay as they are.

    Args:
      values: what stands for values of the regions around it, by identity.
    """
    values = {} if values is None else values
    seen: dict[Any, Node] = {}
    unique = []
    for node in region.nodes:
        node.inputs = [values.get(id(value), value) for value in node.inputs]
        for value in node.outputs:
            value.shown = None
        for body, _ in node.bodies:
            with_shared_nodes(body, values)
        # Common subexpression elimination: equal primitive, parameters and operands.
        key = _key(node)
        if key is not None and key in seen:
            for own, other in zip(node.outputs, seen[key].outputs, strict=True):
                values[id(own)] = other
            continue
        if key is not None:
            seen[key] = node
        unique.append(node)
    for number, node in enumerate(unique):
        node.number = number
    region.nodes = unique
    region.outputs = [values.get(id(value), value) for value in region.outputs]
    return region


def _key(node: Node) -> Any:
    """The same for nodes that compute the same; None for one that stays as it is."""
    plain = node.is_view or kind_of(node) in LIGHT
    # Random draws differ even where their parameters are equal.
    if not plain or node.bodies or node.name.startswith("random") or any(word in node.scope for word in REPEATED):
        return None
    return node.name, str(node.params), tuple(map(_operand, node.inputs))


def _operand(value: Value) -> Any:
    if value.node is None and value.constant is not None and not value.shape:
        return dtype_name(value.dtype), str(value.constant)
    return id(value)
