"""How far silicon and software fall short of the datasheet: interchangeable pytrees of named constants."""

from jaxroof.efficiency.derated import Efficiency, Host, KindEfficiency, LinkEfficiency, datasheet
from jaxroof.efficiency.kernels import Kernels
from jaxroof.efficiency.published import kernel
from jaxroof.efficiency.timing import Spread, Timing

__all__ = [
    "Efficiency",
    "Host",
    "Kernels",
    "KindEfficiency",
    "LinkEfficiency",
    "Spread",
    "Timing",
    "datasheet",
    "kernel",
]
