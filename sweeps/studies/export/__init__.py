"""A step or an iteration in the formats of other programs."""
