"""Sizes of calls on a GPU: they follow its memory and what its outputs take; NumPy answers less beside one."""

import types

import numpy as np
import pytest

from jaxroof.jobs.request import REQUEST
from jaxroof.numerics.arrays import jax
from sweeps.ask.cases import case
from sweeps.ask.question import Question
from sweeps.run import compilers, device_calls
from sweeps.run.compilers import XLA, chosen
from sweeps.run.device_calls import device_bytes, executables
from sweeps.run.program import XlaProgram
from sweeps.run.simulated.grid import _width
from sweeps.run.ways import LONGEST_EAGER, MOST_EAGER


def device(limit: float | None, platform: str = "gpu"):
    stats = None if limit is None else {"bytes_limit": limit}
    return types.SimpleNamespace(platform=platform, memory_stats=lambda: stats)


@pytest.mark.parametrize(
    "limits, found",
    [
        ([1.5e9], 2.0**28),  # three quarters of 2 GB: a fourth of them is 0.375e9
        ([7e9], 2.0**30),
        ([6e9], 2.0**30),  # the same card with another program on it: the same calls, so the same bits
        ([12e9], 2.0**31),  # a card of 16 GB: 3e9
        ([60e9, 1.5e9], 2.0**28),  # the smallest of several
        ([60e9], 2.0**31),  # larger calls hide no more
        ([None], 2.0**28),  # it does not tell
    ],
)
def test_a_call_takes_a_share_of_the_devices_memory(limits, found):
    assert device_bytes([device(limit) for limit in limits]) == found


@pytest.fixture(scope="module")
def requests():
    """All metrics of a request over three axes of a thousand numbers."""
    one = case("request", "H100-SXM", "Llama-3.1-8B", workload={"batch": 4, "isl": 512, "osl": 64}).scenario
    paths = "hardware.memory.hbm.bandwidth", "hardware.matrix.bf16", "workload.isl"
    settings = [{path: np.ones(1000, np.float32)} for path in paths]
    return XlaProgram(Question(REQUEST, one), settings, np.dtype("float32")), settings


@pytest.mark.parametrize("card", [2e9, 16e9, 80e9])
def test_calls_fit_on_any_card(requests, card, monkeypatch):
    """A billion points, of 20 outputs and more over all three axes, on cards of which JAX may use three quarters."""
    monkeypatch.setattr(jax, "local_devices", lambda: [device(0.75 * card)])
    program, settings = requests
    lengths = XLA().lengths(program, [1000] * 3, None, settings, np.dtype("float32"))
    points, needed = np.prod(lengths), executables(program, lengths, [device(card)]).bytes
    assert sum(len(dims) == 3 for dims in program.dims.values()) > 20
    # Outputs of 1 and 4 B; partial sums, temporary buffers and columns beside them.
    assert 20 * points < needed <= device_bytes([device(0.75 * card)])
    assert 3.0 * needed <= 0.75 * card  # two calls on their way, and one that is read
    assert needed > device_bytes([device(0.75 * card)]) / 4 or points >= 1e9 / 64


def test_programs_that_need_more_than_their_shapes_are_given_less(monkeypatch):
    """Temporary buffers of nine times what is known: a call is cut to the budget over that."""
    program = types.SimpleNamespace(dtype=np.dtype("float32"), between=(), names=("x",), dims={"x": {0}}, ops={})
    monkeypatch.setattr(
        device_calls, "executables", lambda program, lengths, devices: types.SimpleNamespace(bytes=40.0 * lengths[0])
    )
    (length,) = device_calls.fitting_lengths(program, [1 << 28], [{}], [device(12e9)])
    assert 0.8 * 2.0**31 < 40.0 * length <= 2.0**31 or length == (1 << 28) // device_calls.DEVICE_PARTS
    (length,) = device_calls.fitting_lengths(program, [1 << 28], [{}], [device(0.5e9)])
    assert 0.8 * 2.0**26 < 40.0 * length <= 2.0**26


def test_a_long_sweep_is_cut_for_many_devices(monkeypatch):
    """10^8 points are at least four calls for each of eight devices, and the same calls for one."""
    program = types.SimpleNamespace(dtype=np.dtype("float32"), between=(), names=("x",), dims={"x": {0}}, ops={})
    monkeypatch.setattr(
        device_calls, "executables", lambda program, lengths, devices: types.SimpleNamespace(bytes=4.0 * lengths[0])
    )
    one, eight = (device_calls.fitting_lengths(program, [10**8], [{}], [device(60e9)] * number) for number in (1, 8))
    assert one == eight and 10**8 / one[0] >= 32


def test_partial_sums_that_are_done_with_become_outputs(requests):
    """A sample: both partial sums and outputs have a number per point, so that outputs take their place."""
    program, _ = requests
    settings = [{path: np.ones(8, np.float32) for part in program.example for path in part}]
    along = XlaProgram(Question(REQUEST, program.base, ("ttft", "tpot")), settings, np.dtype("float32"))
    assert executables(along, [1 << 16], [device(None)]).aliased >= 2 * 4 * (1 << 16)


def test_numpy_answers_a_quarter_of_the_points_beside_a_gpu(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "cpu")
    assert chosen([MOST_EAGER // 16, 16], MOST_EAGER) == chosen([LONGEST_EAGER], MOST_EAGER) == "numpy"
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert chosen([MOST_EAGER // 16, 16], MOST_EAGER) == chosen([LONGEST_EAGER], MOST_EAGER) == "xla"
    assert chosen([MOST_EAGER // 64, 16], MOST_EAGER) == chosen([LONGEST_EAGER // 4], MOST_EAGER) == "numpy"


def test_a_gpu_simulates_more_at_once(monkeypatch):
    """10,000 streams of 1,000 requests: 1.5 GB are 1,250 in each of two calls that run at once."""
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert _width(10_000, 1000) == 1250 and _width(1000, 1000) == 500
    monkeypatch.setattr(jax, "default_backend", lambda: "cpu")
    assert _width(10_000, 1000) == 32


def test_a_machine_without_plugins_is_not_asked_for_its_devices(monkeypatch):
    monkeypatch.setattr(compilers.importlib.util, "find_spec", lambda name: None)
    monkeypatch.delitem(compilers.sys.modules, "jax")
    monkeypatch.setattr(jax, "default_backend", lambda: pytest.fail("JAX was asked"))
    assert chosen([LONGEST_EAGER], MOST_EAGER) == "numpy"
