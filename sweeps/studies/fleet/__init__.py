"""Fleets of accelerators: how many of each kind serve several classes of traffic over a day at the least cost."""
