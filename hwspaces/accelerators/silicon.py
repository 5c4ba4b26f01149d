"""Voltage curve of an accelerator's cores, by its process."""

import dataclasses
from collections.abc import Callable, Mapping

from hwspaces.accelerators.derived import ASSUMPTION, DerivedFigures, Shared
from hwspaces.accelerators.technology_tables import aliases, table
from hwspaces.quantities.leaves import units
from hwspaces.quantities.units import formatted
from jaxroof.chip.area import PRECISION_BYTES, dies
from jaxroof.hardware import Hardware, VoltageCurve
from jaxroof.numerics.struct import declarations
from jaxroof.silicon import Areas, Costs, Silicon

UNKNOWN_SIZE = "its size is unknown: the area is what the areas per unit give"
"""Source of the scale of dies whose size nobody publishes."""

STATIC_SHARE = 0.5
"""Share of static power that follows the core voltage."""

_STATIC_SOURCE = f"{ASSUMPTION}: half of static power is spent at the cores' voltage; the rest feeds memory and links"
_FULL_SOURCE = "the most that the process takes, as boards do at full boost; {}"


def curved(figures: DerivedFigures, shared: Shared, where: str) -> list[str]:
    """Add the voltage curve of a device whose energy and process are known; returns what had to be assumed.

    Of a package with dies of two processes, the curve is that of the dies with cores. What a file gives stays.

    Raises:
      ValueError: one line, where the voltages do not stand in order: threshold < least <= full; or as
        `hwspaces.accelerators.technology_tables.table`.
    """
    core = (figures.texts.get("process") or "").partition("+")[0]
    name = aliases(shared).get(core)
    known = "power.static" in figures.values and "energy.hbm" in figures.values
    assumed: list[str] = []
    if known and name is not None and name in shared.silicon.get("voltage", {}):
        # The process gives a curve of any device in it; the voltage at full clock is the most that it takes.
        values, sources = table("voltage", name, shared, where)
        constants = {leaf: (values[leaf], sources[leaf]) for leaf in ("threshold", "exponent", "least")}
        constants["full"] = values["most"], _FULL_SOURCE.format(sources["most"])
        constants["static_share"] = STATIC_SHARE, _STATIC_SOURCE
        guessed = [leaf for leaf, (_, source) in constants.items() if ASSUMPTION in source]
        # What the file gives itself stays, whatever the process assumes of it.
        guessed = [leaf for leaf in guessed if f"power.curve.{leaf}" not in figures.values]
        for leaf, (value, source) in constants.items():
            figures.add(f"power.curve.{leaf}", value, source)
        if guessed:
            assumed = [f"power.curve: {len(guessed)} of {len(constants)} constants are those of any device in {name}"]
    _check(figures, where)
    return assumed


def _check(figures: DerivedFigures, where: str) -> None:
    volts = {
        leaf: figures.values.get(f"power.curve.{leaf}") for leaf, unit in units(VoltageCurve).items() if unit == "V"
    }
    for lower, upper, equal in (("threshold", "least", False), ("least", "full", True)):
        low, high = volts[lower], volts[upper]
        if low is None or high is None or low < high or (equal and low == high):
            continue
        words = "at most" if equal else "below"
        raise ValueError(f"{where}: power.curve: {lower} = {low:g} V must be {words} {upper} = {high:g} V")


# Dies and prices of an accelerator, from its process, die, memory technology and vendor.


REFERENCE = "N5"
"""The process that areas per unit are of."""

_DEFAULTS = {path: leaf.default for path, leaf in declarations(Silicon).items() if not leaf.required}

Add = Callable[[str, float, str], None]
"""Adds a leaf of `Silicon` with its value and its source, where it is not known yet."""


def scaled(hardware: Hardware, figures: DerivedFigures, shared: Shared, where: str) -> dict[str, float]:
    """`scale` and `shared_scale` of its silicon, so that dies of known size have it; 1 where it is unknown.

    Dies with cores and without are scaled apart where both sizes are known. Sources are added to `figures`.
    """
    if hardware.silicon is None:
        return {}
    name = figures.texts.get("die")
    known, sources = table("die", name, shared, where) if name else ({}, {})
    cores, others = (float(kind.area) for kind in dies(hardware))
    sizes = {}  # leaf -> (known, predicted, source)
    if "core_area" in known and "silicon.scale" not in figures.values:
        # Dies that carry those with cores are as large as these are, and not as they were predicted.
        silicon = dataclasses.replace(hardware.silicon, scale=known["core_area"] / cores)
        others = float(dies(dataclasses.replace(hardware, silicon=silicon))[1].area)
    # Scale = published size over predicted size, the same for all dies where only their sum is published.
    if "area" in known and "core_area" not in known:
        sizes = dict.fromkeys(("scale", "shared_scale"), (known["area"], cores + others, sources["area"]))
    elif "core_area" in known:
        sizes["scale"] = known["core_area"], cores, sources["core_area"]
        if "area" in known:
            sizes["shared_scale"] = known["area"] - known["core_area"], others, sources["area"]
    scales = {}
    for leaf in ("scale", "shared_scale"):
        path, value, source = f"silicon.{leaf}", 1.0, UNKNOWN_SIZE
        if leaf in sizes:
            size, predicted, cited = sizes[leaf]
            value, source = (
                size / predicted,
                f"{formatted(size, 'm2')} over {formatted(predicted, 'm2')} predicted; {cited}",
            )
        if path not in figures.values:
            figures.add(path, value, source)
            scales[leaf] = value
    return scales


def siliconed(figures: DerivedFigures, shared: Shared, where: str) -> list[str]:
    """Add silicon and costs of a device whose process and memory technology are known; returns what was assumed.

    Nothing is added where the process, the memory's technology or the number of cores is unknown.

    Raises:
      ValueError: one line, for an unknown die, or as `table`.
    """
    text, technology = figures.texts.get("process"), figures.texts.get("memory.hbm.technology")
    processes = _processes(text, shared)
    # True where the number of cores is missing or assumed: areas of cores cannot follow then.
    unknown_cores = figures.sources.get("cores.count", ASSUMPTION).startswith(ASSUMPTION)
    if not processes or technology is None or technology not in shared.silicon.get("stack", {}) or unknown_cores:
        return []
    assumed = _dies(figures, shared, where, processes, technology)
    return assumed + _prices(figures, shared, where, processes, technology)


def _dies(
    figures: DerivedFigures, shared: Shared, where: str, processes: tuple[str, str], technology: str
) -> list[str]:
    """Add what `Silicon` needs; returns what was assumed. The first value of a leaf stays: the usual ones come last."""
    values, name = figures.values, figures.texts.get("die")
    area, cited = table("area", "usual", shared, where)
    die, of_die = table("die", name, shared, where) if name else ({}, {})
    stack, of_stack = table("stack", technology, shared, where)

    def add(leaf: str, value: float, source: str) -> None:
        figures.add(f"silicon.{leaf}", value, source)

    # Area per unit of each part: memory that comes in chips has another interface than stacks.
    interface = "stack" if "stacked" in stack else "chip"
    for part in Areas.__dataclass_fields__:
        key = interface if part == "stack" else part
        add(f"areas.{part}", area[key], cited[key])
    add("largest_die", area["largest_die"], cited["largest_die"])
    usual_density = _add_processes(add, processes, shared, where)
    _add_stack(add, figures, stack, of_stack)

    # Layout: a die of fewer transistors per area than its process usually has is laid out more widely. Transistors of
    # dies in two processes are published as a sum, which says nothing about either.
    if "area" in die and "transistors" in die and processes[0] == processes[1]:
        density = die["transistors"] / die["area"]
        exponent = area["layout_exponent"]
        source = f"({usual_density * 1e-12:.4g} / {density * 1e-12:.4g} transistors per um2) ^ {exponent:g}"
        add("layout", (usual_density / density) ** exponent, f"{source}; {of_die['transistors']}")

    _add_used_shares(add, values, die, of_die)

    # Parts that no other figure counts, and numbers of dies.
    if "memory.l2.capacity" in values and "memory.l2.bandwidth" not in values:
        source = f"the L2, whose bandwidth is unknown: {figures.sources['memory.l2.capacity']}"
        add("other_memory", die.get("other_memory", 0.0) + values["memory.l2.capacity"], source)
    for leaf, key in (
        ("graphics", "graphics"),
        ("shared_lanes", "shared_lanes"),
        ("other_memory", "other_memory"),
        ("dies", "count"),
    ):
        if key in die:
            add(leaf, die[key], of_die[key])
    if "stacked" in die:
        add("base_ratio", area["base_ratio"], cited["base_ratio"])
    if "shared_count" in die:
        add("shared_dies", die["shared_count"], of_die["shared_count"])
        add("separate", 1.0, of_die["shared_count"])

    for leaf, usual in _DEFAULTS.items():
        if leaf not in ("scale", "shared_scale"):
            add(leaf, usual, "the usual: nothing says otherwise")
    if not name:
        return ["silicon: no die named: spare parts, float64 units and layout unknown, taken as none and the usual"]
    return [f"silicon: die {name}: {text}" for text in dict.fromkeys(of_die.values()) if ASSUMPTION in text]


def _add_processes(add: Add, processes: tuple[str, str], shared: Shared, where: str) -> float:
    """Add how both processes scale areas of `REFERENCE`; returns the mean of their densities in transistors per m2."""
    reference, _ = table("process", REFERENCE, shared, where)
    densities = []
    for side, process in zip(("core", "shared"), processes, strict=True):
        own, sources = table("process", process, shared, where)
        densities.append(own["density"])
        # Logic shrinks with the density of transistors, SRAM with the area of its cell; analog circuits have a factor
        # of their own.
        add(f"{side}_process.logic", reference["density"] / own["density"], sources["density"])
        add(f"{side}_process.sram", own["sram_cell"] / reference["sram_cell"], sources["sram_cell"])
        add(f"{side}_process.analog", own["analog"], sources["analog"])
    return sum(densities) / 2.0


def _add_stack(add: Add, figures: DerivedFigures, stack: Mapping[str, float], of_stack: Mapping[str, str]) -> None:
    """Add bandwidth and capacity of one memory stack: the device's over its stacks, or the technology's."""
    values = figures.values
    stacks = values.get("memory.hbm.stacks")
    for leaf in ("bandwidth", "capacity"):
        # A device with a known number of stacks has its own bandwidth and capacity per stack.
        if stacks is None or f"memory.hbm.{leaf}" not in values:
            add(f"stack_{leaf}", stack[leaf], of_stack[leaf])
        else:
            source = f"memory.hbm.{leaf} over {stacks:g} ({figures.sources['memory.hbm.stacks']})"
            add(f"stack_{leaf}", values[f"memory.hbm.{leaf}"] / stacks, source)


def _add_used_shares(
    add: Add, values: Mapping[str, float], die: Mapping[str, float], of_die: Mapping[str, str]
) -> None:
    """Add the shares of a die's cores, L2, stacks and matrix units that the device uses, and its float64 rate."""
    count, clock, stacks = values["cores.count"], values.get("cores.clock"), values.get("memory.hbm.stacks")
    # Dies are sold with some parts switched off, which take area all the same.
    for leaf, key, used in (("cores_used", "cores", count), ("l2_used", "l2", values.get("memory.l2.capacity"))):
        if key in die and used is not None:
            add(leaf, min(1.0, used / die[key]), of_die[key])
    if "stacks" in die and stacks is not None:
        add("stacks_used", min(1.0, stacks / die["stacks"]), of_die["stacks"])
    if "matrix_per_core" in die and clock is not None:
        width = _width(values) / (clock * count * die["matrix_per_core"])
        add("matrix_used", min(1.0, width), of_die["matrix_per_core"])
    if "double_per_core" in die and clock is not None:
        add("double_flops", die["double_per_core"] * count * clock, of_die["double_per_core"])


def _prices(
    figures: DerivedFigures, shared: Shared, where: str, processes: tuple[str, str], technology: str
) -> list[str]:
    """Add what `Costs` needs."""
    core, of_core = table("wafer", processes[0], shared, where)
    outer, of_outer = table("wafer", processes[1], shared, where)
    memory, of_memory = table("memory_price", technology, shared, where)
    rest, of_rest = table("cost", "usual", shared, where)
    # The vendor's constants stand over the usual ones, those of the architecture over the vendor's.
    for name in (figures.texts.get("vendor"), figures.texts.get("architecture")):
        if name is not None and name in shared.silicon.get("cost", {}):
            own, of_own = table("cost", name, shared, where)
            rest, of_rest = rest | own, of_rest | of_own
    stack, _ = table("stack", technology, shared, where)
    prices = {
        "wafer": (core["price"], of_core["price"]),
        "shared_wafer": (outer["price"], of_outer["price"]),
        "defects": (core["defects"], of_core["defects"]),
        "memory": (memory["price"], of_memory["price"]),
    }
    # Memory that comes in chips lies beside the package, which is a cheaper one then.
    if "stacked" not in stack:
        prices["package"] = (rest["chip_package"], of_rest["chip_package"])
        prices["stack_footprint"] = (0.0, "memory chips lie on the board")
    for leaf in units(Costs):
        figures.add(f"costs.{leaf}", *(prices[leaf] if leaf in prices else (rest[leaf], of_rest[leaf])))
    guessed = [leaf for leaf in units(Costs) if figures.sources[f"costs.{leaf}"].startswith(ASSUMPTION)]
    among = " and ".join(leaf for leaf in ("margin", "life") if leaf in guessed)
    words = f", {among} among them" if among else ""
    return [f"costs: {len(guessed)} of {len(units(Costs))} constants{words}"] if guessed else []


def _processes(text: str | None, shared: Shared) -> tuple[str, str] | None:
    """Processes of the dies with cores and of the rest; None where one is unknown."""
    names = aliases(shared)
    # `N5+N6` is a package of dies with cores in N5 and others in N6.
    written = text.split("+") if text else []
    if not written or len(written) > 2 or any(part not in names for part in written):
        return None
    return names[written[0]], names[written[-1]]


def _width(values: Mapping[str, float]) -> float:
    """16-bit FLOP/s that the matrix units are built for, as `jaxroof.chip.area.matrix_width`."""
    return max(values.get(f"matrix.{name}", 0.0) * size / 2.0 for name, size in PRECISION_BYTES.items())
