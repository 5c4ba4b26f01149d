"""Shards on Dask workers, one of which is killed; workers that cannot help."""

import contextlib
import dataclasses
import os
import pathlib
import signal
import urllib.error
import urllib.request

import pytest

from sweeps.data.shards import manifest
from sweeps.run.shards import api
from sweeps.run.shards.run import run
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
    asked = api.AskedFolder.of(work, folder)
    assert api.unfit(asked) is None
    other = dataclasses.replace
    assert "bits would differ" in api.unfit(other(asked, kind="gpu Other"))
    words = api.unfit(other(asked, place=f"{folder}/nowhere"))
    assert words == f"{folder}/nowhere is not here; workers need the folder under the same name"
    with pytest.raises(ValueError, match="here it is another sweep: shards was 56, is 1"):
        api.computed(asked, 0)  # this process has chunks of another size
    assert manifest.read(folder).complete


def test_nothing_listens_beyond_this_machine():
    """Scheduler, nannies and workers, as the kernel lists their sockets; no page is served."""
    with api._client("dask", 1) as client:
        client.wait_for_workers(1)
        found = listening(os.getpid())
        port = client.scheduler_info()["services"]["dashboard"]
        for page in ("status", "info/main/workers.html", "metrics", "health"):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/{page}", timeout=10)
    assert len(found) >= 3  # of the scheduler, a nanny and its worker
    assert {address for address, _ in found} == {"0100007F"}, found  # 127.0.0.1, the bytes of a word reversed


def listening(process: int) -> set[tuple[str, str]]:
    """Address and port, as the kernel writes them, of every listening socket of a process and its descendants."""
    processes, sockets = [process], set()
    for one in processes:
        for children in pathlib.Path(f"/proc/{one}/task").glob("*/children"):
            processes += map(int, children.read_text().split())
        for handle in pathlib.Path(f"/proc/{one}/fd").iterdir():
            with contextlib.suppress(OSError):
                sockets.add(os.readlink(handle))
    tables = [pathlib.Path(f"/proc/net/{kind}").read_text() for kind in ("tcp", "tcp6")]
    rows = [row.split() for table in tables for row in table.splitlines()]
    listed = [row for row in rows if len(row) > 9 and row[3] == "0A" and f"socket:[{row[9]}]" in sockets]
    return {tuple(row[1].split(":")) for row in listed}


@pytest.mark.parametrize(
    ("scheduler", "workers", "words"),
    [
        ("somewhere", None, "scheduler = somewhere must be dask or an address"),
        ("tcp://127.0.0.1:9", 2, "workers = 2 are started by scheduler = dask alone"),
    ],
)
def test_schedulers_that_are_none(scheduler, workers, words):
    with pytest.raises(ValueError, match=words):
        api.cluster(scheduler, workers)


def test_what_a_worker_fails_at_can_be_sent(monkeypatch):
    """However deep it happened: Dask waits forever for a failure that it cannot pickle."""

    def deeper(*words):
        return deeper(*words)

    monkeypatch.setattr(api, "_computed", deeper)
    with pytest.raises(RuntimeError, match="RecursionError: maximum recursion depth") as found:
        api.computed(None, 0)
    assert len(found.traceback) == 2


def test_what_a_worker_refuses_stays_what_it_is(monkeypatch):
    def refused(*words):
        raise ValueError("the folder is gone")

    monkeypatch.setattr(api, "_computed", refused)
    with pytest.raises(ValueError, match="the folder is gone"):
        api.computed(None, 0)
