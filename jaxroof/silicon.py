"""Silicon of a device's dies: area per unit of each part, its scale by process, and the cut into dies."""

from jaxroof.struct import Scalar, struct


@struct
class Process:
    """Area of a circuit in one manufacturing process over that in the reference process (5 nm class)."""

    logic: Scalar  # 1
    sram: Scalar  # 1
    analog: Scalar  # 1, PHYs and other I/O


@struct
class Areas:
    """Area of each part of a die per unit of it, in the reference process."""

    matrix: Scalar  # m2 per 16-bit FLOP per cycle of the matrix units
    vector: Scalar  # m2 per float32 FLOP per cycle of the vector units
    double: Scalar  # m2 per float64 FLOP per cycle of the vector units
    graphics: Scalar  # m2 per float32 FLOP per cycle, of rasterisers, texture and ray-tracing units
    core: Scalar  # m2 per core: scheduling, load and store, first caches' control
    core_memory: Scalar  # m2/B of scratchpads and registers
    l2: Scalar  # m2/B of the caches that all cores share
    stack: Scalar  # m2 of PHY and controller of one stack or chip of memory
    link: Scalar  # m2 s/B of link bandwidth per direction
    fixed: Scalar  # m2 of host interface, command processors, media


@struct
class Silicon:
    """The dies of one device. Parts that are on them but switched off are counted: shares say how much is in use."""

    areas: Areas
    core_process: Process  # of matrix and vector units, scratchpads, registers
    shared_process: Process  # of caches, PHYs and the rest; the same unless they are on dies of their own
    scale: Scalar = 1.0  # area of cores over what `areas` say; 1 but for dies of known size
    shared_scale: Scalar = 1.0  # the same of everything else
    layout: Scalar = 1.0  # area of logic over that of the usual layout in the process
    double_flops: Scalar = 0.0  # FLOP/s in float64 of all cores, vector units
    graphics: Scalar = 0.0  # 1 where the die also draws pictures
    other_memory: Scalar = 0.0  # B of shared on-die memory that is no level of `Memory`
    cores_used: Scalar = 1.0  # share of the cores on the dies that work
    matrix_used: Scalar = 1.0  # share of the rate of those cores' matrix units that the device may use
    l2_used: Scalar = 1.0  # share of the L2 on the dies
    stacks_used: Scalar = 1.0  # share of the memory PHYs on the dies
    stack_bandwidth: Scalar  # B/s of one stack or chip of memory
    stack_capacity: Scalar  # B of one stack or chip of memory
    separate: Scalar = 0.0  # 1 where caches, PHYs and the rest are on dies of their own
    dies: Scalar = 1.0  # fewest dies with cores
    shared_dies: Scalar = 0.0  # fewest dies without cores
    largest_die: Scalar  # m2, what one exposure covers
