"""Layers of a network on an accelerator: each in its best mapping, equal ones searched once, and their totals."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from jaxroof.nests import Mapping, NestCost, NestMachine, NestProblem, nest_cost
from sweeps.studies.map.search import FoundMapping, found_mapping
from workloads.nests.checks import require_names, residents
from workloads.nests.documents import NestEntry
from workloads.nests.named import named_mapping

Searching = Callable[[int, int, int, int], None]
"""Told the mappings that are done and all of a layer, and the layers that are done and all that are searched."""


def best_mapping(name: str, problem: NestProblem, machine: NestMachine, where: str, **search: Any) -> FoundMapping:
    """The best mapping of a layer, with tensors in all memories that may keep them.

    Args:
      name: of the layer, and `where`, of the machine; for errors.
      problem, machine: what is mapped, and on what.
      **search: arguments of `found_mapping` beside `kept`.

    Raises:
      ValueError: one line that names layer and machine.
    """
    require_names(problem, machine, where)
    resident_tensors = residents(problem, machine, {}, where)
    try:
        return found_mapping(problem, machine, resident_tensors, **search)
    except ValueError as error:
        raise ValueError(f"{name} on {where}: {error}") from None


def mapped_layers(
    layers: Sequence[NestEntry], machine: NestMachine, where: str, report: Searching, **search: Any
) -> list[FoundMapping]:
    """The best mapping of every layer; layers of one problem are searched once.

    Args:
      layers: of `workloads.nests.layer`.
      machine, where, search: as `best_mapping` takes them.
      report: how far the search is.
    """
    first: dict[str, NestEntry] = {}  # layer of every problem, by the problem
    # A problem holds dictionaries, which cannot be hashed: its text identifies it.
    for entry in layers:
        first.setdefault(repr(entry.value), entry)
    best = {}
    for number, (problem, entry) in enumerate(first.items()):
        # The default binds the number of this layer, which the closure would otherwise read when it is called.
        def reported(done: int, total: int, number: int = number) -> None:
            report(done, total, number, len(first))

        best[problem] = best_mapping(entry.name, entry.value, machine, where, report=reported, **search)
    return [best[repr(entry.value)] for entry in layers]


def given_mapping(path: str, problem: NestProblem, machine: NestMachine, where: str) -> tuple[Mapping, NestCost]:
    """The mapping that a file describes for a layer on the machine that errors call `where`, and its cost."""
    require_names(problem, machine, where)
    mapping = named_mapping(path, problem, machine)
    return mapping, nest_cost(problem, machine, mapping)


def totals(records: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """MACs, cycles, time and energies of layers, each counted as often as the network has it.

    Args:
      records: of each layer: its count, and these figures by name.
    """
    rows = list(records)
    summed: dict[str, Any] = {
        name: sum(each["count"] * each[name] for each in rows) for name in ("macs", "cycles", "time", "energy")
    }
    # Layers can differ in their components: one that a layer lacks needs no energy there.
    components = dict.fromkeys(component for each in rows for component in each["energies"])
    summed["energies"] = {
        name: sum(each["count"] * each["energies"].get(name, 0.0) for each in rows) for name in components
    }
    return summed
