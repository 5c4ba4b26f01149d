"""Quantities: units, names of the cost model's numbers, and figures that follow from others by expressions."""
