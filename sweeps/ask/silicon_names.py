"""Parts of a device's area and cost, in words."""

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
