"""Sweeps on eight devices, which XLA makes of one CPU: work for each, one compilation, and the bits of one device."""

import json
import os
import subprocess
import sys

import pytest

PROGRAM = """
import collections, hashlib, json, sys
import jax, numpy as np
from jaxroof.jobs.request import REQUEST
from sweeps.ask.axes import Axis
from sweeps.ask.cases import case
from sweeps.ask.question import Question
from sweeps.run import compilers, device_calls
from sweeps.run.engine import Plan

compiled, worked = [], collections.Counter()
jax.config.update("jax_enable_compilation_cache", False)
jax.monitoring.register_event_duration_secs_listener(
    lambda name, seconds, **more: compiled.append(name) if name.endswith("backend_compile_duration") else None
)
one = case("request", "H100-SXM", "Llama-3.1-8B", workload={"batch": 4, "isl": 512, "osl": 64}, efficiency="derated")
paths = {"hardware.memory.hbm.bandwidth": 1e12, "hardware.matrix.bf16": 5e14, "workload.isl": 64.0}
axes = tuple(Axis(path, 15, {path: low * np.arange(1, 16)}, ()) for path, low in paths.items())
devices = jax.local_devices()[: int(sys.argv[1])]
jax.local_devices = lambda: devices

calls = device_calls.DeviceCalls.__call__

def counted(self, starts):
    found = calls(self, starts)
    for results in found:
        for name, value in results.items():
            worked[str(value.device)] += name == "tpot"
    return found

device_calls.DeviceCalls.__call__ = counted
plan = Plan(Question(REQUEST, one.scenario, ("ttft", "tpot", "weight_bytes")), axes, compiler="xla", chunk_points=200)
before, worked = len(compiled), collections.Counter()
target = {name: np.zeros(output.shape, output.dtype) for name, output in plan.outputs.items()}
for piece in plan.pieces():
    target[piece.name][piece.index] = piece.values
bits = hashlib.sha256(b"".join(target[name].tobytes() for name in sorted(target))).hexdigest()
digest = lambda view: hashlib.sha256(np.ascontiguousarray(view.host())).hexdigest()
whole = {str(box.corner): {name: digest(view) for name, view in views.items()} for box, views in plan.values()}
print(json.dumps({"planned": before, "running": len(compiled) - before, "worked": worked, "bits": bits, "whole": whole,
                  "chunks": sum(1 for _ in plan.boxes()), "finite": bool(np.isfinite(target["tpot"]).all())}))
"""


def ran(number: int) -> dict:
    """What the program says on so many of eight devices, compiled as users compile: bits are compared."""
    words = "--xla_force_host_platform_device_count=8"
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(number)],
        env=os.environ | {"XLA_FLAGS": words},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    return json.loads(found.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def alone() -> dict:
    return ran(1)


@pytest.mark.parametrize("number", [8, 3])
def test_several_devices_share_the_work_and_the_bits(alone, number):
    several = ran(number)
    assert several["finite"] and several["bits"] == alone["bits"]
    assert several["whole"] == alone["whole"] and len(alone["whole"]) == alone["chunks"]
    # Chunks go to devices in turns, both times that they are computed.
    assert sorted(several["worked"].values(), reverse=True) == [
        2 * len(range(i, alone["chunks"], number)) for i in range(number)
    ]
    # Both functions are compiled once, before anything is timed, however many devices there are.
    assert several["running"] == alone["running"] == 0
    assert several["planned"] == alone["planned"]
