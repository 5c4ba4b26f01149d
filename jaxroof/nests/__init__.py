"""Loop nests: accesses, time and energy of an einsum that is tiled over a hierarchy of memories."""

from jaxroof.nests.cost import NestCost, nest_cost
from jaxroof.nests.counts import Accesses, accesses
from jaxroof.nests.structs import Limits, Mapping, NestFanout, NestMachine, NestMemory, NestProblem, NestTensor

__all__ = [
    "Accesses",
    "NestFanout",
    "Limits",
    "NestMachine",
    "Mapping",
    "NestMemory",
    "NestCost",
    "NestProblem",
    "NestTensor",
    "accesses",
    "nest_cost",
]
