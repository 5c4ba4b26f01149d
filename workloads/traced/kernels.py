"""Kernels of a trace as functions of its sizes: what each computes and moves, and the op that it is there."""

import dataclasses
from collections.abc import Collection
from typing import Any, NamedTuple

from jaxroof.hardware import floating
from jaxroof.layers.attention_kernels import SOFTMAX_FLOPS
from jaxroof.layers.choices import distinct_experts
from jaxroof.layers.linear import OPERAND_BYTES
from jaxroof.numerics.smooth import positive_part
from jaxroof.numerics.struct import Scalar
from jaxroof.op import AnyOp, AttentionShape, Collective, ConvolutionShape, Kernel, ProductShape
from workloads.traced.attention import FORWARD, TracedAttention
from workloads.traced.graph import Node, dtype_name
from workloads.traced.known import Mask
from workloads.traced.products import DEFAULT, VECTOR_TYPES, Message, Product, Products, products_of
from workloads.traced.rules import RULES
from workloads.traced.sizes import Shape, Sizes, is_one, shape_key

DECODED_QUERIES = 8.0
"""Queries of one sequence up to which attention to more keys than queries is that of decoding."""

BACKWARD_VECTOR = 2.0
"""Vector FLOP of attention's gradient over those of attention: the softmax again, and the gradient through it."""


class Amount:
    """A sum of coefficients times products of dimensions."""

    def __init__(self) -> None:
        self._terms: dict[Any, tuple[Shape, float]] = {}

    def add(self, shape: Shape, coefficient: float) -> None:
        """Add `coefficient` per element of `shape`."""
        # Sorted factors: B x S and S x B are the same term.
        key = shape_key(tuple(sorted((dim for dim in shape if not is_one(dim)), key=str)))
        if coefficient:
            self._terms[key] = (tuple(shape), self._terms.get(key, (shape, 0.0))[1] + coefficient)

    def at(self, sizes: Sizes) -> Scalar:
        """The sum where symbols have these values."""
        return sum((coefficient * sizes.elements(shape) for shape, coefficient in self._terms.values()), 0.0)

    def merged(self, other: "Amount", sign: float = 1.0) -> "Amount":
        """The sum of both, or their difference."""
        total = Amount()
        for amount, factor in ((self, 1.0), (other, sign)):
            for shape, coefficient in amount._terms.values():
                total.add(shape, factor * coefficient)
        return total

    def __bool__(self) -> bool:
        return any(coefficient for _, coefficient in self._terms.values())


class KernelRun(NamedTuple):
    """One place where a kernel runs in a function, and which of its bytes a compiler may keep on the chip."""

    times: Shape  # how often, a product of trips
    passed: Amount = Amount()  # B that other kernels make for it, and that it makes for them alone
    weights: Amount = Amount()  # B of weights, which exist before the function runs


@dataclasses.dataclass(eq=False)
class TracedKernel:
    """One kernel of a function: what decides the op that it is, as functions of sizes."""

    name: str
    vector: Amount
    exps: Amount
    bytes: Amount
    rules: list[Node]  # nodes whose work a rule says
    core: Product | TracedAttention | Message | None
    dtype: Any = None  # of the operands of products
    weight_bytes: float = 0.0  # B per weight in memory
    output_bytes: float = 0.0  # B per element of its result
    asked: str = DEFAULT  # precision of its products that JAX was asked for
    launches: float = 1.0  # kernels per run
    runs: list[KernelRun] = dataclasses.field(default_factory=list)  # how often: the sum of them
    floats: str = ""  # a type of floating point that it writes

    def op(self, at: Sizes, matrix: Collection[str]) -> AnyOp:
        """The op where symbols have given values; every number is a function of them.

        Args:
          at: values of the symbols.
          matrix: precisions that the hardware has a matrix figure for.
        """
        count = sum((at.elements(run.times) for run in self.runs), 0.0)
        if isinstance(self.core, Message):
            return Collective(
                operation=self.core.operation,
                count=count,
                kernels=1.0 if self.core.participants > 1.0 else 0.0,
                message_bytes=self.bytes.at(at),
                participants=self.core.participants,
                stride=self.core.stride,
            )
        # Work of rules depends on sizes in more than products: sorts by logarithms, factorisations by cubes.
        works = [RULES[node.name](node, at) for node in self.rules]
        vector = self.vector.at(at) + sum((work.vector_flops for work in works), 0.0)
        exps = self.exps.at(at) + sum((work.exps for work in works), 0.0)
        moved = self.bytes.at(at) + sum((work.bytes for work in works), 0.0)
        launched = self.launches + sum((work.steps for work in works), 0.0)
        common: dict[str, Any] = {"count": count, "kernels": launched, "bytes": moved}
        if isinstance(self.core, Product):
            return self._product(self.core, common, vector, exps, at, matrix)
        if isinstance(self.core, TracedAttention):
            return self._attention(self.core, common, at, matrix)
        common |= {"vector_flops": vector, "exps": exps if self.exps or self.rules else None}
        # Matrix work without tiles that a model knows: priced as a stream of products.
        products = [work.matrix_flops for work in works if work.matrix_flops is not None]
        if not products:
            return Kernel(kind="elementwise", **common)
        run = self.products(matrix)
        # of this kind are kernels with products and no known tiles, such as recurrences
        return Kernel(
            kind="prefill_attention",
            precision=run.precision,
            matrix_flops=run.passes * sum(products, 0.0),
            operand_bytes=OPERAND_BYTES.get(run.precision, 8.0),
            **common,
        )

    def take(self, other: "TracedKernel") -> None:
        """Run as often as an equal kernel too, in its place."""
        self.runs += other.runs
        self.floats = self.floats or other.floats

    def products(self, matrix: Collection[str]) -> Products:
        """How its products run on hardware with these precisions."""
        return products_of(dtype_name(self.dtype), self.asked, matrix)

    def lacking(self, matrix: Collection[str]) -> str:
        """What it needs and hardware with these precisions does not have, in words; "" where nothing is missing.

        Hardware without any matrix precision in floating point has none in its vector units either.
        """
        if self.on_matrix_units and self.products(matrix).precision not in matrix:
            return f"no {self.products(matrix).precision} figure, which {self.name} needs"
        if self.floats and not floating(matrix):
            return f"no floating point, and {self.name} writes {self.floats}"
        return ""

    @property
    def on_matrix_units(self) -> bool:
        """Whether it is attention, or a product that matrix units have."""
        if isinstance(self.core, Product):
            return not (is_narrow(self.core) or dtype_name(self.dtype).startswith(VECTOR_TYPES))
        return isinstance(self.core, TracedAttention)

    def _product(
        self, product: Product, common: dict[str, Any], vector: Scalar, exps: Scalar, at: Sizes, matrix: Collection[str]
    ) -> Kernel:
        rows, inputs, outputs = (at.elements(shape) for shape in product[:3])
        flops = 2.0 * rows * inputs * outputs * product.share
        if not self.on_matrix_units:
            kind = "depthwise" if is_narrow(product) else "elementwise"
            return Kernel(kind=kind, **common, vector_flops=vector + flops, exps=exps if self.exps else None)
        run, matrices = self.products(matrix), at.elements(product.matrices)
        # Top-1 style routing at random: some of the matrices have no row, and are not read.
        if product.grouped and product.share == 1.0:
            untouched = matrices - distinct_experts(matrices, 1.0, rows)
            matrices = matrices - untouched
            common["bytes"] = common["bytes"] - untouched * inputs * outputs * self.weight_bytes
        shape: dict[str, Any] = {
            "rows": rows,
            "outputs": outputs,
            "inputs": inputs * product.share * run.passes,  # passes add up as further inputs do
            "matrices": matrices,
            "weight_bytes": self.weight_bytes,
            "output_bytes": self.output_bytes,
            "row_scales": False,  # scales are products of their own in a trace
        }
        return Kernel(
            kind="experts" if product.grouped else "convolution" if product.window else "linear",
            precision=run.precision,
            matrix_flops=run.passes * flops,
            operand_bytes=OPERAND_BYTES.get(run.precision, 8.0),
            vector_flops=vector if self.vector else None,
            exps=exps if self.exps else None,
            shape=_convolution(product, shape, at) if product.window else ProductShape(**shape),
            **common,
        )

    def _attention(
        self, attention: TracedAttention, common: dict[str, Any], at: Sizes, matrix: Collection[str]
    ) -> Kernel:
        sequences, queries, keys, heads, key_width, value_width = (at.elements(shape) for shape in attention[1:7])
        forward = attention.products == FORWARD
        # Causal and banded masks: kernels skip tiles that are masked altogether.
        pairs, widths = attended(attention.mask, queries, keys), key_width + value_width
        # models of kernels see as many heads more as there are products: `jaxroof.training.backward`
        run = self.products(matrix)
        # Passes of bf16 for float32 products, and the five products of a gradient, count as more heads.
        more = run.passes * (1.0 if forward else (3.0 * key_width + 2.0 * value_width) / widths)
        shape = AttentionShape(
            sequences=sequences,
            queries=queries,
            keys=keys,
            pairs=pairs,
            heads=more * heads,
            # Keys in memory over sequences, keys and width: heads of keys before they are repeated.
            kv_heads=more * at.elements(attention.key_shape) / (sequences * keys * at.elements(attention.stored_width)),
            key_width=key_width,
            value_width=value_width,
            kv_bytes=attention.key_bytes,
            causal=attention.mask is not None,
            latent=attention.latent,
            appended=False,  # rotations and caches are kernels of their own in a trace
        )
        every = sequences * heads * pairs
        decodes = self.name.rpartition("/")[2].startswith("decode")
        return Kernel(
            kind="decode_attention" if decodes else "prefill_attention",
            precision=run.precision,
            matrix_flops=2.0 * every * widths * more,
            operand_bytes=OPERAND_BYTES.get(run.precision, 8.0),
            vector_flops=(1.0 if forward else BACKWARD_VECTOR) * SOFTMAX_FLOPS * every,
            exps=every,
            shape=shape,
            gradient=None if forward else "inputs",
            **common | {"kernels": 2.0 if decodes else 1.0},
        )


def _convolution(product: Product, shape: dict[str, Any], at: Sizes) -> ConvolutionShape:
    """Its own dimensions beside those of the product that it is."""
    height, width = at.elements(product.places[:1]), at.elements(product.places[1:])
    return ConvolutionShape(
        **shape,
        height=height,
        width=width,
        window=at.elements(product.window) * product.share,
        stride=float(product.stride),
        minimal=product.minimal,
    )


def is_narrow(product: Product) -> bool:
    """Whether a convolution has too few channels per group for matrix units: depthwise ones."""
    sizes = (*product.inputs[:1], *product.outputs)
    return bool(product.window and product.matrices) and all(isinstance(dim, int) and dim <= 4 for dim in sizes)


def attended(mask: Mask | None, queries: Scalar, keys: Scalar) -> Scalar:
    """Query-key pairs of one sequence and head under a mask, shape ().

    Query i of q sees the keys from i + c - window to i + c - 1 of those from 0 to k - 1; with
    F(c) = sum over i of max(i + c, 0) the pairs are F(c) - F(c - k) - F(c - window). A mask that lets the last query
    see the last key does so for all sizes: c = k - q + 1.
    """
    if mask is None:
        return queries * keys
    first = keys - queries + 1.0 if mask.aligned else mask.offset + 1.0

    def summed(start: Scalar) -> Scalar:
        last, before = positive_part(queries - 1.0 + start), positive_part(start - 1.0)
        return 0.5 * (last * (last + 1.0) - before * (before + 1.0))

    # Differences of triangular sums: the band is what two diagonals enclose.
    pairs = summed(first) - summed(first - keys)
    return pairs if mask.window is None else pairs - summed(first - mask.window)
