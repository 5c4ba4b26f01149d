"""Prices of steps: the time of a step of any batch from tables of its parts."""
