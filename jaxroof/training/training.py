"""Training workload: the batch and its split, recomputation, and what is stored per parameter."""

from jaxroof.deployment import Deployment, degree
from jaxroof.struct import Scalar, static, struct

RECOMPUTES = ("none", "selective", "full")
"""What the backward pass computes again, in the order of the float codes: nothing, the attention core, whole layers.

Source: Korthikanti et al., arXiv:2205.05198, section 5 (selective), section 4 (full).
"""


@struct
class LoRA:
    """Low-rank adapters: W + B A with A of (inputs, rank) and B of (rank, outputs); W is frozen.

    Source: Hu et al., arXiv:2106.09685, section 4.1.
    """

    rank: Scalar
    targets: tuple[str, ...] = static()  # of jaxroof.deployment.ADAPTED


@struct
class Training:
    """One iteration of synchronous training: every device's gradients of `global_batch` sequences, and one update.

    Words that a search varies are float codes, so that one compiled function evaluates all of them.
    """

    global_batch: Scalar  # sequences per iteration
    micro_batch: Scalar = 1.0  # sequences per attention group that go through the model at once
    seq: Scalar  # tokens per sequence
    zero: Scalar = 0.0  # 0 to 3: shards nothing, optimiser states, also gradients, also weights; arXiv:1910.02054
    recompute: Scalar = 0.0  # index into RECOMPUTES
    schedule: Scalar = 1.0  # index into jaxroof.training.schedules.SCHEDULES; 1: 1f1b
    virtual_stages: Scalar = 1.0  # chunks of layers per device; more than 1 with the interleaved schedule
    overlap: Scalar = 1.0  # share of a pass behind which data-parallel messages hide; ours: all of it
    dropout: Scalar = 0.0  # 1: masks of dropout are stored, 1 B per element
    offload: Scalar = 0.0  # 1: optimiser states are in host memory and stream through the device
    host_bandwidth: Scalar | None = None  # B/s per direction between device and host; None: unknown
    tokens: Scalar | None = None  # to train on in all; None: not asked
    weight_bytes: Scalar = 2.0  # B per parameter in 16 bits; Micikevicius et al., arXiv:1710.03740
    gradient_bytes: Scalar = 2.0  # B per parameter: 2 for 16 bits, 4 for main gradients in float32 (Megatron-LM)
    optimizer_bytes: Scalar = 12.0  # B per parameter: float32 weights, two moments of Adam; arXiv:1910.02054, 3.1
    lora: LoRA | None = None  # None: every weight is trained


def groups(deployment: Deployment) -> Scalar:
    """Attention groups of all replicas: ways that sequences are split."""
    return deployment.dp * degree(deployment.attention_dp)


def micro_batches(training: Training, deployment: Deployment) -> Scalar:
    """Micro-batches that every replica works through in one iteration."""
    return training.global_batch / (groups(deployment) * training.micro_batch)


def gradient_ways(deployment: Deployment) -> tuple[Scalar, Scalar]:
    """Devices that hold the same weights: those outside of experts, and those of an expert."""
    outer = deployment.dp
    return outer * degree(deployment.attention_dp) * degree(deployment.cp), outer
