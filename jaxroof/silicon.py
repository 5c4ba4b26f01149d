"""Silicon of a device's dies and their package: area per unit of each part, scale by process, and limits."""

from jaxroof.numerics.struct import Scalar, number, part, share, struct, switch


@struct
class Process:
    """Area of a circuit in one manufacturing process over that in the reference process (5 nm class)."""

    logic: Scalar = number("1", "area of logic circuits over that in a 5 nm process, {}")
    sram: Scalar = number("1", "area of sram circuits over that in a 5 nm process, {}")
    analog: Scalar = number("1", "area of analog circuits over that in a 5 nm process, {}", "PHYs and other I/O")


@struct
class Areas:
    """Area of each part of a die per unit of it, in the reference process."""

    matrix: Scalar = number("m2", "area of the matrix units per 16-bit FLOP per cycle")
    vector: Scalar = number("m2", "area of the vector units per float32 FLOP per cycle")
    double: Scalar = number("m2", "area of the vector units per float64 FLOP per cycle")
    graphics: Scalar = number(
        "m2", "area of graphics units per float32 FLOP per cycle", "rasterisers, texture and ray-tracing units"
    )
    core: Scalar = number(
        "m2", "area of a core beside its units and memories", "scheduling, load and store, first caches' control"
    )
    core_memory: Scalar = number("m2/B", "area of scratchpads and registers per byte")
    l2: Scalar = number("m2/B", "area of the L2 per byte")
    stack: Scalar = number("m2", "area of PHY and controller per memory stack", "or chip of memory")
    link: Scalar = number("m2 s/B", "area of links per bandwidth", "per direction")
    fixed: Scalar = number("m2", "area that every device has", "host interface, command processors, media")


@struct
class Silicon:
    """The dies of one device. Parts that are on them but switched off are counted: shares say how much is in use."""

    areas: Areas
    core_process: Process = part("dies with cores")
    shared_process: Process = part("caches and I/O")  # the same process unless they are on dies of their own
    scale: Scalar = number("1", "area of cores over what the areas per unit give", "1: size unknown", default=1.0)
    shared_scale: Scalar = number("1", "area beside the cores over what the areas per unit give", default=1.0)
    layout: Scalar = number("1", "area of logic over that of the usual layout", "in the same process", default=1.0)
    double_flops: Scalar = number("FLOP/s", "vector FLOP/s in float64", "of all cores", zero=True, default=0.0)
    shared_lanes: Scalar = switch("1 where float32 and float64 run on the same vector units", default=0.0)
    graphics: Scalar = switch("1 where the die also draws pictures", default=0.0)
    other_memory: Scalar = number("B", "shared on-die memory that is no modelled level", zero=True, default=0.0)
    cores_used: Scalar = share("share of the cores on the dies that work", default=1.0)
    matrix_used: Scalar = share("share of the matrix units' rate that the device may use", default=1.0)
    l2_used: Scalar = share("share of the L2 on the dies that is in use", default=1.0)
    stacks_used: Scalar = share("share of the memory PHYs on the dies in use", default=1.0)
    stack_bandwidth: Scalar = number("B/s", "bandwidth of one memory stack", "or chip of memory")
    stack_capacity: Scalar = number("B", "capacity of one memory stack", "or chip of memory")
    separate: Scalar = switch("1 where caches and I/O are on dies of their own", default=0.0)
    base_ratio: Scalar = number(
        "1",
        "area of dies without cores over that of the dies with cores that lie on them",
        "beside PHYs; 0: no die lies on another",
        zero=True,
        default=0.0,
    )
    dies: Scalar = number("1", "fewest dies with cores", count=True, default=1.0)
    shared_dies: Scalar = number("1", "fewest dies without cores", count=True, zero=True, default=0.0)
    largest_die: Scalar = number("m2", "largest die", "what one exposure covers")


@struct
class Package:
    """Limits of the package that carries the dies and memory of one device."""

    interposer: Scalar = number("m2", "largest area of dies and memory stacks in the package")
    edge_share: Scalar = share("share of the dies' edge that PHYs may take")
    power_density: Scalar = number("W/m2", "largest power per area of the dies", "memory's included")
    cooling: Scalar = number("W", "largest power that can be cooled", "one package")
    stack_edge: Scalar = number("m", "die edge per memory stack", "or chip of memory")
    stack_footprint: Scalar = number("m2", "area in the package per memory stack", "0: on the board", zero=True)
    link_edge: Scalar = number("m s/B", "die edge per scale-up bandwidth", "per direction", zero=True)
    other_edge: Scalar = number("m", "die edge of other PHYs", "host, links between dies", zero=True, default=0.0)
    stacked: Scalar = switch("1 where dies with cores lie on those without", default=0.0)


# Prices of making, buying and running a device, and what its electricity emits.


@struct
class Costs:
    """Prices, constants of yield, and the grid. USD without inflation; the catalogue gives each price's year."""

    wafer: Scalar = number("USD", "price of a wafer, in US dollars", "of the dies with cores", zero=True)
    shared_wafer: Scalar = number("USD", "price of a wafer of dies without cores, in US dollars", zero=True)
    wafer_diameter: Scalar = number("m", "usable diameter of a wafer", zero=True)
    scribe: Scalar = number("m", "space between two dies", zero=True)
    defects: Scalar = number("1/m2", "defects per area", zero=True)
    clustering: Scalar = number("1", "clustering of defects", "alpha of the negative binomial distribution")
    repairable: Scalar = share("share of a die where a defect leaves it of use", "the device can be sold", zero=True)
    memory: Scalar = number("USD/B", "price of device memory, in US dollars", zero=True)
    package: Scalar = number(
        "USD/m2", "price of the package per area on it, in US dollars", "of dies and memory stacks", zero=True
    )
    stack_footprint: Scalar = number(
        "m2", "area of a memory stack on the package", "0 for chips on the board", zero=True
    )
    package_yield: Scalar = share("share of packages that work")
    test: Scalar = number("USD", "test and assembly per die, in US dollars", zero=True)
    board: Scalar = number(
        "USD", "board of a device, in US dollars", "module, power conversion, cooling plate", zero=True
    )
    margin: Scalar = number("1", "price over cost of a device", zero=True)
    server: Scalar = number("1", "price of server and network over the device's", zero=True)
    life: Scalar = number("s", "life of a device", "until it is worth nothing")
    utilisation: Scalar = share("share of its life that a device works")
    hosting: Scalar = number(
        "USD/J",
        "price of hosting per watt of TDP and second, in US dollars",
        "space, power distribution and cooling plant",
        zero=True,
    )
    electricity: Scalar = number("USD/J", "price of electricity, in US dollars", zero=True)
    pue: Scalar = number(
        "1", "power usage effectiveness of the data centre", "its power over that of its computers", zero=True
    )
    grid_intensity: Scalar = number("kg/J", "CO2 equivalent that a grid emits per energy", zero=True)
