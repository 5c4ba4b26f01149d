"""One deployment of a model: everything that its engine and its spread over devices decide."""

from jaxroof.deployment.parallelism import Parallelism
from jaxroof.numerics.smooth import minimum, positive_part
from jaxroof.numerics.struct import Scalar, count, number, option, share, static, struct, switch, word

ADAPTED = ("q", "k", "v", "o", "up", "down")
"""Matrices that low-rank adapters may change: of attention, its output, and the dense feed-forward's two."""


@struct
class Adapters:
    """Low-rank adapters (LoRA) beside one model: every request runs with one of them.

    Source: Hu et al., arXiv:2106.09685, section 4.1.
    """

    rank: Scalar = count("rank of the adapters")
    loaded: Scalar = count("adapters in the device's memory", "equally popular", default=1.0)
    targets: tuple[str, ...] = static(default=("q", "v"))  # of ADAPTED


@struct
class Adapted:
    """The model with adapters, or alone."""

    adapters: Adapters | None = None  # None: the model alone


# Communication of a deployment: how tokens and keys are exchanged, and what that hides behind.


EXCHANGES = ("all_to_all", "forwarding", "low_latency", "all_gather")
"""How tokens reach experts on other devices: kernels for large batches, for small ones, or every token everywhere."""

CONTEXT_KINDS = ("ring", "all_gather")
"""How context-parallel devices pass prompt keys and values on: from neighbour to neighbour, or all at once."""

OVERLAPS = ("none", "gemm", "two_batch")
"""What communication hides behind: nothing; the matrix product beside it; the other half of the batch."""


@struct
class Communication:
    """Kinds of communication, and what runs beside it."""

    sequence_parallel: bool = option("norms work on 1/tp of the tokens each", default=False)
    context_kind: str = word(
        "how context-parallel devices pass keys and values on", CONTEXT_KINDS, default="ring", flag="WAY"
    )
    exchange: str = word("how tokens reach experts on other devices", EXCHANGES, default="all_to_all", flag="WAY")
    overlap: str = word("what communication hides behind", OVERLAPS, default="none", flag="WAY")
    reserved_cores: Scalar = share(
        "share of the cores that overlapped communication takes",
        "from compute",
        zero=True,
        open=True,
        default=0.0,
        flag="SHARE",
    )


# Kernels that an engine runs attention, activation functions and the choice of the next token as.


ATTENTION_KERNELS = ("fused", "unfused")
"""How attention runs: as one kernel; or product, scale, mask, softmax and product as kernels of their own."""

SAMPLERS = ("fused", "sort")
"""How the next token is drawn: from statistics of the logits; or from their full sort, for top-p and top-k."""


@struct
class KernelChoice:
    """How attention, activation functions and the sampler are cut into kernels."""

    attention_kernel: str = word(
        "how attention runs",
        ATTENTION_KERNELS,
        "unfused: products, scale, mask and softmax are kernels of their own",
        default="fused",
        flag="WAY",
    )
    score_kernels: Scalar | None = number(
        "1", "kernels of unfused attention beside products and softmax", "none: 2, scale and mask", default=None
    )
    activation_kernels: Scalar | None = number(
        "1", "kernels that an activation function is written out in", "none: 1", default=None
    )
    sampler: str = word(
        "how the next token is drawn",
        SAMPLERS,
        "sort: top-p and top-k by a sort of all logits, as vLLM 0.11 does unless it is told otherwise",
        default="fused",
        flag="WAY",
    )
    hidden_tile: Scalar = number(
        "1",
        "hidden sizes that kernels of microscaled experts pad to a multiple of",
        default=256.0,
        source="Marlin: vllm/model_executor/layers/quantization/mxfp4.py, v0.11",
    )
    expert_tile: Scalar = number(
        "1",
        "expert widths on one device that kernels of microscaled experts pad to a multiple of",
        default=128.0,
        source="Marlin, as above",
    )


# Drafts of speculative decoding: how many tokens a step verifies per sequence.


DRAFTERS = ("model", "ngram")
"""What drafts: a model, which may be a head of the one that it drafts for; or a look-up in the text so far."""


@struct
class Drafting:
    """Tokens that the model's prediction head, a smaller model or a look-up drafts, in a chain or a tree."""

    drafts: Scalar | None = count(
        "tokens drafted per sequence and step",
        "by the model's prediction head, the --draft model or a look-up; none: nothing drafts",
        zero=True,
        few=True,
        default=None,
        flag="N",
    )
    tree: tuple[Scalar, ...] | None = count(
        "branches of a drafted token at depth {}",
        "one number for every depth, where drafts are a tree: 4,2,1; none: a chain",
        words="the branches of every drafted token by depth, such as 4,2,1",
        default=None,
        flag="BRANCHES,..",
    )
    drafter: str = word(
        "what drafts",
        DRAFTERS,
        "model: the --draft model or the model's prediction head; ngram: a look-up of the last tokens in the text",
        default="model",
        flag="WAY",
    )
    match: Scalar | None = share(
        "probability that a look-up finds tokens to draft",
        "in a step, of one sequence; without them it drafts nothing; none: 1",
        zero=True,
        default=None,
        flag="SHARE",
    )
    lookup_time: Scalar = number(
        "s",
        "host's time to look up what follows the last tokens of one sequence",
        "of drafter ngram",
        zero=True,
        default=1e-5,
        source="ours, assumed: 2 ns for each of 5,000 tokens, which vllm/v1/spec_decode/ngram_proposer.py scans",
    )


def match_share(deployment: Drafting) -> Scalar:
    """Share of the sequences that draft in a step: all, or those whose look-up finds something."""
    return 1.0 if deployment.drafter != "ngram" or deployment.match is None else deployment.match


def drafted_tokens(deployment: Drafting) -> Scalar:
    """Drafted tokens that a step verifies per sequence, mean: the chain's, or all nodes of a tree."""
    if deployment.drafts is None:
        return 0.0
    if deployment.tree is None:
        return deployment.drafts if deployment.drafter != "ngram" else deployment.drafts * match_share(deployment)
    # `width` counts the nodes of one depth, `nodes` those of all depths so far.
    nodes, width = 0.0, 1.0
    for depth, branches in enumerate(deployment.tree):
        # Each node of one depth has `branches` children: nodes multiply with depth.
        width = width * branches
        # A fractional number of drafts makes a part of the deepest level, so the count is continuous.
        nodes = nodes + drafted_part(deployment.drafts, depth) * width
    return nodes


def tokens_per_sequence(deployment: Drafting) -> Scalar:
    """Tokens of one decoding sequence in one step: the newest and the drafted ones that it verifies."""
    return 1.0 if deployment.drafts is None else 1.0 + drafted_tokens(deployment)


def drafted_part(drafts: Scalar, depth: int) -> Scalar:
    """Share of the drafts of the depth, counted from 0, that are made: 1, or 0 beyond the last."""
    return minimum(positive_part(drafts - float(depth)), 1.0)


# Placement of the KV cache: its blocks, and the part that is kept outside the device.


SELECTED_CACHES = ("scaled", "plain")
"""Layout of an 8-bit cache of latent vectors that an indexer chooses from."""

OUTSIDE = ("host", "storage")
"""Memory beyond the device that may keep a part of its cache: fields of `Memory`."""


PLACEMENTS = ("weights_first", "experts_last", "interleaved")
"""How a device with further memories beside its own fills them: see `jaxroof.memory.placement.placement`."""


@struct
class CachePlacement:
    """How the KV cache is cut and where it is, and where weights are."""

    placement: str = word(
        "how weights and KV cache fill the memories of a device that has several",
        PLACEMENTS,
        "weights_first: the fastest memory first, the cache in what is left; experts_last: routed experts in the "
        "slowest; interleaved: all of it in proportion to bandwidths",
        default="weights_first",
        flag="WAY",
    )

    block_tokens: Scalar | None = count(
        "tokens of one block of the KV cache", "none: sequences take what they need", default=None, flag="TOKENS"
    )
    offloaded: Scalar | None = share(
        "share of every sequence's KV cache that is outside the device",
        "none: no copies",
        zero=True,
        open=True,
        default=None,
        flag="SHARE",
    )
    prefetched: Scalar = share(
        "1 where a layer's part of the KV cache comes while others compute",
        "0: kernels wait for it",
        zero=True,
        default=1.0,
    )
    offload_to: str = word(
        "where the part of the cache is that the device does not keep", OUTSIDE, default="host", flag="WAY"
    )
    selected_cache: str = word(
        "layout of an 8-bit cache of sparse latent attention",
        SELECTED_CACHES,
        "scaled: latent vectors with scales, rotated keys at 16 bits (vLLM, SGLang); plain: all of it at 8 bits",
        default="scaled",
    )


# Memory and tokens that an engine may use.


@struct
class MemoryLimits:
    """An engine's rule for the room of its KV cache, and the step that it profiles to find it."""

    memory_utilization: Scalar | None = share(
        "share of device memory the engine may use",
        "none: 0.9, vLLM's gpu_memory_utilization; with `memory_static` by SGLang's formula",
        default=None,
    )
    memory_of_free: Scalar = switch(
        "1 where that share is of the memory that all else leaves",
        "TensorRT-LLM's free_gpu_memory_fraction; 0: of all of it",
        default=0.0,
    )
    memory_static: Scalar = switch(
        "1 where that share is of weights and KV cache alone",
        "SGLang's mem_fraction_static: activations, logits and graphs take the rest; 0: they count too",
        default=0.0,
    )
    reserve_bytes: Scalar | None = number(
        "B",
        "memory per device for the driver, context and communication buffers",
        "none: by the device's memory and links",
        zero=True,
        default=None,
    )
    max_batched_tokens: Scalar = count(
        "tokens of the largest step", "which sizes activations", default=8192.0, source="vLLM's default, serving"
    )
    sampled_rows: Scalar | None = count(
        "sequences whose logits the engine's profiling step samples",
        "its max_num_seqs; none: 1,024 on devices of 70 GiB and more, the A100 excepted, else 256",
        zero=True,
        default=None,
    )
    logit_bytes: Scalar = number(
        "B",
        "bytes per logit of the sampler at its peak",
        "16-bit logits, 32-bit ones, sorted values and their numbers, probabilities, and the sort's buffers",
        zero=True,
        default=38.6,
        source="ours, fitted to vLLM's start-up logs: tests.evidence.startup_logs",
    )
    graph_bytes: Scalar = number(
        "B",
        "memory per layer that the engine keeps for CUDA graphs before it sizes the cache",
        "0: graphs come on top, as in vLLM before 0.21",
        zero=True,
        default=0.0,
    )


# Precisions at which activations, caches and messages are stored and sent.


COMPUTE = ("fp32", "tf32", "bf16", "fp16", "fp8", "int8", "fp4")
"""Precisions that attention products are multiplied in."""


@struct
class Precisions:
    """Bytes of elements, and the precision of attention."""

    activation_bytes: Scalar = number(
        "B", "bytes of an activation between kernels", default=2.0, source="bf16, as engines run it"
    )
    kv_bytes: Scalar = number("B", "bytes of a key or value in the cache", default=2.0)
    state_bytes: Scalar = number(
        "B", "bytes of an element of a linear-attention state", default=4.0, source="float32, as engines keep it"
    )
    communication_bytes: Scalar = number("B", "bytes of an element that a collective sends", default=2.0, source="bf16")
    gather_bytes: Scalar | None = number(
        "B",
        "bytes of an element that sequence parallelism gathers for a product",
        "1 where it is quantised before; none: as other collectives",
        default=None,
    )
    dispatch_bytes: Scalar = number(
        "B", "bytes of an element sent to experts", "1 where they are quantised before", default=2.0
    )
    attention_compute: str = word("precision of the attention matrix products", COMPUTE, default="bf16")


@struct
class Deployment(MemoryLimits, KernelChoice, Precisions, Communication, CachePlacement, Adapted, Drafting, Parallelism):
    """`dp` independent replicas of a model, each on the devices of `replica_devices`.

    Its fields are those of its concerns, from `Parallelism` to `MemoryLimits`.
    """
