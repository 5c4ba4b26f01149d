"""Silicon area of a device: the parts of its dies, and the number of dies."""

import functools
import math

from jaxroof.hardware import Hardware, clock
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.smooth import ceiling, maximum, minimum
from jaxroof.numerics.struct import Array, Scalar, struct
from jaxroof.silicon import Silicon

SLACK = 1e-3
"""Of a unit, by which a count may exceed a whole number and still be that number: far above rounding."""

PRECISION_BYTES = {
    "fp32": 4.0,
    "tf32": 2.0,  # of operands, 10 bits of mantissa: multipliers as for 16 bit
    "bf16": 2.0,
    "fp16": 2.0,
    "fp8": 1.0,
    "int8": 1.0,
    "fp6": 0.75,
    "fp4": 0.5,
    "int4": 0.5,
}
"""Bytes of an operand by precision of the matrix units; one that is not in it counts as 16 bit."""


CORE_PARTS = ("matrix", "vector", "double", "graphics", "core", "core_memory")
"""Parts of `area_parts` that are on the dies with cores; the rest may be on dies of their own."""


@struct
class Dies:
    """Dies of one kind."""

    area: Scalar  # m2, of all of them together
    count: Scalar  # 1


def matrix_width(hardware: Hardware) -> Array:
    """16-bit FLOP per cycle that the matrix units are built for, shape ().

    The largest over precisions of FLOP per cycle x operand bytes / 2: a unit that does twice the 8-bit work of its
    16-bit work is one unit. The maximum's gradient is shared between precisions that tie.
    """
    # Multipliers are shared between precisions: twice the 8-bit rate comes from splitting a 16-bit unit, so the widest
    # demand sets the area.
    widths = [rate * (PRECISION_BYTES.get(name, 2.0) / 2.0) for name, rate in sorted(hardware.matrix.items())]
    return maximum(*widths) / clock(hardware)


def memory_stacks(hardware: Hardware) -> Array:
    """Stacks or chips of device memory in use, a whole number, shape ().

    ceil(max(bandwidth / stack_bandwidth, capacity / stack_capacity)); the gradient is that of the ratio itself.
    Of a design whose stacks are a knob, that number.
    """
    if hardware.design is not None and hardware.design.stacks is not None:
        return jnp.asarray(hardware.design.stacks)
    silicon, hbm = _silicon(hardware), hardware.memory.hbm
    # HBM comes in whole stacks; either bandwidth or capacity asks for more of them.
    needed = maximum(hbm.bandwidth / silicon.stack_bandwidth, hbm.capacity / silicon.stack_capacity)
    return _whole(needed)


def area_parts(hardware: Hardware) -> dict[str, Array]:
    """Area in m2 of each part of the device's dies, by name, shapes ().

    Each is (units) x (area per unit) x (scale of the process), over the share of the units that is in use. Logic is
    also scaled by the layout, and all by `Silicon.scale` or `shared_scale`. `CORE_PARTS` are on the dies with cores.
    Vector units that float32 and float64 share are as large as the more demanding of the two makes them. A die that
    carries the dies with cores is at least `base_ratio` as large as they are, PHYs at its rim come on top:
    base = max(base_ratio x dies with cores, l2 + fixed) - (l2 + fixed).

    Returns:
      matrix, vector, double, graphics, core, core_memory, l2, stacks, links, fixed, base. Differentiable in every
      leaf; linear in every area per unit between the two maxima.

    Raises:
      ValueError: when the hardware's silicon is unknown.

    Source: ours; the areas per unit are fitted to dies of known size, see docs/reference/area_and_cost.md.
    """
    silicon = _silicon(hardware)
    areas, cores, memory = silicon.areas, hardware.cores, hardware.memory
    inside, outside, cycle = silicon.core_process, silicon.shared_process, clock(hardware)
    # Spare cores are on the die too: area is over the share that works (harvesting for yield).
    logic = inside.logic * silicon.layout / silicon.cores_used
    # FLOP per cycle, as area grows with lanes and not with clock.
    vector = cores.count * cores.vector_flops / cycle
    held = _or_nothing(None if memory.scratchpad is None else memory.scratchpad.capacity)
    held = held + _or_nothing(memory.register_capacity)
    # Parts that are switched off take area as well. On-chip memory that a compiler fills has the L2 inside of it.
    cache = _or_nothing(None if memory.l2 is None else memory.l2.capacity)
    cache = cache if memory.on_chip is None else maximum(cache, memory.on_chip.capacity)
    l2 = cache / silicon.l2_used + silicon.other_memory
    scale_up = hardware.links.scale_up
    single, double = areas.vector * vector * logic, areas.double * silicon.double_flops / cycle * logic
    shared = silicon.shared_lanes  # 0 or 1
    parts = {
        "matrix": areas.matrix * matrix_width(hardware) * logic / silicon.matrix_used,
        "vector": (1.0 - shared) * single + shared * maximum(single, double),
        "double": (1.0 - shared) * double,
        "graphics": areas.graphics * silicon.graphics * vector * logic,
        "core": areas.core * cores.count * logic,
        "core_memory": areas.core_memory * cores.count * held * inside.sram / silicon.cores_used,
        # Logic, SRAM and analog circuits shrink differently from process to process.
        "l2": areas.l2 * l2 * outside.sram,
        "stacks": areas.stack * memory_stacks(hardware) * outside.analog / silicon.stacks_used,
        "links": areas.link * _or_nothing(None if scale_up is None else scale_up.bandwidth) * outside.analog,
        "fixed": areas.fixed * outside.logic * silicon.layout,
    }
    scale = dict.fromkeys(CORE_PARTS, silicon.scale)
    parts = {name: scale.get(name, silicon.shared_scale) * area for name, area in parts.items()}
    # Caches and control lie under the dies with cores: a base die grows for them only where they need more than that.
    under = parts["l2"] + parts["fixed"]
    carrying = silicon.base_ratio * silicon.shared_scale * sum(parts[name] for name in CORE_PARTS)
    return parts | {"base": minimum(silicon.separate, 1.0) * (maximum(under, carrying) - under)}


def die_area(hardware: Hardware) -> Scalar:
    """Area in m2 of all dies of the device, without its memory stacks, shape (); as `area_parts`."""
    return sum(area_parts(hardware).values())


def dies(hardware: Hardware) -> tuple[Dies, Dies]:
    """Dies with cores, and dies without (of area 0 where there are none); shapes ().

    There are as many as the design has, or as its area needs at `largest_die` each: count = max(least, ceil(area /
    largest_die)). The gradient of the ceiling is that of the ratio itself.
    """
    silicon, parts = _silicon(hardware), parts_by_die(hardware)
    areas = (sum(kind.values()) for kind in parts)
    kinds = zip(areas, (silicon.dies, silicon.shared_dies), strict=True)
    # Reticle limit: a device that is larger than one exposure is cut into several dies.
    first, second = (Dies(area=area, count=_count(area, least, silicon.largest_die)) for area, least in kinds)
    return first, second


def parts_by_die(hardware: Hardware) -> tuple[dict[str, Array], dict[str, Array]]:
    """Area in m2 of each part on all dies with cores, and on all dies without, by name, shapes ().

    A part that no die of a kind can have is left out; the areas of both add to `area_parts`.
    """
    parts, moved = area_parts(hardware), minimum(_silicon(hardware).separate, 1.0)
    # With chiplets, caches and I/O move to dies of their own.
    with_cores = {name: area if name in CORE_PARTS else (1.0 - moved) * area for name, area in parts.items()}
    without = {name: moved * area for name, area in parts.items() if name not in CORE_PARTS}
    return with_cores, without


def _count(area: Scalar, least: Scalar, largest: Scalar) -> Array:
    # The larger is chosen before it is rounded: rounded first, one die that is needed would tie with one that is
    # there, and half of the ceiling's slope would pass where no further die is near.
    return _whole(maximum(least, area / largest))


def _whole(number: Scalar) -> Scalar:
    """The ceiling, a little below it included; a Python number for a Python number, which loaders need."""
    if isinstance(number, float) and math.isfinite(number):
        # Loaders need a plain number: smooth ceilings are for traced values.
        return float(math.ceil(number - SLACK))
    return ceiling(number - SLACK)


def _or_nothing(figure: Scalar | None) -> Scalar:
    return 0.0 if figure is None else figure


def _silicon(hardware: Hardware) -> Silicon:
    if hardware.silicon is None:
        raise ValueError("the hardware has no silicon, so its area is unknown; give the tables [silicon] and [die]")
    return hardware.silicon


# Limits of a package: die edge, interposer, reticle, power per area and cooling, each as a share of what there is.


def shoreline_use(needed: Scalar, area: Scalar, count: Scalar, edge_share: Scalar) -> Array:
    """Die edge that PHYs need over what they may take, shape (); above 1 the design cannot be built.

    needed / (edge_share 4 sqrt(area count)): the dies are square and alike.

    Args:
      needed: m, of all PHYs, as `edge_needed`.
      area: m2 of all dies that have PHYs.
      count: of those dies.
      edge_share: share of the edge that PHYs may take.
    """
    # Square dies: the perimeter of one is 4 sqrt(area of one), and all dies together have count times that. PHYs need
    # edge, so bandwidth scales with perimeter while logic scales with area.
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
    within_limits = [use <= 1.0 + ROUNDING for use in uses.values()]
    return functools.reduce(jnp.logical_and, within_limits)


def package_uses(hardware: Hardware) -> dict[str, Array]:
    """Share of each limit of the package that a device takes, by name, shapes (); all at most 1 if it can be built.

    Returns:
      shoreline, interposer, reticle, and, where the TDP is known, power_density and cooling. Shoreline is that of all
      dies, or of those without cores where memory and links are on dies of their own.

    Raises:
      ValueError: when the hardware's package or silicon is unknown.
    """
    package = hardware.package
    if package is None:
        raise ValueError("the hardware has no package, so its limits are unknown; give the table [package]")
    silicon = _silicon(hardware)
    area, tdp = die_area(hardware), hardware.power.tdp
    stacks = memory_stacks(hardware) / silicon.stacks_used  # a place that is not in use takes its edge too
    with_cores, without = dies(hardware)
    separate = without.area > 0.0
    # PHYs are on the dies that have memory and links: those without cores, where there are such.
    edge_area = jnp.where(separate, without.area, with_cores.area)
    edge_count = jnp.where(separate, without.count, with_cores.count)
    link = hardware.links.scale_up
    bandwidth = 0.0 if link is None else link.bandwidth
    needed = edge_needed(stacks, package.stack_edge, bandwidth, package.link_edge, package.other_edge)
    each = with_cores.area / silicon.dies, without.area / maximum(silicon.shared_dies, 1.0)
    # Stacked dies (3D) share their footprint: the larger of the two levels covers the interposer.
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
