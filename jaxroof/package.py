"""Limits of a package: die edge, interposer, reticle, power per area and cooling, each as a share of what there is."""

import functools

from jaxroof.area import die_area, dies, memory_stacks
from jaxroof.arrays import jnp
from jaxroof.hardware import Hardware
from jaxroof.smooth import maximum
from jaxroof.struct import Array, Scalar


def shoreline_use(needed: Scalar, area: Scalar, count: Scalar, edge_share: Scalar) -> Array:
    """Die edge that PHYs need over what they may take, shape (); above 1 the design cannot be built.

    needed / (edge_share 4 sqrt(area count)): the dies are square and alike.

    Args:
      needed: m, of all PHYs, as `edge_needed`.
      area: m2 of all dies that have PHYs.
      count: of those dies.
      edge_share: share of the edge that PHYs may take.
    """
    return needed / (edge_share * 4.0 * jnp.sqrt(area * count))


def edge_needed(
    stacks: Scalar, stack_edge: Scalar, bandwidth: Scalar, link_edge: Scalar, other_edge: Scalar = 0.0
) -> Scalar:
    """Die edge in m that PHYs need, shape (): stacks stack_edge + bandwidth link_edge + other_edge.

    Args:
      stacks: stacks or chips of memory.
      stack_edge: m of one: the wider of its PHY and, where it stands at the die, the stack itself.
      bandwidth: B/s of links, per direction.
      link_edge: m s/B, the `shoreline` of the link's technology.
      other_edge: m of the rest: host interface, links between dies.
    """
    return stacks * stack_edge + bandwidth * link_edge + other_edge


def interposer_use(area: Scalar, stacks: Scalar, stack_footprint: Scalar, interposer: Scalar) -> Scalar:
    """Area of dies and memory stacks over that of the largest interposer, shape ().

    Args:
      area: m2 of all dies.
      stacks: stacks of memory.
      stack_footprint: m2 of one; 0 where memory lies on the board.
      interposer: m2.
    """
    return (area + stacks * stack_footprint) / interposer


def reticle_use(area: Scalar, count: Scalar, largest_die: Scalar) -> Scalar:
    """Area of one of `count` equal dies of together `area` m2 over what one exposure covers, shape ()."""
    return area / (count * largest_die)


def power_density_use(power: Scalar, area: Scalar, largest: Scalar) -> Scalar:
    """Power per area of the dies over the largest that can be cooled, W/m2, shape ()."""
    return power / (area * largest)


ROUNDING = 1e-6
"""Of a limit, by which a use may exceed it and still keep it."""

USES = ("shoreline", "interposer", "reticle", "power_density", "cooling")
"""Limits of a package that a device can exceed, in the order of `package_uses`."""


def package_known(hardware: Hardware) -> bool:
    """Whether the limits of the package are known, and what takes them: structure, not data."""
    return hardware.package is not None and hardware.silicon is not None


def buildable(uses: dict[str, Array]) -> Array:
    """Whether every share of a limit, as `package_uses` gives them, is at most 1, shape ()."""
    kept = [use <= 1.0 + ROUNDING for use in uses.values()]
    return functools.reduce(jnp.logical_and, kept)


def package_uses(hardware: Hardware) -> dict[str, Array]:
    """Share of each limit of the package that a device takes, by name, shapes (); all at most 1 if it can be built.

    Returns:
      shoreline, interposer, reticle, and, where the TDP is known, power_density and cooling. Shoreline is that of all
      dies, or of those without cores where memory and links are on dies of their own.

    Raises:
      ValueError: when the hardware's package or silicon is unknown.
    """
    package, silicon = hardware.package, hardware.silicon
    if package is None:
        raise ValueError("the hardware has no package, so its limits are unknown; give the table [package]")
    area, tdp = die_area(hardware), hardware.power.tdp
    stacks = memory_stacks(hardware) / silicon.stacks_used  # a place that is not in use takes its edge too
    with_cores, without = dies(hardware)
    separate = without.area > 0.0
    edge_area = jnp.where(separate, without.area, with_cores.area)
    edge_count = jnp.where(separate, without.count, with_cores.count)
    link = hardware.links.scale_up
    bandwidth = 0.0 if link is None else link.bandwidth
    needed = edge_needed(stacks, package.stack_edge, bandwidth, package.link_edge, package.other_edge)
    each = with_cores.area / silicon.dies, without.area / maximum(silicon.shared_dies, 1.0)
    covered = jnp.where(package.stacked > 0.0, maximum(with_cores.area, without.area), area)
    uses = {
        "shoreline": shoreline_use(needed, edge_area, edge_count, package.edge_share),
        "interposer": interposer_use(covered, stacks, package.stack_footprint, package.interposer),
        "reticle": reticle_use(maximum(*each), 1.0, silicon.largest_die),
    }
    if tdp is not None:
        uses["power_density"] = power_density_use(tdp, area, package.power_density)
        uses["cooling"] = tdp / package.cooling
    return uses
