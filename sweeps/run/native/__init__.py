"""Sweeps through LLVM: a function of one point as a graph of scalar operations, loops over it, and machine code."""
