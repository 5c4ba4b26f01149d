"""Parts of a device's area, cost and power, and limits of its package, in words."""

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
    "fixed": "host interface, control",
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

LIMITS = {
    "shoreline": "die edge for PHYs",
    "interposer": "package area",
    "reticle": "area of one die",
    "power_density": "power per area",
    "cooling": "cooling",
}
"""Limit of `jaxroof.chip.area.USES` -> what it is called."""

POWER_PARTS = {
    "static": ("static",),
    "device memory": ("hbm",),
    "L2 and scratchpads": ("l2", "scratchpad"),
    "matrix units": ("matrix",),
    "vector, exponentials": ("vector", "exp"),
    "links": ("scale_up", "scale_out", "cluster"),
}
"""Name of a part of a device's power -> parts of `jaxroof.jobs.request.step_powers`."""
