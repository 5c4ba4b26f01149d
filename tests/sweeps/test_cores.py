"""Cores of a process, and of each of several."""

import os

from sweeps.run.cores import cores, share
from sweeps.run.shards import api


def test_a_process_has_the_cores_that_it_is_scheduled_on(monkeypatch):
    monkeypatch.delenv("NPROC", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda who: set(range(64)), raising=False)
    assert cores() == 64
    monkeypatch.setenv("NPROC", "8")
    assert cores() == 8
    assert (share(2), share(3), share(20)) == (4, 2, 1)
    for nothing in ("", "0", "many", "100"):  # 0 is no number of cores; more than there are is no limit
        monkeypatch.setenv("NPROC", nothing)
        assert cores() == (1 if nothing == "0" else 64)


def test_threads_of_machine_code_are_those_of_the_process(monkeypatch):
    from sweeps.run.compilers import LLVM

    monkeypatch.setenv("NPROC", "1")
    assert LLVM().ahead == 2


def test_workers_that_are_started_here_share_the_cores(monkeypatch):
    import dask
    import distributed

    seen = {}

    def started(**words):
        seen.update(words, environ=dask.config.get("distributed.nanny.pre-spawn-environ"))
        raise RuntimeError("far enough")

    monkeypatch.delenv("NPROC", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda who: set(range(8)), raising=False)
    monkeypatch.setattr(distributed, "LocalCluster", started)
    for workers, each in ((None, "1"), (2, "4"), (16, "1")):
        try:
            api._client("dask", workers)
        except RuntimeError:
            pass
        assert seen["environ"]["NPROC"] == each
        assert seen["n_workers"] == (workers or 8)
