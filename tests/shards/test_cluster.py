"""Shards on Dask workers, one of which is killed; workers that cannot help."""

import dataclasses
import os
import pathlib
import signal

import pytest

from sweeps.shards import cluster, manifest
from sweeps.shards.run import run
from tests.survival import Place, checksums, leftovers, small_work, worker_killed

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
