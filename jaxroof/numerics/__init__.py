"""Numerics: the array namespace, structs, trees, derivatives and exact maxima with gradients."""
