"""Clock at the limit of electrical power: by hand, against bisection on the exact curve, its slopes and its ends."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hwspaces
from jaxroof import BOUNDS, Joules, Power, VoltageCurve, limited_time, mean_power
from jaxroof.energy.governor import LEAST_HEADROOM, limited_energy
from jaxroof.energy.technology import clock_at
from jaxroof.numerics.arrays import eager
from jaxroof.numerics.smooth import smoothing
from jaxroof.step.step import dominant_bound
from tests.jaxroof.test_energy import ENERGY

LINE = VoltageCurve(full=1.0, threshold=0.0, exponent=2.0, least=0.5, static_share=0.0)
"""V^2 / V: clock and voltage fall alike, to half of both."""

LARGEST_ERROR = 0.012
"""Of the clock against the exact curve, where that is 0.5 or more at the least voltage, static power half of TDP."""


def device(chip, power):
    return dataclasses.replace(chip, energy=ENERGY, power=power)


@pytest.fixture(scope="session")
def lined(chip):
    """TDP 484.7 W, of which 100 W static, and a curve on which voltage and clock are one number."""
    return device(chip, Power(tdp=484.7, static=100.0, curve=LINE))


def test_the_middle_of_the_curve_by_hand(lined, float64):
    """800 W of cores and 100 W of memory. At the parabola's middle point, 0.75 of the clock:
    0.75 (800 x 0.75^2 + 100) + 100 = 512.5 W; the step of 1 s takes 1 / 0.75 s."""
    hardware = dataclasses.replace(lined, power=dataclasses.replace(lined.power, tdp=512.5))
    assert float(limited_time(1.0, Joules(core=800.0, other=100.0), hardware)) == pytest.approx(1.0 / 0.75, rel=1e-12)
    assert float(mean_power(1.0, Joules(core=800.0, other=100.0), hardware)) == pytest.approx(512.5, rel=1e-12)


def test_below_the_least_voltage_the_clock_falls_alone(lined, float64):
    """At half the voltage 800 + 100 J are 200 + 100 J; 50 W beside 100 W static take 6 s for them."""
    hardware = dataclasses.replace(lined, power=dataclasses.replace(lined.power, tdp=150.0))
    assert float(limited_time(1.0, Joules(core=800.0, other=100.0), hardware)) == pytest.approx(6.0, rel=1e-12)
    assert float(limited_energy(1.0, Joules(core=800.0, other=100.0), hardware)) == pytest.approx(300.0, rel=1e-12)


def test_what_is_below_the_limit_is_as_it_was(lined):
    for core in (0.0, 300.0, 384.69):
        assert float(limited_time(1.0, Joules(core, 384.69 - core), lined)) == 1.0
        assert float(mean_power(1.0, Joules(core, 384.69 - core), lined)) == pytest.approx(484.69, rel=1e-6)


def test_the_time_is_continuous_at_both_ends_of_the_curve(lined, float64):
    """At the limit, and at the least voltage: 0.5 (A / 4 + 100) + 100 = 484.7 W, A = 2677.6 W."""
    for core, time in ((284.7, 1.0), (2677.6, 2.0)):
        below, above = (float(limited_time(1.0, Joules(core * f, 100.0), lined)) for f in (1 - 1e-9, 1 + 1e-9))
        assert below == pytest.approx(time, rel=1e-8) and above == pytest.approx(time, rel=1e-8) and above > below


def exact_clock(curve, power, core, other):
    """Share of the clock at which the mean power is TDP, by bisection in the voltage; W at full clock."""

    def drawn(voltage):
        share, clock = voltage / curve.full, float(clock_at(voltage, curve.full, 1.0, curve.threshold, curve.exponent))
        return clock * (core * share**2 + other) + power.static * (1.0 - curve.static_share * (1.0 - share))

    if drawn(curve.full) <= power.tdp:
        return 1.0
    if drawn(curve.least) >= power.tdp:
        share = curve.least / curve.full
        static = power.static * (1.0 - curve.static_share * (1.0 - share))
        return max(power.tdp - static, LEAST_HEADROOM * power.tdp) / (core * share**2 + other)
    low, high = curve.least, curve.full
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if drawn(middle) > power.tdp else (middle, high)
    return float(clock_at(low, curve.full, 1.0, curve.threshold, curve.exponent))


def test_the_clock_is_that_of_the_exact_curve(chip, float64):
    random, worst, throttled = np.random.default_rng(4), 0.0, 0
    for _ in range(3000):
        full = random.uniform(0.7, 1.1)
        curve = VoltageCurve(
            full=full,
            threshold=random.uniform(0.15, 0.4),
            exponent=random.uniform(1.1, 2.0),
            least=full * random.uniform(0.6, 1.0),
            static_share=random.uniform(0.0, 1.0),
        )
        if (
            curve.threshold > 0.9 * curve.least
            or float(clock_at(curve.least, curve.full, 1.0, curve.threshold, curve.exponent)) < 0.5
        ):
            continue
        power = Power(tdp=700.0, static=random.uniform(0.0, 350.0), curve=curve)
        core, other = random.uniform(0.0, 1500.0), random.uniform(0.0, 500.0)
        time = random.uniform(1e-5, 10.0)
        found = time / float(limited_time(time, Joules(core * time, other * time), device(chip, power)))
        exact = exact_clock(curve, power, core, other)
        worst, throttled = max(worst, abs(found / exact - 1.0)), throttled + (exact < 1.0)
        assert (found < 1.0) == (exact < 1.0)
    assert throttled > 500 and worst < LARGEST_ERROR


def test_the_catalogues_curves_are_as_near(chip):
    for name in ("P100-PCIe", "A100-SXM-80GB", "H100", "B200", "MI300X", "TPU-v5e"):
        power = hwspaces.hardware(name).hardware.power
        if power.curve is None:
            continue
        curve = power.curve
        assert curve.threshold < curve.least <= curve.full
        for scale in np.linspace(0.7, 4.0, 30):
            core, other = 0.6 * scale * power.tdp, 0.2 * scale * power.tdp
            found = 1.0 / float(limited_time(1.0, Joules(core, other), device(chip, power)))
            assert found == pytest.approx(exact_clock(curve, power, core, other), rel=LARGEST_ERROR)


def test_short_curves_lose_no_digits(chip):
    """Voltages 0.03 % apart: the parabola's terms are a thousand times the time, which it had to 4e-5 in float32."""

    def time(kind):
        numbers = {"full": 0.60854769, "threshold": 0.12081531, "exponent": 1.79182993, "least": 0.60834438}
        curve = VoltageCurve(**{name: kind(value) for name, value in numbers.items()}, static_share=kind(0.16526069))
        power = Power(tdp=kind(1390.50635), static=kind(644.606079), curve=curve)
        with eager():
            return float(
                limited_time(kind(0.32790685), Joules(kind(587.436523), kind(295.965027)), device(chip, power))
            )

    assert time(np.float32) == pytest.approx(time(float), rel=2e-6)


def test_without_a_curve_only_the_time_stretches(chip, lined):
    """384 J in 1 s beside 100 W static of 292 W: twice as long, and 192 W beside them."""
    plain = device(chip, Power(tdp=292.0, static=100.0))
    cases = (plain, Joules(0.0, 384.0)), (plain, Joules(300.0, 84.0)), (lined, Joules(0.0, 769.4))
    for hardware, energy in cases:
        assert float(limited_time(1.0, energy, hardware)) == pytest.approx(2.0, rel=1e-6)
        assert float(limited_energy(1.0, energy, hardware)) == pytest.approx(energy.total, rel=1e-6)


LEAVES = ("time", "core", "other", "tdp", "static", "full", "threshold", "exponent", "least", "static_share")


def stretched(chip, logarithms):
    values = {name: jnp.exp(logarithm) for name, logarithm in zip(LEAVES, logarithms, strict=True)}
    curve = VoltageCurve(**{name: values[name] for name in LEAVES[5:]})
    hardware = device(chip, Power(tdp=values["tdp"], static=values["static"], curve=curve))
    time, core = values["time"], values["core"]
    return jnp.log(limited_time(time, Joules(core, values["other"]), hardware))


@pytest.mark.parametrize("tdp", [900.0, 560.0, 500.0, 420.0, 300.0])
def test_slopes_in_log_space_are_differences(chip, float64, tdp):
    """Unthrottled, along the curve, and below it: 0.1 s, 35 + 10 J, 200 W static."""
    at = jnp.log(jnp.array([0.1, 35.0, 10.0, tdp, 200.0, 1.05, 0.3, 1.3, 0.6, 0.5]))
    with smoothing(0):
        slopes = jax.grad(lambda x: stretched(chip, x))(at)
    step = 1e-6
    differences = [
        (float(stretched(chip, at.at[i].add(step))) - float(stretched(chip, at.at[i].add(-step)))) / (2 * step)
        for i in range(len(LEAVES))
    ]
    np.testing.assert_allclose(slopes, differences, rtol=1e-4, atol=1e-7)
    # Euler: twice the time and the energy take twice the time; twice all powers change nothing.
    smooth = np.asarray(jax.grad(lambda x: stretched(chip, x))(at))
    assert sum(smooth[:3]) == pytest.approx(1.0, abs=1e-9)
    assert sum(smooth[1:5]) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(
    "numbers",
    [
        {"static": 900.0},  # above TDP
        {"static": 900.0, "core": 1e6},
        {"core": 1e-30, "other": 1e-30},
        {"time": 1e-30, "core": 1e-30, "other": 1e-30},
        {"least": 1.05},  # the voltage never falls
        {"least": 1.2},  # as a wild search may ask
        {"least": 0.2},  # below the threshold: the clock could fall to 0
        {"static_share": 1.0, "static": 699.0},
        {"core": 1e9, "other": 1e9},
        {"exponent": 1.0, "threshold": 1e-9},
        {"exponent": 0.4, "threshold": 0.4, "least": 0.97, "other": 5000.0},  # as a wild search may ask too
    ],
)
def test_values_and_slopes_are_finite_everywhere(chip, numbers):
    usual = dict(zip(LEAVES, (0.1, 35.0, 10.0, 700.0, 200.0, 1.05, 0.3, 1.3, 0.6, 0.5), strict=True))
    at = jnp.log(jnp.array([(usual | numbers)[name] for name in LEAVES], jnp.float32))
    value, slopes = jax.value_and_grad(lambda x: stretched(chip, x))(at)
    assert np.isfinite(float(value)) and np.isfinite(np.asarray(slopes)).all()
    assert float(value) >= float(at[0]) - 1e-5
    assert np.exp(value) > 0.9 * np.exp(at[2]) / max(np.exp(at[3]), 1.0)  # what memory takes at TDP


def test_more_power_is_never_slower_and_takes_no_less_energy(chip, float64):
    """Along the curve a lower voltage saves more than the longer step costs in static power."""
    curve = hwspaces.hardware("H100").hardware.power.curve
    energy, tokens = Joules(core=44.0, other=8.0), []
    times = []
    for tdp in np.linspace(380.0, 900.0, 40):
        hardware = device(chip, Power(tdp=tdp, static=250.6, curve=curve))
        times.append(float(limited_time(0.1, energy, hardware)))
        tokens.append(times[-1] * float(mean_power(0.1, energy, hardware)))
    assert (np.diff(times) <= 0.0).all() and times[-1] == 0.1 and times[0] > 0.13
    assert (np.diff(tokens) >= -1e-12).all() and tokens[-1] > 1.1 * tokens[0]


def test_power_binds_a_step_that_it_slows():
    times = jnp.array([3.0, 0.0, 0.0, 5.0, 0.0, 0.0, 0.0, 1.0])
    assert BOUNDS[int(dominant_bound(times))] == "hbm"
    assert BOUNDS[int(dominant_bound(times, jnp.asarray(True)))] == "power" == BOUNDS[-1]
