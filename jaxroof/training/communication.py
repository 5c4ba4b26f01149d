"""Which parallelism a collective of training belongs to, and what of it hides behind kernels by itself."""

from jaxroof.deployment import Deployment
from jaxroof.op import Op
from jaxroof.smooth import minimum, positive_part
from jaxroof.struct import Scalar

KINDS = ("tp", "pp", "dp", "ep", "cp")
"""Parallelism that communication is counted by."""

BEGINNINGS = {
    "ep": ("dispatch", "return", "combine_reduce_scatter"),
    "cp": ("context_",),
    "pp": ("stage_",),
    "dp": ("gradient_", "weight_", "expert_gradient_", "expert_weight_"),
}
"""How names of collectives begin, by kind; all others are between tensor-parallel devices."""


def kind_of(name: str) -> str:
    """The kind of a collective, by its op's name."""
    plain = name.rpartition(".")[2]
    return next((kind for kind, beginnings in BEGINNINGS.items() if plain.startswith(beginnings)), "tp")


def ring_parts(
    ops: dict[str, Op], times: dict[str, Scalar], deployment: Deployment
) -> tuple[dict[str, Scalar], dict[str, Scalar]]:
    """Time in s of context-parallel messages that attention waits for, and of those that hide behind it, by op.

    In a ring, while one device's keys and values travel, attention to those that are there runs: what hides is
    min(messages, attention). An all-gather is over before attention begins: nothing hides.

    Args:
      ops: of one pass, forward or backward.
      times: s of each over all its runs.

    Source: Liu, Zaharia & Abbeel, arXiv:2310.01889 (ring attention), section 3; Llama Team, arXiv:2407.21783, section
    3.3.2 (all-gather).
    """
    exposed, hidden = {}, {}
    for name, op in ops.items():
        if op.kind != "collective" or kind_of(name) != "cp":
            continue
        prefix, dot, plain = name.rpartition(".")
        attention = prefix + dot + plain.replace("context_exchange", "prefill_attention")
        if deployment.context_kind == "ring" and attention in times:
            exposed[name] = positive_part(times[name] - times[attention])
            hidden[name] = minimum(times[name], times[attention])
        else:
            exposed[name] = times[name]
    return exposed, hidden
