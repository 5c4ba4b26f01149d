"""Figures that only the press gives: which they are, and that every command says so."""

import json

import pytest

import hwspaces
from hwspaces.accelerators.entry import PRESS
from sweeps.cli import main

WORDS = "press figures, not checked against a page of the vendor: "
SERVING = ["--isl", "256", "--osl", "16", "--slo", "ttft=5s"]


def test_figures_of_the_press_are_listed_by_source():
    """Peak and power of MTIA 400 are of Meta's table as quoted; the talk, as quoted, gives its memory."""
    (said,) = hwspaces.hardware("MTIA-400").press
    assert said.startswith(WORDS)
    assert "matrix.bf16, power.tdp: Meta's table" in said
    assert "memory.hbm.capacity, memory.hbm.bandwidth" in said.partition("Loke")[0].rpartition("; ")[2]
    assert said in hwspaces.hardware("MTIA-400").assumptions
    assert "memory.hbm.bandwidth" in hwspaces.hardware("MTIA-450").press[0]
    assert all(hwspaces.hardware(name).press for name in ("Maia-200", "SN50"))
    assert [hwspaces.hardware(name).press for name in ("H100", "Ascend-910C")] == [(), ()]


def test_a_figure_that_is_set_is_not_of_the_press():
    changed = hwspaces.overridden(hwspaces.hardware("MTIA-400"), {"power.tdp": "1 kW"})
    assert "matrix.bf16: Meta's table" in changed.press[0]
    assert "power.tdp" not in changed.press[0]


def test_every_figure_of_the_press_is_said():
    for name, entry in hwspaces.catalogue().items():
        paths = [path for path, source in entry.sources.items() if source.startswith(PRESS)]
        assert bool(paths) == bool(entry.press), name
        assert all(any(path in said for said in entry.assumptions) for path in paths), name


@pytest.mark.parametrize(
    "command",
    [
        ["step", "--decode", "8", "--context", "512"],
        ["request", "--isl", "256", "--osl", "16"],
        ["serve", "--isl", "256", "--osl", "16", "--requests", "8", "--rate", "2"],
        ["capacity", *SERVING, "--requests", "8"],
        ["compare", *SERVING, "--devices", "1", "--simulate", "0"],
    ],
    ids=lambda command: command[0],
)
def test_commands_say_it_once(command, capsys):
    asked = [command[0], "--model", "Llama-3.1-8B", "--hardware", "MTIA-450", "--efficiency", "derated", *command[1:]]
    assert main([*asked, "-v"]) == 0
    assert " ".join(capsys.readouterr().out.split()).count(WORDS.strip()) == 1
    assert main([*asked, "--json"]) == 0
    notes = json.loads(capsys.readouterr().out)["notes"]
    assert sum(WORDS in note for note in notes) == 1
