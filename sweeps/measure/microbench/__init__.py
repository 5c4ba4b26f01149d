"""Measured speed of a model's kernels on the device that JAX sees, within a budget of time."""
