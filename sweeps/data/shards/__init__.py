"""Sweeps on disk in parts that survive interruption: folders of checked netCDF shards with a manifest."""
