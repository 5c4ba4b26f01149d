"""Time of one op on one device under constant shares of every peak: the slowest of its resources."""

import dataclasses
from typing import Any

from jaxroof.collectives import collective_algorithm, collective_time
from jaxroof.efficiency import Efficiency, Host, Kernels, KindEfficiency, LinkEfficiency, Timing, entry_of, mesh
from jaxroof.efficiency.convolution import cheapest_algorithm
from jaxroof.efficiency.hull import Hull, error_growth, hull_distance
from jaxroof.efficiency.kernels import kernel_of, kernel_timing
from jaxroof.efficiency.surface import Surfaces, surface_distance, surface_timing
from jaxroof.efficiency.timing import SHORT, Spread
from jaxroof.hardware import Hardware, spread_over_mesh
from jaxroof.layers.linear import LOW_PRECISIONS
from jaxroof.memory.beside import apart, as_one_memory, beside_latency, far_times, near_times, slower
from jaxroof.memory.traffic import element_bytes_inside, inner_capacities, level_traffic, tile_traffic
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.smooth import maximum, minimum
from jaxroof.numerics.struct import Array, Scalar
from jaxroof.op import EXPERT_KERNELS, RESOURCES, AnyOp, Collective, Copy, Kernel, inner_bytes
from jaxroof.tracing import remembered, traced_once
from jaxroof.units import LEVELS, busy_times, known, unit_rate, unit_time


def roofline_timing(op: Kernel, hardware: Hardware, shares: KindEfficiency, fixed: Scalar | None = None) -> Timing:
    """Time in s of one run of `op` over a memory hierarchy: its kernels' fixed time plus the slowest resource.

    time = launch + max(matrix, vector, exp, hbm, l2, scratchpad)

    Only resources that the op uses and the hardware has figures for appear.

    Args:
      op: what runs, quantities of shape ().
      hardware: where it runs.
      shares: of every peak that kernels of its kind reach.
      fixed: s beside them; None: a launch of every kernel.

    Raises:
      ValueError: while tracing, when the hardware has no matrix figure for the op's precision.

    Source: Williams, Waterman & Patterson, CACM 52(4), 2009, applied to each unit and memory level;
    the traffic of a matrix product through each level is `jaxroof.memory.traffic`.
    """
    # 8-bit and 4-bit products reach a smaller share of their own, higher peak: the same launches and epilogues stand
    # beside less multiplying.
    matrix = shares.matrix_low if op.precision in LOW_PRECISIONS else shares.matrix
    reached = {"matrix": matrix, "vector": shares.vector, "exp": shares.vector, "hbm": shares.bandwidth}
    reached |= dict.fromkeys(("l2", "scratchpad"), shares.cache_bandwidth)
    work = {"matrix": op.matrix_flops, "vector": op.vector_flops, "exp": op.exps, **level_traffic(op, hardware)}
    times = busy_times(work, reached, hardware, op.precision)
    times = slower(times, far_times(op, hardware, shares.cache_bandwidth))
    launch = op.kernels * shares.kernel_time if fixed is None else fixed
    # Roofline: all units and memory levels work at once, so the slowest one sets the time; only the launch is serial.
    return Timing(launch + maximum(*times.values()), {**times, "launch": launch})


# Time of one op on one device, by the efficiency's model of its kind, and the resource that binds it.


@remembered
def op_timing(op: AnyOp, hardware: Hardware, efficiency: Efficiency) -> Timing:
    """Time in s of one run of `op`, and of each resource that it uses.

    A collective has no `launch`: its fixed time depends on the algorithm that is chosen, and is part of `link`.

    Args:
      op: what runs, quantities of shape ().
      hardware: where it runs.
      efficiency: how far it falls short of the datasheet.

    Raises:
      ValueError: while tracing, when the hardware has no matrix figure for the op's precision.
    """
    if isinstance(op, Collective):
        return _collective_timing(op, hardware, efficiency.collective)
    if isinstance(op, Copy):
        return _copy_timing(op, hardware)
    timing = _kernel_timing(entry_of(efficiency, op), op, hardware)
    # A known `reuse_bytes` says that the kernel runs alone in a loop, as in a table of measurements.
    return timing if op.reuse_bytes is not None else _started_early(timing, hardware, efficiency.host)


def _started_early(timing: Timing, hardware: Hardware, host: Host) -> Timing:
    """The same in a step, whose kernels may start before the last has ended: launch (1 - early_launch tensor_memory).

    Kernels that are timed alone, with a known `reuse_bytes`, keep all of their launch.

    Source: NVIDIA, CUDA C++ Programming Guide, programmatic dependent launch; TensorRT-LLM, TRTLLM_ENABLE_PDL.
    """
    if host.early_launch is None or "launch" not in timing.resources:
        return timing
    # Programmatic dependent launch: the next kernel's prologue overlaps the tail of the last one, so part of each
    # launch costs nothing.
    launch = timing.resources["launch"]
    hidden = launch * (host.early_launch * hardware.cores.tensor_memory)
    return Timing(timing.total - hidden, {**timing.resources, "launch": launch - hidden})


def _collective_timing(op: Collective, hardware: Hardware, constants: LinkEfficiency) -> Timing:
    """Time in s of a collective by its cheapest algorithm, at the share of its own speed that it reaches in a step."""
    # Dispatch and combine kernels were measured as steps run them; nccl-tests measure all others alone, without the
    # kernels that compete for memory and cores.
    share = 1.0 if op.operation in EXPERT_KERNELS else constants.share
    time = collective_time(hardware.links, op, constants) / share
    # Devices of an engine reach a collective at different times, and all of them wait for the last: a fixed time per
    # call.
    time = op.kernels * (time + constants.wait_time)
    return Timing(time, {"link": time})


def _copy_timing(op: Copy, hardware: Hardware) -> Timing:
    """Time in s of a copy at the bandwidth of the memory outside: what it reaches, as a user gives it."""
    level = getattr(hardware.memory, op.tier)
    if level is None:
        raise ValueError(f"hardware.memory.{op.tier} is unknown; give its bandwidth and capacity per device")
    time = op.kernels * op.message_bytes / level.bandwidth
    # The bytes go over the host or storage link, so it is the link that binds; `launch` is 0 and there for `op_bound`
    # alone.
    return Timing(time, {"link": time, "launch": jnp.zeros(())})


def _kernel_timing(entry: KindEfficiency | Kernels | Surfaces, op: Kernel, hardware: Hardware) -> Timing:
    if isinstance(entry, Surfaces):
        # Measured over modelled time at the op's shape, applied to the model's time of this device.
        return surface_timing(entry, op, _kernel_timing(entry.base, op, hardware))
    if op.kind == "convolution":
        # A library that has Winograd kernels says at which share of a product's rate they run; others use the implicit
        # product.
        share = getattr(kernel_of(entry, op) if isinstance(entry, Kernels) else entry, "winograd", None)
        return cheapest_algorithm(op, share, hardware, lambda one: _timed(entry, one, hardware))
    return _timed(entry, op, hardware)


def _timed(entry: KindEfficiency | Kernels, op: Kernel, hardware: Hardware) -> Timing:
    timing = _nearer(_on_cores(entry, as_one_memory(op, hardware), hardware), entry, op, hardware)
    if not op.beside_bytes:
        return timing
    return Timing(timing.total + beside_latency(op, hardware), apart(timing.resources, op, hardware))


def _on_cores(entry: KindEfficiency | Kernels, op: Kernel, hardware: Hardware) -> Timing:
    if spread_over_mesh(hardware):
        return _on_mesh(entry, op, hardware)
    if isinstance(entry, KindEfficiency):
        return roofline_timing(op, hardware, entry)
    return _bounded(kernel_timing(entry, op, hardware), op, hardware)


def _on_mesh(entry: KindEfficiency | Kernels, op: Kernel, hardware: Hardware) -> Timing:
    """The same of a program that is spread over a mesh.

    Models of kernels are of tiles and launches, which it has neither of: shares of its own stand for them.
    """
    crossing = mesh.crossing_time(op, hardware)
    if not isinstance(entry, KindEfficiency):
        return roofline_timing(op, hardware, mesh.published(), crossing)
    # The datasheet's bound has no fixed times.
    fixed = jnp.where(jnp.asarray(entry.kernel_time) > 0.0, crossing, 0.0)
    return roofline_timing(op, hardware, entry, fixed)


def _nearer(timing: Timing, entry: KindEfficiency | Kernels, op: Kernel, hardware: Hardware) -> Timing:
    """The faster of the cores and of units in the memory, which are launched alike; what binds is of the faster."""
    if hardware.memory.near is None:
        return timing
    # What kernels reach of device memory from outside, these reach of it from inside.
    share = entry.bandwidth if isinstance(entry, KindEfficiency) else getattr(kernel_of(entry, op), "bandwidth", 1.0)
    near = near_times(op, hardware, share)
    if not near:
        return timing
    total = timing.resources.get("launch", 0.0) + maximum(*near.values())
    # Where the units in the memory are faster, nothing but them and the launch is busy.
    inside = dict.fromkeys(timing.resources, jnp.zeros(())) | near | {"launch": timing.resources.get("launch", 0.0)}
    nearer = total < timing.total
    resources = {name: jnp.where(nearer, inside[name], time) for name, time in timing.resources.items()}
    return Timing(minimum(timing.total, total), resources)


def _bounded(timing: Timing, op: Kernel, hardware: Hardware) -> Timing:
    """The same, with every resource at least as long as the datasheet says, and the whole as the longest of them.

    Models of kernels know the resources that bind on devices of today. A device may be short of any other: whatever
    the kernel, it cannot be faster than each of its units and levels.
    """
    counted = timing.resources
    # Units that the model does not count at all.
    work = {unit: amount for unit, amount in (("vector", op.vector_flops), ("exp", op.exps)) if unit not in counted}
    least = busy_times(work, dict.fromkeys(work, 1.0), hardware)
    longest = list(least.values())
    # Levels: what passes each once, and what products read again for every tile. The slowest level is found per byte
    # and per FLOP, which is the same for all ops, before either is multiplied.
    once, again = _level_times(hardware, op)
    for quantity, seconds in ((None if op.bytes is None else inner_bytes(op), once), (op.matrix_flops, again)):
        if quantity is None or not seconds:
            continue
        longest.append(quantity * maximum(*seconds.values()))
        for name, each in seconds.items():
            least[name] = maximum(least[name], quantity * each) if name in least else quantity * each
    far = far_times(op, hardware)
    least, longest = slower(least, far), [*longest, *far.values()]
    if not longest:
        return timing
    return Timing(maximum(timing.total, *longest), slower(counted, least))


def _level_times(hardware: Hardware, op: Kernel) -> tuple[dict[str, Scalar], dict[str, Scalar]]:
    """Datasheet's s per B that passes a level once, and per FLOP of products whose operands pass it again, by level.

    What passes HBM once is left out: models of kernels know how much of it a cache holds since the last kernel.
    """
    seconds = {name: unit_time(hardware, name) for name in LEVELS if known(hardware, name)}
    once = {name: each for name, each in seconds.items() if name != "hbm"}
    if op.matrix_flops is None or op.bytes is None:
        return once, {}
    held = inner_capacities(hardware)
    again = {
        name: each * (op.operand_bytes * tile_traffic(op, capacity, element_bytes_inside(op, name)))
        for name, each in seconds.items()
        if (capacity := held[name]) is not None
    }
    return once, again


@traced_once
def op_time(op: AnyOp, hardware: Hardware, efficiency: Efficiency) -> Scalar:
    """Time in s of one run of `op`, shape ().

    Differentiable; near a ridge the gradient is shared by the resources that meet there.
    """
    return op_timing(op, hardware, efficiency).total


def op_spread(op: AnyOp, efficiency: Efficiency) -> Spread | None:
    """Known errors of `op_time` inside of its hull; None where there are none. Of measured kernels, those of the model
    below them.
    """
    return getattr(_constants(op, efficiency), "spread", None)


def op_hull(op: AnyOp, efficiency: Efficiency) -> Hull | None:
    """Evidence for the constants that price `op`; None where none is known. Of measured kernels, that of the model
    below them.
    """
    return getattr(_constants(op, efficiency), "hull", None)


def _constants(op: AnyOp, efficiency: Efficiency) -> Any:
    """The struct of constants that prices `op`; None for a copy, which has none."""
    if isinstance(op, Copy):
        return None
    if isinstance(op, Collective):
        return efficiency.collective
    entry = entry_of(efficiency, op)
    # Measured tables carry no errors and no hull of their own: those of the model that they correct are the evidence.
    entry = entry.base if isinstance(entry, Surfaces) else entry
    return kernel_of(entry, op) if isinstance(entry, Kernels) else entry


def op_deviation(op: AnyOp, hardware: Hardware, efficiency: Efficiency) -> Array:
    """Standard deviation in s of one run of `op`, shape (): 0 where nothing is known of the errors.

    deviation = sqrt(inside^2 + beyond^2): errors outside of the evidence are independent of those inside.
    """
    inside, beyond = op_inside(op, hardware, efficiency), op_beyond(op, hardware, efficiency)
    square = inside * inside + beyond * beyond
    # Double `where`, as in other roots: the slope at 0 would be infinite.
    some = square > 0.0
    return jnp.where(some, jnp.sqrt(jnp.where(some, square, 1.0)), 0.0)


@traced_once
def op_inside(op: AnyOp, hardware: Hardware, efficiency: Efficiency) -> Array:
    """The part of `op_deviation` that measured devices have too, in s, shape (): time spread."""
    spread = op_spread(op, efficiency)
    if spread is None or _on_a_mesh(op, hardware):
        return jnp.zeros(())
    time = op_time(op, hardware, efficiency)
    # Short kernels are mostly launch, fill and drain, which scatter more than long ones: two spreads of log errors.
    return time * jnp.where(time < SHORT, spread.short, spread.long)


@traced_once
def op_beyond(op: AnyOp, hardware: Hardware, efficiency: Efficiency) -> Array:
    """The part that `op` has outside of the evidence, in s, shape (): time growth, loss = 1 - least / time.

    growth is `error_growth`. What is unknown is how far kernels fall short of the datasheet: the part of the time that
    its rates take alone, `least_time`, is certain. Of a program that is spread over a mesh no kernel is evidence.
    """
    hull = op_hull(op, efficiency)
    if op_spread(op, efficiency) is None:
        return jnp.zeros(())
    time = op_time(op, hardware, efficiency)
    if _on_a_mesh(op, hardware):
        return time * mesh.SPREAD
    if hull is None:
        return jnp.zeros(())
    # An op without work takes no time, and loses none.
    some = jnp.where(time > 0.0, time, 1.0)
    loss = 1.0 - minimum(least_time(op, hardware), time) / some
    return time * error_growth(hull, op_extrapolation(op, hardware, efficiency), loss, hardware)


def _on_a_mesh(op: AnyOp, hardware: Hardware) -> bool:
    """Whether `op` is part of a program that is spread over a mesh: structure, not data."""
    return spread_over_mesh(hardware) and isinstance(op, Kernel)


def least_time(op: AnyOp, hardware: Hardware) -> Scalar:
    """s that one run of a product or of attention takes at least by the datasheet's rates, shape (); of others 0.

    max(FLOP / peak, bytes / bandwidth of device memory): operands of other kernels may be in caches.
    """
    if not isinstance(op, Kernel) or op.shape is None:
        return 0.0
    floors = [] if op.bytes is None else [op.bytes / _outer_bandwidth(hardware)]
    floors += [] if op.matrix_flops is None else [op.matrix_flops / unit_rate(hardware, "matrix", op.precision)]
    return maximum(*floors) if len(floors) > 1 else floors[0] if floors else 0.0


def _outer_bandwidth(hardware: Hardware) -> Scalar:
    """B/s of device memory, or of the units in it where they see more."""
    near, outer = hardware.memory.near, hardware.memory.hbm.bandwidth
    return outer if near is None else maximum(outer, near.bandwidth)


@traced_once
@remembered
def op_extrapolation(op: AnyOp, hardware: Hardware, efficiency: Efficiency) -> Array:
    """Octaves by which `op` on `hardware` is beyond the evidence, shape (): 0 inside, and where none is known.

    With a user's tables it is the distance to what is nearer: the measured kernels, or the model below them.
    """
    hull = op_hull(op, efficiency)
    distances = [] if hull is None else [hull_distance(hull, op, hardware)]
    if isinstance(op, Kernel) and isinstance(entry := entry_of(efficiency, op), Surfaces):
        # Two sources of evidence: an answer is as far out as the nearer of them says.
        distances += surface_distance(entry, op, hardware)
    return jnp.asarray(minimum(*distances) if len(distances) > 1 else distances[0] if distances else 0.0)


@traced_once
def op_algorithm(op: AnyOp, hardware: Hardware, efficiency: Efficiency) -> Array:
    """The algorithm that a collective runs, shape (): an int8 index into `jaxroof.collectives.ALGORITHMS`; else -1."""
    if not isinstance(op, Collective):
        return jnp.int8(-1)
    return collective_algorithm(hardware.links, op, efficiency.collective)


@traced_once
def op_bound(op: AnyOp, hardware: Hardware, efficiency: Efficiency) -> Array:
    """Resource that takes longest in one run of `op`, shape (): an int8 index into `RESOURCES`.

    `launch` binds where the fixed time exceeds every resource's; in a collective, where the same collective of
    0 B takes more than half as long. An op without work reports `launch`.
    """
    return _longest(_rivals(op, hardware, efficiency, op_timing(op, hardware, efficiency)))


@traced_once
def op_time_by_bound(op: AnyOp, hardware: Hardware, efficiency: Efficiency) -> Array:
    """`op_time` in s at the place of what binds it and 0 elsewhere, shape (len(RESOURCES),)."""
    timing = op_timing(op, hardware, efficiency)
    bound = _longest(_rivals(op, hardware, efficiency, timing))
    return at_bound(bound, timing.total, hardware)


def at_bound(bound: Scalar, time: Scalar, hardware: Hardware) -> Array:
    """`time` at the place of what binds it and 0 elsewhere, shape (len(RESOURCES),).

    The last of them, memories beside device memory, has no place where a device has none.

    Args:
      bound: index into `RESOURCES`.
    """
    # One-hot over resources rather than indexing, as the bound is data: a batched lookup stays one array expression.
    places = jnp.arange(len(RESOURCES) - (hardware.memory.beside is None), dtype=jnp.int8)
    return jnp.where(places == jnp.asarray(bound)[..., None], jnp.asarray(time)[..., None], 0.0)


def _rivals(op: AnyOp, hardware: Hardware, efficiency: Efficiency, timing: Timing) -> dict[str, Scalar]:
    """The times that compete for binding `op`: its resources', and the fixed time, which a collective has inside."""
    if not isinstance(op, Collective):
        return timing.resources
    # Alpha-beta model of a message: its time at 0 B is alpha, and what remains of the total is beta times bytes.
    empty = dataclasses.replace(op, message_bytes=0.0)
    fixed = op_timing(empty, hardware, efficiency).total
    return {"launch": fixed, "link": timing.total - fixed}


def _longest(times: dict[str, Scalar]) -> Array:
    """Index into `RESOURCES` of the longest of `times`; the fixed time where none is longer."""
    # The launch is the first candidate and only a strictly longer resource replaces it, so that an op without work
    # reports it.
    longest, bound = times["launch"], jnp.int8(RESOURCES.index("launch"))
    for resource, time in times.items():
        bound = jnp.where(time > longest, jnp.int8(RESOURCES.index(resource)), bound)
        longest = jnp.maximum(longest, time)
    return bound
