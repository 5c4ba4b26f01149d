"""Ops of a step before any hardware is known: kernels, collectives and copies, with what each is for."""

import dataclasses
from typing import Any

from jaxroof.fanout import Fanout
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.struct import Scalar, given, static, struct

# Dimensions of a kernel, which decide its tiles and waves: of a product, a convolution, fused attention, states of
# recurrences, short convolutions, and residual streams.


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
    slots: Scalar | None = None  # room of the list of keys that each query has of its own; None: keys in their order
    listed: str | None = static(default=None)  # one of LISTED: what is in these lists; None: there are none


@struct
class ScoreShape:
    """Scores of an indexer: new tokens of equal sequences against the keys that are cached for it, on one device."""

    sequences: Scalar
    queries: Scalar  # new tokens of one sequence
    keys: Scalar  # of one sequence, each of a token or of several
    pairs: Scalar  # query-key pairs of one sequence and head
    heads: Scalar  # of the indexer
    width: Scalar  # elements of a query and a key
    paged: bool = static(default=False)  # kernels read keys page by page, so that cores share those of one query


@struct
class ChoiceShape:
    """Choice of the best of many scores, row by row."""

    rows: Scalar
    width: Scalar  # scores of one row, mean
    kept: Scalar  # of them that are chosen at most


LISTED = ("selected", "compressed", "blocks")
"""What lists of keys hold: tokens that an indexer chose; a window and vectors of several tokens; blocks of tokens."""

TILED = (ProductShape, AttentionShape)
"""Shapes of kernels whose operands lie in device memory: weights, or cached keys and values."""


@struct
class StateShape:
    """Recurrent states of equal sequences, on one device, and the new tokens that change them."""

    sequences: Scalar
    tokens: Scalar  # new ones of one sequence
    states: Scalar  # heads with a state, of one sequence
    key_width: Scalar  # rows of a state
    value_width: Scalar  # columns of a state
    state_bytes: Scalar  # B per element of a state
    row_bytes: Scalar  # B per element of what a token has: queries, keys, values, outputs
    passes: Scalar  # times that a state moves: read once, and written at the end or after every token
    chunk: Scalar  # tokens that change a state together
    channelwise: bool = static(default=False)  # every row of a state has a decay of its own


@struct
class WindowShape:
    """A short causal convolution over the tokens of equal sequences, channel by channel, on one device."""

    sequences: Scalar
    tokens: Scalar  # of one sequence
    channels: Scalar
    update: bool = static(default=False)  # of decoding: the tokens before are kept from step to step


@struct
class StreamsShape:
    """Residual streams of a model that mixes several of them around each sublayer."""

    rows: Scalar  # tokens
    streams: Scalar
    width: Scalar  # elements of one stream


SERIAL_SHAPES = (StateShape, WindowShape, StreamsShape)
"""Shapes of kernels that stream: no tile of theirs is multiplied with weights or with a cache."""


KINDS = ("linear", "experts", "prefill_attention", "decode_attention", "elementwise", "convolution", "depthwise")
"""Kinds of kernels. An `Efficiency` has one entry for each; convolutions may share those of `STAND_INS`."""

STAND_INS = {"convolution": "linear", "depthwise": "elementwise"}
"""Kind -> the one whose kernels it runs on where an efficiency has none for it: an implicit product, and a chain of
element-wise work.
"""

ATTENTION_PHASES = {"prefill_attention": "prefill", "decode_attention": "decode"}
"""Kinds of attention kernels -> the phase of their queries."""

PRODUCTS = ("linear", "experts")
"""Kinds of kernels that multiply rows with weight matrices."""

COLLECTIVES = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "broadcast",
    "send_recv",
    "dispatch",
    "combine",
)
"""What a collective does. Dispatch and combine are the all-to-alls of low-latency expert kernels."""

EXPERT_KERNELS = ("dispatch", "combine")
"""Collectives that are kernels of their own: those who measure them measure them as steps run them."""

PARALLELISMS = ("tp", "pp", "dp", "ep", "cp")
"""Groups of devices that a collective runs between."""

PHASES = ("prefill", "decode", "mixed")
"""Tokens that an op works on: those of prompts, the newest ones of decoding sequences, or both at once."""

ROLES = {
    "embedding": "lookup or projection of a model's inputs",
    "norm": "norm and residual sum around a mixer or a feed-forward",
    "mixer": "projections, rotations, recurrences and cache writes of a mixer",
    "indexer": "choice of the tokens that sparse attention attends to",
    "attention": "scores, softmax and weighted sum of values of self-attention",
    "cross_attention": "the same of attention to an encoder's output",
    "context": "messages between devices that hold parts of a context",
    "feedforward": "dense feed-forward, shared experts included",
    "router": "choice of a token's experts",
    "exchange": "messages that bring tokens to their experts and results back",
    "experts": "routed experts, and the sum of their results",
    "reduction": "sum of a layer's partial results over tensor-parallel devices",
    "adapter": "low-rank adapters that are served",
    "trained_adapter": "low-rank adapters that are trained beside frozen weights",
    "projector": "what turns an encoder's vectors, or two vectors of a prediction head, into the decoder's",
    "head": "output head, with the messages that gather its logits",
    "sampling": "choice of the next token",
    "conversion": "frozen weights of training, converted to the precision that they are multiplied in",
    "loss": "loss of training",
    "stage": "messages to the next pipeline stage",
    "cache": "copies of a cache from and to memory outside the device",
    "replica": "messages between devices that hold the same weights",
    "optimizer": "update of the weights",
}
"""Role of an op in its model -> what that is."""

ATTENTION_CORES = ("attention", "cross_attention")
"""Roles of the attention core: it has no weights, and selective recomputation of training repeats it.

Source: Korthikanti et al., arXiv:2205.05198, section 5.
"""

RESOURCES = ("matrix", "vector", "exp", "hbm", "l2", "scratchpad", "link", "launch", "beside")
"""What an op's time can go to at full clock, in the order of the integer codes that cost functions return."""

BOUNDS = (*RESOURCES, "power")
"""What can bind a step: a resource, or the limit of electrical power, which lowers the clock."""


@struct
class Op:
    """What every op has: how often it runs on one device of the deployment, and what it is in its model.

    An op is a `Kernel`, a `Collective` or a `Copy`. A quantity that it does not use is None, so that no term is
    computed for it. `layer`, `role` and `phase` say nothing about its own time: ops that differ only in them share one
    compiled function (`jaxroof.op`).
    """

    # How often an op runs and how many kernels a run has are apart: layers multiply time, kernels multiply launches.
    count: Scalar  # how often the step runs it: layers
    kernels: Scalar  # kernels per run; 0 when the step has no work for it
    layer: str = static(default="")  # "encoder.0.": of these ops it is; "" where a model has one block
    role: str | None = static(default=None)  # one of ROLES; None: outside of any model
    phase: str = static(default="mixed")  # one of PHASES


@struct
class Kernel(Op):
    """One kernel, or a few that always run together."""

    kind: str = static()  # one of KINDS
    precision: str | None = static(default=None)  # of the products, or converted to: a key of `Hardware.matrix`
    scaled: bool = static(default=False)  # a scale per block of operands is applied between matrix products
    # Work and traffic of the whole run, each counted once; what the memory hierarchy re-reads is the efficiency's to
    # say.
    matrix_flops: Scalar | None = None  # FLOP per run on matrix units
    operand_bytes: Scalar | None = None  # B per matrix operand element, which sizes its tiles
    vector_flops: Scalar | None = None  # FLOP per run on vector units
    exps: Scalar | None = None  # exponentials per run
    bytes: Scalar | None = None  # B per run read and written, each operand once
    shape: Any = None  # what decides its tiles: by kind a struct of `jaxroof.op`; None: few bytes per FLOP
    reuse_bytes: Scalar | None = None  # B touched between two readings of its weights or cache; None: beyond any cache
    held_bytes: Scalar | None = None  # B per run that do not come from device memory, beside `bytes`; None: none
    beside_bytes: dict[str, Scalar] | None = None  # of them, those of each memory of `Memory.beside`; None: none
    gradient: str | None = static(default=None)  # in a backward pass, of what: "inputs", "weights"; None: forward


def inner_bytes(kernel: Kernel) -> Scalar:
    """B per run that pass the levels inside of device memory: from there, and from memories beside it or on chip."""
    return kernel.bytes if kernel.held_bytes is None else kernel.bytes + kernel.held_bytes


def stored_elements(shape: ProductShape) -> Scalar:
    """Weights that a product multiplies with, shape ()."""
    return shape.matrices * shape.inputs * shape.outputs


def stored_bytes(shape: ProductShape) -> Scalar:
    """B of these weights, shape ()."""
    return stored_elements(shape) * shape.weight_bytes


def state_pass_bytes(shape: StateShape) -> Scalar:
    """B of all states of a run, once; shape ()."""
    return shape.sequences * shape.states * shape.key_width * shape.value_width * shape.state_bytes


def cached_width(shape: AttentionShape) -> Scalar:
    """Elements that a KV head caches per token; latent values are part of the keys."""
    return shape.key_width if shape.latent else shape.key_width + shape.value_width


def cached_bytes(shape: AttentionShape) -> Scalar:
    """B of keys and values that attention reads of its cache once, shape ()."""
    return shape.sequences * shape.keys * shape.kv_heads * cached_width(shape) * shape.kv_bytes


def streamed(kernel: Kernel, share: Scalar, weights: Scalar, passed: Scalar = 0.0) -> Kernel:
    """The kernel with the bytes alone that device memory moves, where others stay in on-chip memory.

    Args:
      kernel: whose bytes are known.
      share: of its weights that stay on the chip; the shape has as many weights, and smaller ones in memory.
      weights: B of them.
      passed: B that kernels before and after it leave on the chip for each other.
    """
    shape = kernel.shape
    if isinstance(shape, ProductShape):
        shape = dataclasses.replace(shape, weight_bytes=shape.weight_bytes * (1.0 - share))
    moved = jnp.maximum(kernel.bytes - passed - share * weights, 0.0)
    return dataclasses.replace(kernel, bytes=moved, shape=shape)


def kernel_precision(kernel: Kernel) -> str:
    """Precision of a kernel's matrix products.

    Raises:
      ValueError: where it has none.
    """
    return given(kernel.precision, f"precision of the matrix products of a kernel of kind {kernel.kind!r}")


@struct
class Collective(Op):
    """One collective of `participants` devices."""

    operation: str = static()  # one of COLLECTIVES
    # Size of the whole buffer, so that bus bandwidths of nccl-tests compare: an algorithm turns it into bytes on the
    # wire.
    message_bytes: Scalar  # B per run of the whole buffer, as nccl-tests counts its size
    participants: Scalar  # devices
    stride: Scalar | None = None  # devices from one participant to the next; None: neighbours, 1
    fanout: Fanout | None = None  # of tokens that nodes may forward: who needs them; None: nothing is forwarded
    parallelism: str | None = static(default=None)  # one of PARALLELISMS; None: of no deployment
    behind: str | None = static(default=None)  # what it may hide behind in its layer: "product", "attention", or None
    back_bytes: Scalar | None = None  # B of the message that passes gradients back; None: as many


@struct
class Copy(Op):
    """One copy between a device and the memory outside of it; it may hide behind kernels of other layers."""

    tier: str = static()  # field of `Memory` that it reads or writes
    message_bytes: Scalar  # B per run


AnyOp = Kernel | Collective | Copy
"""Every op is one of these: type checkers then know what it is where it is none of the others."""

Ops = dict[str, AnyOp]
"""Ops by name, in the order that they first run. Names are for readers: nothing is decided by them."""


def with_role(ops: Ops, role: str) -> Ops:
    """The same ops, where those without a role have `role`."""
    return {name: op if op.role is not None else _labelled(op, role=role) for name, op in ops.items()}


def in_phase(ops: Ops, phase: str) -> Ops:
    """The same ops, all of one phase."""
    return {name: _labelled(op, phase=phase) for name, op in ops.items()}


def in_layer(ops: Ops, layer: str) -> Ops:
    """The same ops inside of `layer`, which their names and their layers begin with; "" changes nothing."""
    if not layer:
        return ops
    return {layer + name: _labelled(op, layer=layer + op.layer) for name, op in ops.items()}


def unlabelled(op: AnyOp) -> AnyOp:
    """The op without what it is in its model: what its time, work and energy depend on."""
    # Labels are static fields and part of a compiled function's cache key: without them, layers that do the same share
    # one.
    labels = {"layer": "", "role": None, "phase": "mixed"}
    if isinstance(op, Kernel):
        labels["gradient"] = None
    if isinstance(op, Collective):
        labels |= {"parallelism": None, "behind": None, "back_bytes": None}
    return _labelled(op, **labels)


def _labelled(op: AnyOp, **labels: str | None) -> AnyOp:
    """A copy with other labels. Every op of a step is labelled a few times: `dataclasses.replace`, which calls the
    constructor, takes ten times as long.
    """
    copy = object.__new__(type(op))
    copy.__dict__.update(op.__dict__, **labels)
    return copy
