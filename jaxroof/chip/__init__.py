"""A chip: the area of its parts, the limits of its package, and what it costs."""
