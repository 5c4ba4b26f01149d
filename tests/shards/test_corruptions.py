"""Folders of shards that are harmed at random: never read as good data, repaired or refused in one line."""

import pathlib
import random
import shutil

import pytest
import xarray as xr

import sweeps
from sweeps.run.shards.run import run
from sweeps.run.shards.work import ShardWork
from tests.survival import checksums, harmed_and_repaired, small_work

pytestmark = pytest.mark.xdist_group("survival")


@pytest.fixture(scope="module")
def work() -> ShardWork:
    return small_work()


@pytest.fixture(scope="module")
def folder(tmp_path_factory, work) -> pathlib.Path:
    """A finished sweep of 32 shards."""
    place = tmp_path_factory.mktemp("corruptions") / "sweep"
    run(place, work)
    return place


@pytest.fixture(scope="module")
def truth(folder) -> xr.Dataset:
    return sweeps.open(folder).load()


@pytest.mark.parametrize("seed", range(4))
def test_random_corruptions(folder, work, truth, tmp_path, seed):
    rng = random.Random(seed)
    for number in range(6):
        copy = pathlib.Path(shutil.copytree(folder, tmp_path / str(number)))
        harmed_and_repaired(copy, work, truth, checksums(folder), rng)


def test_a_lost_header_is_made_again(folder, work, tmp_path):
    copy = pathlib.Path(shutil.copytree(folder, tmp_path / "copy"))
    lines = (copy / "manifest.jsonl").read_bytes().splitlines(keepends=True)
    (copy / "manifest.jsonl").write_bytes(b"nothing\n" + b"".join(lines[1:]))
    with pytest.raises(ValueError, match="manifest.jsonl is damaged: its first line is not as it was written$"):
        sweeps.open(copy)
    written = {path.name: path.stat().st_mtime_ns for path in copy.glob("shard-*")}
    run(copy, work)
    assert checksums(copy) == checksums(folder)
    assert written == {path.name: path.stat().st_mtime_ns for path in copy.glob("shard-*")}


@pytest.mark.parametrize("kept", [0, 1])
def test_lines_of_another_sweep_are_not_taken_for_its_own(folder, work, tmp_path, kept):
    copy = pathlib.Path(shutil.copytree(folder, tmp_path / "copy"))
    lines = (copy / "manifest.jsonl").read_bytes().splitlines(keepends=True)
    (copy / "manifest.jsonl").write_bytes(b"nothing\n" + b"".join(lines[1 : 1 + kept]))
    other = small_work({"workload": {"decode": [1, 2, 4, 8, 16, 32, 64, 128], "context": 600}})
    before = {path.name: path.read_bytes() for path in copy.iterdir()}
    with pytest.raises(ValueError, match="no other is of this sweep; give another folder"):
        run(copy, other if kept else work)
    after = {path.name: path.read_bytes() for path in copy.iterdir()}
    assert {**before, ".lock": b""} == {**after, ".lock": b""}


def test_shards_without_a_manifest_are_left_alone(folder, work, tmp_path):
    copy = pathlib.Path(shutil.copytree(folder, tmp_path / "copy"))
    (copy / "manifest.jsonl").unlink()
    with pytest.raises(ValueError, match="has shards and no manifest.jsonl that says what they are"):
        run(copy, work)
