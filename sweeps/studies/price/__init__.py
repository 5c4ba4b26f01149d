"""Functions of JAX arrays as questions: their ops, answers on hardware, sweeps and elasticities."""
