"""What an accelerator can do at most: rates, capacities and latencies of one device and its links."""

from jaxroof.struct import Scalar, struct


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


@struct
class Cores:
    """The cores (SM, CU, TensorCore) that share the device's work."""

    count: Scalar  # 1
    vector_flops: Scalar  # FLOP/s of one core, float32
    exp_rate: Scalar | None  # exponentials/s of one core, special-function units


@struct
class Link:
    """One tier of links between devices."""

    bandwidth: Scalar  # B/s per direction per device
    latency: Scalar  # s, of one hop between two neighbours
    devices: Scalar  # devices that the tier connects


@struct
class Links:
    """Link tiers, innermost first. A tier that is absent or unknown is None."""

    scale_up: Link | None  # NVLink, Infinity Fabric, ICI: inside one domain
    scale_out: Link | None  # NIC: between domains


@struct
class Power:
    """Electrical limits. Unknown figures are None."""

    tdp: Scalar | None  # W


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
