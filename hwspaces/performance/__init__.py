"""Efficiencies: shares of a datasheet's figures that kernels reach, as constants, laws of kernels, or surfaces."""
