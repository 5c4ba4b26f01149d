"""Cost of making, buying and owning a device: dies, yield, memory, package, margin, years, electricity."""

import math

from jaxroof.chip.area import Dies, dies, memory_stacks
from jaxroof.hardware import Hardware
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.smooth import positive_part
from jaxroof.numerics.struct import Array, Scalar
from jaxroof.silicon import Costs

SMALL = 1e-6
"""m2, of a die that is not there: any area that keeps its cost finite."""


def dies_per_wafer(area: Scalar, diameter: Scalar, scribe: Scalar = 0.0) -> Array:
    """Whole dies on a round wafer, shape (); positive and smooth for every area.

    n = pi d^2 / (4 S) exp(-2 sqrt(S) / d),  S = (sqrt(area) + scribe)^2

    Args:
      area: m2 of one square die, shape (), positive.
      diameter: m, usable.
      scribe: m between two dies.

    Source: de Vries, IEEE Trans. Semiconductor Manufacturing 18(1), 2005, exponential form after Ferris-Prabhu 1989.
    """
    side = jnp.sqrt(area) + scribe
    # Area of the wafer over that of a die, less partial dies at the round edge.
    return math.pi / 4.0 * jnp.square(diameter / side) * jnp.exp(-2.0 * side / diameter)


def die_yield(area: Scalar, defects: Scalar, clustering: Scalar, repairable: Scalar = 0.0) -> Array:
    """Share of the dies that can be sold, shape ().

    y = (1 + (1 - repairable) area defects / clustering)^-clustering

    Args:
      area: m2 of one die.
      defects: 1/m2.
      clustering: alpha; large values give Poisson's exp(-area defects).
      repairable: share of the area where a defect only switches a spare part off; above 1 all can be sold.

    Source: negative binomial model: Stapper, Armstrong & Saji, Proc. IEEE 71(4), 1983.
    """
    # Defects cluster (alpha): more dies survive than under Poisson's law. Part of the area is repairable by spares.
    return (1.0 + positive_part(1.0 - repairable) * area * defects / clustering) ** -clustering


def die_cost(area: Scalar, wafer: Scalar, costs: Costs) -> Array:
    """USD of one good die of `area` m2 from wafers of `wafer` USD, shape (): wafer / (dies per wafer x yield)."""
    good = die_yield(area, costs.defects, costs.clustering, costs.repairable)
    # The price of a wafer is borne by its good dies.
    return wafer / (dies_per_wafer(area, costs.wafer_diameter, costs.scribe) * good)


def cost_parts(hardware: Hardware) -> dict[str, Array]:
    """USD to make one device, by part, shapes ().

    Dies with and without cores; memory at its price per byte; the package by the area that lies on it, dies and
    stacks; test of every die; the board. Dies, memory stacks and package of a device that fails at assembly are
    lost: all three are over `package_yield`.

    Returns:
      dies, memory, package, test, board. Homogeneous of degree 1 in prices. Differentiable in every leaf.

    Raises:
      ValueError: when the hardware's silicon or costs are unknown.
    """
    costs = _costs(hardware)
    with_cores, without = dies(hardware)
    die_costs = _cost_of(with_cores, costs.wafer, costs) + _cost_of(without, costs.shared_wafer, costs)
    # The package is paid by what lies on it: dies and memory stacks.
    covered = with_cores.area + without.area + memory_stacks(hardware) * costs.stack_footprint
    # Known good dies still fail in assembly, with all that is bonded to them.
    lost = 1.0 / costs.package_yield
    return {
        "dies": die_costs * lost,
        "memory": hardware.memory.hbm.capacity * costs.memory * lost,
        "package": covered * costs.package * lost,
        "test": (with_cores.count + without.count) * costs.test,
        "board": jnp.asarray(costs.board),
    }


def device_cost(hardware: Hardware) -> Scalar:
    """USD to make one device, shape (); as `cost_parts`."""
    return sum(cost_parts(hardware).values())


def device_price(hardware: Hardware) -> Array:
    """USD that one device is sold at, shape (): cost to make x margin."""
    return device_cost(hardware) * _costs(hardware).margin


def capital_rate(hardware: Hardware) -> Array:
    """USD per device and second of use for having it, shape ().

    (price (1 + server) / life + hosting x TDP) / utilisation: the device and its part of server and network, straight
    over its life, and the space, power and cooling that are built for its TDP; paid while it idles too.

    Raises:
      ValueError: when the hardware's silicon, costs or TDP are unknown.
    """
    costs = _costs(hardware)
    if hardware.power.tdp is None:
        raise ValueError("the hardware has no TDP, so what hosts it is unknown; give power.tdp")
    # Straight-line depreciation; server and network are a share of the device's price.
    bought = device_price(hardware) * (1.0 + costs.server) / costs.life
    # Paid while it idles too: fixed cost per second of use grows with idleness.
    return (bought + costs.hosting * hardware.power.tdp) / costs.utilisation


def energy_price(hardware: Hardware) -> Array:
    """USD per joule that the device takes, shape (): electricity x PUE."""
    costs = _costs(hardware)
    return jnp.asarray(costs.electricity * costs.pue)


def emission_rate(hardware: Hardware) -> Array:
    """kg of CO2 equivalent per joule that the device takes, shape (): the grid's x PUE."""
    costs = _costs(hardware)
    return jnp.asarray(costs.grid_intensity * costs.pue)


def owning_rate(hardware: Hardware, power: Scalar) -> Array:
    """USD per device and second of use, shape (): `capital_rate` + power x `energy_price`.

    Args:
      power: W that the device takes while it works.
    """
    return capital_rate(hardware) + power * energy_price(hardware)


def _cost_of(kind: Dies, wafer: Scalar, costs: Costs) -> Array:
    """USD of all dies of a kind; 0 where there are none, in value and gradient."""
    there = kind.count > 0.0
    # A kind of die that is absent: finite numbers, selected away.
    count = jnp.where(there, kind.count, 1.0)
    area = jnp.where(there, kind.area, SMALL)
    return jnp.where(there, count * die_cost(area / count, wafer, costs), 0.0)


def _costs(hardware: Hardware) -> Costs:
    if hardware.costs is None:
        raise ValueError("the hardware has no costs, so its price to make is unknown; give the table [costs]")
    return hardware.costs
