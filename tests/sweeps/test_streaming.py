"""Sweeps of XLA's programs into a file: chunks are computed and copied while others are written, in bounded memory."""

import threading

import numpy as np
import pytest
import xarray as xr

import sweeps
from sweeps.data import store
from sweeps.run import device_calls

ASKED = {
    "hardware": "H100-SXM",
    "model": "Llama-3.1-8B",
    "efficiency": "derated",
    "workload": {"batch": 4, "isl": 512, "osl": 64},
    "axes": {
        "hardware.memory.hbm.bandwidth": {"from": "1 TB/s", "to": "8 TB/s", "n": 16},
        "hardware.matrix.bf16": {"from": "250 TFLOP/s", "to": "4 PFLOP/s", "n": 12},
    },
    "output": {"variables": ["tpot", "ttft"]},
}
SECONDS = 20.0
"""After which a wait has failed."""


@pytest.fixture
def small_calls(monkeypatch):
    """Sixteen calls of twelve points each."""
    monkeypatch.setattr("sweeps.run.engine.chosen", lambda sizes, most_eager: "xla")
    monkeypatch.setattr("sweeps.run.compilers.CHUNK_BYTES", {"cpu": 4.0 * 17 * 12})


def test_the_next_chunks_are_computed_while_one_is_written(small_calls, monkeypatch, tmp_path):
    """Every write waits for the call after its own to begin: one after the other, that would never come."""
    begun, written, most = [], [], []
    moved = threading.Condition()
    computed, stored = device_calls.DeviceCalls.__call__, store._stored

    def compute(self, starts):
        with moved:
            begun.append(starts)
            most.append(len(begun) - len(written) // 2)
            moved.notify_all()
        return computed(self, starts)

    def write(file, piece):
        with moved:
            # One call more stands for the first chunk, which compilation has computed.
            wanted = min(16, len(written) // 2 + 2) + 1
            assert moved.wait_for(lambda: len(begun) >= wanted, SECONDS), "nothing was computed meanwhile"
        stored(file, piece)
        with moved:
            written.append(piece.name)

    monkeypatch.setattr(device_calls.DeviceCalls, "__call__", compute)
    monkeypatch.setattr(store, "_stored", write)
    sweeps.sweep_to_file(tmp_path / "sweep.nc", ASKED)
    assert len(begun) == 17 and len(written) == 32
    assert max(most) <= 1 + 1 + 1 + 2  # the first one's, computing, read, and written or waiting to be
    with xr.open_dataset(tmp_path / "sweep.nc") as found:
        np.testing.assert_array_equal(found["tpot"], sweeps.sweep(ASKED)["tpot"])


def test_a_failed_write_ends_the_sweep(small_calls, monkeypatch, tmp_path):
    def full(file, piece):
        raise OSError("no space left")

    monkeypatch.setattr(store, "_stored", full)
    with pytest.raises((OSError, ValueError), match="no space left"):
        sweeps.sweep_to_file(tmp_path / "sweep.nc", ASKED)
    assert not list(tmp_path.iterdir())


def test_copies_to_the_host_begin_with_the_call():
    """Of two devices: only what the host will read, before anybody waits for it."""
    copied = []

    class Value:
        def __init__(self, name):
            self.copy_to_host_async = lambda: copied.append(name)

    class Calls:
        devices = (0, 1)

        def __call__(self, starts):
            return [{name: Value(f"{name} {start[0]}") for name in ("tpot", "ttft")} for start in starts]

        def own(self, results):
            return results

    batch = device_calls.DeviceBatch(Calls())
    results = batch.add([0], frozenset({"tpot"}))
    assert not batch.full and copied == []
    batch.add([8], frozenset({"tpot", "ttft"}))
    assert batch.full
    batch.begin()
    assert sorted(copied) == ["tpot 0", "tpot 8", "ttft 8"]
    assert set(results()) == {"tpot", "ttft"} and len(copied) == 3
