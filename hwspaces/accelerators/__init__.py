"""Accelerators: the catalogue, a user's own devices, their silicon, technology, prices and design spaces."""
