"""Powers of second, joule, dollar, metre and volt in every number of a scenario, for Euler's theorem."""

from sweeps.ask.leaves import leaf_unit
from sweeps.ask.names import variable

BASES = ("s", "J", "USD", "m", "V")
"""Units that elasticities have to add up in. Bytes and operations are counted by constants of kernels as well."""

_BASE_OF = {
    **{"s": {"s": 1}, "min": {"s": 1}, "Hz": {"s": -1}, "W": {"J": 1, "s": -1}, "J": {"J": 1}, "USD": {"USD": 1}},
    **{"m": {"m": 1}, "m2": {"m": 2}, "V": {"V": 1}},
}

EFFICIENCY_UNITS = {"energy": "J/FLOP", "energy_rate": "FLOP/s", "idle_power": "W"}
"""SI units of constants of kernels that are no times, shares, counts or cycles, by the last part of their path."""


def powers(unit: str) -> dict[str, int]:
    """Powers of `BASES` in a unit as `hwspaces.quantities.units` writes it: "m2 s/B" -> {"m": 2, "s": 1}; those of 0
    left out."""
    found: dict[str, int] = {}
    for place, part in enumerate(unit.split("/")):
        for factor in part.split():
            for base, power in _BASE_OF.get(factor, {}).items():
                found[base] = found.get(base, 0) + (power if place == 0 else -power)
    return {base: power for base, power in found.items() if power}


def leaf_powers(path: str) -> dict[str, int]:
    """Powers of `BASES` in the number at `path` of a scenario."""
    name = path.rpartition(".")[2]
    if path.startswith("efficiency.") and name in EFFICIENCY_UNITS:
        return powers(EFFICIENCY_UNITS[name])
    return powers(leaf_unit(path))


def metric_powers(name: str) -> dict[str, int]:
    """Powers of `BASES` in a metric. Dollars, which a dataset counts as numbers, are said by its name."""
    if "usd_per_" in name or name in ("device_cost", "device_price", "training_usd"):
        return {"USD": 1}
    if name.endswith("_per_usd"):
        return {"USD": -1}
    return powers(variable(name).unit)


def follows_units(name: str) -> bool:
    """Whether a metric changes with the choice of units only as its own unit says.

    The distance from the evidence does not, nor do intervals that widen with it: boxes of measured sizes and rates are
    constants, in units of their own.
    """
    return not name.endswith(("extrapolation", "_spread", "_spread_independent"))
