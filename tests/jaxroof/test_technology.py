"""Laws of a technology against numbers worked out by hand, their inverses and their slopes."""

import jax
import numpy as np
import pytest

from jaxroof import clock_at, leakage, peak_power, static_power, voltage_at

CURVE = {"nominal_voltage": 0.75, "nominal_clock": 1.8e9, "threshold": 0.3, "exponent": 1.3}


def test_clock_by_hand():
    """At 0.75 V the nominal one; at 0.6 V (0.3 / 0.45)^1.3 x 0.75 / 0.6 = 0.5903 x 1.25; quadratic devices: a = 2."""
    assert clock_at(0.75, **CURVE) == pytest.approx(1.8e9)
    assert clock_at(0.6, **CURVE) == pytest.approx(1.8e9 * 0.5903 * 1.25, rel=1e-4)
    assert clock_at(1.2, 0.75, 1e9, 0.3, 2.0) == pytest.approx(1e9 * 4.0 * 0.625)


@pytest.mark.parametrize("exponent", [1.0, 1.3, 1.6, 2.0])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.8, 1.0, 1.1, 1.2])
def test_voltage_is_the_inverse_of_clock(exponent, share):
    curve = CURVE | {"exponent": exponent}
    voltage = voltage_at(share * 1.8e9, **curve)
    assert clock_at(voltage, **curve) == pytest.approx(share * 1.8e9, rel=1e-10)
    assert voltage > 0.3


def test_slope_of_the_voltage_is_that_of_the_inverse():
    """dV/df = 1 / (df/dV), through the steps of Newton's method."""
    forward = jax.grad(lambda voltage: clock_at(voltage, **CURVE) / 1e9)(0.65)
    clock = float(clock_at(0.65, **CURVE)) / 1e9
    backward = jax.grad(lambda scaled: voltage_at(scaled * 1e9, **CURVE))(clock)
    assert forward * backward == pytest.approx(1.0, rel=1e-4)


def test_columns_are_taken_at_once():
    clocks = np.linspace(0.3e9, 2.2e9, 7)
    assert np.allclose(voltage_at(clocks, **CURVE), [voltage_at(one, **CURVE) for one in clocks])


def test_published_points_of_one_board():
    """RTX 4090 in games (Quasarzone, 2022): 2726 MHz at 347 W, 2602 at 305 W, 2443 at 268 W. With 60 W beside what
    switches (idle memory, fans, leakage) and 1.0 V at 2726 MHz, V^2 f of the curve says 305 and 268 W within 3 %."""
    curve = CURVE | {"nominal_voltage": 1.0, "nominal_clock": 2726e6}
    for clock, power in ((2602e6, 305.0), (2443e6, 268.0)):
        switched = (clock / 2726e6) * float(voltage_at(clock, **curve)) ** 2
        assert 60.0 + 287.0 * switched == pytest.approx(power, rel=0.03)


def test_static_and_peak_power_by_hand():
    """800 mm2 leak 30 W at 0.0375 W/mm2, e^0.3 times as much 0.1 V higher. 1e-4 J/m2 x 8e-4 m2 x 1.5 GHz x 1.21 W."""
    leaked = leakage(800e-6, 0.85, 0.75, 0.0375e6, 3.0)
    assert leaked == pytest.approx(30.0 * np.exp(0.3))
    static = static_power(leaked, 800e-6, 1.5e9, 1.1, 1e-4, 5.0, 1.0, 20.0)
    assert static == pytest.approx(30.0 * np.exp(0.3) + 145.2 + 5.0 + 20.0)
    assert peak_power(static, 400.0, 150.0, 1.1, 0.5, 0.3, 1000.0) == pytest.approx(static + 242.0 + 45.0)
    assert peak_power(static, 400.0, 150.0, 1.1, 0.5, 0.3, 400.0) == pytest.approx(400.0)


def test_signs_of_slopes():
    """More voltage, area, clock, stacks and peaks take more power; more cooling allows more."""
    power = lambda area, voltage, clock, stacks, matrix, cooling: peak_power(  # noqa: E731
        static_power(leakage(area, voltage, 0.75, 4e4, 3.0), area, clock, voltage / 0.75, 1e-4, stacks, 1.0, 20.0),
        matrix,
        100.0,
        voltage / 0.75,
        0.5,
        0.3,
        cooling,
    )
    slopes = jax.grad(power, argnums=tuple(range(6)))(800e-6, 0.8, 1.5e9, 5.0, 400.0, 600.0)
    assert all(float(slope) > 0.0 for slope in slopes)
