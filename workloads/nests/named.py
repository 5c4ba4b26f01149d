"""Loop nests by name: shipped ones, those of TOML files, and those of Timeloop's files, which end in .yaml."""

from jaxroof.nests import Mapping, NestMachine, NestProblem
from workloads.nests import documents
from workloads.nests.documents import NestEntry
from workloads.nests.timeloop import timeloop_mapping, timeloop_problem
from workloads.nests.timeloop_machine import timeloop_architecture


def named_layers(name: str) -> tuple[list[NestEntry], bool]:
    """The layer of a name, or all layers of the network of that name; and whether it is a network's."""
    if _is_timeloop(name):
        return [NestEntry(name, name, timeloop_problem(name))], False
    network = documents.network_layers(name)
    return [documents.layer(each) for each in network or (name,)], bool(network)


def named_machine(name: str, energies: str | None = None) -> NestMachine:
    """The architecture of a name; `energies` is the table beside one of Timeloop."""
    if _is_timeloop(name):
        return timeloop_architecture(name, energies)
    if energies is not None:
        raise ValueError(f"--energies is for an arch.yaml of Timeloop; {name} states its own")
    machine: NestMachine = documents.architecture(name).value
    return machine


def named_mapping(path: str, problem: NestProblem, machine: NestMachine) -> Mapping:
    """The mapping that a file describes."""
    return (timeloop_mapping if _is_timeloop(path) else documents.mapping)(path, problem, machine)


def _is_timeloop(name: str) -> bool:
    return name.lower().endswith((".yaml", ".yml"))
