"""Prices of making, buying and running a device, and what its electricity emits."""

from jaxroof.field import number, share
from jaxroof.struct import Scalar, struct


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
