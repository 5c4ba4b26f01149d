"""Text and JSON of mapped loop nests: one layer, or all of a network."""

import argparse
import math
from collections.abc import Mapping, Sequence
from typing import Any

from jaxroof.nests import NestFanout, NestMachine


def print_names(json: bool) -> None:
    """Print the shipped layers and architectures with their sources."""
    from sweeps.answers.tables import console, table
    from sweeps.answers.to_json import print_json
    from workloads import nests

    layers = {name: nests.layer(name) for name in nests.layer_names()}
    machines = {name: nests.architecture(name) for name in nests.architecture_names()}
    if json:
        return print_json(
            {"layers": list(layers), "architectures": {name: each.source for name, each in machines.items()}}
        )
    out, shown = console(), table("layer", "MACs", "sizes", numbers=("MACs",))
    for name, entry in layers.items():
        shown.add_row(name, f"{entry.value.macs / 1e6:.1f} M", _sizes(entry.value))
    out.print(shown)
    shown = table("architecture", "units", "source", numbers=("units",))
    for name, entry in machines.items():
        shown.add_row(name, f"{entry.value.units:.0f}", entry.source)
    out.print()
    out.print(shown)


def network_record(
    options: argparse.Namespace, layers: Sequence[Any], machine: NestMachine, found: Sequence[Any]
) -> dict[str, Any]:
    """A network's layers and their totals for machines, as `record` has each."""
    from sweeps.studies.map.network import totals

    records = [
        record(options, entry.value, machine, each.mapping, each.cost, each)
        | {"layer": entry.name, "count": entry.count}
        for entry, each in zip(layers, found, strict=True)
    ]
    return {"network": options.layer, "architecture": options.arch, **totals(records), "layers": records}


def record(
    options: argparse.Namespace, problem: Any, machine: Any, mapping: Any, cost: Any, found: Any
) -> dict[str, Any]:
    """The answer for machines: SI units, accesses in words per instance."""
    from jaxroof.version import VERSION
    from workloads.nests.checks import broken_limits

    names = [node.name for node in machine.nodes]
    # Tensors that each memory holds; a fan-out spreads loops over instances and holds nothing.
    kept_tensors = {
        node.name: list(own)
        for node, own in zip(machine.nodes, mapping.kept, strict=True)
        if not isinstance(node, NestFanout)
    }
    answer: dict[str, Any] = {
        "jaxroof_version": VERSION,
        "layer": options.layer,
        "architecture": options.arch,
        "mapping": {
            "loops": dict(zip(names, map(_loops, mapping.factors, mapping.orders), strict=True)),
            "keeps": kept_tensors,
            **({"padded": True} if padded(problem, mapping) else {}),
        },
        "macs": float(problem.macs),
        "cycles": float(cost.cycles),
        "compute_cycles": float(cost.compute_cycles),
        "time": float(cost.time),
        "utilization": float(cost.utilization),
        "energy": float(cost.energy),
        "energies": {name: float(energy) for name, energy in cost.energies.items()},
        "fits": bool(cost.fits),
        "keeps_limits": not broken_limits(machine, mapping),
        "instances": {name: float(count) for name, count in cost.instances.items()},
        "accesses": {
            f"{memory}.{tensor}": {name: float(count) for name, count in each._asdict().items()}
            | {"energy": float(cost.access_energies[memory, tensor])}
            for (memory, tensor), each in cost.accesses.items()
        },
    }
    if found is not None:
        searched = {"evaluated": found.evaluated, "complete": found.complete, "space": found.space}
        answer["search"] = searched | {"seconds": round(found.seconds, 3)}
    return answer


def padded(problem: Any, mapping: Any) -> dict[str, float]:
    """Dimensions that the factors of a mapping make larger than they are, with what they are made."""
    # Product of the factors at all levels: the size that the loops cover, which padding makes larger.
    reached = {name: math.prod(own.get(name, 1.0) for own in mapping.factors) for name in problem.sizes}
    return {name: size for name, size in reached.items() if size > problem.sizes[name]}


def show(options: argparse.Namespace, problem: Any, machine: Any, mapping: Any, cost: Any, found: Any) -> None:
    """Print the mapping, accesses by memory and tensor, and time and energy."""
    from hwspaces import formatted
    from sweeps.answers.tables import console, percent, table
    from sweeps.studies.map.search import tried_text
    from workloads.nests.checks import broken_limits

    out = console()
    out.print(f"{options.layer} on {options.arch}: {problem.macs:,.0f} MACs, {_sizes(problem)}\n")
    shown = table("node", "loops, outermost first", "holds")
    # A fan-out runs its loops in parallel; a memory runs them in turn, and holds tensors meanwhile.
    for node, factors, order, tensors in zip(machine.nodes, mapping.factors, mapping.orders, mapping.kept, strict=True):
        where = f"in parallel, of {node.size:.0f}" if isinstance(node, NestFanout) else ", ".join(tensors)
        shown.add_row(node.name, _loops(factors, order), where)
    out.print(shown)
    numbers = ("tile", "reads", "fills", "updates", "instances", "energy")
    shown = table("memory", "tensor", *numbers, numbers=numbers)
    # Accesses are words of one instance; the energy in J is that of all instances.
    for memory in cost.instances:
        for (name, tensor), each in cost.accesses.items():
            if name == memory:
                energy = formatted(cost.access_energies[name, tensor], "J")
                shown.add_row(memory, tensor, *(f"{count:,.0f}" for count in (*each, cost.instances[memory])), energy)
    out.print("\nwords of one instance, energy of all\n")
    out.print(shown)
    out.print()
    busy = f"{percent(cost.utilization)} of {machine.units:,.0f} units"
    # Fewer cycles of arithmetic than in all: something else, such as a memory's bandwidth, sets the time.
    slow = "" if cost.cycles == cost.compute_cycles else f", {cost.compute_cycles:,.0f} of them arithmetic"
    out.print(f"time    {formatted(cost.time, 's')}: {cost.cycles:,.0f} cycles{slow}; {busy}")
    if cost.energy:
        out.print(energy_line(cost.energy, problem.macs, cost.energies))
    for name, size in padded(problem, mapping).items():
        out.print(f"note    {name} is {problem.sizes[name]:.0f}, padded to {size:.0f}")
    for broken in broken_limits(machine, mapping):
        out.print(f"note    {broken}, which the limits of the architecture do not allow")
    if not cost.fits:
        out.print("note    the mapping does not fit: a memory or a fan-out is too small")
    if found is not None:
        tried = tried_text(found.evaluated, found.complete, found.space)
        out.print(f"search  {tried}, in {found.seconds:.2f} s")


def show_network(answer: dict[str, Any], machine: NestMachine) -> None:
    """Print a table of the layers, and time and energy of all."""
    from hwspaces import formatted
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
        # The last part of a layer's path keeps the table narrow.
        part = each["layer"].replace("#", ".").rpartition(".")[2]
        cells = [part, str(count), f"{each['macs'] / 1e6:,.1f} M", f"{each['cycles']:,.0f}"]
        # Share of the MACs that all units could do in these cycles.
        cells.append(percent(each["macs"] / (each["cycles"] * machine.units)))
        if more:
            # The two components that need most energy.
            parts = sorted(each["energies"].items(), key=lambda part: -part[1])[:2]
            cells += [formatted(energy, "J"), formatted(energy / each["macs"], "J")]
            # A layer's figures are of one occurrence, the total of all of them.
            cells.append(percent(count * energy / answer["energy"]))
            cells.append(", ".join(f"{name} {percent(part / energy)}" for name, part in parts))
        shown.add_row(*cells)
    out.print(shown)
    busy = percent(answer["macs"] / (answer["cycles"] * machine.units))
    time = formatted(answer["time"], "s")
    out.print(f"\ntime    {time}: {answer['cycles']:,.0f} cycles; {busy} of {machine.units:,.0f} units busy")
    if answer["energy"]:
        out.print(energy_line(answer["energy"], answer["macs"], answer["energies"]))
    missing = [each["layer"] for each in answer["layers"] if not each["fits"]]
    if missing:
        out.print(f"note    these do not fit: {', '.join(missing)}")


def energy_line(energy: float, macs: float, energies: Mapping[str, float]) -> str:
    """Energy, that of one MAC, and the shares of all components that need any, the largest first."""
    from hwspaces import formatted
    from sweeps.answers.tables import percent

    shares = sorted(energies.items(), key=lambda each: -each[1])
    parts = ", ".join(f"{name} {percent(part / energy)}" for name, part in shares if part)
    return f"energy  {formatted(energy, 'J')}, {formatted(energy / macs, 'J')} per MAC: {parts}"


def _loops(factors: dict[str, float], order: tuple[str, ...]) -> str:
    return " ".join(f"{name}{factors[name]:.0f}" for name in order if name in factors)


def _sizes(problem: Any) -> str:
    return " ".join(f"{name}{size:.0f}" for name, size in problem.sizes.items() if size > 1)
