"""Manifests of strangers: what `status` says of a folder is what a query of it finds."""

import json
import shutil

import pytest

import sweeps
from sweeps.cli import main
from sweeps.data.shards import manifest

SPEC = {
    "job": "step",
    "hardware": "H100-SXM",
    "model": "Llama-3.1-8B",
    "workload": {"decode": [1, 2, 4], "context": 1024},
    "deployment": {"tp": [1, 2]},
    "output": {"variables": ["step_time"]},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("headers") / "sweep"
    sweeps.sweep_to_folder(place, SPEC)
    return place


def changed(folder, tmp_path, change):
    """The folder with another header, whose checksum and that of the shard's line are right."""
    place = tmp_path / "sweep"
    shutil.copytree(folder, place)
    shutil.copy(place / "frame.nc", tmp_path / "outside.nc")
    found = manifest.read(place)
    header = json.loads(json.dumps(dict(found.header)))
    change(header)
    lines = [manifest._line(header)]
    lines += [manifest._line(vars(shard), manifest.question(header)) for shard in found.shards.values()]
    (place / manifest.NAME).write_bytes(b"".join(lines))
    return place


def outside(header):
    header["frame"]["file"] = "../outside.nc"


def huge(header):
    header["axes"][0][1] = header["points"] = 10**15
    header["shards"] = 0


def more_points(header):
    header["points"] = 10**15


def longer_axis(header):
    header["axes"][0][1] *= 2
    header["points"] *= 2


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (outside, "frame.file = '../outside.nc' must be a name in the same folder"),
        (huge, "is damaged: an axis of 1,000,000,000,000,000 points"),
        (more_points, "is damaged: points = 1,000,000,000,000,000, and its axes have 6"),
        (longer_axis, "is damaged: step_time is of shape"),
    ],
)
@pytest.mark.parametrize("words", [["status"], ["status", "--check"], ["query"]])
def test_headers_that_no_verb_believes(folder, tmp_path, capsys, change, says, words):
    place = changed(folder, tmp_path, change)
    assert main([*words, str(place)]) == 2
    said = capsys.readouterr()
    assert says in said.err and "complete" not in said.out


def test_a_shard_of_another_shape_is_damaged(folder, tmp_path, capsys):
    """Its checksum is right, and it is a netCDF file; a query refuses it, and so it is not complete."""
    place = tmp_path / "sweep"
    shutil.copytree(folder, place)
    found = manifest.read(place)
    content = (place / "frame.nc").read_bytes()
    (place / "shard-0000000.nc").write_bytes(content)
    told = found.header["frame"]
    shard = vars(found.shards[0]) | {"bytes": told["bytes"], "sha256": told["sha256"]}
    lines = [manifest._line(dict(found.header)), manifest._line(shard, manifest.question(found.header))]
    (place / manifest.NAME).write_bytes(b"".join(lines))
    assert main(["status", "--check", str(place), "-v"]) == 0
    assert "shard-0000000.nc is damaged: step_time is of shape None in place of" in capsys.readouterr().out
    assert main(["query", str(place), "--sort", "step_time"]) == 2
    assert "shard-0000000.nc is damaged: step_time is of shape None in place of" in capsys.readouterr().err


def test_a_whole_folder_is_complete(folder, capsys):
    assert main(["status", "--check", str(folder), "-v"]) == 0
    assert "state    complete" in capsys.readouterr().out
