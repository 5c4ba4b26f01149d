"""Collectives of `shard_map` in a trace: their operation, message, participants and stride."""

from typing import NamedTuple

from workloads.traced.elementwise import MESSAGES
from workloads.traced.graph import Node, Value


class Message(NamedTuple):
    """One collective."""

    operation: str  # one of `jaxroof.op.COLLECTIVES`
    buffers: tuple[Value, ...]  # whose bytes are the message's, as nccl-tests counts them
    participants: float
    stride: float | None  # devices from one participant to the next


def message_of(node: Node) -> Message:
    """What a collective primitive sends.

    Raises:
      ValueError: one line, for an axis that is of no `shard_map`.
    """
    operation = MESSAGES[node.name]
    axes = _axes(node)
    mesh = node.params.get("mesh", {})
    for axis in axes:
        if axis not in mesh:
            raise ValueError(f"{node.name} over the axis {axis!r}, which is of no shard_map here")
    groups = node.params.get("axis_index_groups")
    participants = float(len(groups[0])) if groups else 1.0
    strides = []
    for axis in axes:
        size, stride = mesh[axis]
        participants = participants if groups else participants * float(size)
        strides += [stride] if size > 1 else []
    stride = float(min(strides)) if strides else None
    whole = node.outputs if operation == "all_gather" else node.inputs
    if operation == "send_recv":
        participants = 2.0
    return Message(operation, tuple(whole), participants, stride)


def _axes(node: Node) -> tuple[str, ...]:
    named = next((node.params[key] for key in ("axes", "axis_name") if key in node.params), ())
    return (named,) if isinstance(named, str) else tuple(named)
