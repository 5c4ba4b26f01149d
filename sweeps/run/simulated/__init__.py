"""Simulations of served requests: what is asked of them, and many of them at once."""
