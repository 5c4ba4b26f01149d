"""Declarations of leaves: every one that users set is declared in its field, and no table states it again."""

import ast
import dataclasses
import typing
from pathlib import Path

import pytest

from hwspaces.quantities.units import TEXT_UNITS
from jaxroof.batch import Batch, Served, Timeline, Traffic
from jaxroof.deployment import Deployment
from jaxroof.hardware import Hardware, Link
from jaxroof.numerics.struct import Declaration, declaration, declarations, kinds, required
from jaxroof.training import Training
from sweeps.ask.leaves import ROOTS, leaf, leaves
from sweeps.cli import deployment as deployment_flags
from sweeps.cli import train as train_flags

ROOT = Path(__file__).parents[1]
STRUCTS = [*(kind for root in ROOTS.values() for kind in root), Batch, Traffic, Served, Timeline]
MODULES = [path for package in ("hwspaces", "workloads", "sweeps") for path in sorted((ROOT / package).rglob("*.py"))]

UNDECLARED = {"targets", "laws"}
"""Fields that are no numbers: matrices that adapters change, and laws by which some numbers follow from others."""


def inner_structs(kind: type) -> set[type]:
    """The struct and all structs in it."""
    return {kind}.union(*(inner_structs(inner) for inner in kinds(kind).values()))


@pytest.mark.parametrize("kind", sorted(set().union(*map(inner_structs, STRUCTS)), key=lambda kind: kind.__name__))
def test_every_field_is_declared(kind):
    declared = {path.partition(".")[0] for path in declarations(kind)}
    assert {field.name for field in dataclasses.fields(kind)} <= declared | set(kinds(kind)) | UNDECLARED


def test_units_are_known_and_meanings_are_said():
    for path, declared in leaves().items():
        assert declared.structure or declared.unit in TEXT_UNITS, path
        assert declared.meaning and ("*" in path or "{}" not in declared.meaning), path


def test_structs_that_share_a_path_agree_on_it():
    for path in {path for kind in ROOTS["workload"] for path in declarations(kind)}:
        found = [declarations(kind)[path] for kind in ROOTS["workload"] if path in declarations(kind)]
        assert len({(declared.unit, declared.meaning, declared.whole) for declared in found}) == 1, path


def test_titles_compose_long_names():
    assert declaration(Hardware, "memory.hbm.bandwidth").meaning == "HBM bandwidth"
    assert declaration(Hardware, "memory.scratchpad.capacity").meaning == "scratchpad capacity per core"
    assert declaration(Hardware, "matrix.fp8").meaning == "dense matrix peak, fp8"
    assert declaration(Hardware, "links.scale_out.devices").meaning == "devices in a scale-out domain"
    assert leaf("prefill.deployment.tp").meaning == leaf("deployment.tp").meaning == "tensor-parallel degree"


def test_what_a_struct_cannot_be_made_without():
    assert required(Link) == ("bandwidth", "latency", "devices")
    assert required(Hardware) == ("cores.count", "cores.vector_flops", "memory.hbm.bandwidth", "memory.hbm.capacity")


@pytest.mark.parametrize(
    ("flags", "kind"),
    [(deployment_flags.flags(), Deployment), (train_flags.NUMBERS, Training)],
    ids=["deploy", "train"],
)
def test_flags_read_from_the_source_are_the_declared_ones(flags, kind):
    declared = {path.partition(".")[0]: found for path, found in declarations(kind).items()}
    names = {name for name, found in declared.items() if found.flag}
    options = {name for name, found in declared.items() if found.structure and not found.choices}
    assert set(flags) == names | (options - UNDECLARED)
    for name, flag in flags.items():
        assert flag.placeholder == declared[name].flag and flag.help.startswith(
            declared[name].meaning.split(":")[0][:20]
        )


def test_no_table_states_units_or_meanings_again():
    """A dict of three leaves or more by name, whose values are their units or long names, belongs into the fields."""
    stated = {(name, fact) for path, found in leaves().items() for name in named(path) for fact in facts(found)}
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Dict) and len(node.keys) >= 3:
                pairs = zip(node.keys, node.values, strict=True)
                said = {(getattr(key, "value", None), getattr(value, "value", None)) for key, value in pairs}
                assert len(said & stated) < 3, f"{path.relative_to(ROOT)}:{node.lineno}: {sorted(said & stated)}"


def named(path: str) -> tuple[str, str]:
    """The leaf's path, and its last name."""
    return path, path.removesuffix(".*").rpartition(".")[2]


def facts(declared: Declaration) -> set[str]:
    """What a table could say of a leaf again; that it is a plain number is no news."""
    return {declared.meaning, declared.unit} - {"", "1"}


def test_annotations_of_declared_fields_are_resolvable():
    for kind in STRUCTS:
        assert typing.get_type_hints(kind)
