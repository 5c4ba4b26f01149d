"""Dies and money in `jaxroof hardware NAME`: area by part, dies, cost by part, price, cost of owning."""

from typing import Any

from sweeps.ask.names import COST_PARTS, PARTS


def die_record(entry: Any) -> dict[str, Any]:
    """For machines: m2 and USD by part; null where silicon or costs are unknown."""
    from jaxroof.chip.area import area_parts, dies
    from jaxroof.chip.cost import cost_parts, device_price

    hardware = entry.hardware
    if hardware.silicon is None:
        return {"die": entry.die, "area_m2": None, "dies": None, "cost_usd": None, "price_usd": None}
    kinds = [{"area_m2": float(kind.area), "count": float(kind.count)} for kind in dies(hardware)]
    costs = {} if hardware.costs is None else {name: float(usd) for name, usd in cost_parts(hardware).items()}
    return {
        "die": entry.die,
        "area_m2": {name: float(area) for name, area in area_parts(hardware).items()},
        "dies": [kind for kind in kinds if kind["count"]],
        "cost_usd": costs or None,
        "price_usd": float(device_price(hardware)) if costs else None,
    }


def print_die(entry: Any, out: Any) -> None:
    """Print the tables of area and cost; one line where they are unknown."""
    from hwspaces import formatted
    from sweeps.cli.tables import table

    record = die_record(entry)
    if record["area_m2"] is None:
        out.print("area and cost unknown: no process, memory technology or number of cores that is known")
        return
    total = sum(record["area_m2"].values())
    areas = table("area", "mm2", "share", numbers=("mm2", "share"))
    for name, area in record["area_m2"].items():
        if area:
            areas.add_row(PARTS[name], f"{area * 1e6:.1f}", f"{area / total:.1%}")
    areas.add_section()
    count = " + ".join(
        f"{kind['count']:g} of {kind['area_m2'] / kind['count'] * 1e6:.0f} mm2" for kind in record["dies"]
    )
    areas.add_row("all dies" if entry.die is None else f"all dies ({entry.die})", f"{total * 1e6:.1f}", "")
    out.print(areas)
    out.print(f"dies    {count}\n")
    if record["cost_usd"] is None:
        out.print("cost unknown")
        return
    made = sum(record["cost_usd"].values())
    costs = table("cost", "USD", "share", numbers=("USD", "share"))
    for name, usd in record["cost_usd"].items():
        costs.add_row(COST_PARTS[name], f"{usd:,.0f}", f"{usd / made:.1%}")
    costs.add_section()
    costs.add_row("to make", f"{made:,.0f}", "")
    costs.add_row("to buy", f"{record['price_usd']:,.0f}", "")
    out.print(costs)
    hardware = entry.hardware
    if hardware.power.tdp is not None:
        from jaxroof.chip.cost import capital_rate, energy_price

        capital, energy = float(capital_rate(hardware)), float(energy_price(hardware)) * hardware.power.tdp
        words = f"{formatted(capital, 'USD/s')} for device, server and place and {formatted(energy, 'USD/s')}"
        out.print(f"owning  {words} for electricity at TDP, per hour of use")
