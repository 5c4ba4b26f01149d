"""Shards on Dask workers, one of which is killed; workers that cannot help."""

import dataclasses
import os
import pathlib
import signal

import pytest

from sweeps.shards import cluster, manifest
from sweeps.shards.run import run
from tests.survival import Place, checksums, leftovers, scheduler_killed, small_work, worker_killed

pytest.importorskip("distributed")
pytestmark = pytest.mark.xdist_group("survival")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> pathlib.Path:
    place = tmp_path_factory.mktemp("cluster") / "sweep"
    run(place, small_work())
    return place


@pytest.mark.skipif("JAXROOF_LONG_TESTS" not in os.environ, reason="two workers plan the sweep anew: a minute or two")
def test_a_worker_that_is_killed_costs_its_shard_alone(folder, tmp_path):
    place = Place.made(tmp_path)
    found = worker_killed(place, tmp_path / "sweep", signal.SIGKILL)
    assert found.status == 0, found.err
    assert checksums(tmp_path / "sweep") == checksums(folder) and not leftovers(tmp_path / "sweep")


@pytest.mark.skipif("JAXROOF_LONG_TESTS" not in os.environ, reason="two workers plan the sweep anew: a minute or two")
def test_a_sweep_whose_scheduler_is_killed_goes_on_with_the_next(folder, tmp_path):
    found = scheduler_killed(Place.made(tmp_path), tmp_path / "sweep")
    assert found.status == 0, found.err
    assert checksums(tmp_path / "sweep") == checksums(folder) and not leftovers(tmp_path / "sweep")


def test_workers_that_cannot_help(folder):
    work = small_work()
    asked = cluster.Asked.of(work, folder)
    assert cluster.unfit(asked) is None
    other = dataclasses.replace
    assert "bits would differ" in cluster.unfit(other(asked, kind="gpu Other"))
    words = cluster.unfit(other(asked, place=f"{folder}/nowhere"))
    assert words == f"{folder}/nowhere is not here; workers need the folder under the same name"
    with pytest.raises(ValueError, match="here it is another sweep: shards was 32, is 1"):
        cluster.computed(asked, 0)  # this process has chunks of another size
    assert manifest.read(folder).complete


@pytest.mark.parametrize(
    ("scheduler", "workers", "words"),
    [
        ("somewhere", None, "scheduler = somewhere must be dask or an address"),
        ("tcp://127.0.0.1:9", 2, "workers = 2 are started by scheduler = dask alone"),
    ],
)
def test_schedulers_that_are_none(scheduler, workers, words):
    with pytest.raises(ValueError, match=words):
        cluster.cluster(scheduler, workers)


def test_what_a_worker_fails_at_can_be_sent(monkeypatch):
    """However deep it happened: Dask waits forever for a failure that it cannot pickle."""

    def deeper(*words):
        return deeper(*words)

    monkeypatch.setattr(cluster, "_computed", deeper)
    with pytest.raises(RuntimeError, match="RecursionError: maximum recursion depth") as found:
        cluster.computed(None, 0)
    assert len(found.traceback) == 2


def test_what_a_worker_refuses_stays_what_it_is(monkeypatch):
    def refused(*words):
        raise ValueError("the folder is gone")

    monkeypatch.setattr(cluster, "_computed", refused)
    with pytest.raises(ValueError, match="the folder is gone"):
        cluster.computed(None, 0)
