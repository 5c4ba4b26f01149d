"""Collectives of layers: their messages, and the devices of the deployment that take part."""

from jaxroof.deployment import Deployment
from jaxroof.layers.linear import launched
from jaxroof.op import Op
from jaxroof.struct import Scalar


def collective(
    kind: str, message_bytes: Scalar, participants: Scalar, count: Scalar, stride: Scalar | None = None
) -> Op:
    """One collective of `participants` devices, `stride` apart (None: neighbours); none is launched for one device.

    Args:
      kind: one of `jaxroof.op.COLLECTIVES`.
      message_bytes: B of the whole buffer, as nccl-tests counts its size.
      count: how often the step runs it.
    """
    return Op(
        kind="collective",
        collective=kind,
        count=count,
        kernels=launched(message_bytes) * launched(participants - 1.0),
        message_bytes=message_bytes,
        participants=participants,
        stride=stride,
    )


def all_reduce(name: str, tokens: Scalar, hidden: Scalar, deployment: Deployment, count: Scalar) -> dict[str, Op]:
    """Sum over tp devices of one layer's output; with sequence parallelism as its two halves, of equal volume.

    Source of the halves: Korthikanti et al., arXiv:2205.05198, section 4.2.2.
    """
    message = tokens * hidden * deployment.communication_bytes
    if not deployment.sequence_parallel:
        return {f"{name}_all_reduce": collective("all_reduce", message, deployment.tp, count)}
    return {
        f"{name}_reduce_scatter": collective("reduce_scatter", message, deployment.tp, count),
        f"{name}_all_gather": collective("all_gather", message, deployment.tp, count),
    }


def context_exchange(cached_bytes: Scalar, deployment: Deployment, count: Scalar) -> dict[str, Op]:
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
    if deployment.context_kind == "ring":
        op = collective("send_recv", cached_bytes / cp, cp, count * (cp - 1.0), stride)
    else:
        op = collective("all_gather", cached_bytes, cp, count, stride)
    return {"context_exchange": op}


def context_combine(output_bytes: Scalar, deployment: Deployment, count: Scalar) -> dict[str, Op]:
    """Sum of the partial attention outputs of decoding context-parallel devices; none without context parallelism."""
    if deployment.cp is None:
        return {}
    return {"context_combine": collective("all_reduce", output_bytes, deployment.cp, count, deployment.tp)}
