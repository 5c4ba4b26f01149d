"""Collectives of layers: their messages, and the devices of the deployment that take part."""

import dataclasses

from jaxroof.deployment import Deployment
from jaxroof.fanout import Fanout
from jaxroof.layers.linear import launched
from jaxroof.numerics.struct import Scalar
from jaxroof.op import Collective, Ops, in_phase


def collective(
    operation: str,
    message_bytes: Scalar,
    participants: Scalar,
    count: Scalar,
    stride: Scalar | None = None,
    *,
    parallelism: str | None = None,
    role: str | None = None,
    behind: str | None = None,
    fanout: Fanout | None = None,
) -> Collective:
    """One collective of `participants` devices, `stride` apart (None: neighbours); none is launched for one device.

    Args:
      operation: one of `jaxroof.op.COLLECTIVES`.
      message_bytes: B of the whole buffer, as nccl-tests counts its size.
      count: how often the step runs it.
      parallelism, role, behind, fanout: as `Collective` and `Op` have them.
    """
    return Collective(
        count=count,
        kernels=launched(message_bytes) * launched(participants - 1.0),
        role=role,
        operation=operation,
        message_bytes=message_bytes,
        participants=participants,
        stride=stride,
        parallelism=parallelism,
        behind=behind,
        fanout=fanout,
    )


def all_reduce(
    name: str,
    tokens: Scalar,
    hidden: Scalar,
    deployment: Deployment,
    count: Scalar,
    *,
    role: str = "reduction",
    behind: str | None = "product",
) -> Ops:
    """Sum over tp devices of one layer's output; with sequence parallelism as its two halves, of equal volume.

    Source of the halves: Korthikanti et al., arXiv:2205.05198, section 4.2.2.
    """
    # Megatron's tensor parallelism: partial sums of all tokens' hidden states, after each row-parallel product.
    message = tokens * hidden * deployment.communication_bytes
    # A ring all-reduce is a reduce-scatter and an all-gather: splitting it moves as many bytes and leaves the norm
    # between them sharded.
    operations = ("reduce_scatter", "all_gather") if deployment.sequence_parallel else ("all_reduce",)
    ops: Ops = {
        f"{name}_{operation}": collective(
            operation, message, deployment.tp, count, parallelism="tp", role=role, behind=behind
        )
        for operation in operations
    }
    if deployment.sequence_parallel and deployment.gather_bytes is not None and behind == "product":
        # what is gathered for a product is quantised, forward and back; what is reduced is not
        summed, gathered = ops.values()
        # Quantised before the gather: devices gather what the next product reads, in its low precision.
        low = tokens * hidden * deployment.gather_bytes
        changes = {"back_bytes": low}, {"message_bytes": low, "back_bytes": message}
        pairs = zip(ops, (summed, gathered), changes, strict=True)
        return {name: dataclasses.replace(op, **change) for name, op, change in pairs}
    return ops


def context_exchange(cached_bytes: Scalar, deployment: Deployment, count: Scalar) -> Ops:
    """Keys and values of a prompt passed to every context-parallel device; none without context parallelism.

    Ring: cp - 1 times the share of one device to its neighbour; or one all-gather of them all.

    Args:
      cached_bytes: B of keys and values that the queries of all devices can reach.

    Source: Liu, Zaharia & Abbeel, arXiv:2310.01889 (ring attention); Llama Team, arXiv:2407.21783, section 3.3.2
    (all-gather).
    """
    cp, stride = deployment.cp, deployment.tp
    if cp is None:
        return {}
    # Ring attention hides a part's transfer behind attention on the part before.
    if deployment.context_kind == "ring":
        # While one device's keys and values travel, attention to those that are there runs.
        part, times = cached_bytes / cp, count * (cp - 1.0)
        op = collective("send_recv", part, cp, times, stride, parallelism="cp", role="context", behind="attention")
    else:
        # All-gather (Llama 3): one message in front of attention, not hidden, but with all keys at once for any mask.
        op = collective("all_gather", cached_bytes, cp, count, stride, parallelism="cp", role="context")
    return in_phase({"context_exchange": op}, "prefill")


def context_combine(output_bytes: Scalar, deployment: Deployment, count: Scalar) -> Ops:
    """Sum of the partial attention outputs of decoding context-parallel devices; none without context parallelism."""
    if deployment.cp is None:
        return {}
    cp, stride = deployment.cp, deployment.tp
    # Decode under context parallelism: each device attends to its part of the cache and partial outputs are summed.
    op = collective("all_reduce", output_bytes, cp, count, stride, parallelism="cp", role="context")
    return in_phase({"context_combine": op}, "decode")
