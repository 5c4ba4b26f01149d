"""Constants of efficiencies: every one declares unit, meaning and range, and files are held to them."""

import dataclasses
import re
import typing
from pathlib import Path

import pytest

import hwspaces
from hwspaces.performance.efficiency import TABLES, efficiencies
from hwspaces.performance.kernel_tables import own_numbers, shipped
from hwspaces.quantities.units import TEXT_UNITS
from jaxroof.efficiency import constant_declaration
from jaxroof.efficiency.kernels import MODELS
from jaxroof.efficiency.timing import Constants
from jaxroof.numerics.struct import kinds
from jaxroof.numerics.tree import leaf_paths
from sweeps.ask.leaves import leaf_unit

ROOT = Path(__file__).parents[2]


def structs(kind: type) -> set[type]:
    """The struct and those with constants in it; a hull has ranges, whose features have units of their own."""
    inner = [one for name, one in kinds(kind).items() if name != "hull"]
    return {kind}.union(*map(structs, inner))


STRUCTS = sorted(set().union(*map(structs, {*TABLES.values(), *MODELS})), key=lambda kind: kind.__name__)


@pytest.mark.parametrize("kind", STRUCTS)
def test_every_constant_is_declared(kind):
    hints = typing.get_type_hints(kind)
    others = {name for name, hint in hints.items() if hint == (Constants | None)} | set(kinds(kind))
    for field in dataclasses.fields(kind):
        if field.name in others:
            continue
        declared = own_numbers(kind)[field.name]
        assert declared.unit in TEXT_UNITS and declared.meaning, field.name
        assert declared.most < float("inf") or declared.unit != "1", field.name


@pytest.mark.parametrize("name", efficiencies())
def test_every_path_of_a_constant_has_its_unit(name):
    efficiency = hwspaces.efficiency(name).efficiency
    for path in leaf_paths(efficiency):
        *around, last = path.split(".")
        holder = [efficiency]
        for word in around:
            holder.append(holder[-1][word] if isinstance(holder[-1], dict) else getattr(holder[-1], word))
        (own,) = [type(one) for one in holder if dataclasses.is_dataclass(one)][-1:]
        assert constant_declaration(path).unit == own_numbers(own)[last].unit, path
        assert leaf_unit(f"efficiency.{path}") == constant_declaration(path).unit


def test_there_is_no_constant_elsewhere():
    assert constant_declaration("linear.widest.matrix") is None
    assert constant_declaration("linear.wide.matrices") is None


@pytest.mark.parametrize(
    ("constant", "changed", "said"),
    [
        ("tile_cycles", "tile_cycles_us = 1541", "tile_cycles_us = 1541 has the unit us; allowed: tile_cycles"),
        ("onset_time_us", "onset_time_GB = 3", "onset_time_GB = 3 has the unit GB; allowed: onset_time_us"),
        ("onset_time_us", "onset_time = 300", "onset_time = 300 has no unit; allowed: onset_time_us"),
        ("energy", "energy_W = 3", "energy_W = 3 has the unit W; allowed: "),
        ("tile_cycles", "tile_cycle = 1541", "tile_cycle = 1541 is not known; did you mean tile_cycles"),
        ("onset_time_us", "onset_time_ms = 3000", "onset_time_ms = 3000 must be at most 1 s"),
        ("energy", "energy = 0.7235", "energy = 0.7235 must be above 0 and at most 1e-06 J/FLOP"),
        ("matrix", "matrix = 99.41", "matrix = 99.41 must be above 0 and at most 2"),
        ("matrix", "matrix = 0", "matrix = 0 must be above 0 and at most 2"),
        ("matrix", "matrix = true", "matrix = True is not a number"),
        ("overlap", "overlap = 1.5", "overlap = 1.5 must be at most 1"),
        ("tile_cycles", "", "tile_cycles is missing"),
        ("onset_time_us", "", "onset_time_us is missing"),
        ("onset_time_us", "onset_time_us = 300\nonset_time_ms = 1", "onset_time is given twice"),
        ("spread", "spread = { long = 0.1 }", "linear.wide.spread: short is missing"),
    ],
)
def test_a_wrong_constant_is_refused_by_name(tmp_path, constant, changed, said):
    """The first line of each, which is of linear.wide."""
    text = (ROOT / shipped("learned-vllm")).read_text(encoding="utf-8")
    text, found = re.subn(rf"^{constant} = .*$", changed, text, count=1, flags=re.MULTILINE)
    assert found == 1
    file = tmp_path / "mine.toml"
    file.write_text(text)
    with pytest.raises(ValueError) as raised:
        hwspaces.efficiency(file)
    message = str(raised.value)
    assert message.startswith(f"{file}: linear.wide") and said in message and "\n" not in message


def test_a_constant_may_say_another_unit(tmp_path):
    text = (ROOT / shipped("learned-vllm")).read_text(encoding="utf-8")
    file = tmp_path / "mine.toml"
    file.write_text(text.replace("energy = 7.235e-13", "energy_pJ_per_FLOP = 0.7235", 1))
    assert hwspaces.efficiency(file).efficiency.linear.wide.energy == pytest.approx(7.235e-13, rel=1e-12)
