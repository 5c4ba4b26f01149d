"""Numbers of NumPy, JAX and ranges as arguments of the public functions: the answers of Python's own numbers."""

import types

import jax.numpy as jnp
import numpy as np
import pytest

import hwspaces
import sweeps
from hwspaces.quantities.units import plain

CHIP, MODEL = "H100-SXM", "Llama-3.1-8B"


def test_plain_values():
    given = {"a": np.int64(8), "b": [jnp.float32(2), range(1, 3)], "c": (np.array([[1.5]]), np.str_("x")), "d": None}
    found = plain(types.MappingProxyType(given))
    assert found == {"a": 8, "b": [2.0, [1, 2]], "c": ([[1.5]], "x"), "d": None}
    assert type(found["a"]) is int and type(found["b"][0]) is float and type(found["c"][1]) is str
    assert plain(len) is len and plain(np.float64(0.5)) == 0.5 and type(plain(np.bool_(True))) is bool


def test_a_figure():
    chip = hwspaces.hardware(CHIP)
    given = {"memory.hbm.bandwidth": np.int64(10**12), "cores.count": jnp.int32(64)}
    assert hwspaces.overridden(chip, given).hardware.cores.count == 64.0
    assert hwspaces.quantity(np.float32(2), "s", "x") == 2.0


def sweep(number, several):
    axes = {"hardware.memory.hbm.bandwidth": sweeps.log(number(1e12), number(4e12), number(3))}
    work = {"batch": several(1, 4), "isl": number(64), "osl": number(8)}
    return sweeps.sweep(hardware=CHIP, model=MODEL, efficiency="derated", workload=work, axes=axes).tpot.values


def sample(number, several):
    axes, drawn = {"workload.batch": {"from": number(1), "to": number(64)}}, {"points": number(4), "seed": number(1)}
    work = {"isl": number(64), "osl": number(8)}
    found = sweeps.sweep(
        hardware=CHIP, model=MODEL, efficiency="derated", mode="sample", sample=drawn, axes=axes, workload=work
    )
    return found.tpot.values


def train(number, several):
    work, degrees = {"global_batch": number(8), "seq": several(1024, 1026)}, {"dp": number(8)}
    return sweeps.sweep(
        job="train", hardware=CHIP, model=MODEL, efficiency="derated", workload=work, deployment=degrees
    ).iteration_time.values


def compare(number, several):
    found = sweeps.compare_static(
        MODEL,
        number(128),
        number(16),
        hardware=[CHIP],
        devices=several(1, 3),
        batch=several(1, 3),
        slo={"ttft": number(1)},
        efficiency="derated",
    )
    return found.dataset.tpot.values


def sensitivity(number, several):
    work = {"batch": number(2), "isl": number(64), "osl": number(8)}
    asked = {"hardware": CHIP, "model": MODEL, "efficiency": "derated", "workload": work}
    return sweeps.sensitivity(asked, knobs=["hardware.memory.hbm"]).dataset.elasticity_of_tpot.values


def optimize(number, several):
    return sweeps.problem(
        {
            "job": "step",
            "hardware": CHIP,
            "model": MODEL,
            "efficiency": "derated",
            "workload": {"decode": number(8), "context": number(128)},
            "axes": {"hardware.memory.hbm.bandwidth": {"from": number(1e12), "to": number(4e12)}},
            "optimize": {"minimize": "step_time", "starts": number(2)},
        }
    ).upper


NUMBERS = {
    "NumPy's integers and arrays": (lambda value: np.int64(value), np.arange),
    "NumPy's floats and ranges": (lambda value: np.float32(value), range),
    "JAX's": (lambda value: jnp.float32(value), jnp.arange),
}


@pytest.mark.parametrize("kind", NUMBERS)
@pytest.mark.parametrize("ask", [sweep, sample, train, compare, sensitivity, optimize])
def test_answers_are_those_of_plain_numbers(ask, kind):
    # float32 rounds a bound such as 1e12 in its eighth digit
    expected = ask(int, lambda *ends: list(range(*ends)))
    np.testing.assert_allclose(ask(*NUMBERS[kind]), expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("n", "said"), [(2.5, "whole number"), (None, "missing"), (10**18, "at most"), (0, "at least 1")]
)
def test_the_points_of_a_range_are_checked(n, said):
    with pytest.raises(ValueError, match=f'axes."workload.batch".n .*{said}'):
        sweeps.sweep(hardware=CHIP, model=MODEL, axes={"workload.batch": sweeps.linear(1, 64, n)})


@pytest.mark.parametrize("bad", [np.float32("nan"), np.inf, -np.int64(1), np.bool_(True), np.array([1, 2]), 1j])
def test_what_is_no_positive_number_is_refused_by_name(bad):
    with pytest.raises(ValueError, match="workload.batch = ") as refused:
        sweeps.case("request", CHIP, MODEL, workload={"batch": bad, "isl": 10, "osl": 2}, efficiency="derated")
    assert "\n" not in str(refused.value)
