"""Inverse design: which hardware, deployment and workload are best under constraints, by gradients."""
