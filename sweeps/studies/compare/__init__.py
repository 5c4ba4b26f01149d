"""Ranking of accelerators, layouts and engine settings for requests that arrive over time."""
