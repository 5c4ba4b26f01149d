"""Messages of training by the parallelism that they belong to, and what of them hides behind passes or attention."""

from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.smooth import minimum, positive_part
from jaxroof.numerics.struct import Scalar
from jaxroof.op import ATTENTION_PHASES, AnyOp, Collective, Kernel, Ops
from jaxroof.training.training import Training


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
    # One fused attention kernel per layer covers that layer's ring.
    attention = {op.layer: name for name, op in ops.items() if _fused_attention(op)}
    exposed, hidden = {}, {}
    for name in collectives_of(ops, "cp"):
        op = ops[name]
        if isinstance(op, Collective) and op.behind == "attention" and op.layer in attention:
            # A ring step hides as far as the attention on the part before lasts.
            cover = times[attention[op.layer]]
            exposed[name] = positive_part(times[name] - cover)
            hidden[name] = minimum(times[name], cover)
        else:
            exposed[name] = times[name]
    return exposed, hidden


def data_parallel_time(
    sums: dict[str, Scalar],
    training: Training,
    number: Scalar,
    forward: Scalar,
    backward: Scalar,
    first: Scalar | None = None,
    last: Scalar | None = None,
) -> tuple[Scalar, dict[str, Scalar]]:
    """Time in s of messages between copies of the weights in one iteration that is exposed, and that is hidden, the
    latter by the passes that hide it: every or the first forward one, every or the last backward one.

    ZeRO 0: one all-reduce of gradients behind the last backward pass. 1: reduce-scatter there, and all-gather of
    updated weights behind the first forward pass. 2: gradients are scattered after every micro-batch, as shards of
    them cannot take up sums of others. 3: weights are gathered in every forward and backward pass, each behind it.
    Messages hide behind a share `overlap` of the passes.

    Args:
      sums: totals of `training_terms`.
      number: micro-batches.
      forward, backward: s of one micro-batch.
      first, last: s of passes that run beside what is sent once: gathered weights, scattered gradients. None: one pass.

    Source: Rajbhandari et al., arXiv:1910.02054, sections 5 and 7; Zhao et al., arXiv:2304.11277 (FSDP), section 3.3.
    """
    zero = training.zero
    reduce, scatter, gather = (sums[f"dp_{kind}"] for kind in ("all_reduce", "reduce_scatter", "all_gather"))
    # FSDP frees weights after each use: gathered in every forward and in every backward pass.
    each_forward = jnp.where(zero >= 3.0, gather, 0.0)
    # Shards cannot accumulate gradients of others: scattered in every micro-batch.
    each_backward = each_forward + jnp.where(zero >= 2.0, scatter, 0.0)
    once_forward = jnp.where((zero >= 1.0) & (zero < 3.0), gather, 0.0)
    # ZeRO-0 and 1 accumulate locally and send once, behind the last backward pass.
    once_backward = jnp.where(zero < 1.0, reduce, jnp.where(zero < 2.0, scatter, 0.0))
    first, last = (forward if first is None else first), (backward if last is None else last)
    places = {
        "every forward": (number, each_forward, forward),
        "every backward": (number, each_backward, backward),
        "first forward": (1.0, once_forward, first),
        "last backward": (1.0, once_backward, last),
    }
    exposed, hidden = 0.0, {}
    for place, (times, sent, cover) in places.items():
        cover = training.overlap * cover
        # Only what is longer than its cover is exposed.
        exposed = exposed + times * positive_part(sent - cover)
        hidden[place] = jnp.asarray(times * minimum(sent, cover))
    return exposed, hidden


def _fused_attention(op: AnyOp) -> bool:
    """Whether `op` is one kernel of self-attention: what is not fused writes its scores and overlaps with nothing."""
    return op.role == "attention" and isinstance(op, Kernel) and op.kind in ATTENTION_PHASES
