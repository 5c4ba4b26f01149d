"""Sweeps into Zarr stores: as in memory, continued after a loss to the same bytes, refused when they are others'."""

import hashlib
import os
import pathlib
import signal
import sys

import numpy as np
import pytest
import xarray as xr

import sweeps
from sweeps.cli import main
from sweeps.run.shards import to_zarr
from sweeps.run.shards.run import Watch
from sweeps.run.shards.work import ShardWork
from tests.survival import Place

zarr = pytest.importorskip("zarr")
pytestmark = pytest.mark.xdist_group("survival")

SPEC = {
    "hardware": ["H100-SXM", "MI300X", "H200-SXM"],  # the second is of another structure, so that positions have gaps
    "job": "step",
    "model": "Llama-3.1-8B",
    "deployment": {"tp": [1, 2]},
    "workload": {"decode": [4, 16, 64], "context": 2048},
    "axes": {"hardware.memory.hbm.bandwidth": ["1 TB/s", "2 TB/s", "5 TB/s"]},
    "output": {"variables": ["step_time", "bound", "die_area", "feasible"]},
}


@pytest.fixture(scope="module")
def work() -> ShardWork:
    """The sweep in regions of a few points."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sweeps.run.compilers.CHUNK_BYTES", {"cpu": 600})
        return ShardWork(SPEC, 1)


class Noted(Watch):
    """What a run says."""

    def __init__(self, most=10**9):
        self.kept, self.damaged, self.written, self.most = {}, {}, 0, most

    def begun(self, work, kept, damaged):
        self.kept, self.damaged = kept, damaged

    def shard(self, shard):
        self.written += 1
        if self.written == self.most:
            raise KeyboardInterrupt


def bytes_of(store: pathlib.Path) -> dict[str, str]:
    """Checksums of all objects; what a killed process had not named yet is none."""
    files = [path for path in store.rglob("*") if path.is_file() and ".partial" not in path.name]
    return {str(path.relative_to(store)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def plain(attributes: dict) -> dict:
    """Attributes with lists for arrays."""
    return {name: np.asarray(value).tolist() for name, value in attributes.items()}


def test_a_store_is_the_sweep_in_memory_and_says_how_it_was_made(work, tmp_path):
    assert len(work.boxes) > 8
    to_zarr.write(str(tmp_path / "a.zarr"), work)
    whole = sweeps.sweep(SPEC)
    with xr.open_zarr(tmp_path / "a.zarr") as stored:
        stored.load()
    assert set(stored.variables) == set(whole.variables) and stored.attrs == work.attributes
    for name in whole.variables:
        assert stored[name].dims == whole[name].dims and plain(stored[name].attrs) == plain(whole[name].attrs)
        np.testing.assert_array_equal(stored[name].values, whole[name].values)
        assert name not in whole.data_vars or stored[name].dtype == whole[name].dtype


@pytest.mark.parametrize("place", ["folder", "memory"])
def test_continued_after_an_interruption(work, tmp_path, place):
    place = "memory://test/b.zarr" if place == "memory" else str(tmp_path / "b.zarr")
    with pytest.raises(KeyboardInterrupt):
        to_zarr.write(place, work, Noted(most=3))
    store = zarr.storage.FsspecStore.from_url(place) if "://" in place else place
    assert "unfinished" in xr.open_zarr(store).attrs
    noted = Noted()
    to_zarr.write(place, work, noted)
    assert sorted(noted.kept) == [0, 1, 2] and noted.written == len(work.boxes) - 3
    with xr.open_zarr(store) as stored:
        assert "unfinished" not in stored.attrs
        np.testing.assert_array_equal(stored.step_time.values, sweeps.sweep(SPEC).step_time.values)
    noted = Noted()
    to_zarr.write(place, work, noted)
    assert (len(noted.kept), noted.written) == (len(work.boxes), 0)


def test_regions_that_are_damaged_are_computed_again(work, tmp_path):
    place = tmp_path / "c.zarr"
    to_zarr.write(str(place), work)
    before = bytes_of(place)
    chunks = sorted(path for path in (place / "step_time" / "c").rglob("*") if path.is_file())
    chunks[0].unlink()  # lost
    chunks[1].write_bytes(chunks[1].read_bytes()[:9])  # half written
    zarr.open_group(place, mode="r+")["step_time"][-1] = 1.0  # whole, and others
    noted = Noted()
    to_zarr.write(str(place), work, noted)
    assert 3 <= len(noted.damaged) == noted.written
    assert bytes_of(place) == before


def test_stores_of_others_stay(work, tmp_path):
    xr.Dataset({"x": ("y", [1.0])}).to_zarr(tmp_path / "other.zarr", consolidated=False)
    before = bytes_of(tmp_path / "other.zarr")
    with pytest.raises(ValueError, match="is there already, and no sweep of jaxroof: give another name"):
        to_zarr.write(str(tmp_path / "other.zarr"), work)
    assert bytes_of(tmp_path / "other.zarr") == before
    to_zarr.write(str(tmp_path / "d.zarr"), work)
    with pytest.raises(ValueError, match="belongs to another sweep: "):
        sweeps.sweep_to_zarr(tmp_path / "d.zarr", SPEC | {"model": "Llama-3.1-70B"})
    # A store that was begun, and whose progress was not, has nothing in it yet.
    zarr.create_group(str(tmp_path / "e.zarr"), attributes={"unfinished": "so"})
    to_zarr.write(str(tmp_path / "e.zarr"), work)
    assert bytes_of(tmp_path / "e.zarr") == bytes_of(tmp_path / "d.zarr")


TOML = """
hardware = "H100-SXM"
model = "Llama-3.1-8B"
workload = { batch = [1, 2], isl = 128, osl = 16 }
output = { variables = ["tpot"] }
"""


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--keep", "pareto"], "--keep is for folders, and -o x.zarr is a Zarr store"),
        (["--compression", "3"], "--compression is for folders"),
        (["--scheduler", "dask"], "--scheduler is for folders"),
        (["--force"], "--force is for files; x.zarr is a Zarr store"),
    ],
)
def test_wrong_combinations(tmp_path, capsys, monkeypatch, flags, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "spec.toml").write_text(TOML)
    assert main(["sweep", "spec.toml", "-o", "x.zarr", *flags]) == 2
    err = capsys.readouterr().err
    assert words in err and err.count("\n") == 1
    assert not (tmp_path / "x.zarr").exists()


def test_without_the_extra_one_line_says_what_to_install(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "zarr", None)
    (tmp_path / "spec.toml").write_text(TOML)
    assert main(["sweep", "spec.toml", "-o", "x.zarr"]) == 2
    err = capsys.readouterr().err
    assert "Zarr stores need zarr and fsspec: pip install " in err and err.count("\n") == 1


def test_a_url_that_nothing_reads_is_one_line(tmp_path, capsys):
    (tmp_path / "spec.toml").write_text(TOML)
    assert main(["sweep", str(tmp_path / "spec.toml"), "-o", "nowhere://bucket/x.zarr"]) == 2
    err = capsys.readouterr().err
    assert "nowhere" in err and err.count("\n") == 1


def test_killed_it_ends_as_if_it_had_not_been(tmp_path):
    place = Place.made(tmp_path)
    words = ["sweep", tmp_path / "spec.toml", "--shard-points", "1", "--progress", "json", "-o"]
    assert place.call(*words, tmp_path / "whole.zarr").status == 0
    for shards in (1, 7, 20):
        running = place.begin(*words, tmp_path / "killed.zarr")
        running.until("shard", shards)
        os.kill(running.process.pid, signal.SIGKILL)
        assert running.ended().status == -signal.SIGKILL
    found = place.call(*words, tmp_path / "killed.zarr")
    assert found.status == 0 and "shards are there already, checked" in found.err
    assert bytes_of(tmp_path / "killed.zarr") == bytes_of(tmp_path / "whole.zarr")
