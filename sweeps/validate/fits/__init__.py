"""Fits of kernel models to measured kernels, one file per family, and what they leave over on unseen devices."""
