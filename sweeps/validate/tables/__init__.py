"""Tables of measured kernels, one file per kind: their rows as ops of the cost model, whole columns at once."""
