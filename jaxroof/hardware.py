"""Hardware: peak rates, capacities and latencies of one accelerator and its links."""

import jax

from jaxroof.money import Costs
from jaxroof.silicon import Silicon
from jaxroof.smooth import maximum
from jaxroof.struct import Scalar, static, struct


@struct
class MemoryLevel:
    """One level of the memory hierarchy. Of one device; the scratchpad's and registers' are of one core."""

    bandwidth: Scalar  # B/s, into the level inside it
    capacity: Scalar  # B


@struct
class Memory:
    """The memory hierarchy, outermost first. A level whose figures are unknown is None and never binds."""

    hbm: MemoryLevel  # device memory, whatever its technology
    l2: MemoryLevel | None  # last cache shared by all cores
    scratchpad: MemoryLevel | None  # shared memory, LDS or SBUF of one core
    register_capacity: Scalar | None  # B, accumulators of one core
    host: MemoryLevel | None = None  # the host's memory: bandwidth of one device's link to it, capacity per device
    storage: MemoryLevel | None = None  # the host's SSDs: bandwidth and capacity per device


@struct
class Cores:
    """The cores (SM, CU, TensorCore) that share the device's work."""

    count: Scalar  # 1
    vector_flops: Scalar  # FLOP/s of one core, float32
    exp_rate: Scalar | None  # exponentials/s of one core, special-function units
    clock: Scalar | None = None  # Hz, boost; what a kernel's fixed costs in cycles take
    shared_issue: Scalar | None = None  # 1: address arithmetic takes turns with vector operations; None: it runs beside
    asynchronous: Scalar = 0.0  # 1: matrix units fetch operands from the scratchpad by themselves; 0: threads feed them


TOPOLOGIES = ("switched", "mesh", "torus")
"""How a tier joins its devices: every port into switches; a link of its own for every pair; rings along each axis."""


@struct
class Protocol:
    """One way that a library moves messages over a link: fixed + bytes / (share * bandwidth)."""

    fixed_time: Scalar  # s: launch, handshakes, flush
    share: Scalar  # of the link's bandwidth that the payload reaches


@struct
class Transport:
    """Losses of collectives on a link's generation against its datasheet, as measured."""

    low_latency: Protocol  # data and flag in one word, for the smallest messages; NCCL's LL
    medium: Protocol  # data and flag in one cache line; NCCL's LL128
    bulk: Protocol  # chunks with a fence each; NCCL's Simple
    direct: Protocol  # chunks to every peer at once: all-to-all
    peer: Protocol  # chunks to one peer: send-receive
    shot: Protocol  # engines' own kernels, which read and write the peers' memory
    switch: Protocol  # reduction inside the switch; NVLS
    dispatch: Protocol  # low-latency expert kernels
    peer_rate: Scalar  # B/s to one peer through the small buffers of the low-latency protocol
    signal_time: Scalar  # s per peer that an engine's kernel waits for
    shot_limit: Scalar  # B, largest message of engines' own kernels
    peers: Scalar  # devices that reach each other at full speed: 2 below a PCIe switch, all of a switched domain
    crossing: Scalar  # slowdown by each way that a larger group shares: out of `peers`, and out of twice as many
    own_part: Scalar  # of a device's own part, what a gather or scatter moves as if over the link
    spread: Scalar  # bytes that a shared way carries for all its devices at once, against those for one of them


@struct
class Link:
    """One tier of links between devices. Bandwidth and latency are the datasheet's; losses are the transport's."""

    bandwidth: Scalar  # B/s per direction per device, over all its links
    latency: Scalar  # s, of one hop between two neighbours: one step of a ring
    devices: Scalar  # devices that the tier connects
    oversubscription: Scalar = 1.0  # bandwidth into the first switch over that out of it
    reduces: Scalar = 0.0  # 1 where the switch adds up, 0 elsewhere
    axes: Scalar = 1.0  # of a torus
    transport: Transport | None = None  # None: nothing is lost
    topology: str = static(default="switched")  # one of TOPOLOGIES


@struct
class Links:
    """Link tiers, innermost first. A tier that is absent or unknown is None."""

    scale_up: Link | None  # NVLink, Infinity Fabric, ICI: inside one domain
    scale_out: Link | None  # NIC: between domains
    cluster: Link | None = None  # beyond the scale-out tier


TIERS = ("scale_up", "scale_out", "cluster")
"""Fields of `Links`, innermost first."""


@struct
class Power:
    """Electrical limits. Unknown figures are None."""

    tdp: Scalar | None  # W
    static: Scalar | None = None  # W that a device draws while kernels run, whatever they do


@struct
class Energy:
    """Energy of a device's operations and bytes beside its static power. A tier of links that is absent is None."""

    matrix: dict[str, Scalar]  # J/FLOP of the matrix units by precision, with the keys of `Hardware.matrix`
    vector: Scalar  # J/FLOP of the vector units, float32
    exp: Scalar  # J per exponential
    hbm: Scalar  # J/B that device memory moves, both ends and the way between them
    l2: Scalar  # J/B that L2 hands to the cores
    scratchpad: Scalar  # J/B that the scratchpad hands to the registers
    scale_up: Scalar | None  # J/B that the device sends
    scale_out: Scalar | None  # J/B that the device sends
    cluster: Scalar | None = None  # J/B that the device sends


@struct
class Hardware:
    """One accelerator. SI units throughout; peaks are dense, vendor-quoted and never derated here.

    `matrix` holds the peak of the matrix units in FLOP/s by precision (`bf16`, `fp8`, ...) and only the
    precisions that the device has a figure for. It is a total over all cores: sweeping `cores.count` scales
    vector units, special-function units and scratchpads, not the matrix peak.
    """

    matrix: dict[str, Scalar]  # FLOP/s by precision
    cores: Cores
    memory: Memory
    links: Links
    power: Power
    price: Scalar | None  # USD per device and second
    energy: Energy | None = None
    silicon: Silicon | None = None  # None: area unknown
    costs: Costs | None = None  # None: what it costs to make and own is unknown


USUAL_CLOCK = 1.8e9
"""Hz; taken for a device whose clock is unknown. Data-centre GPUs of 2020 to 2025 boost to 1.4 to 2.5 GHz."""

LARGEST_CORE = 16384.0
"""16-bit FLOP per cycle of a core that still works through tiles of the usual size one by one; ours: twice that of an
SM of data-centre Blackwell, the largest that is like the measured ones. A TPU's has 30 times as much."""


def clock(hardware: Hardware) -> Scalar:
    """Clock of the cores in Hz, the usual one where it is unknown."""
    return USUAL_CLOCK if hardware.cores.clock is None else hardware.cores.clock


def tile_clock(hardware: Hardware, rate: Scalar, operand_bytes: Scalar) -> jax.Array:
    """Clock in Hz at which cores begin and end tiles of a product, shape (): their own, or more for huge cores.

    A core with more than `LARGEST_CORE` works on several tiles of the usual size at once, or on one that is larger:
    clock max(1, 16-bit FLOP per cycle of one core / LARGEST_CORE).

    Args:
      rate: FLOP/s of all cores at operands of `operand_bytes`.
    """
    return maximum(clock(hardware), rate * (0.5 * operand_bytes / LARGEST_CORE) / hardware.cores.count)


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
