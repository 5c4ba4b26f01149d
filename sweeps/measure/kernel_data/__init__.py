"""Published tables of measured kernels as calls that the cost model prices."""
