"""Declarations of a scenario's numbers by dotted path: `hardware.memory.hbm.bandwidth`, `workload.batch`."""

import functools
import types
from collections.abc import Mapping
from typing import Any

import numpy as np

from hwspaces.quantities.leaves import declared_quantity
from hwspaces.quantities.leaves import leaf_unit as hardware_leaf_unit
from hwspaces.quantities.units import quantity
from jaxroof.batch import Policy
from jaxroof.deployment import Deployment
from jaxroof.efficiency import constant_declaration
from jaxroof.hardware import Hardware
from jaxroof.jobs import JOBS
from jaxroof.numerics.struct import Declaration, declaration, declarations, given
from sweeps.ask.offered_load import OfferedLoad

ROOTS: Mapping[str, tuple[type, ...]] = {
    "hardware": (Hardware,),
    "deployment": (Deployment,),
    "policy": (Policy,),
    "workload": (*(job.workload for job in JOBS.values() if not job.simulated), OfferedLoad),
}
"""First part of a path -> structs that declare what follows."""


def plain_path(path: str) -> str:
    """The path of a leaf without the pool or the neighbour that it is of."""
    path = path.removeprefix("prefill.")
    if path.startswith("neighbour."):
        # Requests of a neighbour are declared as the workload of a job.
        return path.removeprefix("neighbour.").replace("requests.", "workload.", 1)
    return path


@functools.cache
def leaf(path: str) -> Declaration | None:
    """What the leaf at `path` is, of whichever pool or tenant; None where it is not declared."""
    root, _, rest = plain_path(path).partition(".")
    # Workloads of several jobs share names of numbers: the first struct that declares the path decides.
    candidates = (declaration(kind, rest) for kind in ROOTS.get(root, ()))
    return next((declared for declared in candidates if declared is not None), None)


def known_leaf(path: str) -> Declaration:
    """`leaf` of a path that is declared; ValueError for another."""
    return given(leaf(path), f"declared number {path}")


@functools.cache
def leaves() -> Mapping[str, Declaration]:
    """Every declared leaf by path; `*` stands for a precision or a position."""
    by_path: dict[str, Declaration] = {}
    for root, kinds in ROOTS.items():
        for kind in kinds:
            by_path |= {f"{root}.{path}": declared for path, declared in declarations(kind).items()}
    return types.MappingProxyType(by_path)


def leaf_unit(path: str) -> str:
    """SI unit of any leaf of a scenario by its dotted path."""
    if path.removeprefix("prefill.").startswith("hardware."):
        return hardware_leaf_unit(path.removeprefix("prefill."))
    root, _, rest = plain_path(path).partition(".")
    declared = constant_declaration(rest) if root == "efficiency" else leaf(path)
    if declared is not None:
        return declared.unit or "1"
    # Numbers without a declaration end in their unit: bytes or time in s.
    name = path.rpartition(".")[2]
    return "B" if name.endswith("bytes") else "s" if name.endswith("_time") else "1"


def leaf_long_name(path: str) -> str:
    """What the leaf at `path` is, in words."""
    if path.startswith("prefill."):
        return f"{leaf_long_name(path.removeprefix('prefill.'))}, prefill pool"
    if path.startswith("neighbour."):
        return f"{leaf_long_name(plain_path(path))}, neighbour"
    declared = leaf(path)
    return path.replace("_", " ").replace(".", ", ") if declared is None else declared.meaning


# Conditions: leaves that say what is asked, so that a best point is one per value of them.


@functools.cache
def condition_names() -> frozenset[str]:
    """Long names of the leaves that are conditions, of whichever pool or tenant."""
    meanings = [
        one.meaning
        for kinds in ROOTS.values()
        for kind in kinds
        for one in declarations(kind).values()
        if one.condition
    ]
    return frozenset(f"{meaning}{of}" for meaning in meanings for of in ("", ", neighbour"))


# Numbers from what a user writes, each within the range that its declaration gives.


def leaf_number(path: str, value: Any) -> float:
    """`value` of the leaf at `path` in SI units; ValueError names the path, the value and what is allowed."""
    declared = leaf(path)
    if declared is None or declared.structure:
        return quantity(value, leaf_unit(path), path)
    return declared_quantity(value, declared, path)


def along_range(path: str, numbers: np.ndarray) -> np.ndarray:
    """Numbers that a range gives the leaf at `path`: of a count the nearest whole ones."""
    declared = leaf(path)
    return np.round(numbers) if declared is not None and declared.counts else numbers
