"""Control characters, line breaks and brackets in files and flags: printed as escapes, never obeyed."""

import json

import numpy as np
import pytest
import xarray as xr

from sweeps.answers import screen
from sweeps.answers.shared import intervals, time_range
from sweeps.answers.tables import console, table
from sweeps.ask.text import escaped
from sweeps.cli import main

HOSTILE = "a\x1b]0;mine\x07\x9b31m\x7f\u202e\u2028\r\nb[/][red]c[/red]"

SHOWN = r"a\x1b]0;mine\x07\x9b31m\x7f\u202e\u2028\r\nb[/][red]c[/red]"


def harmless(text: str) -> bool:
    """No character but line breaks that a terminal obeys."""
    return all(character.isprintable() or character == "\n" for character in text)


@pytest.fixture
def sweep_file(tmp_path):
    """A sweep whose labels, title, units and descriptions are hostile."""
    path = tmp_path / "hostile.nc"
    whole = xr.Dataset(
        {
            "tpot": ("model", np.array([0.02, 0.03]), {"units": HOSTILE, "long_name": HOSTILE}),
            "feasible": ("model", np.array([1, 1], "i1"), {"dtype": "bool"}),
        },
        {"model": ("model", np.array([HOSTILE, "plain"], object), {"long_name": HOSTILE})},
        {"title": HOSTILE, "job": "request"},
    )
    whole.to_netcdf(path, engine="netcdf4")
    return path


def test_values_and_texts_are_escaped():
    assert escaped(HOSTILE, breaks=True) == SHOWN
    assert escaped("one\ntwo\x1b") == "one\ntwo\\x1b"
    assert escaped(escaped(HOSTILE, breaks=True), breaks=True) == SHOWN  # twice changes nothing
    for text in ("12.3 µs × 4 – 5 °C", "模型"):
        assert escaped(text, breaks=True) == text


def test_labels_of_a_file_are_printed_as_escapes(sweep_file, capsys):
    assert main(["query", str(sweep_file), "--where", "tpot < 1 s", "--sort", "tpot", "-v"]) == 0
    out, err = capsys.readouterr()
    assert SHOWN in out and harmless(out) and err == ""
    assert [line.split()[0] for line in out.splitlines() if "ms" in line] == [SHOWN, "plain"]
    assert main(["query", str(sweep_file), "--where", "tpot < 1 s", "--json"]) == 0
    out = capsys.readouterr().out
    assert json.loads(out)["rows"][0]["model"] == HOSTILE and out.isascii() and harmless(out)


FLAGS = {
    "verb": (HOSTILE,),
    "flag": ("step", f"--{HOSTILE}"),
    "value": ("step", "--hardware", HOSTILE, "--model", "Llama-3.1-8B", "--prefill", "8"),
    "setting": ("step", "--hardware", "H100-SXM", "--model", "Llama-3.1-8B", "--prefill", "8", "--set", HOSTILE),
    "file": ("sweep", f"{HOSTILE}.toml", "-o", "out.nc"),
    "output": ("merge", f"/none/{HOSTILE}", "-o", f"{HOSTILE}.nc"),
    "folder": ("status", f"/none/{HOSTILE}"),
    "metric": ("query", "none.nc", "--where", HOSTILE),
}


@pytest.mark.parametrize("words", FLAGS.values(), ids=FLAGS)
def test_flags_are_refused_in_one_harmless_line(words, capsys):
    assert main(list(words)) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and harmless(err)


def test_names_of_hardware_and_models_are_one_line(tmp_path, capsys):
    entry = tmp_path / "chip.toml"
    entry.write_text('name = "a\\u001b[31m\\nb[/]"\nvendor = "\\u202e"\n', encoding="utf-8")
    main(["hardware", str(entry), "-v"])
    said = "".join(capsys.readouterr())
    assert harmless(said)
    main(["models", str(entry), "-v"])
    assert harmless("".join(capsys.readouterr()))


def test_consoles_print_brackets_and_escapes_as_they_are(capsys):
    made = table("[/]\nname")
    made.add_row(HOSTILE)
    console().print(made)
    console().print(f"[bold]{HOSTILE}")
    screen.console(error=True).print(HOSTILE)
    out, err = capsys.readouterr()
    assert harmless(out) and harmless(err)
    assert [line.strip() for line in out.splitlines()][:2] == ["[/]", "name"] and SHOWN in out
    assert "[bold]a" in out


def test_no_interval_begins_below_what_the_datasheet_allows():
    """2 ms by a factor of e^1.645 either way is 0.386 to 10.4 ms, and the datasheet's rates take 1.8 ms at least."""
    (line,) = intervals({"step_time": 2e-3, "step_time_spread": 1.0, "step_time_least": 1.8e-3})
    assert line == "step_time 1.8 ms at least, by the datasheet's rates, to 10.4 ms (90 %)"
    request = {"ttft": 1.0, "tpot": 0.01, "ttft_spread": 0.1, "tpot_spread": 1.0, "ttft_least": 0.8, "tpot_least": 6e-3}
    starts = [line.split()[1:3] for line in intervals(request)]
    assert starts == [["848", "ms"], ["6", "ms"]]  # e^-0.1645, and 0.6 of the other
    # A cache may hold what the bound takes from memory: the interval never begins above the prediction.
    assert time_range("ttft", {"ttft": 1.0, "ttft_spread": 0.1, "ttft_least": 2.0})[0] == 1.0
