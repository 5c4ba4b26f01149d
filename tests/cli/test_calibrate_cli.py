"""`jaxroof calibrate`: a file that `--efficiency` takes, whether it still holds, and one line where there is none."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

import hwspaces
from hwspaces.files.output import KINDS
from sweeps.cli import main
from sweeps.serving.calibration.measured_run import held_out
from tests.calibration_runs import FLAGS, TRUE, latencies, report, stream
from tests.commands import printed, refused

pytestmark = pytest.mark.xdist_group("calibrate")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("calibrations")


@pytest.fixture(scope="module")
def measured(folder):
    of = stream()
    return report(folder / "run.json", of, latencies(of))


@pytest.fixture(scope="module")
def server(folder, measured):
    """A calibration's file, with a picture beside it."""
    path = folder / "server.toml"
    words = ("-o", str(path), "--plot", str(folder / "server.png"), "--engine-version", "0.15.1")
    assert main(["calibrate", "--measured", measured, *FLAGS, *words, "-v"]) == 0
    return path


def test_the_file_is_an_efficiency(server, measured):
    entry = hwspaces.efficiency(server)
    found = {name: getattr(entry.efficiency.host, name) for name in TRUE}
    assert found == pytest.approx(TRUE, rel=0.05)
    assert entry.engine == "vLLM 0.15.1"
    assert hashlib.sha256(Path(measured).read_bytes()).hexdigest() in entry.notes[0]
    assert entry.efficiency.linear == hwspaces.efficiency("derated").efficiency.linear
    assert "held out: TTFT" in entry.errors
    assert KINDS["png"].recognised(server.with_suffix(".png")) and KINDS["efficiency"].recognised(server)


def test_a_calibration_in_words(capsys, measured):
    lines = printed(capsys, "calibrate", "--measured", measured, *FLAGS).splitlines()
    assert lines[0].startswith("Llama-3.1-8B on H100-SXM, vllm: 200 requests of ") and lines[0].endswith("an open loop")
    rows = [line.split() for line in lines]
    assert sum(row[:1] == [f"host.{name}"] and row[-2:] == ["tells", "it"] for row in rows for name in TRUE) == 3
    assert any(row[:2] == ["training,", "150"] for row in rows) and any(
        row[:3] == ["held", "out,", "50"] for row in rows
    )


def test_a_calibration_as_json(capsys, measured):
    found = json.loads(printed(capsys, "calibrate", "--measured", measured, *FLAGS, "--json"))
    step = found["constants"]["host.step_time"]
    assert step["after_s"] == pytest.approx(TRUE["step_time"], rel=0.05) and step["told"]
    errors = found["errors"]["validation"]
    assert errors["after"]["error"] < 0.07 < 0.3 < errors["before"]["error"]
    assert (found["requests"], found["held_out"], found["clients"]) == (200, 50, None)


def test_a_check_needs_no_more_than_the_file(capsys, server, measured):
    """Hardware, model and engine are those of the command that made it."""
    lines = printed(capsys, "calibrate", "--check", str(server), "--measured", measured).splitlines()
    assert "vLLM 0.15.1" in lines[0] and lines[2].startswith("holds")
    assert (
        json.loads(printed(capsys, "calibrate", "--check", str(server), "--measured", measured, "--json"))["stale"]
        is False
    )


def test_a_check_on_another_server_says_stale(capsys, server, folder):
    of = stream()
    slow = report(folder / "slow.json", of, latencies(of, {name: 4.0 * value for name, value in TRUE.items()}))
    assert "stale" in printed(capsys, "calibrate", "--check", str(server), "--measured", slow).splitlines()[2]
    found = json.loads(printed(capsys, "calibrate", "--check", str(server), "--measured", slow, "--json"))
    assert found["stale"] is True and found["error"] > found["limit"] == 0.3


def test_a_refused_calibration_writes_nothing(capsys, folder):
    of = stream()
    odd = {name: np.where(held_out(len(of)), 3.0 * each, each) for name, each in latencies(of).items()}
    mixed, path = report(folder / "mixed.json", of, odd), folder / "mixed.toml"
    said = refused(capsys, "calibrate", "--measured", mixed, *FLAGS, "-o", str(path))
    assert "over 2 times the training requests'" in said
    assert not path.exists()


def test_few_requests_are_counted(capsys, folder):
    of = stream()
    path = Path(report(folder / "few.json", of, latencies(of)))
    whole = json.loads(path.read_text())
    del whole["benchmarks"][0]["requests"]["successful"][60:]
    path.write_text(json.dumps(whole))
    assert "it has 60 requests" in refused(capsys, "calibrate", "--measured", str(path), *FLAGS)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "--measured FILE is missing"),
        (("--measured", "none.json"), "none.json"),
        (("--measured", "RUN"), "--hardware is missing"),
        (("--measured", "RUN", *FLAGS, "--model", "gpt2"), "given twice"),
        (("--measured", "RUN", *FLAGS, "--policy", "token_budgt=9"), "token_budget"),
        (("--measured", "RUN", *FLAGS, "--policy", "token_budget"), "must be NAME=VALUE"),
        (("--measured", "RUN", *FLAGS, "--dp", "2"), "--dp 2: a run is calibrated on one replica"),
        (("--measured", "RUN", *FLAGS, "--efficiency", "datasheet"), "host.step_time is 0 s"),
        (("--measured", "RUN", *FLAGS, "-o", "x.json"), "-o x.json must end in .toml"),
        (("--measured", "RUN", *FLAGS, "-o", "nowhere/x.toml"), "there is no folder nowhere"),
        (("--measured", "RUN", *FLAGS, "--plot", "x.gif"), "--plot x.gif must end in .png or .svg"),
        (("--measured", "RUN", *FLAGS, "--efficiency", "surface:a.nc", "-o", "x.toml"), "do not fit into a TOML file"),
        (("--measured", "RUN", *FLAGS, "--format", "azure"), "holds no latencies"),
        (("--measured", "RUN", "--check", "derated"), "it was not calibrated"),
        (("--measured", "RUN", "--check", "none.toml"), "none.toml: no such file"),
        (("--measured", "RUN", "--check", "a.toml", "-o", "b.toml"), "cannot be given with --check"),
        (("--measured", "RUN", "--check", "a.toml", "--efficiency", "derated"), "cannot be given with --check"),
    ],
)
def test_what_cannot_be_is_one_line(capsys, measured, words, said):
    assert said in refused(capsys, "calibrate", *(measured if word == "RUN" else word for word in words))
