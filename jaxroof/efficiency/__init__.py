"""How far silicon and software fall short of the datasheet: interchangeable pytrees of named constants."""

from jaxroof.efficiency.derated import Efficiency, Host, KindEfficiency, LinkEfficiency, datasheet
from jaxroof.efficiency.timing import Spread, Timing

__all__ = ["Efficiency", "Host", "KindEfficiency", "LinkEfficiency", "Spread", "Timing", "datasheet"]
