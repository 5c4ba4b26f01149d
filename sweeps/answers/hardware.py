"""Dies and money in `jaxroof hardware NAME`: area by part, dies, cost by part, price, cost of owning."""

from typing import Any

from sweeps.ask.names import COST_PARTS, PARTS


def die_record(entry: Any) -> dict[str, Any]:
    """For machines: m2 and USD by part; null where silicon or costs are unknown."""
    from hwspaces.accelerators.unbuilt import SOURCE, area_ends
    from jaxroof.chip.area import area_parts, die_area, dies
    from jaxroof.chip.cost import cost_parts, device_cost, device_price

    # Without known silicon there are no areas, and without areas no costs.
    hardware = entry.hardware
    if hardware.silicon is None:
        return {"die": entry.die, "area_m2": None, "dies": None, "cost_usd": None, "price_usd": None}
    # Ends of 90 %, of dies whose size is unknown; the cost differs by the area alone.
    ends, uncertain = area_ends(entry), {}
    if ends is not None:
        uncertain = {"area_interval_m2": [float(die_area(end)) for end in ends], "area_interval_source": SOURCE}
        if hardware.costs is not None:
            uncertain["cost_interval_usd"] = [float(device_cost(end)) for end in ends]
    kinds = [{"area_m2": float(kind.area), "count": float(kind.count)} for kind in dies(hardware)]
    costs = {} if hardware.costs is None else {name: float(usd) for name, usd in cost_parts(hardware).items()}
    return {
        "die": entry.die,
        "area_m2": {name: float(area) for name, area in area_parts(hardware).items()},
        "dies": [kind for kind in kinds if kind["count"]],
        "cost_usd": costs or None,
        "price_usd": float(device_price(hardware)) if costs else None,
        **uncertain,
    }


def print_die(entry: Any, out: Any) -> None:
    """Print the tables of area and cost; one line where they are unknown."""
    from hwspaces import formatted
    from sweeps.answers.tables import table

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
    # The area of a kind is that of all its dies together; 1e6 mm2 are 1 m2.
    count = " + ".join(
        f"{kind['count']:g} of {kind['area_m2'] / kind['count'] * 1e6:.0f} mm2" for kind in record["dies"]
    )
    areas.add_row("all dies" if entry.die is None else f"all dies ({entry.die})", f"{total * 1e6:.1f}", "")
    out.print(areas)
    out.print(f"dies    {count}")
    if "area_interval_m2" in record:
        low, high = (_two_digits(1e6 * end) for end in record["area_interval_m2"])
        out.print(f"die area {total * 1e6:,.0f} mm2, 90 % within {low} to {high}: {record['area_interval_source']}")
    out.print()
    if record["cost_usd"] is None:
        out.print("cost unknown")
        return
    # What making the device costs in USD: the sum of which the parts are shares.
    making_cost = sum(record["cost_usd"].values())
    costs = table("cost", "USD", "share", numbers=("USD", "share"))
    for name, usd in record["cost_usd"].items():
        costs.add_row(COST_PARTS[name], f"{usd:,.0f}", f"{usd / making_cost:.1%}")
    costs.add_section()
    costs.add_row("to make", f"{making_cost:,.0f}", "")
    margin = entry.hardware.costs.margin
    costs.add_row("to buy" if margin == 1.0 else f"to buy, margin {margin:g}", f"{record['price_usd']:,.0f}", "")
    out.print(costs)
    if "cost_interval_usd" in record:
        low, high = (_two_digits(end) for end in record["cost_interval_usd"])
        out.print(f"to make {making_cost:,.0f} USD, {low} to {high} at the ends of the die area; prices are not in it")
    hardware = entry.hardware
    # The cost of electricity needs a power in W; without a TDP the cost of owning is left out.
    if hardware.power.tdp is not None:
        from jaxroof.chip.cost import capital_rate, energy_price

        # Both in USD/s: the capital, and the price of a J times the TDP in W.
        capital, energy = float(capital_rate(hardware)), float(energy_price(hardware)) * hardware.power.tdp
        words = f"{formatted(capital, 'USD/s')} for device, server and place and {formatted(energy, 'USD/s')}"
        out.print(f"owning  {words} for electricity at TDP, per hour of use")


def _two_digits(value: float) -> str:
    """A number as an end of an interval."""
    return f"{float(f'{value:.2g}'):,.0f}"


def print_estimates(entry: Any, out: Any) -> None:
    """Print what the estimates of a chip in a few lines do to a decode and a prefill step; nothing without any."""
    from hwspaces import formatted, leaf_unit
    from hwspaces.accelerators.described import estimates_of
    from sweeps.answers.tables import table
    from sweeps.studies.estimates import LEAST, MODEL, STEPS, effects_of_estimates

    estimates = estimates_of(entry)
    if not estimates:
        return
    effects = effects_of_estimates(entry)
    headings = [f"{step}\n{change}" for step in STEPS for change in ("if half", "if twice")]
    rows = table("estimate", "value", *headings, numbers=("value", *headings))
    for one in effects:
        changes = (ratios[step] - 1.0 for step in STEPS for ratios in (one.half, one.twice))
        rows.add_row(one.path, formatted(one.value, leaf_unit(one.path), 4), *(f"{change:+.1%}" for change in changes))
    out.print(rows)
    out.print(
        f"{len(estimates)} figures are estimates; above are those that change the time of a step by {LEAST:.1%} or "
        f"more: {MODEL}, 32 sequences at 2,048 tokens, and a prompt of 4,096.\n"
    )


# Prices in `jaxroof hardware NAME`: one figure for each term of renting, and every offer that it is from.


def price_record(entry: Any) -> dict[str, Any]:
    """For machines: the price, its kind, date and source, and every offer; null where there is no price."""
    offers = {"offers": [row._asdict() for row in _offers(entry)]}
    return ({"price_usd_per_hour": None} if entry.price is None else entry.price.record()) | offers


def print_prices(entry: Any, out: Any) -> None:
    """Print the price, those of other terms, and the offers as a table."""
    from hwspaces.accelerators.prices import TERMS, summarised
    from sweeps.answers.tables import table
    from sweeps.ask.text import escaped

    rows = _offers(entry)
    if entry.price is None:
        out.print("price unknown: give price_USD_per_h in its file, or --set hardware.price=2USD/h")
    else:
        out.print(escaped(f"price   {entry.price.text}", breaks=True))
    for terms in TERMS:
        other = summarised([row for row in rows if row.terms == terms])
        if other is not None and other != entry.price:
            out.print(escaped(f"        {other.text}", breaks=True))
    if not rows:
        return
    offers = table("terms", "USD", "seller", "kind", "date", "source", numbers=("USD",))
    for row in rows:
        source = f"{row.source}: {row.note}" if row.note else row.source
        words = TERMS.get(row.terms, "to buy")
        offers.add_row(words, f"{row.usd:,.6g}", _seller(row), row.kind, row.date, source)
    out.print(offers)
    out.print("USD per device and hour; to buy: per device")


def _offers(entry: Any) -> tuple[Any, ...]:
    """Rows of the prices file; none for an accelerator of a user's file, whatever its name."""
    from hwspaces.accelerators.load import CATALOGUE_PLACE
    from hwspaces.accelerators.prices import offers

    # A user's file may reuse a name of the catalogue, whose offers are not for that device.
    return offers().get(entry.name, ()) if entry.file.startswith(CATALOGUE_PLACE) else ()


def _seller(row: Any) -> str:
    return f"{row.seller}, {row.region}" if row.region else row.seller or "-"


# Constants of technologies: what is known of each kind, and how many constants are assumptions.


def print_technologies() -> None:
    """Print the names of each kind, and one line with the counts."""
    from hwspaces.accelerators.constants import KNOWN, technology_counts, technology_names
    from sweeps.answers.tables import console, table

    names = table("kind", "names")
    for kind in KNOWN:
        names.add_row(kind, ", ".join(technology_names(kind)))
    out = console()
    out.print(names)
    given, assumed = technology_counts()
    out.print(f"\ntechnology: {given} constants, {assumed} of them assumptions")


def technology_record() -> dict[str, Any]:
    """Every constant by kind, name and key: value in the SI unit, unit, source and whether it is an assumption."""
    from hwspaces.accelerators.constants import KNOWN, technology_constants, technology_names

    return {
        kind: {name: _record(technology_constants(kind, name)) for name in technology_names(kind)} for kind in KNOWN
    }


def _record(constants: dict[str, Any]) -> dict[str, Any]:
    return {
        key: {"value": one.value, "unit": one.unit, "source": one.source, "assumed": one.assumed}
        for key, one in constants.items()
    }


def brief_catalogue(entries: list[Any]) -> Any:
    """The names of the catalogue by vendor, those with most accelerators first."""
    from sweeps.answers.brief import Brief

    vendors: dict[str, list[str]] = {}
    for entry in entries:
        vendors.setdefault(entry.vendor or "others", []).append(entry.name)
    by_size = sorted(vendors.items(), key=lambda one: -len(one[1]))
    return Brief(
        asked=f"{len(entries)} accelerators of {len(vendors)} vendors",
        facts=tuple((name[:11], ", ".join(names)) for name, names in by_size),
        next="jaxroof hardware NAME; your own: --template",
    )


PEAKS = ("matrix.bf16", "matrix.fp16", "matrix.fp8", "matrix.fp4", "matrix.int8")
"""Figures of arithmetic that are asked for most."""


def brief_entry(entry: Any) -> Any:
    """What is asked most of an accelerator, and which of its figures are estimates."""
    from hwspaces import catalogue, formatted, leaf_unit
    from hwspaces.accelerators.described import estimates_of
    from sweeps.answers.brief import Brief
    from sweeps.studies.estimates import LEAST, effects_of_estimates

    def shown(path: str) -> str:
        return formatted(entry.figures[path], leaf_unit(path)) if path in entry.figures else "unknown"

    peaks = [f"{shown(path)} {path.removeprefix('matrix.')}" for path in PEAKS if path in entry.figures]
    memory = f"{shown('memory.hbm.capacity')} at {shown('memory.hbm.bandwidth')}"
    link = f"{shown('links.scale_up.bandwidth')} per direction"
    facts = [("dense peaks", ", ".join(peaks) or "unknown"), ("memory", memory), ("link", link)]
    facts += [("TDP", shown("power.tdp"))] if "power.tdp" in entry.figures else []
    facts += [("price", entry.price.text)] if entry.price is not None else []
    facts += [("also called", ", ".join(entry.aliases))] if entry.aliases else []
    if estimates := estimates_of(entry):
        paths = [one.path for one in effects_of_estimates(entry)]
        words = (
            f"{len(estimates)} figures; {len(paths)} change a step's time by {LEAST:.1%} or more: {', '.join(paths)}"
        )
        facts.append(("estimates", words))
    # A file of one's own is named by its path.
    name = entry.name if entry.name in catalogue() else entry.file or entry.name
    following = f"jaxroof request --hardware {name}"
    return Brief(asked=entry.name, facts=tuple(facts), notes=entry.notes, next=following)


COLUMNS = {
    "16 bit\nTF/s": (("matrix.bf16", "matrix.fp16"), 1e12),
    "fp8\nTF/s": (("matrix.fp8",), 1e12),
    "fp4\nTF/s": (("matrix.fp4",), 1e12),
    "int8\nTOP/s": (("matrix.int8",), 1e12),
    "memory\nGB": (("memory.hbm.capacity",), 1e9),
    "memory\nTB/s": (("memory.hbm.bandwidth",), 1e12),
    "link\nGB/s": (("links.scale_up.bandwidth",), 1e9),
    "TDP\nW": (("power.tdp",), 1.0),
    "price\nUSD/h": (("price",), 1 / 3600.0),
}
"""Columns of the catalogue's table: header -> (the first figure that is known, size of its unit in SI units)."""


def print_catalogue(entries: list[Any]) -> None:
    """Print the catalogue as a table."""
    from sweeps.answers.tables import console, table
    from sweeps.data.labels import number

    out = console()
    if out.short(lambda: brief_catalogue(entries)):
        return
    catalogue = table("name", "vendor", "architecture", *COLUMNS, "price\nof", "sold\nby", numbers=COLUMNS)
    for entry in entries:
        announced = " *" if entry.status == "announced" else ""
        # Of several figures for one column the first known one counts: bf16 before fp16.
        known = [[entry.figures[path] for path in paths if path in entry.figures] for paths, _ in COLUMNS.values()]
        figures = [
            (values[0] if values else None, unit) for values, (_, unit) in zip(known, COLUMNS.values(), strict=True)
        ]
        # Thousands separators are left out to keep the columns narrow.
        cells = ["-" if figure is None else number(figure / unit).replace(",", "") for figure, unit in figures]
        price = ("-", "-") if entry.price is None else ((entry.price.date or "-")[:7], entry.price.seller)
        catalogue.add_row(entry.name, entry.vendor or "-", f"{entry.architecture or '-'}{announced}", *cells, *price)
    out.print(catalogue)
    out.print(f"\n{len(entries)} accelerators; * announced, - unknown or absent.")
    out.print("TF/s: dense matrix peak in TFLOP/s, 16 bit: bf16, else fp16. link: scale-up bandwidth per direction.")
    out.print(
        "price: median of one kind of seller, on demand unless --prices says otherwise; estimate: nobody sells it; "
        "bought: nobody rents it out, its price as new over its life."
    )
    out.print("`jaxroof hardware NAME` shows every figure of one and where it is from.")


def print_entry(entry: Any) -> None:
    """Print every figure of one accelerator, where it is from, its dies and its price."""
    from hwspaces import formatted, leaf_unit
    from sweeps.answers.tables import console, table
    from sweeps.ask.text import escaped

    out = console()
    if out.short(lambda: brief_entry(entry)):
        return
    # Words that are missing are left out; all may come from a user's file.
    words = [entry.product, entry.architecture, entry.status, entry.date and f"looked up {entry.date}", entry.file]
    out.print(escaped(f"{entry.name}: {', '.join(word for word in words if word)}", breaks=True))
    if entry.aliases:
        out.print(escaped(f"also called {', '.join(entry.aliases)}", breaks=True))
    out.print()
    figures = table("figure", "value", "source", numbers=("value",))
    for path, value in entry.figures.items():
        figures.add_row(path, formatted(value, leaf_unit(path), 4), entry.sources.get(path, "-"))
    out.print(figures)
    out.print()
    print_estimates(entry, out)
    print_die(entry, out)
    out.print()
    print_prices(entry, out)
    # Sentences on assumptions and notes are full lines, each with its kind.
    for kind, sentences in (("assumed", entry.assumptions), ("note", entry.notes)):
        if sentences:
            out.print()
        for sentence in sentences:
            out.print(escaped(f"{kind}  {sentence}", breaks=True))
