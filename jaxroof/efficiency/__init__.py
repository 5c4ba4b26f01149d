"""Shortfall of silicon and software against the datasheet: interchangeable pytrees of named constants."""

from jaxroof.efficiency.derated import Decoding, Host, KindEfficiency, LinkEfficiency
from jaxroof.efficiency.efficiency import Efficiency, constant_declaration, datasheet, entry_of, in_phases, kernel
from jaxroof.efficiency.exchange import ExpertExchange, Forwarding
from jaxroof.efficiency.hull import Hull
from jaxroof.efficiency.kernels import Kernels
from jaxroof.efficiency.surface import Surfaces
from jaxroof.efficiency.timing import Spread, Timing

__all__ = [
    "Decoding",
    "Efficiency",
    "ExpertExchange",
    "Forwarding",
    "Host",
    "Hull",
    "Kernels",
    "KindEfficiency",
    "LinkEfficiency",
    "Spread",
    "Surfaces",
    "Timing",
    "constant_declaration",
    "datasheet",
    "entry_of",
    "in_phases",
    "kernel",
]
