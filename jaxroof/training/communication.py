"""Which parallelism a collective of training belongs to, and what of it hides behind kernels by itself."""

from jaxroof.deployment import Deployment
from jaxroof.op import Op
from jaxroof.smooth import minimum
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


def ring_hidden(ops: dict[str, Op], times: dict[str, Scalar], deployment: Deployment) -> dict[str, Scalar]:
    """Time in s of context-parallel messages that hides behind attention, by their op's name; of rings alone.

    While one device's keys and values travel, attention to those that are there runs: min(messages, attention).

    Args:
      ops: of one pass, forward or backward.
      times: s of each over all its runs.

    Source: Liu, Zaharia & Abbeel, arXiv:2310.01889 (ring attention), section 3.
    """
    if deployment.cp is None or deployment.context_kind != "ring":
        return {}
    hidden = {}
    for name in ops:
        prefix, dot, plain = name.rpartition(".")
        attention = prefix + dot + plain.replace("context_exchange", "prefill_attention")
        if plain.startswith("context_exchange") and attention in times:
            hidden[name] = minimum(times[name], times[attention])
    return hidden
