"""Sizes of calls on a GPU: they follow its memory and what its outputs take; NumPy answers less beside one."""

import types

import pytest

from jaxroof.numerics.arrays import jax
from sweeps.run import compilers
from sweeps.run.compilers import XLA, chosen, device_bytes
from sweeps.run.ways import LONGEST_EAGER, MOST_EAGER


def device(limit: float | None, platform: str = "gpu"):
    stats = None if limit is None else {"bytes_limit": limit}
    return types.SimpleNamespace(platform=platform, memory_stats=lambda: stats)


@pytest.mark.parametrize(
    "limits, found",
    [
        ([60e9], 2.0**33),  # three quarters of 80 GB: a fourth is 15e9
        ([59e9], 2.0**33),  # the same card with another program on it: the same calls, so the same bits
        ([12e9], 2.0**31),  # a card of 16 GB: 3e9
        ([60e9, 12e9], 2.0**31),  # the smallest of several
        ([200e9], 16e9),
        ([None], 16e9),  # it does not tell
    ],
)
def test_a_call_takes_a_share_of_the_devices_memory(limits, found):
    assert device_bytes([device(limit) for limit in limits]) == found


def test_a_cpu_is_not_asked():
    assert device_bytes([types.SimpleNamespace(platform="cpu")]) == compilers.CHUNK_BYTES["cpu"]


def test_two_calls_with_their_outputs_fit(monkeypatch):
    """28 outputs over both axes and 3 over one, of float32, on 16 GB of which JAX may use 12."""
    monkeypatch.setattr(jax, "local_devices", lambda: [device(12e9)])
    names = [f"output {i}" for i in range(31)]
    dims = {name: frozenset({0, 1} if i < 28 else {1}) for i, name in enumerate(names)}
    program = types.SimpleNamespace(names=names, dims=dims, ops={})
    rows, columns = XLA().lengths(program, [1 << 20, 1 << 10], None, [{}, {}], compilers.np.dtype("float32"))
    assert 0.2 * 12e9 < 2 * rows * columns * 28 * 4 <= 0.5 * 12e9


def test_numpy_answers_a_quarter_of_the_points_beside_a_gpu(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "cpu")
    assert chosen([MOST_EAGER // 16, 16], MOST_EAGER) == chosen([LONGEST_EAGER], MOST_EAGER) == "numpy"
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert chosen([MOST_EAGER // 16, 16], MOST_EAGER) == chosen([LONGEST_EAGER], MOST_EAGER) == "xla"
    assert chosen([MOST_EAGER // 64, 16], MOST_EAGER) == chosen([LONGEST_EAGER // 4], MOST_EAGER) == "numpy"


def test_a_machine_without_plugins_is_not_asked_for_its_devices(monkeypatch):
    monkeypatch.setattr(compilers.importlib.util, "find_spec", lambda name: None)
    monkeypatch.delitem(compilers.sys.modules, "jax")
    monkeypatch.setattr(jax, "default_backend", lambda: pytest.fail("JAX was asked"))
    assert chosen([LONGEST_EAGER], MOST_EAGER) == "numpy"
