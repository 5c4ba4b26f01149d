"""Inverse design: the best hardware, deployment and workload under constraints, by gradients."""
