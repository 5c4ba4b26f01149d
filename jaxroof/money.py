"""Prices of making, buying and running a device: wafers, memory, packages, servers, electricity."""

from jaxroof.struct import Scalar, struct


@struct
class Costs:
    """Prices and the constants of yield. USD without inflation; the catalogue gives each price's year."""

    wafer: Scalar  # USD per wafer of the dies with cores
    shared_wafer: Scalar  # USD per wafer of the dies without cores
    wafer_diameter: Scalar  # m, usable
    scribe: Scalar  # m between two dies
    defects: Scalar  # 1/m2
    clustering: Scalar  # 1, of defects: alpha of the negative binomial distribution
    repairable: Scalar  # share of a die's area where a defect leaves a device that can be sold
    memory: Scalar  # USD/B of device memory
    package: Scalar  # USD/m2 of dies and memory stacks on the package
    stack_footprint: Scalar  # m2 of one stack of memory on the package; 0 for chips on the board
    package_yield: Scalar  # share of the packages that work
    test: Scalar  # USD per die, test and assembly
    board: Scalar  # USD per device: module, power conversion, cooling plate
    margin: Scalar  # price over the cost to make
    server: Scalar  # price of the rest of server and network over the device's
    life: Scalar  # s until it is worth nothing
    utilisation: Scalar  # share of its life that the device works
    hosting: Scalar  # USD/J: USD per second and W of TDP for space, power distribution and cooling plant
    electricity: Scalar  # USD/J
    pue: Scalar  # power of the data centre over that of its computers
