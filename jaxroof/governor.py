"""Clock, time and power of a device whose step would draw more than its TDP: dynamic voltage and frequency scaling."""

from typing import NamedTuple

from jaxroof.arrays import jnp
from jaxroof.energy import CORE, core_energies_of, energies_of, power_known
from jaxroof.hardware import Hardware, VoltageCurve
from jaxroof.op import Ops
from jaxroof.smooth import maximum, minimum, positive_part
from jaxroof.struct import Array, Scalar

LEAST_HEADROOM = 0.01
"""Share of TDP that is left for kernels at least, where static power takes all of it: keeps every time finite."""

MIDDLE = 0.3
"""Where the curve's middle point is, between the least voltage and the one at full clock. Ours: of 0.2 to 0.5 it keeps
the clock nearest to the curve's."""

_LEAST_SPAN, _LEAST_SQUARE = 1e-3, 1e-36
"""Clock share between the curve's ends, and J^2 under the root, from which on they are divided by."""


class Joules(NamedTuple):
    """Energy of a step on one device at full clock, beside static power: J, shapes ()."""

    total: Scalar
    core: Scalar | None = None  # of it what the cores' voltage decides; None: the voltage stays

    def times(self, factor: Scalar) -> "Joules":
        """That of `factor` such steps."""
        return Joules(self.total * factor, None if self.core is None else self.core * factor)


def curve_known(hardware: Hardware) -> bool:
    """Whether the voltage falls with the clock where power is limited: structure, not data."""
    return power_known(hardware) and hardware.power.curve is not None


def joules_of(ops: Ops, hardware: Hardware) -> Joules | None:
    """Energy of one run of a step's ops; None where power is unknown."""
    if not power_known(hardware):
        return None
    core = sum(core_energies_of(ops, hardware).values()) if curve_known(hardware) else None
    return Joules(sum(energies_of(ops, hardware).values()), core)


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

    s v(s)^2 and the static power are taken as parabolas in s through three points of the curve, which makes s a root
    and a division. Exact at the limit and at the least voltage; between them s is within 1 % for curves whose clock
    falls by less than half.

    Args:
      time: s at full clock.
      energy: J on one device in that time.
      hardware: where `power_known`; else the time is as it was.

    Source: ours; the law of the clock is that of Sakurai and Newton, IEEE Journal of Solid-State Circuits 25(2), 1990.
    """
    if not power_known(hardware):
        return jnp.asarray(time)
    power = hardware.power
    if power.curve is None or energy.core is None:
        # The reciprocal is the same for all points of a grid that share a device.
        return maximum(time, energy.total * (1.0 / _headroom(power.tdp, power.static)))
    least, voltage, dynamic, static = _parabolas(power.curve)
    least_static = power.static * static[0]
    other = energy.total - energy.core
    slowest = energy.core * (voltage * voltage) + other  # J at the least voltage
    # With x = s - least: excess - slope x - bend x^2 = 0, all times the step's time, so in J.
    excess = positive_part(time * (power.tdp - least_static) - least * slowest)
    slope = energy.core * dynamic[1] + other + time * (power.static * static[1])
    bend = energy.core * dynamic[2] + time * (power.static * static[2])
    root = slope + jnp.sqrt(jnp.maximum(slope * slope + 4.0 * bend * excess, _LEAST_SQUARE))
    along_curve = time * root / (least * root + 2.0 * excess)
    # The curve is steeper than the line below it: the longer of both times is the one that holds.
    return maximum(time, along_curve, slowest * (1.0 / _headroom(power.tdp, least_static)))


def mean_power(time: Scalar, energy: Joules, hardware: Hardware) -> Array:
    """Mean power in W of one device in a step, static power included, shape (): at most the limit.

    Args:
      time: s at full clock.
      energy: J on one device in that time.
      hardware: where `power_known`.
    """
    power = hardware.power
    static = power.static
    if power.curve is not None and energy.core is not None:
        static = static * _static_share(power.curve, power.curve.least)
    return minimum(power.static + jnp.divide(energy.total, time), static + _headroom(power.tdp, static))


def power_by_part(time: Scalar, energies: dict[str, Scalar], hardware: Hardware) -> dict[str, Array]:
    """Mean power in W of one device in a step by what draws it, "static" last, shapes (); adds to `mean_power`.

    Where the limit slows the step every part draws what it does at the lower clock and voltage: that of the cores falls
    as s v(s)^2, the rest as s, static power with the voltage. Terms as in `limited_time`.

    Args:
      time: s at full clock.
      energies: J on one device in that time, by field of `Energy`.
      hardware: where `power_known`.
    """
    power, total = hardware.power, sum(energies.values())
    core = sum(energies.get(name, 0.0) for name in CORE) if curve_known(hardware) else None
    share = jnp.divide(time, limited_time(time, Joules(total, core), hardware))
    at_core, static = share, power.static
    if power.curve is not None:
        least, _, dynamic, leakage = _parabolas(power.curve)
        beyond = positive_part(share - least)
        at_core = _on(dynamic, beyond) * minimum(share / least, 1.0)  # below the least voltage the clock falls alone
        static = static * _on(leakage, beyond)
    factors = {name: at_core if name in CORE else share for name in energies}
    return {name: factors[name] * joules / time for name, joules in energies.items()} | {"static": jnp.asarray(static)}


def limited_energy(time: Scalar, energy: Joules, hardware: Hardware) -> Array:
    """Energy in J that a step takes under the limit beside static power at full clock's voltage, shape ().

    So that power over any time is this energy over that time plus static power. Arguments as `mean_power`.
    """
    drawn = mean_power(time, energy, hardware) - hardware.power.static
    return drawn * limited_time(time, energy, hardware)


def curve_clock(curve: VoltageCurve, voltage: Scalar) -> Array:
    """Clock at a core voltage in V over the full clock, shape ()."""
    above = positive_part(voltage - curve.threshold) / (curve.full - curve.threshold)
    return above**curve.exponent * (curve.full / voltage)


def _static_share(curve: VoltageCurve, voltage: Scalar) -> Scalar:
    """Static power at a core voltage in V over that at full clock."""
    return 1.0 - curve.static_share * (1.0 - voltage / curve.full)


def _headroom(tdp: Scalar, static: Scalar) -> Scalar:
    return maximum(positive_part(tdp - static), LEAST_HEADROOM * tdp)


_Parabola = tuple[Scalar, Scalar, Scalar]
"""Coefficients of 1, x and x^2."""


def _parabolas(curve: VoltageCurve) -> tuple[Scalar, Scalar, _Parabola, _Parabola]:
    """Clock share and voltage share at the least voltage; s v(s)^2 and static power over its full one, by s beyond it.

    Constants of a device: a grid computes them once for all points that share it.
    """
    lowest = minimum(curve.least, curve.full)
    middle = lowest + MIDDLE * (curve.full - lowest)
    clocks = curve_clock(curve, lowest), curve_clock(curve, middle), 1.0
    volts = lowest / curve.full, middle / curve.full, 1.0
    dynamic = tuple(s * v * v for s, v in zip(clocks, volts, strict=True))
    static = tuple(1.0 - curve.static_share * (1.0 - v) for v in volts)
    return clocks[0], volts[0], _parabola(clocks, dynamic), _parabola(clocks, static)


def _on(parabola: _Parabola, beyond: Scalar) -> Scalar:
    return parabola[0] + beyond * (parabola[1] + beyond * parabola[2])


def _parabola(at: tuple[Scalar, Scalar, Scalar], values: tuple[Scalar, Scalar, Scalar]) -> _Parabola:
    """The parabola through three points, by how far an argument is beyond the first; flat where all are one."""
    spans = jnp.maximum(at[1] - at[0], _LEAST_SPAN), jnp.maximum(at[2] - at[1], _LEAST_SPAN)
    first, second = (values[1] - values[0]) / spans[0], (values[2] - values[1]) / spans[1]
    bend = (second - first) / (spans[0] + spans[1])
    return values[0], first - bend * spans[0], bend
