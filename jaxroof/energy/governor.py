"""Clock, time and power of a device whose step would draw more than its TDP: dynamic voltage and frequency scaling."""

from typing import NamedTuple

from jaxroof.energy.energy import Joules, power_known
from jaxroof.energy.technology import clock_at, voltage_at
from jaxroof.hardware import Hardware, VoltageCurve
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.smooth import maximum, minimum, positive_part
from jaxroof.numerics.struct import Array, Scalar, given

LEAST_HEADROOM = 0.01
"""Share of TDP that is left for kernels at least, where static power takes all of it: keeps every time finite."""

MIDDLE = 0.5
"""Voltage at which a step's time is exact beside both ends of the curve: share of the way from the least to full."""

STEEPNESS = 3.0
"""Power along the curve goes with about this power of the clock: gradients are blurred as far around the limit as they
would be if the time went with the power."""

_LEAST_SPAN, _LEAST_TIME = 1e-3, 1e-15
"""Span of times over the longest, and the same in s, from which on they are divided by."""


def limited_time(time: Scalar, energy: Joules, hardware: Hardware) -> Array:
    """Time in s that a step takes when the device may not draw more than its TDP on average, shape ().

    The clock falls to the share s of its full value at which the mean power is the limit, and the step takes 1 / s as
    long:

    s (core v(s)^2 + other) / time + static (1 - share + share v(s)) = TDP

    v(s) is the core voltage over that at full clock, from s ~ (V - threshold)^exponent / V; below the least voltage the
    clock falls at constant voltage, as it does everywhere where the curve is unknown. That all of the step stretches
    alike, also its reading of memory and its messages, is the model's assumption. The average is over the step, as
    controllers of power average over milliseconds. Where static power leaves less than `LEAST_HEADROOM` of the limit,
    kernels still get that share of it, so the time stays finite.

    Of a given energy, the time under the limit is a function of the time at full clock alone. It is known at every
    voltage, and a parabola through those at the least, the middle and the full one stands for it: constants of the
    device and the energy, so that a point of a grid costs a few products. Exact at both ends; between them within 1.2 %
    for curves whose clock falls by less than half and static power of up to half of TDP.

    Args:
      time: s at full clock.
      energy: J on one device in that time.
      hardware: where `power_known`; else the time is as it was.

    Source: ours; the law of the clock is that of Sakurai and Newton, IEEE Journal of Solid-State Circuits 25(2), 1990.
    """
    return time_within(power_limit(hardware), time, energy)


class AtVoltage(NamedTuple):
    """A voltage of the curve at which steps may draw TDP."""

    energy: Scalar  # of the cores, over that at full voltage
    reciprocal: Scalar  # 1 / W that is left for kernels
    clock: Scalar  # over the full one


class PowerLimit(NamedTuple):
    """What `limited_time` needs of a device: the same for all of its steps."""

    reciprocal: Scalar  # 1 / W that is left for kernels at full voltage
    lowest: AtVoltage | None  # None: the curve is unknown
    middle: AtVoltage | None


def power_limit(hardware: Hardware) -> PowerLimit | None:
    """Constants of a device's limit, shapes (); None where not `power_known`."""
    if not power_known(hardware):
        return None
    power, curve = hardware.power, hardware.power.curve
    # The reciprocal is the same for all points of a grid that share a device.
    reciprocal = 1.0 / _headroom(power.tdp, power.static)
    if curve is None:
        return PowerLimit(reciprocal, None, None)

    def at(voltage: Scalar) -> AtVoltage:
        share = voltage / curve.full
        # Leakage falls with the voltage, which leaves kernels more of the limit.
        headroom = _headroom(power.tdp, power.static * _static_share(curve, voltage))
        clock = clock_at(voltage, curve.full, 1.0, curve.threshold, curve.exponent)
        # Dynamic power P ~ f V^2: energy per operation goes with V^2, and how many are done per second with f.
        return AtVoltage(share * share, 1.0 / headroom, clock)

    lowest = minimum(curve.least, curve.full)
    return PowerLimit(reciprocal, at(lowest), at(lowest + MIDDLE * (curve.full - lowest)))


def time_within(limit: PowerLimit | None, time: Scalar, energy: Joules) -> Array:
    """`limited_time` of a device whose limit is known, shape ()."""
    if limit is None:
        return jnp.asarray(time)
    # At full voltage: energy over what the limit leaves is the least time that keeps it.
    longest = energy.total * limit.reciprocal
    if limit.lowest is None or limit.middle is None:
        # Without a curve the clock falls at constant voltage: energy does not change, so time is energy over power.
        return maximum(time, longest)
    # DVFS: at a lower clock the voltage falls too, the same work takes less energy, and the step gets faster than at
    # constant voltage.
    (first, shortest), (constant, slope, bend) = _along_curve(energy, longest, limit.lowest, limit.middle)
    # Below `shortest` even the least voltage draws too much: from there the clock alone falls.
    within = jnp.minimum(jnp.maximum(time, shortest), longest)
    # The parabola rises from the time at the least voltage to that at the full one, but for the rounding of its terms.
    limited = jnp.minimum(jnp.maximum(constant + within * (slope + within * bend), first), longest)
    # A step under the limit runs at full clock: the longer of both times.
    return maximum(time, limited, steepness=STEEPNESS)


def _along_curve(
    energy: Joules, longest: Scalar, lowest: AtVoltage, middle: AtVoltage
) -> tuple[tuple[Scalar, Scalar], tuple[Scalar, Scalar, Scalar]]:
    """Step that draws TDP at the least voltage, and the limited time of steps from there to `longest`.

    The first as s that it takes and s at full clock, the second as coefficients of 1, of the time at full clock, and of
    its square; it never falls where that time grows.

    Args:
      longest: s at full clock from which on the full voltage draws TDP.
    """

    def times(at: AtVoltage) -> tuple[Scalar, Scalar]:
        """Of a step that draws TDP at this voltage: s that it takes, and that it would take at full clock."""
        limited = (energy.core * at.energy + energy.other) * at.reciprocal
        return limited, limited * at.clock

    # Three points of the curve: least, middle and full voltage, each with the time at full clock that just draws TDP.
    (first, shortest), (between, at_middle) = times(lowest), times(middle)
    shortest = jnp.minimum(shortest, longest)  # of exponents below 1 the clock would grow as voltage falls

    def rise(end: Scalar, start: Scalar, span: Scalar) -> Scalar:
        return (end - start) / jnp.maximum(span, _LEAST_SPAN * longest + _LEAST_TIME)

    # Newton's form of the parabola through the three points: first and second divided differences.
    mean = rise(longest, first, longest - shortest)
    bend = rise(mean, rise(between, first, at_middle - shortest), longest - at_middle)
    most = rise(mean, 0.0, longest - shortest)  # flat at one of the ends
    # Clamped so that the parabola is monotone: more work at full clock is never faster under the limit.
    bend = jnp.minimum(jnp.maximum(bend, -most), most)
    start = mean - bend * longest
    return (first, shortest), (first - shortest * start, start - bend * shortest, bend)


def mean_power(time: Scalar, energy: Joules, hardware: Hardware) -> Array:
    """Mean power in W of one device in a step, static power included, shape (): at most the limit.

    Args:
      time: s at full clock.
      energy: J on one device in that time.
      hardware: where `power_known`.
    """
    power = hardware.power
    drawn = static = given(power.static, "static power of the hardware")
    if power.curve is not None:
        # Static power at the least voltage and what it leaves of the limit: together TDP, unless the floor of
        # `_headroom` holds.
        static = static * _static_share(power.curve, minimum(power.curve.least, power.curve.full))
    return minimum(drawn + jnp.divide(energy.total, time), static + _headroom(power.tdp, static))


def power_by_part(
    time: Scalar, core: dict[str, Scalar], other: dict[str, Scalar], hardware: Hardware
) -> dict[str, Array]:
    """Mean power in W of one device in a step by what draws it, "static" last, shapes (); adds to `mean_power`.

    Where the limit slows the step every part draws what it does at the lower clock and voltage: that of the cores falls
    as s v(s)^2, the rest as s, static power with the voltage. Terms as in `limited_time`.

    Args:
      time: s at full clock.
      core: J on one device in that time at the cores' voltage, by field of `Energy`.
      other: J of memory and links in that time, likewise.
      hardware: where `power_known`.
    """
    power, joules = hardware.power, Joules(sum(core.values()), sum(other.values()))
    # Clock over its full value: time under the limit is 1 / s as long.
    share = jnp.divide(time, limited_time(time, joules, hardware))
    at_core, static = share, power.static
    if power.curve is not None:
        curve = power.curve
        # Inverse of the alpha-power law, but never below the least voltage.
        volts = maximum(voltage_at(share, curve.full, 1.0, curve.threshold, curve.exponent), curve.least)
        volts = jnp.where(share < 1.0, volts, curve.full)
        at_core, static = share * jnp.square(volts / curve.full), static * _static_share(curve, volts)
    parts = {name: at_core * spent / time for name, spent in core.items()}
    parts |= {name: share * spent / time for name, spent in other.items()} | {"static": jnp.asarray(static)}
    # The limited time is that of a parabola: what is left of the limit goes to all parts alike.
    scale = mean_power(time, joules, hardware) / sum(parts.values())
    return {name: watts * scale for name, watts in parts.items()}


def limited_energy(time: Scalar, energy: Joules, hardware: Hardware) -> Array:
    """Energy in J that a step takes under the limit beside static power at full clock's voltage, shape ().

    So that power over any time is this energy over that time plus static power. Arguments as `mean_power`.
    """
    drawn = mean_power(time, energy, hardware) - hardware.power.static
    return drawn * limited_time(time, energy, hardware)


def _static_share(curve: VoltageCurve, voltage: Scalar) -> Scalar:
    """Static power at a core voltage in V over that at full clock."""
    # The share of static power that leaks from the cores follows their voltage linearly.
    return 1.0 - curve.static_share * (1.0 - voltage / curve.full)


def _headroom(tdp: Scalar, static: Scalar) -> Scalar:
    # A floor keeps the time finite where static power alone takes the whole limit.
    return maximum(positive_part(tdp - static), LEAST_HEADROOM * tdp)
