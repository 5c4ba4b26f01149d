"""Dimensions of a kernel, which decide its tiles and waves: of a product, a convolution, and fused attention."""

from jaxroof.struct import Scalar, static, struct


@struct
class ProductShape:
    """`(m, k) @ (k, n)`, or the same with several weight matrices, as in a grouped GEMM."""

    rows: Scalar  # m, over all matrices
    outputs: Scalar  # n
    inputs: Scalar  # k
    matrices: Scalar  # weight matrices that have rows
    weight_bytes: Scalar  # B per weight
    output_bytes: Scalar  # B per output element
    largest: Scalar | None = None  # rows of the busiest matrix; None: all have the same
    row_scales: bool = static(default=True)  # rows of 8 bits and less have scales of their own, as engines make them


@struct
class ConvolutionShape(ProductShape):
    """A convolution as an implicit product: its rows are places of the result, its inputs channels times window."""

    height: Scalar  # places of one image's result along its first axis
    width: Scalar  # the same along all others
    window: Scalar  # places of the input that one place of the result needs
    stride: Scalar = 1.0  # places of the input per place of the result, over all axes
    minimal: bool = static(default=False)  # 3 x 3, one place apart: minimal filtering (Winograd) applies


@struct
class AttentionShape:
    """Softmax attention of the new tokens of equal sequences to their context, on one device."""

    sequences: Scalar
    queries: Scalar  # new tokens of one sequence
    keys: Scalar  # cached and new tokens of one sequence that its queries reach, each counted once
    pairs: Scalar  # query-key pairs of one sequence and head
    heads: Scalar  # query heads
    kv_heads: Scalar  # heads of keys and values
    key_width: Scalar  # elements of a key
    value_width: Scalar  # elements of a value
    kv_bytes: Scalar  # B per cached element
    causal: bool = static(default=True)  # a query sees the new tokens up to itself
    latent: bool = static(default=False)  # values are the first elements of the keys, one head for all queries
    appended: bool = static(default=True)  # engines rotate its queries and append its keys and values to a cache, too
