"""Fits of the models of kernels, a module per kind."""
