"""Work of every primitive that is no element-wise one, and what it reads and writes."""

import math
from collections.abc import Callable
from typing import NamedTuple

from jaxroof.arrays import jnp
from jaxroof.struct import Scalar
from workloads.traced.elementwise import ELEMENTWISE, FREE, MESSAGES, MOVES, REDUCTIONS
from workloads.traced.graph import VIEWS, Node
from workloads.traced.products import PRODUCTS
from workloads.traced.sizes import Shape, Sizes


class Work(NamedTuple):
    """Work of one run of a primitive."""

    vector_flops: Scalar = 0.0
    exps: Scalar = 0.0
    matrix_flops: Scalar | None = None  # on matrix units, at the precision of its first operand; None: none


Rule = Callable[[Node, Sizes], Work]

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
        return ValueError(f"nothing is known of what is inside {name}: {function} says its work; its bytes are known")
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
        if not (node.known or node.name in LOOPS or node.is_view) and kind_of(node) == "":
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
    if node.name in REDUCTIONS:
        return node.inputs[0].shape, REDUCTIONS[node.name], 0.0
    flops, exps = ELEMENTWISE.get(node.name, (0.0, 0.0))
    return node.outputs[0].shape, flops, exps


def read_shape(node: Node, place: int) -> Shape | None:
    """Shape of what a primitive reads of one operand, where that is not all of it; None: all."""
    if node.name in ("gather", "dynamic_slice"):
        return node.outputs[0].shape if place == 0 else None
    if node.name == "dynamic_update_slice":
        return (0,) if place == 0 else None
    if node.name.startswith("scatter"):
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
def _scatter(node: Node, at: Sizes) -> Work:
    return Work(at.elements(node.inputs[2].shape))


@rule("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp")
def _running(node: Node, at: Sizes) -> Work:
    """A scan within blocks and one over their sums: two operations per element."""
    elements = at.elements(node.inputs[0].shape)
    return Work(2.0 * elements, elements if node.name == "cumlogsumexp" else 0.0)


@rule("sort", "top_k", "approx_top_k")
def _sorted(node: Node, at: Sizes) -> Work:
    """Comparisons of a merge: elements times the logarithm of the sorted length, or of the number that is kept."""
    shape = node.inputs[0].shape
    length = at.number(shape[node.params.get("dimension", -1)] if shape else 1)
    kept = node.params.get("k")
    levels = math.log2(max(kept, 2)) if isinstance(kept, int) else jnp.log2(jnp.maximum(length, 2.0))
    return Work(at.elements(shape) * levels)


@rule("reduce_window_sum", "reduce_window_max", "reduce_window_min", "reduce_window")
def _windows(node: Node, at: Sizes) -> Work:
    return Work(at.elements(node.outputs[0].shape) * math.prod(node.params["window_dimensions"]))


@rule("select_and_scatter", "select_and_scatter_add", "select_and_gather_add")
def _window_gradient(node: Node, at: Sizes) -> Work:
    return Work(2.0 * at.elements(node.inputs[0].shape) * math.prod(node.params["window_dimensions"]))


@rule("bcoo_dot_general")
def _sparse_product(node: Node, at: Sizes) -> Work:
    """A product and a sum for every stored element and every further dimension of the dense operand."""
    stored, _, dense = node.inputs
    (_, over), (_, batch) = node.params["dimension_numbers"]
    free = tuple(size for axis, size in enumerate(dense.shape) if axis not in (*over, *batch))
    return Work(2.0 * at.elements(stored.shape) * at.elements(free))


@rule("fft")
def _fft(node: Node, at: Sizes) -> Work:
    """5 n log2 n of a complex transform: Van Loan, Computational Frameworks for the Fast Fourier Transform, 1992.

    Of a real one the complex side has half the elements, and the work is half.
    """
    length = at.elements(tuple(node.params["fft_lengths"]))
    inverse = "IRFFT" in str(node.params["fft_type"])
    side = (node.inputs if inverse else node.outputs)[0]
    return Work(5.0 * at.elements(side.shape) * jnp.log2(jnp.maximum(length, 2.0)))


CUBES = {
    **{"cholesky": 1 / 3, "lu": 2 / 3, "geqrf": 4 / 3, "geqp3": 4 / 3, "qr": 4 / 3, "householder_product": 4 / 3},
    **{"ormqr": 2.0, "tridiagonal": 4 / 3, "hessenberg": 10 / 3, "eigh": 9.0, "svd": 21.0, "schur": 25.0, "eig": 25.0},
}
"""Factorisation -> FLOP over n^3 of a square matrix, with vectors where it has them.

Source: Golub and Van Loan, Matrix Computations, 4th edition, sections 3.2, 4.2, 5.2, 7.4, 7.5, 8.3 and 8.6.
"""


@rule(*CUBES)
def _factorised(node: Node, at: Sizes) -> Work:
    """Work in the size of the last dimension."""
    shape = node.inputs[0].shape
    return Work(CUBES[node.name] * at.elements(shape) * at.number(shape[-1]))


@rule("triangular_solve", "tridiagonal_solve", "lu_pivots_to_permutation")
def _solved(node: Node, at: Sizes) -> Work:
    """n^2 of a triangle per right-hand side; a few operations per row of three diagonals."""
    if node.name == "triangular_solve":
        return Work(at.elements(node.inputs[0].shape) * at.elements(node.inputs[1].shape[-1:]))
    return Work(8.0 * at.elements(node.outputs[0].shape))
