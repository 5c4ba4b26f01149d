"""Loop nests: accesses, time and energy of an einsum that is tiled over a hierarchy of memories."""

from jaxroof.nests.cost import NestCost, nest_cost
from jaxroof.nests.counts import Accesses, accesses
from jaxroof.nests.structs import Fanout, Limits, Machine, Mapping, Memory, Problem, Tensor

__all__ = [
    "Accesses",
    "Fanout",
    "Limits",
    "Machine",
    "Mapping",
    "Memory",
    "NestCost",
    "Problem",
    "Tensor",
    "accesses",
    "nest_cost",
]
