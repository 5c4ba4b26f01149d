"""Laws of a technology: clock by voltage, leakage, static power, and the power that a device has to be built for."""

from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.smooth import minimum
from jaxroof.numerics.struct import Array, Scalar

STEPS = 8
"""Newton steps of `voltage_at`: from the nominal voltage the fifth is exact in float64 over a factor of 30 in clock."""

_LEAST_OVERDRIVE = 1e-6
"""Voltage above the threshold, over the nominal one or over what it is there, from which on it is raised to powers."""


def clock_at(
    voltage: Scalar, nominal_voltage: Scalar, nominal_clock: Scalar, threshold: Scalar, exponent: Scalar
) -> Array:
    """Highest clock in Hz at a supply voltage, shape ().

    clock = nominal_clock g(V) / g(V_nominal),  g(V) = (V - threshold)^exponent / V

    Args:
      voltage: V; from just above the threshold down the clock is next to 0.
      nominal_voltage: V at which the clock is `nominal_clock`.
      nominal_clock: Hz.
      threshold: V of the transistors.
      exponent: 2 for long channels, 1 where the carriers' velocity is saturated; at least 1.

    Source: alpha-power law: Sakurai & Newton, IEEE J. Solid-State Circuits 25(2), 1990.
    """
    nominal = jnp.maximum(nominal_voltage - threshold, _LEAST_OVERDRIVE * nominal_voltage)
    # Overdrive over its nominal value; bounded from below, as gradients in the exponent take its logarithm.
    overdrive = jnp.maximum((voltage - threshold) / nominal, _LEAST_OVERDRIVE)
    return nominal_clock * (overdrive**exponent * (nominal_voltage / voltage))


def voltage_at(
    clock: Scalar, nominal_voltage: Scalar, nominal_clock: Scalar, threshold: Scalar, exponent: Scalar
) -> Array:
    """Lowest supply voltage in V at which the device can run at `clock`, shape (): the inverse of `clock_at`.

    Newton's method on u = log(V - threshold): a u - log(threshold + e^u) is concave and increasing for a >= 1, so every
    step after the first comes from below and none leaves the domain. Differentiable in all arguments.
    """
    nominal = nominal_voltage - threshold
    # The equation in logarithms: a log(V - Vth) - log V = target.
    target = exponent * jnp.log(nominal) - jnp.log(nominal_voltage) + jnp.log(clock / nominal_clock)
    overdrive = nominal
    for _ in range(STEPS):
        voltage = threshold + overdrive
        # Newton's step on the overdrive in log space, so that it stays positive.
        missing = target - exponent * jnp.log(overdrive) + jnp.log(voltage)
        overdrive = overdrive * jnp.exp(missing / (exponent - overdrive / voltage))
    return threshold + overdrive


def leakage(area: Scalar, voltage: Scalar, nominal_voltage: Scalar, density: Scalar, growth: Scalar) -> Array:
    """Power in W that circuits draw without switching, shape (): density area exp(growth (V - V_nominal)).

    Args:
      area: m2 of logic and SRAM.
      voltage: V.
      nominal_voltage: V at which `density` holds.
      density: W/m2, hot (85 C).
      growth: 1/V, of the leaking current and of the voltage together.

    Source: the exponential is that of drain-induced barrier lowering: Roy, Mukhopadhyay & Mahmoodi-Meimand, Proc. IEEE
    91(2), 2003; growth is an assumption (hwspaces/technology/processes.toml).
    """
    # Subthreshold leakage grows exponentially with the drain voltage (DIBL).
    return density * area * jnp.exp(growth * (voltage - nominal_voltage))


def static_power(
    leaked: Scalar,
    core_area: Scalar,
    clock: Scalar,
    overvoltage: Scalar,
    uncore: Scalar,
    stacks: Scalar,
    stack_floor: Scalar,
    fixed: Scalar,
) -> Array:
    """Power in W of a device whose cores are on, whatever they do, shape ().

    static = leaked + uncore core_area clock overvoltage^2 + stacks stack_floor + fixed

    Args:
      leaked: W, of `leakage`.
      core_area: m2 of the dies with cores.
      clock: Hz.
      overvoltage: supply over nominal voltage.
      uncore: J/m2 per cycle: the clock tree and what toggles in every cycle.
      stacks: stacks or chips of memory.
      stack_floor: W of one of them without traffic.
      fixed: W of the board.

    Source: ours, fitted by tests.evidence.tdp_fit.
    """
    # Clock tree and other nodes toggle in every cycle: P = C V^2 f, proportional to the area.
    return leaked + uncore * core_area * clock * jnp.square(overvoltage) + stacks * stack_floor + fixed


def peak_power(
    static: Scalar,
    matrix_power: Scalar,
    memory_power: Scalar,
    overvoltage: Scalar,
    matrix_share: Scalar,
    memory_share: Scalar,
    cooling: Scalar,
) -> Array:
    """Power in W that a device is built for, its TDP, shape (): that of a large 16-bit product, or what can be cooled.

    tdp = min(static + matrix_share matrix_power overvoltage^2 + memory_share memory_power, cooling)

    Args:
      static: W, of `static_power`.
      matrix_power: W: 16-bit matrix peak in FLOP/s x J/FLOP at nominal voltage.
      memory_power: W: bandwidth of device memory in B/s x J/B.
      overvoltage: supply over nominal voltage.
      matrix_share: share of the peak that a product sustains.
      memory_share: share of the bandwidth that it uses.
      cooling: W that one package can be cooled of.

    Products of one silicon differ by up to 40 % in TDP, so this is a usual value and no bound.

    Source: ours, fitted by tests.evidence.tdp_fit.
    """
    needed = static + matrix_share * matrix_power * jnp.square(overvoltage) + memory_share * memory_power
    return minimum(needed, cooling)
