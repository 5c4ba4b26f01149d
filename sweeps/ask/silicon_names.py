"""What the leaves of `hardware.silicon` and `hardware.costs` are, in words, for axes and plots."""

PARTS = {
    "matrix": "matrix units",
    "vector": "vector units",
    "double": "float64 units",
    "graphics": "graphics",
    "core": "rest of the cores",
    "core_memory": "scratchpads, registers",
    "l2": "shared caches",
    "stacks": "memory PHYs",
    "links": "links",
    "fixed": "fixed",
}
"""Part of `jaxroof.area_parts` -> what it is called."""

COST_PARTS = {
    "dies": "dies",
    "memory": "device memory",
    "package": "package",
    "test": "test and assembly",
    "board": "board",
}
"""Part of `jaxroof.cost_parts` -> what it is called."""

SILICON = {
    "hardware.silicon.areas.matrix": "area of the matrix units per 16-bit FLOP per cycle",
    "hardware.silicon.areas.vector": "area of the vector units per float32 FLOP per cycle",
    "hardware.silicon.areas.double": "area of the vector units per float64 FLOP per cycle",
    "hardware.silicon.areas.graphics": "area of graphics units per float32 FLOP per cycle",
    "hardware.silicon.areas.core": "area of a core beside its units and memories",
    "hardware.silicon.areas.core_memory": "area of scratchpads and registers per byte",
    "hardware.silicon.areas.l2": "area of the L2 per byte",
    "hardware.silicon.areas.stack": "area of PHY and controller per memory stack",
    "hardware.silicon.areas.link": "area of links per bandwidth",
    "hardware.silicon.areas.fixed": "area that every device has",
    "hardware.silicon.scale": "area of cores over what the areas per unit give",
    "hardware.silicon.shared_scale": "area beside the cores over what the areas per unit give",
    "hardware.silicon.layout": "area of logic over that of the usual layout",
    "hardware.silicon.double_flops": "vector FLOP/s in float64",
    "hardware.silicon.graphics": "1 where the die also draws pictures",
    "hardware.silicon.other_memory": "shared on-die memory that is no modelled level",
    "hardware.silicon.cores_used": "share of the cores on the dies that work",
    "hardware.silicon.matrix_used": "share of the matrix units' rate that the device may use",
    "hardware.silicon.l2_used": "share of the L2 on the dies that is in use",
    "hardware.silicon.stacks_used": "share of the memory PHYs on the dies in use",
    "hardware.silicon.stack_bandwidth": "bandwidth of one memory stack",
    "hardware.silicon.stack_capacity": "capacity of one memory stack",
    "hardware.silicon.separate": "1 where caches and I/O are on dies of their own",
    "hardware.silicon.dies": "fewest dies with cores",
    "hardware.silicon.shared_dies": "fewest dies without cores",
    "hardware.silicon.largest_die": "largest die",
    **{
        f"hardware.silicon.{kind}_process.{part}": f"area of {part} circuits over that in a 5 nm process, {words}"
        for kind, words in (("core", "dies with cores"), ("shared", "caches and I/O"))
        for part in ("logic", "sram", "analog")
    },
}
"""Leaves of `jaxroof.silicon.Silicon`."""

COSTS = {
    "hardware.costs.wafer": "price of a wafer, in US dollars",
    "hardware.costs.shared_wafer": "price of a wafer of dies without cores, in US dollars",
    "hardware.costs.wafer_diameter": "usable diameter of a wafer",
    "hardware.costs.scribe": "space between two dies",
    "hardware.costs.defects": "defects per area",
    "hardware.costs.clustering": "clustering of defects",
    "hardware.costs.repairable": "share of a die where a defect leaves it of use",
    "hardware.costs.memory": "price of device memory, in US dollars",
    "hardware.costs.package": "price of the package per area on it, in US dollars",
    "hardware.costs.stack_footprint": "area of a memory stack on the package",
    "hardware.costs.package_yield": "share of packages that work",
    "hardware.costs.test": "test and assembly per die, in US dollars",
    "hardware.costs.board": "board of a device, in US dollars",
    "hardware.costs.margin": "price over cost of a device",
    "hardware.costs.server": "price of server and network over the device's",
    "hardware.costs.life": "life of a device",
    "hardware.costs.utilisation": "share of its life that a device works",
    "hardware.costs.hosting": "price of hosting per watt of TDP and second, in US dollars",
    "hardware.costs.electricity": "price of electricity, in US dollars",
    "hardware.costs.pue": "power usage effectiveness of the data centre",
}
"""Leaves of `jaxroof.money.Costs`."""
