"""Sweeps that are killed, stopped, met by a second one or watched, in processes of their own."""

import json
import os
import pathlib
import random
import signal

import pytest

from tests.survival import Place, checksums, killed, leftovers

pytestmark = pytest.mark.xdist_group("survival")


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Place:
    return Place.made(tmp_path_factory.mktemp("survival"))


@pytest.fixture(scope="module")
def whole(place) -> dict[str, str]:
    """What an undisturbed run writes; quiet, it says nothing beside its answer."""
    found = place.call(*place.sweep(place.path / "whole", "--progress", "quiet"))
    assert (found.status, found.err) == (0, "")
    return checksums(place.path / "whole")


def test_killed_and_stopped_it_ends_as_if_it_had_not_been(place, whole, tmp_path):
    folder = tmp_path / "sweep"
    killed(place, folder, random.Random(3), startup=0.5)
    running = place.begin(*place.sweep(folder, "--progress", "json"), TEST_PAUSE="0.05")
    running.until("shard", 4)
    found = running.stopped(signal.SIGTERM)
    assert found.status == 143 and found.seconds < 2.0
    last = found.err.splitlines()[-1]
    assert " shards are there, and the same command continues with " in last
    assert all(json.loads(line) for line in found.err.splitlines()[:-1])
    assert not leftovers(folder)
    running = place.begin(*place.sweep(folder, "--progress", "json"), JAX_COMPILATION_CACHE_DIR=str(tmp_path))
    running.until("begin")  # it compiles now
    found = running.stopped(signal.SIGINT)
    assert found.status == 130 and found.seconds < 2.0
    found = place.call(*place.sweep(folder))
    assert found.status == 0 and "shards are there already, checked" in found.err
    assert checksums(folder) == whole and not leftovers(folder)


def test_two_processes_on_one_folder(place, whole, tmp_path):
    folder = tmp_path / "sweep"
    first = place.begin(*place.sweep(folder, "--progress", "json"), TEST_PAUSE="0.01")
    first.until("shard", 3)
    first.process.send_signal(signal.SIGSTOP)
    second = place.call(*place.sweep(folder))
    assert second.status == 2
    assert f"is being written by process {first.process.pid} on " in second.err and second.err.count("\n") == 1
    status = json.loads(place.call("status", folder, "--json").out)
    assert status["writer"].startswith(f"process {first.process.pid} on ") and 0 < status["shards_done"] < 32
    first.process.send_signal(signal.SIGCONT)
    found = first.ended()
    assert found.status == 0 and checksums(folder) == whole
    rising(found.err)


def rising(err: str) -> None:
    """Lines of `--progress json` parse, and what is done never falls."""
    lines = [json.loads(line) for line in err.splitlines()]
    assert lines[0]["event"] == "begin" and lines[-1]["event"] == "end"
    for key in ("points_done", "bytes_written", "seconds"):
        values = [line[key] for line in lines]
        assert values == sorted(values)
    assert lines[-1]["points_done"] == lines[-1]["points"] == 512


def test_devices_change_no_bit(place, whole, tmp_path):
    flags = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count=4"
    assert place.call(*place.sweep(tmp_path / "sweep"), XLA_FLAGS=flags).status == 0
    assert checksums(tmp_path / "sweep") == whole


def test_what_is_no_folder_of_a_sweep_is_left_alone(place, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / ".part-mine").write_text("mine")
    found = place.call(*place.sweep(tmp_path))
    assert found.status == 2 and "has other files in it (.part-mine, ...)" in found.err
    assert sorted(path.name for path in pathlib.Path(tmp_path).iterdir()) == [".part-mine", "notes.txt"]
