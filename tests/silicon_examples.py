"""Silicon, package and costs of an invented device, with round numbers."""

from jaxroof import Areas, Costs, Package, Process, Silicon

REFERENCE = Process(logic=1.0, sram=1.0, analog=1.0)

AREAS = Areas(
    matrix=2e-10,  # 20 mm2 per 100,000 16-bit FLOP per cycle
    vector=4e-9,
    double=5e-9,
    graphics=3e-9,
    core=0.5e-6,
    core_memory=1e-12,  # 1 mm2 per 10^6 B
    l2=0.5e-12,
    stack=10e-6,
    link=5e-17,  # 5 mm2 per 100 GB/s
    fixed=30e-6,
)

SILICON = Silicon(
    areas=AREAS,
    core_process=REFERENCE,
    shared_process=REFERENCE,
    stack_bandwidth=1e12,
    stack_capacity=16e9,
    largest_die=858e-6,
)

PACKAGE = Package(
    interposer=1700e-6,
    edge_share=0.9,
    power_density=0.97e6,
    cooling=1000.0,
    stack_edge=11e-3,
    stack_footprint=110e-6,
    link_edge=3.2e-14,
    other_edge=6.4e-3,
)

COSTS = Costs(
    wafer=10000.0,
    shared_wafer=5000.0,
    wafer_diameter=0.3,
    scribe=0.0,
    defects=1000.0,
    clustering=2.0,
    repairable=0.5,
    memory=10e-9,
    package=1e6,
    stack_footprint=100e-6,
    package_yield=0.8,
    test=20.0,
    board=200.0,
    margin=4.0,
    server=0.5,
    life=1e8,
    utilisation=0.5,
    hosting=1e-8,
    electricity=2e-8,
    pue=1.25,
    grid_intensity=1e-7,
)
