"""Loop nests as data: layers, architectures and mappings, shipped or from files."""

from workloads.nests.documents import (
    NestEntry,
    architecture,
    architecture_names,
    layer,
    layer_names,
    mapping,
    network_layers,
)
from workloads.nests.timeloop import timeloop_mapping, timeloop_problem
from workloads.nests.timeloop_machine import timeloop_architecture

__all__ = [
    "NestEntry",
    "architecture",
    "architecture_names",
    "layer",
    "layer_names",
    "mapping",
    "network_layers",
    "timeloop_architecture",
    "timeloop_mapping",
    "timeloop_problem",
]
