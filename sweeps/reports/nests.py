"""Sections of mapped loop nests: levels of a layer with loops, accesses and energy, and the layers of a network."""

from collections.abc import Mapping
from typing import Any

from sweeps.reports import charts
from sweeps.reports.blocks import Chart, Column, Section, Table, quantity, said, words
from sweeps.reports.facts import beside
from sweeps.studies.map.search import tried_text

COUNTS = ("reads", "fills", "updates")


def layer_section(record: Mapping[str, Any]) -> Section:
    """The section of a record of `map` with one layer."""
    macs, energy = record["macs"], record["energy"]
    answer = (
        f"{record['cycles']:,.0f} cycles, {said('time', record['time'])}, with {said('mfu', record['utilization'])} of "
        "the units busy"
    )
    answer += f"; {_joules(energy)}, {_joules(energy / macs)} per MAC." if energy else "."
    answer += "" if record["fits"] else " It does not fit."
    facts = [("Architecture", str(record["architecture"])), ("MACs", f"{macs:,.0f}"), *_search(record.get("search"))]
    blocks: list[Table | Chart] = [*_energy(record["energies"]), *_busy(record), _levels(record), _accesses(record)]
    title = f"{record['layer']} on {record['architecture']}"
    return Section("loop nest", title, answer, facts, blocks, **beside(record))


def _search(search: Any) -> list[tuple[str, str]]:
    if not isinstance(search, Mapping):
        return []
    return [("Search", tried_text(search["evaluated"], search["complete"], search["space"]))]


def _energy(energies: Mapping[str, float]) -> list[Chart]:
    parts = {name: value for name, value in sorted(energies.items(), key=lambda part: -part[1]) if value}
    return [charts.parts("Energy by component", "energy", parts, "J")] if parts else []


def _busy(record: Mapping[str, Any]) -> list[Chart]:
    """Instances of every level that the mapping uses."""
    used = {name: count for name, count in record["instances"].items() if count}
    names = words("level", "level", list(used))
    counts = Column("instances", "Instances in use", list(used.values()))
    description = (
        f"Instances of each level that the mapping uses: {', '.join(f'{n} {c:,.0f}' for n, c in used.items())}."
    )
    spec = charts.bars(names, counts, None, [], description)
    note = f"{said('mfu', record['utilization'])} of the units are busy."
    return [Chart("Instances in use", spec, description, note)]


def _levels(record: Mapping[str, Any]) -> Table:
    """Levels from the outermost inwards: loops, what is kept, accesses of all instances and energy."""
    loops, keeps, total = record["mapping"]["loops"], record["mapping"]["keeps"], record["energy"]
    sums: dict[str, dict[str, float]] = {}
    for name, one in record["accesses"].items():
        level = sums.setdefault(name.rpartition(".")[0], dict.fromkeys(COUNTS, 0.0))
        for count in COUNTS:
            level[count] += one[count] * record["instances"].get(name.rpartition(".")[0], 1.0)
    names = [*loops, *(name for name in record["energies"] if name not in loops)]
    energies = [record["energies"].get(name) for name in names]
    columns = [
        words("level", "level", names),
        words(
            "loops", "loops", [loops.get(name) or None for name in names], "factor of every dimension, outermost first"
        ),
        words("keeps", "keeps", [", ".join(keeps.get(name, ())) or None for name in names]),
        Column("instances", "instances", [record["instances"].get(name) for name in names]),
        quantity("energy", "energy", energies, "J"),
        Column("share", "share (%)", [one / total if one and total else None for one in energies], 0.01, "1"),
    ]
    columns += [
        Column(count, f"{count} (words)", [sums.get(name, {}).get(count) for name in names], meaning="of all instances")
        for count in COUNTS
    ]
    return Table("Levels", columns, "From the outermost level inwards; loops of a level run outside of those below it.")


def _accesses(record: Mapping[str, Any]) -> Table:
    rows = [(*name.rpartition(".")[::2], one) for name, one in record["accesses"].items()]
    columns = [
        words("level", "level", [level for level, _, _ in rows]),
        words("tensor", "tensor", [tensor for _, tensor, _ in rows]),
    ]
    columns += [
        Column(name, f"{name} (words)", [one[name] for _, _, one in rows], meaning="of one instance")
        for name in ("tile", *COUNTS)
    ]
    columns.append(quantity("energy", "energy", [one["energy"] for _, _, one in rows], "J"))
    return Table("Accesses", columns, "Words of one instance; energy of all.")


def network_section(record: Mapping[str, Any]) -> Section:
    """The section of a record of `map` with a network."""
    layers, energy = record["layers"], record["energy"]
    answer = f"{record['cycles']:,.0f} cycles, {said('time', record['time'])}"
    answer += f"; {_joules(energy)}, {_joules(energy / record['macs'])} per MAC." if energy else "."
    facts = [
        ("Architecture", str(record["architecture"])),
        ("MACs", f"{record['macs']:,.0f}"),
        ("Layers", f"{sum(int(one['count']) for one in layers):,}, of which {len(layers)} differ"),
    ]
    blocks: list[Table | Chart] = [*_energy(record["energies"]), _layer_bars(record), _layers(record)]
    title = f"{record['network']} on {record['architecture']}"
    return Section("loop nests", title, answer, facts, blocks, **beside(record))


def _layer_bars(record: Mapping[str, Any]) -> Chart:
    """Energy of the layers, or time where the architecture has no energies; all occurrences of a layer together."""
    what, unit = ("energy", "J") if record["energy"] else ("time", "s")
    values = {_short(one["layer"]): one["count"] * one[what] for one in record["layers"]}
    ranked = sorted(values.items(), key=lambda item: -item[1])
    first, rest = ranked[: charts.MOST_BARS], ranked[charts.MOST_BARS :]
    shown = dict(first) | ({f"{len(rest)} others": sum(value for _, value in rest)} if rest else {})
    return charts.parts(f"{what.capitalize()} by layer", what, shown, unit, "All occurrences of a layer together.")


def _layers(record: Mapping[str, Any]) -> Table:
    rows = record["layers"]

    def values(name: str) -> list[Any]:
        return [one.get(name) for one in rows]

    largest = [max(one["energies"].items(), key=lambda part: part[1])[0] if one["energy"] else None for one in rows]
    columns = [
        words("layer", "layer", [_short(one["layer"]) for one in rows]),
        Column("count", "count", values("count")),
        Column("macs", "MACs (M)", values("macs"), 1e6),
        Column("cycles", "cycles", values("cycles")),
        quantity("time", "time", values("time"), "s"),
        Column("utilization", "units busy (%)", values("utilization"), 0.01, "1"),
        quantity("energy", "energy", values("energy"), "J"),
        quantity("energy_per_mac", "energy per MAC", [one["energy"] / one["macs"] for one in rows], "J"),
        words("largest_part", "largest part", largest),
        words("fits", "fits", values("fits")),
    ]
    names = list(rows[0]["mapping"]["loops"])
    columns += [
        words(f"loops_{name}", f"loops, {name}", [one["mapping"]["loops"].get(name) for one in rows], extra=True)
        for name in names
    ]
    return Table("Layers", columns, "Figures of one occurrence; all columns have the loops of the best mapping.")


def _short(layer: str) -> str:
    # The last part of a layer's path keeps labels narrow.
    return layer.replace("#", ".").rpartition(".")[2]


def _joules(value: float) -> str:
    from hwspaces import formatted

    return formatted(value, "J")
