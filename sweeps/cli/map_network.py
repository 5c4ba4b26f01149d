"""All layers of a network on an accelerator, each in its best mapping: a table, JSON, a picture."""

import argparse
from collections.abc import Callable
from typing import Any

from jaxroof.nests import NestMachine


def run(options: argparse.Namespace, machine: NestMachine, names: tuple[str, ...], search: Callable[..., Any]) -> None:
    """Map each layer, and print or write what all of them cost together.

    Args:
      options: parsed flags.
      machine: the accelerator.
      names: of the layers.
      search: the best mapping of a layer's name and problem, a line for progress, layers that are done, and all.
    """
    from sweeps.answers import map as report
    from sweeps.answers.to_json import print_json
    from sweeps.cli.progress import Line
    from workloads import nests

    layers = [nests.layer(name) for name in names]
    alike: dict[str, list[int]] = {}  # places of layers of one problem, which is mapped once
    for place, entry in enumerate(layers):
        alike.setdefault(repr(entry.value), []).append(place)
    found: list[Any] = [None] * len(layers)
    with Line() as line:
        for number, places in enumerate(alike.values()):
            first = layers[places[0]]
            best = search(first.name, first.value, line, number, len(alike))
            for place in places:
                found[place] = best
    records = [
        report.record(options, entry.value, machine, each.mapping, each.cost, each)
        | {"layer": entry.name, "count": entry.count}
        for entry, each in zip(layers, found, strict=True)
    ]
    answer = {"network": options.layer, "architecture": options.arch, **totals(records), "layers": records}
    if options.output is not None:
        report.write(answer, options.output, options.force)
    if options.plot is not None:
        from sweeps.show import style
        from sweeps.show.nests import network_energy

        style.saved(network_energy(answer), options.plot, options.force)
    if options.json:
        return print_json(answer)
    _show(answer, machine)


def part_of(name: str) -> str:
    """The name of a layer in its network."""
    return name.replace("#", ".").rpartition(".")[2]


def totals(records: list[dict[str, Any]]) -> dict[str, Any]:
    """MACs, cycles, time and energies of all layers, each as often as the network has it."""
    summed: dict[str, Any] = {
        name: sum(each["count"] * each[name] for each in records) for name in ("macs", "cycles", "time", "energy")
    }
    components = dict.fromkeys(component for each in records for component in each["energies"])
    summed["energies"] = {
        name: sum(each["count"] * each["energies"].get(name, 0.0) for each in records) for name in components
    }
    return summed


def _show(answer: dict[str, Any], machine: NestMachine) -> None:
    from hwspaces import formatted
    from sweeps.answers import map as report
    from sweeps.answers.tables import console, percent, table

    out = console()
    out.print(
        f"{answer['network']} on {answer['architecture']}: {answer['macs']:,.0f} MACs, the best mapping of each layer\n"
    )
    numbers = ["count", "MACs", "cycles", "units busy"]
    more = ["energy", "per MAC", "share"] if answer["energy"] else []
    shown = table("layer", *numbers, *more, *(["largest parts"] if more else []), numbers=(*numbers, *more))
    for each in answer["layers"]:
        energy, count = each["energy"], each["count"]
        cells = [part_of(each["layer"]), str(count), f"{each['macs'] / 1e6:,.1f} M", f"{each['cycles']:,.0f}"]
        cells.append(percent(each["macs"] / (each["cycles"] * machine.units)))
        if more:
            parts = sorted(each["energies"].items(), key=lambda part: -part[1])[:2]
            cells += [formatted(energy, "J"), formatted(energy / each["macs"], "J")]
            cells.append(percent(count * energy / answer["energy"]))
            cells.append(", ".join(f"{name} {percent(part / energy)}" for name, part in parts))
        shown.add_row(*cells)
    out.print(shown)
    busy = percent(answer["macs"] / (answer["cycles"] * machine.units))
    time = formatted(answer["time"], "s")
    out.print(f"\ntime    {time}: {answer['cycles']:,.0f} cycles; {busy} of {machine.units:,.0f} units busy")
    if answer["energy"]:
        out.print(report.energy_line(answer["energy"], answer["macs"], answer["energies"]))
    missing = [each["layer"] for each in answer["layers"] if not each["fits"]]
    if missing:
        out.print(f"note    these do not fit: {', '.join(missing)}")
