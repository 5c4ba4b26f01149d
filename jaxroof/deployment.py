"""Deployment of a model: its spread over devices, overlap, and precisions of activations, cache and messages."""

from jaxroof.smooth import ceiling, maximum, minimum, positive_part
from jaxroof.struct import Scalar, static, struct

EXCHANGES = ("all_to_all", "low_latency", "all_gather")
"""How tokens reach experts on other devices: kernels for large batches, for small ones, or every token everywhere."""

CONTEXT_KINDS = ("ring", "all_gather")
"""How context-parallel devices pass prompt keys and values on: from neighbour to neighbour, or all at once."""

DEGREES = ("tp", "pp", "cp", "attention_dp", "ep", "dp")
"""Parallel degrees of a deployment: whole numbers."""

ATTENTION_KERNELS = ("fused", "unfused")
"""How attention runs: as one kernel; or product, scale, mask, softmax and product as kernels of their own."""

OUTSIDE = ("host", "storage")
"""Memory beyond the device that may keep a part of its cache: fields of `Memory`."""

OVERLAPS = ("none", "gemm", "two_batch")
"""What communication hides behind: nothing; the matrix product beside it; the other half of the batch."""

ADAPTED = ("q", "k", "v", "o", "up", "down")
"""Matrices that low-rank adapters may change: of attention, its output, and the dense feed-forward's two."""


@struct
class Adapters:
    """Low-rank adapters (LoRA) beside one model: every request runs with one of them.

    Source: Hu et al., arXiv:2106.09685, section 4.1.
    """

    rank: Scalar
    loaded: Scalar = 1.0  # adapters in the device's memory, equally popular
    targets: tuple[str, ...] = static(default=("q", "v"))  # of ADAPTED


@struct
class Deployment:
    """`dp` independent replicas of a model, each on tp x cp x attention_dp x pp devices.

    A degree that is None is 1, and adds no kernels to a step.

    Devices of a replica are numbered with tp fastest, then cp, attention_dp and pp, and fill one tier of links after
    the other. Experts are spread over the tp x cp x attention_dp devices of a stage: `ep` ways by expert, the rest of
    the way by width.
    """

    tp: Scalar = 1.0  # tensor-parallel degree: heads and widths of one layer are split
    pp: Scalar | None = None  # pipeline-parallel degree: stages of consecutive layers
    cp: Scalar | None = None  # context-parallel degree: tokens of one prompt, and its cache, are split
    attention_dp: Scalar | None = None  # attention data parallelism: groups of requests that share experts
    ep: Scalar | None = None  # expert-parallel degree
    dp: Scalar = 1.0  # replicas; a workload's batch is that of one
    stages: tuple[Scalar, ...] | None = None  # layers of every pipeline stage; None: as even as they go
    imbalance: Scalar = 1.0  # rows of the busiest expert-parallel device over the mean; ours: routing is even
    alike: Scalar = 1.0  # exponent of tokens that choose experts on their own, n^alike of n; ours: 1, all of them do
    drafts: Scalar | None = None  # drafted tokens in a row per sequence and step; None: nothing drafts
    tree: tuple[Scalar, ...] | None = None  # branches of every drafted token, by depth; None: a chain
    adapters: Adapters | None = None  # None: the model alone
    block_tokens: Scalar | None = None  # tokens of one block of the cache; None: sequences take what they need
    offloaded: Scalar | None = None  # share of every sequence's cache that is outside the device; None: no copies
    prefetched: Scalar = 1.0  # 1: a layer's part comes while others compute; 0: kernels wait for it
    offload_to: str = static(default="host")  # one of OUTSIDE
    sequence_parallel: bool = static(default=False)  # norms work on 1/tp of the tokens
    context_kind: str = static(default="ring")  # one of CONTEXT_KINDS
    exchange: str = static(default="all_to_all")  # one of EXCHANGES
    overlap: str = static(default="none")  # one of OVERLAPS
    reserved_cores: Scalar = 0.0  # share of the cores that overlapped communication takes from compute
    activation_bytes: Scalar = 2.0  # B per activation element between kernels; bf16, as engines run it
    kv_bytes: Scalar = 2.0  # B per key or value element in the cache
    state_bytes: Scalar = 4.0  # B per element of a linear-attention state; float32, as engines keep it
    communication_bytes: Scalar = 2.0  # B per element that a collective sends; bf16
    dispatch_bytes: Scalar = 2.0  # B per element sent to experts; 1 where they are quantised before
    attention_compute: str = static(default="bf16")  # precision of the attention matrix products
    attention_kernel: str = static(default="fused")  # one of ATTENTION_KERNELS
    score_kernels: Scalar | None = None  # of unfused attention beside products and softmax; None: 2, scale and mask
    activation_kernels: Scalar | None = None  # that an activation function is written out in; None: 1
    memory_utilization: Scalar = 0.9  # share of device memory the engine may use; vLLM's gpu_memory_utilization
    reserve_bytes: Scalar = 3e9  # B per device: context, graphs, communication buffers; ours, typical of vLLM on H100
    max_batched_tokens: Scalar = 8192.0  # tokens of the largest step, which sizes activations; vLLM's default, serving


def degree(of: Scalar | None) -> Scalar:
    """A parallel degree as a number: 1 for None."""
    return 1.0 if of is None else of


def stage_devices(deployment: Deployment) -> Scalar:
    """Devices that share one layer: tp x cp x attention_dp."""
    return deployment.tp * degree(deployment.cp) * degree(deployment.attention_dp)


def replica_devices(deployment: Deployment) -> Scalar:
    """Devices of one replica: tp x cp x attention_dp x pp."""
    return stage_devices(deployment) * degree(deployment.pp)


def devices(deployment: Deployment) -> Scalar:
    """Devices of the whole deployment."""
    return replica_devices(deployment) * deployment.dp


def expert_tp(deployment: Deployment) -> Scalar:
    """Ways that one expert's width is split: what expert parallelism leaves of the stage's devices."""
    return stage_devices(deployment) / degree(deployment.ep)


def largest_stage(deployment: Deployment, layers: Scalar) -> Scalar:
    """Share of `layers` layers in the largest pipeline stage, shape (); ceil(layers / pp) / layers where even."""
    if deployment.pp is None:
        return 1.0
    if deployment.stages is not None:
        return maximum(*deployment.stages) / sum(deployment.stages)
    return ceiling(layers / deployment.pp) / layers


def pipelined_parts(deployment: Deployment, sequences: Scalar) -> Scalar:
    """Micro-batches that pipeline stages work on at once: one per stage, or one per sequence where these are fewer."""
    return 1.0 if deployment.pp is None else minimum(deployment.pp, sequences)


def drafted_tokens(deployment: Deployment) -> Scalar:
    """Drafted tokens that a step verifies per sequence: the chain's, or all nodes of a tree."""
    if deployment.drafts is None:
        return 0.0
    if deployment.tree is None:
        return deployment.drafts
    nodes, width = 0.0, 1.0
    for depth, branches in enumerate(deployment.tree):
        width = width * branches
        nodes = nodes + drafted_part(deployment.drafts, depth) * width
    return nodes


def tokens_per_sequence(deployment: Deployment) -> Scalar:
    """Tokens of one decoding sequence in one step: the newest and the drafted ones that it verifies."""
    return 1.0 if deployment.drafts is None else 1.0 + drafted_tokens(deployment)


def drafted_part(drafts: Scalar, depth: int) -> Scalar:
    """Share of the drafts of the depth, counted from 0, that are made: 1, or 0 beyond the last."""
    return minimum(positive_part(drafts - float(depth)), 1.0)
