"""Sweeps into folders of shards: the work cut into pieces, in this process or on a cluster."""
