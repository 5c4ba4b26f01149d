"""Messages of training by the parallelism that they belong to, and what of a ring's hides behind attention."""

from jaxroof.op import ATTENTION_PHASES, AnyOp, Collective, Kernel, Ops
from jaxroof.smooth import minimum, positive_part
from jaxroof.struct import Scalar


def collectives_of(ops: Ops, parallelism: str) -> list[str]:
    """Names of the collectives of one parallelism."""
    return [name for name, op in ops.items() if isinstance(op, Collective) and op.parallelism == parallelism]


def ring_parts(ops: Ops, times: dict[str, Scalar]) -> tuple[dict[str, Scalar], dict[str, Scalar]]:
    """Time in s of context-parallel messages that attention waits for, and of those that hide behind it, by op.

    In a ring, while one device's keys and values travel, attention to those that are there runs: what hides is
    min(messages, attention). An all-gather is over before attention begins: nothing hides.

    Args:
      ops: of one pass, forward or backward.
      times: s of each over all its runs.

    Source: Liu, Zaharia & Abbeel, arXiv:2310.01889 (ring attention), section 3; Llama Team, arXiv:2407.21783, section
    3.3.2 (all-gather).
    """
    attention = {op.layer: name for name, op in ops.items() if _fused_attention(op)}
    exposed, hidden = {}, {}
    for name in collectives_of(ops, "cp"):
        op = ops[name]
        if op.behind == "attention" and op.layer in attention:
            cover = times[attention[op.layer]]
            exposed[name] = positive_part(times[name] - cover)
            hidden[name] = minimum(times[name], cover)
        else:
            exposed[name] = times[name]
    return exposed, hidden


def _fused_attention(op: AnyOp) -> bool:
    """Whether `op` is one kernel of self-attention: what is not fused writes its scores and overlaps with nothing."""
    return op.role == "attention" and isinstance(op, Kernel) and op.kind in ATTENTION_PHASES
