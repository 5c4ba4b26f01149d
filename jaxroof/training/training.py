"""Training workload: the batch and its split, recomputation, and what is stored per parameter."""

from jaxroof.deployment import Deployment, dense_copies, sequence_ways
from jaxroof.numerics.struct import Scalar, count, number, share, static, struct
from jaxroof.training.schedules import SCHEDULES

RECOMPUTES = ("none", "selective", "full")
"""What the backward pass computes again, in the order of the float codes: nothing, the attention core, whole layers.

Source: Korthikanti et al., arXiv:2205.05198, section 5 (selective), section 4 (full).
"""


@struct
class LoRA:
    """Low-rank adapters: W + B A with A of (inputs, rank) and B of (rank, outputs); W is frozen.

    Source: Hu et al., arXiv:2106.09685, section 4.1.
    """

    rank: Scalar = count("rank of the adapters")
    targets: tuple[str, ...] = static()  # of jaxroof.deployment.ADAPTED
    dropout: Scalar = number(
        "1", "1 where adapters drop out of their inputs", zero=True, most=1.0, discrete=True, default=0.0
    )


@struct
class Training:
    """One iteration of synchronous training: every device's gradients of `global_batch` sequences, and one update.

    Words that a search varies are float codes, so that one compiled function evaluates all of them.
    """

    global_batch: Scalar = count("sequences per iteration", flag="N")
    micro_batch: Scalar = count(
        "sequences per micro-batch and attention group", "that go through the model at once", default=1.0, flag="N"
    )
    seq: Scalar = count("tokens per sequence", condition=True, flag="TOKENS")
    zero: Scalar = count(
        "ZeRO stage: 1 shards optimiser states, 2 gradients too, 3 weights too",
        zero=True,
        most=3.0,
        words="0, 1, 2 or 3",
        source="Rajbhandari et al., arXiv:1910.02054",
        flag="STAGE",
        discrete=True,
        default=0.0,
    )
    recompute: Scalar = number(
        "1",
        "what is computed again: 0 nothing, 1 attention cores, 2 layers",
        codes=RECOMPUTES,
        default=0.0,
        flag="WHAT",
    )
    schedule: Scalar = number(
        "1",
        "pipeline schedule: 0 gpipe, 1 1f1b, 2 interleaved, 3 zero_bubble, 4 dualpipe",
        codes=SCHEDULES,
        default=1.0,
    )
    virtual_stages: Scalar = count(
        "chunks of layers per device", "more than 1 with the interleaved schedule", default=1.0
    )
    overlap: Scalar = share(
        "share of a pass that hides messages between copies of the weights",
        "and of interleaved chunks those to the next stage",
        zero=True,
        default=1.0,
        source="ours: all of it",
    )
    contention: Scalar = share(
        "share by which kernels take longer while messages run beside them",
        zero=True,
        default=0.189,
        source="Lee et al., arXiv:2507.03114, abstract: 18.9 % in the mean of A100, H100, MI210, MI250",
    )
    dropout: Scalar = number(
        "1", "1 where masks of dropout are stored", "1 B per element", zero=True, most=1.0, discrete=True, default=0.0
    )
    offload: Scalar = number(
        "1",
        "1 where optimiser states are in host memory",
        "and stream through the device",
        zero=True,
        most=1.0,
        discrete=True,
        default=0.0,
    )
    host_bandwidth: Scalar | None = number(
        "B/s", "bandwidth per direction between device and host", "such as 55GB/s", default=None, flag="RATE"
    )
    tokens: Scalar | None = count(
        "tokens to train on", "adds time, energy and cost of all", condition=True, default=None, flag="TOKENS"
    )
    weight_bytes: Scalar = number(
        "B", "bytes of a weight", default=2.0, source="16 bits; Micikevicius et al., arXiv:1710.03740"
    )
    gradient_bytes: Scalar = number(
        "B", "bytes of a gradient", "4 for main gradients in float32 (Megatron-LM)", default=2.0
    )
    optimizer_bytes: Scalar = number(
        "B",
        "bytes of optimiser states per parameter",
        default=12.0,
        source="float32 weights, two moments of Adam; arXiv:1910.02054, 3.1",
    )
    lora: LoRA | None = None  # None: every weight is trained


def groups(deployment: Deployment) -> Scalar:
    """Groups of requests of all replicas: ways that sequences are split."""
    return sequence_ways(deployment)


def micro_batches(training: Training, deployment: Deployment) -> Scalar:
    """Micro-batches that every replica works through in one iteration."""
    return training.global_batch / (groups(deployment) * training.micro_batch)


def gradient_ways(deployment: Deployment) -> tuple[Scalar, Scalar]:
    """Devices that hold the same weights: those outside of experts, and those of an expert."""
    outer = deployment.dp
    return dense_copies(deployment), outer
