"""How far silicon and software fall short of the datasheet: interchangeable pytrees of named constants."""

from jaxroof.efficiency.derated import Efficiency, Host, KindEfficiency, LinkEfficiency, datasheet

__all__ = ["Efficiency", "Host", "KindEfficiency", "LinkEfficiency", "datasheet"]
