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
from workloads.nests.timeloop import timeloop_architecture, timeloop_mapping, timeloop_problem

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
