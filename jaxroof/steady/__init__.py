"""Steady state: an engine under an endless load in closed form, its queue, and the search for its best load."""
