"""Measured data: kernels of this machine, kernel tables of other benchmarks, scores of predictions."""
