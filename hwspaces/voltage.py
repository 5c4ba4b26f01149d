"""Voltage curve of an accelerator's cores, by its process."""

from hwspaces.derived import ASSUMPTION, Figures, Shared
from hwspaces.leaves import units
from hwspaces.technology_tables import aliases, table
from jaxroof.hardware import VoltageCurve

STATIC_SHARE = 0.5
"""Share of static power that follows the core voltage."""

_STATIC_SOURCE = f"{ASSUMPTION}: half of static power is spent at the cores' voltage; the rest feeds memory and links"
_FULL_SOURCE = "the most that the process takes, as boards do at full boost; {}"


def curved(figures: Figures, shared: Shared, where: str) -> list[str]:
    """Add the voltage curve of a device whose energy and process are known; returns what had to be assumed.

    Of a package with dies of two processes, the curve is that of the dies with cores. What a file gives stays.

    Raises:
      ValueError: one line, where the voltages do not stand in order: threshold < least <= full; or as
        `hwspaces.technology_tables.table`.
    """
    core = (figures.texts.get("process") or "").partition("+")[0]
    name = aliases(shared).get(core)
    known = "power.static" in figures.values and "energy.hbm" in figures.values
    assumed: list[str] = []
    if known and name in shared.silicon.get("voltage", {}):
        values, sources = table("voltage", name, shared, where)
        found = {leaf: (values[leaf], sources[leaf]) for leaf in ("threshold", "exponent", "least")}
        found["full"] = values["most"], _FULL_SOURCE.format(sources["most"])
        found["static_share"] = STATIC_SHARE, _STATIC_SOURCE
        guessed = [leaf for leaf, (_, source) in found.items() if ASSUMPTION in source]
        guessed = [leaf for leaf in guessed if f"power.curve.{leaf}" not in figures.values]
        for leaf, (value, source) in found.items():
            figures.add(f"power.curve.{leaf}", value, source)
        if guessed:
            assumed = [f"power.curve: {len(guessed)} of {len(found)} constants are those of any device in {name}"]
    _check(figures, where)
    return assumed


def _check(figures: Figures, where: str) -> None:
    volts = {
        leaf: figures.values.get(f"power.curve.{leaf}") for leaf, unit in units(VoltageCurve).items() if unit == "V"
    }
    for lower, upper, equal in (("threshold", "least", False), ("least", "full", True)):
        low, high = volts[lower], volts[upper]
        if low is None or high is None or low < high or (equal and low == high):
            continue
        words = "at most" if equal else "below"
        raise ValueError(f"{where}: power.curve: {lower} = {low:g} V must be {words} {upper} = {high:g} V")
