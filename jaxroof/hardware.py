"""Hardware: peak rates, capacities and latencies of one accelerator and its links."""

from collections.abc import Collection
from typing import Any

from jaxroof.numerics.smooth import maximum
from jaxroof.numerics.struct import Array, Scalar, number, part, share, static, struct, switch, word
from jaxroof.silicon import Costs, Package, Silicon


@struct
class MemoryLevel:
    """One level of the memory hierarchy. Of one device; the scratchpad's and registers' are of one core."""

    bandwidth: Scalar = number("B/s", "{} bandwidth", "into the level inside it")
    capacity: Scalar = number("B", "{} capacity")


@struct
class OnChip:
    """On-chip memory that software fills: weights stay in it, and in a function what its kernels pass on."""

    capacity: Scalar = number(
        "B", "on-chip memory that a compiler fills", "what kernels pass on stays there if it fits"
    )
    keeps_weights: Scalar = switch(
        "1 where weights stay in on-chip memory from run to run",
        "as far as they fit beside what kernels pass on; 0: every run reads them",
    )


@struct
class Beside:
    """A memory of the device beside its device memory, such as LPDDR, DDR or CXL: kernels read both at once."""

    bandwidth: Scalar = number("B/s", "{} bandwidth", "all devices together that share it")
    capacity: Scalar = number("B", "{} capacity", "all devices together that share it")
    latency: Scalar = number("s", "{} latency", "of a kernel's first bytes", zero=True, default=0.0)
    devices: Scalar = number("1", "devices that share the {}", few=True, count=True, default=1.0)
    energy: Scalar | None = number("J/B", "energy per byte of {}", "None: that of device memory", default=None)
    weights: Scalar = switch("1 where weights may live in the {}", default=1.0)
    cache: Scalar = switch("1 where KV cache may live in the {}", default=1.0)


@struct
class Near:
    """Units in the device memory itself, which multiply what lies beside them: processing in memory."""

    bandwidth: Scalar = number("B/s", "bandwidth inside the device memory", "of all its banks to the units beside them")
    flops: Scalar = number("FLOP/s", "FLOP/s of the units in the device memory", "all together")


@struct
class Dies:
    """Dies that share the cores and the memory of a device: what lies on another die passes the links between them."""

    bandwidth: Scalar = number("B/s", "bandwidth between dies", "that all cores together read other dies' memory at")
    count: Scalar = number("1", "dies with cores and memory", few=True, count=True)


@struct
class Memory:
    """The memory hierarchy, outermost first. A level whose figures are unknown is None and never binds."""

    hbm: MemoryLevel = part("HBM")  # device memory, whatever its technology
    l2: MemoryLevel | None = part("L2")  # last cache shared by all cores
    scratchpad: MemoryLevel | None = part(  # shared memory, LDS or SBUF of one core
        bandwidth="scratchpad bandwidth per core", capacity="scratchpad capacity per core"
    )
    register_capacity: Scalar | None = number("B", "register capacity per core", "accumulators")
    host: MemoryLevel | None = part(
        default=None, bandwidth="bandwidth of one device's link to the host's memory", capacity="host memory per device"
    )
    storage: MemoryLevel | None = part(  # the host's SSDs
        default=None, bandwidth="bandwidth of storage per device", capacity="storage per device"
    )
    on_chip: OnChip | None = part(default=None)  # with the L2 inside, where it is the larger
    beside: dict[str, Beside] | None = part(default=None)  # by name; weights and KV cache live there too
    near: Near | None = part(default=None)  # compute in the device memory; None: cores alone
    dies: Dies | None = part(default=None)  # None: every core reaches all of the memory alike


@struct
class Cores:
    """The cores (SM, CU, TensorCore) that share the device's work."""

    # Rates are per core, so that sweeping `count` scales vector units, special-function units and scratchpads together.
    count: Scalar = number("1", "cores", count=True)
    vector_flops: Scalar = number("FLOP/s", "vector FLOP/s per core", "float32", given=False)
    exp_rate: Scalar | None = number("1/s", "exponentials per second per core", "special-function units")
    clock: Scalar | None = number(
        "Hz", "clock of the cores", "boost; what a kernel's fixed costs in cycles take", default=None
    )
    # Architectural switches, 0 or 1, that select constants of kernels. They are data, so that one compiled function
    # serves all devices and a sweep may cross them; between 0 and 1 constants are interpolated.
    shared_issue: Scalar | None = switch(
        "1 where address arithmetic takes turns with vector operations",
        "None: it runs beside them",
        zero=False,
        default=None,
    )
    asynchronous: Scalar = switch(
        "1 where matrix units fetch their operands by themselves",
        "from the scratchpad; 0: threads feed them",
        default=0.0,
    )
    tensor_memory: Scalar = switch(
        "1 where matrix units add up in a memory of their own",
        "and apply scales of blocks as they multiply; 0: results are in registers",
        default=0.0,
    )
    wide_waves: Scalar = switch(
        "1 where 64 threads run an instruction together",
        "AMD's compute units for data centres; 0: 32, or no threads",
        default=0.0,
    )
    narrow_waves: Scalar = switch(
        "1 where 16 threads run an instruction together",
        "Intel's Xe2; 0: 32, or no threads",
        default=0.0,
    )
    register_copies: Scalar = switch(
        "1 where copies into the scratchpad pass registers",
        "NVIDIA's cores before Ampere; 0: they run beside the threads",
        default=0.0,
    )
    compiled: Scalar = switch(
        "1 where a compiler schedules few wide cores",
        "each then works as several of a GPU's size side by side; 0: blocks of threads on many cores",
        default=0.0,
    )
    hop_time: Scalar | None = number(
        "s",
        "time of a hop between neighbouring cores of a mesh",
        "over which a program stays spread: its data flow, and no kernel is launched; None: kernels are",
        default=None,
    )
    vector_products: Scalar | None = switch(
        "1 where vector units multiply matrices",
        "row by row; None: matrix units, whose instructions take several rows",
        zero=False,
        default=None,
    )
    matrix_flops_per_clock: dict[str, Scalar] | None = number(
        "FLOP",
        "matrix FLOP per clock and core, {}",
        "what a core is built for; only laws read it: a peak follows from it where a law says so",
        default=None,
    )


@struct
class Design:
    """Knobs of a design space that are no figure of a product; other figures follow from them by laws."""

    stacks: Scalar | None = number("1", "stacks of device memory", whole=True, default=None)
    ports: Scalar | None = number("1", "scale-up ports", whole=True, default=None)


TOPOLOGIES = ("switched", "mesh", "torus")
"""How a tier joins its devices: every port into switches; a link of its own for every pair; rings along each axis."""


@struct
class Protocol:
    """One way that a library moves messages over a link: fixed + bytes / (share * bandwidth)."""

    fixed_time: Scalar = number("s", "{}: fixed time of a message", "launch, handshakes, flush", zero=True)
    share: Scalar = share("{}: share of the link's bandwidth that the payload reaches")


@struct
class Transport:
    """Losses of collectives on a link's generation against its datasheet, as measured."""

    # NCCL's protocols trade latency for bandwidth: flags beside the data save a fence but cost payload, so each message
    # size has its own best one.
    low_latency: Protocol = part("low-latency protocol")  # data and flag in one word; NCCL's LL
    medium: Protocol = part("medium protocol")  # data and flag in one cache line; NCCL's LL128
    bulk: Protocol = part("bulk protocol")  # chunks with a fence each; NCCL's Simple
    direct: Protocol = part("direct protocol")  # chunks to every peer at once: all-to-all
    peer: Protocol = part("peer protocol")  # chunks to one peer: send-receive
    shot: Protocol = part("engines' own kernels")  # they read and write the peers' memory
    switch: Protocol = part("reduction in the switch")  # NVLS
    dispatch: Protocol = part("low-latency expert kernels, tokens to experts")
    combine: Protocol = part("low-latency expert kernels, results back")
    peer_rate: Scalar = number("B/s", "{} rate to one peer", "through the low-latency protocol's small buffers")
    signal_time: Scalar = number("s", "{} time per peer that an engine's kernel waits for", zero=True)
    shot_limit: Scalar = number("B", "{}: largest message of engines' own kernels", zero=True)
    peers: Scalar = number("1", "{}: devices that reach each other at full speed", "2 below a PCIe switch")
    crossing: Scalar = number("1", "{}: slowdown by each shared way", "out of `peers`, and out of twice as many")
    own_part: Scalar = number(
        "1",
        "{}: share of the local chunk that is copied at link speed",
        "what a gather or scatter moves of the chunk that a device has already",
        zero=True,
    )
    spread: Scalar = number(
        "1", "{}: bytes that a shared way carries for all its devices at once, against those for one of them"
    )


@struct
class Link:
    """One tier of links between devices. Bandwidth and latency are the datasheet's; losses are the transport's."""

    # A sum over all links of the device: what of it a ring, a mesh or one peer can use follows from the topology.
    bandwidth: Scalar = number("B/s", "{} link bandwidth per direction and device", "over all its links")
    latency: Scalar = number("s", "{} link latency per hop", "between two neighbours: one step of a ring", zero=True)
    devices: Scalar = number("1", "devices in a {} domain", few=True, count=True)
    oversubscription: Scalar = number(
        "1", "{} oversubscription", "bandwidth into the first switch over that out of it", default=1.0
    )
    reduces: Scalar = switch("1 where the {} switch adds up", default=0.0, given=False)
    axes: Scalar = number("1", "axes of a {} torus", few=True, default=1.0)
    transport: Transport | None = part(default=None, given=False)  # None: nothing is lost
    topology: str = word("how the {} tier joins its devices", TOPOLOGIES, default="switched")


@struct
class Links:
    """Link tiers, innermost first. A tier that is absent or unknown is None."""

    scale_up: Link | None = part("scale-up")  # NVLink, Infinity Fabric, ICI: inside one domain
    scale_out: Link | None = part("scale-out")  # NIC: between domains
    cluster: Link | None = part("cluster", default=None)  # beyond the scale-out tier


TIERS = ("scale_up", "scale_out", "cluster")
"""Fields of `Links`, innermost first."""


@struct
class VoltageCurve:
    """Clock that the cores reach by their voltage: clock ~ (voltage - threshold)^exponent / voltage.

    Source: Sakurai and Newton, IEEE Journal of Solid-State Circuits 25(2), 1990 (alpha-power law).
    """

    # Near the threshold the clock falls faster than the voltage, which is why P ~ f V^2 falls less than with the cube
    # of f.
    full: Scalar = number("V", "core voltage", "at full clock")
    threshold: Scalar = number("V", "threshold voltage of the cores' transistors", zero=True)
    exponent: Scalar = number(
        "1", "exponent of the clock in the voltage above the threshold", least=1.0, most=2.0, words="from 1 to 2"
    )
    least: Scalar = number("V", "least core voltage", "the clock falls below it, the voltage does not")
    static_share: Scalar = share("share of static power that follows the core voltage", zero=True)


@struct
class Power:
    """Electrical limits. Unknown figures are None."""

    tdp: Scalar | None = number("W", "thermal design power")
    static: Scalar | None = number("W", "power of a device while kernels run, whatever they do", default=None)
    curve: VoltageCurve | None = part(default=None)  # None: the clock falls at constant voltage


@struct
class Energy:
    """Energy of a device's operations and bytes beside its static power. A tier of links that is absent is None."""

    # A wider format switches more bits per operation: the energy of a multiplier grows about with the square of its
    # operands' width.
    matrix: dict[str, Scalar] = number(
        "J/FLOP", "energy per matrix FLOP, {}", "by precision, with the keys of `Hardware.matrix`"
    )
    vector: Scalar = number("J/FLOP", "energy per vector FLOP", "float32", zero=True)
    exp: Scalar = number("J", "energy per exponential", zero=True)
    hbm: Scalar = number("J/B", "energy per byte of device memory", "both ends and the way between them", zero=True)
    l2: Scalar = number("J/B", "energy per byte of L2", "handed to the cores", zero=True)
    scratchpad: Scalar = number("J/B", "energy per byte of scratchpad", "handed to the registers", zero=True)
    scale_up: Scalar | None = number("J/B", "energy per byte sent over scale-up links", zero=True)
    scale_out: Scalar | None = number("J/B", "energy per byte sent over scale-out links", zero=True)
    cluster: Scalar | None = number("J/B", "energy per byte sent beyond the scale-out tier", zero=True, default=None)


@struct
class Hardware:
    """One accelerator. SI units throughout; peaks are dense, vendor-quoted and never derated here.

    `matrix` holds the peak of the matrix units in FLOP/s by precision (`bf16`, `fp8`, ...) and only the
    precisions that the device has a figure for. It is a total over all cores: sweeping `cores.count` scales
    vector units, special-function units and scratchpads, not the matrix peak, unless one of `laws` says so.
    Functions of the cost model do not apply laws: whoever changes a figure does (`hwspaces.quantities.laws.lawful`).
    """

    matrix: dict[str, Scalar] = number("FLOP/s", "dense matrix peak, {}")
    cores: Cores
    memory: Memory
    links: Links
    power: Power
    price: Scalar | None = number("USD/s", "price per device and second, in US dollars")
    host_speed: Scalar | None = number(
        "1",
        "speed of a core of the host",
        "against the servers' whose scheduling and launches were fitted; None: as fast",
        default=None,
    )
    energy: Energy | None = None
    silicon: Silicon | None = None  # None: area unknown
    costs: Costs | None = None  # None: what it costs to make and own is unknown
    package: Package | None = None  # None: its limits are unknown
    design: Design | None = None  # knobs of a design space; None: none
    # `hwspaces.quantities.laws.Law`, by which some figures follow from others
    laws: tuple[Any, ...] = static(default=())


USUAL_CLOCK = 1.8e9
"""Hz; taken for a device whose clock is unknown. Data-centre GPUs of 2020 to 2025 boost to 1.4 to 2.5 GHz."""

LARGEST_CORE = 16384.0
"""16-bit FLOP per cycle of a core that still works through tiles of the usual size one by one; ours: twice that of an
SM of data-centre Blackwell, the largest that is like the measured ones. A TPU's has 30 times as much."""

GPU_CORE_BYTES = 14.0
"""HBM bytes per clock and core of the GPUs that per-core constants of kernels are of: 13.9 of H100, 13.4 of A100."""


def clock(hardware: Hardware) -> Scalar:
    """Clock of the cores in Hz, the usual one where it is unknown."""
    return USUAL_CLOCK if hardware.cores.clock is None else hardware.cores.clock


def tile_clock(hardware: Hardware, rate: Scalar, operand_bytes: Scalar) -> Array:
    """Clock in Hz at which cores begin and end tiles of a product, shape (): their own, or more for huge cores.

    A core with more than `LARGEST_CORE` works on several tiles of the usual size at once, or on one that is larger:
    clock max(1, 16-bit FLOP per cycle of one core / LARGEST_CORE).

    Args:
      rate: FLOP/s of all cores at operands of `operand_bytes`.
    """
    # Two bytes is the reference width: rate times half of the operand's bytes is the rate in 16-bit FLOP.
    return maximum(clock(hardware), rate * (0.5 * operand_bytes / LARGEST_CORE) / hardware.cores.count)


def core_width(hardware: Hardware) -> Array:
    """Cores of a GPU's size that one core works as, shape (): 1 unless it is wide and `Cores.compiled`.

    width = 1 + compiled (max(1, HBM bytes per clock and core / GPU_CORE_BYTES) - 1)
    """
    cores = hardware.cores
    # Little's law: bytes in flight = bandwidth x latency. A core that must stream more bytes per clock than a GPU's
    # needs as many more loads in flight, so it counts as several.
    bytes_per_clock = hardware.memory.hbm.bandwidth / (cores.count * clock(hardware))
    return 1.0 + cores.compiled * (maximum(bytes_per_clock / GPU_CORE_BYTES, 1.0) - 1.0)


def gpu_cores(hardware: Hardware) -> Array:
    """Cores of a GPU's size that work side by side on the device, shape (): what fixed cycles per core are spread over.

    A wide core that a compiler schedules works on as many pieces at once as it is wide: its memory is kept as busy as
    that of a GPU by as many cores.
    """
    return hardware.cores.count * core_width(hardware)


def spread_over_mesh(hardware: Hardware) -> bool:
    """Whether programs stay spread over a mesh of cores and no engine launches kernels: structure, not data."""
    return hardware.cores.hop_time is not None


def on_host(time: Scalar, hardware: Hardware) -> Scalar:
    """A time of the servers that host times were fitted on, in s on this device's host, shape ().

    0 where a program stays spread over a mesh and runs without a host between its steps.
    """
    if spread_over_mesh(hardware):
        return 0.0 * time
    return time if hardware.host_speed is None else time / hardware.host_speed


def threaded(hardware: Hardware) -> Scalar:
    """1 where blocks of threads run, 0 where a compiler schedules the cores, whose copies run ahead by themselves."""
    return 1.0 - hardware.cores.compiled


def floating(precisions: Collection[str]) -> bool:
    """Whether a device computes in floating point: one whose matrix precisions are integers alone does not at all."""
    return any(not precision.startswith("int") for precision in precisions)


def matrix_peak(hardware: Hardware, precision: str) -> Scalar:
    """Peak of the matrix units in FLOP/s at `precision`; ValueError names what there is when it has none."""
    if precision not in hardware.matrix:
        raise ValueError(
            f"the hardware has no matrix peak for {precision}; it has {', '.join(sorted(hardware.matrix)) or 'none'}"
        )
    return hardware.matrix[precision]


def ridge(hardware: Hardware, precision: str) -> Scalar:
    """FLOP per B of HBM traffic from which on the matrix units bind at `precision`: the ridge of the roofline."""
    return matrix_peak(hardware, precision) / hardware.memory.hbm.bandwidth
