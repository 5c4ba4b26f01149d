"""Energy of an accelerator's operations and bytes, by its process and the technology of memory and links."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from hwspaces.quantities.leaves import units
from hwspaces.quantities.units import from_key, nearest, positive
from jaxroof.hardware import TIERS, Energy

ASSUMPTION = "assumption"
"""What the text of a source begins with when no source gives the figure."""

WIDEST = 16384.0
"""16-bit FLOP per clock of the widest core that works through tiles one by one: `jaxroof.hardware.LARGEST_CORE`. Such
cores save no energy by being wider than the reference: products of an SM with 8192 draw what those of one with 4096
do, one process later. A larger core is a systolic array, which passes operands on, and counts as this wide."""

AIR_COOLED = 1000.0
"""W of TDP beyond which static power grows no further: the most that modules cooled by air are sold for (MI350X, HGX
B200). The same dies under liquid (MI355X, GB200) have a higher limit for kernels, and draw no more between them."""

_PROCESS = {leaf: units(Energy)[leaf] for leaf in ("vector", "exp", "l2", "scratchpad")}
_PROCESS |= {"static_share": "1", "width": "1"}
_TEXTS = ("source", "precisions", "scratchpads")
_FITTED = ("bf16", "fp16", "fp8", "fp32")
_WIDE = ("matrix.bf16", "matrix.fp16", "matrix.fp8", "matrix.int8")


@dataclasses.dataclass(frozen=True)
class Technologies:
    """Tables `[energy.KIND.NAME]` of the technologies with their sources written out, by name."""

    process: Mapping[str, Mapping[str, Any]]
    memory: Mapping[str, Mapping[str, Any]]
    link: Mapping[str, Mapping[str, Any]]

    def __or__(self, other: "Technologies") -> "Technologies":
        """Both, those of `other` where they have the same name."""
        names = [field.name for field in dataclasses.fields(self)]
        return Technologies(**{name: {**getattr(self, name), **getattr(other, name)} for name in names})


def technologies(tables: Mapping[str, Any], where: str) -> Technologies:
    """The tables `[energy.process.NAME]`, `[energy.memory.NAME]` and `[energy.link.NAME]` of a file.

    Raises:
      ValueError: one line, when `energy` holds another table.
    """
    kinds = [field.name for field in dataclasses.fields(Technologies)]
    for kind in tables.get("energy", {}):
        if kind not in kinds:
            raise ValueError(f"{where}: table energy.{kind} is not known{nearest(kind, kinds)}")
    named = tables.get("source", {})
    resolved = {}
    for kind in kinds:
        named_tables = tables.get("energy", {}).get(kind, {})
        _check(named_tables, f"{where}: energy.{kind}")
        resolved[kind] = {name: table | _cited(table, named, where) for name, table in named_tables.items()}
    return Technologies(**resolved)


def energized(figures: Any, known: Technologies, where: str) -> list[str]:
    """Add joules per operation and byte and static power to `figures`; returns what had to be assumed.

    Products: those of the process at its reference width, times sqrt(width / FLOP per clock of one core) for narrower
    cores and systolic arrays, as wide matrix units spend less on fetching operands. What a file gives stays. Nothing
    where the process, the memory's technology or that of a link is unknown.

    Args:
      figures: a `hwspaces.accelerators.derived.DerivedFigures`, to which rates and links have been added.
      known: None: no tables.

    Raises:
      ValueError: one line, for an unknown key or base, or a value that is not positive, in the tables.
    """
    process, memory = figures.texts.get("process"), figures.texts.get("memory.hbm.technology")
    process = process and process.partition("+")[0]  # of the dies with cores
    if known is None or process not in known.process or memory not in known.memory:
        return []
    assumed = []

    def add(path: str, value: float, source: str) -> None:
        if path not in figures.values and source.startswith(ASSUMPTION):
            assumed.append(f"{path}: {source}")
        figures.add(path, value, source)

    values, source = process_energies(process, known.process, f"{where}: energy.process")
    sources = unfitted(process, known.process)
    width, share = values.pop("width"), values.pop("static_share")
    # Energies of products are given at a reference width of cores and follow the device's own.
    narrower, said = _narrower(figures, width)
    for leaf, value in values.items():
        # Float32 products may run on vector units: their energy does not follow the width of matrix units.
        wide = leaf.startswith("matrix.") and leaf != "matrix.fp32"
        told = sources.get(leaf, source)
        add(f"energy.{leaf}", value * (narrower if wide else 1.0), told + said * wide)
    # J per byte moved through the memory and each tier of links that the device has, by their technologies.
    tables = {"hbm": (known.memory, memory)}
    for tier in TIERS:
        if f"links.{tier}.bandwidth" in figures.values:
            tables[tier] = (known.link, figures.texts.get(f"links.{tier}.technology"))
    for leaf, (table, name) in tables.items():
        if name in table:
            own = {key: value for key, value in table[name].items() if key != "source"}
            read = dict(
                from_key(k, v, f"{where}: energy.{name}", {"moved": units(Energy)["hbm"]}) for k, v in own.items()
            )
            add(f"energy.{leaf}", read["moved"], table[name]["source"])
    # Static power in W is a share of TDP, up to the limit of air cooling.
    if "power.tdp" in figures.values:
        limit = min(figures.values["power.tdp"], AIR_COOLED)
        add("power.static", share * limit, f"{ASSUMPTION}: {share:g} of TDP up to {AIR_COOLED:g} W ({source})")
    return [_merged(assumed)] if assumed else []


def _check(found: object, where: str) -> None:
    """ValueError where it holds no tables, or something that must be a text or a table in them is none."""
    if not isinstance(found, Mapping):
        raise ValueError(f"{where} = {found!r} is not a table of tables")
    for name, table in found.items():
        if not isinstance(table, Mapping):
            raise ValueError(f"{where}.{name} = {table!r} is not a table")
        for key in (*_TEXTS, "base"):
            if not isinstance(table.get(key, ""), str):
                raise ValueError(f"{where}.{name}: {key} = {table[key]!r} is not text")
        if not isinstance(table.get("matrix", {}), Mapping):
            raise ValueError(f"{where}.{name}: matrix = {table['matrix']!r} is not a table")


def _cited(table: Mapping[str, Any], named: Mapping[str, str], where: str) -> dict[str, str]:
    texts = {"source": f"given in {where}"} | {key: table[key] for key in _TEXTS if key in table}
    return {key: named.get(text, text) for key, text in texts.items()}


def _merged(assumed: list[str]) -> str:
    """One sentence of many, those with the same source together."""
    paths: dict[str, list[str]] = {}
    for text in assumed:
        path, _, source = text.partition(": ")
        paths.setdefault(source, []).append(path)
    return "; ".join(f"{', '.join(names)}: {source}" for source, names in paths.items())


def unfitted(process: str, tables: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Figures of a process, or of its base, that have another source than its own -> that source."""
    table = tables[process]
    own = tables[table["base"]] if "base" in table else table
    # A process with a base has the base's energies times one scale, and so the base's sources.
    scaled = f"; {table.get('scale', 1.0):g} times {table['base']}'s: {table['source']}" if "base" in table else ""
    cited = {"scratchpad": own[_TEXTS[2]]} if _TEXTS[2] in own else {}
    if _TEXTS[1] in own:
        others = (key.partition("_")[0] for key in own.get("matrix", {}))
        cited |= {f"matrix.{p}": own[_TEXTS[1]] for p in others if p not in _FITTED}
    return {leaf: text + scaled for leaf, text in cited.items()}


def _narrower(figures: Any, width: float) -> tuple[float, str]:
    """Energy of a matrix FLOP over that at the reference width, and the words for its source."""
    rates = [figures.values[leaf] for leaf in _WIDE[:2] if leaf in figures.values]
    clock, count = figures.values.get("cores.clock"), figures.values["cores.count"]
    # Without cores and clock there is no width; a device whose cores are unknown is taken as one core.
    if not rates or clock is None or count == 1.0:
        return 1.0, ""
    own = rates[0] / (clock * count)
    # Cores save nothing by being wider than the reference, but for systolic arrays, which count as `WIDEST`.
    own = WIDEST if own > WIDEST else min(own, width)
    return (width / own) ** 0.5, f"; times sqrt({width:g} / {own:.0f} FLOP per clock and core)"


def process_energies(
    name: str, tables: Mapping[str, Mapping[str, Any]], where: str, above: tuple[str, ...] = ()
) -> tuple[dict[str, float], str]:
    """Figures of a process, those of its base times its scale, and their source."""
    table = tables[name]
    place = f"{where}.{name}"
    if name in above:
        raise ValueError(f"{place}: base = {table['base']!r} leads back to it")
    # A process measured itself: its figures, and J per FLOP of products by precision.
    if "base" not in table:
        matrix = table.get("matrix", {})
        flat = {key: value for key, value in table.items() if key not in (*_TEXTS, "matrix")}
        values = dict(_number(key, value, place) for key, value in flat.items())
        for key, value in matrix.items():
            plain, number = from_key(key, value, f"{place}.matrix")
            values[f"matrix.{plain}"] = number
        return values, table["source"]
    if table["base"] not in tables:
        raise ValueError(f"{place}: base = {table['base']!r} is not known{nearest(table['base'], tables)}")
    values, source = process_energies(table["base"], tables, where, (*above, name))
    scale = positive(table.get("scale", 1.0), f"{place}: scale")
    # The scale is one of energies; width and static share are none.
    unscaled = ("width", "static_share")
    scaled = {leaf: value if leaf in unscaled else value * scale for leaf, value in values.items()}
    if "static_share" in table:
        scaled["static_share"] = positive(table["static_share"], f"{place}: static_share")
    return scaled, f"{table['source']}; {scale:g} times {table['base']}'s ({source})"


def _number(key: str, value: object, place: str) -> tuple[str, float]:
    if _PROCESS.get(key) == "1":
        return key, positive(value, f"{place}: {key}")
    return from_key(key, value, place, _PROCESS)
