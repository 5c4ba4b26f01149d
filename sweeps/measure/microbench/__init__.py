"""How fast the device that JAX sees runs the kernels of a model: what is run, how it is timed, within a budget."""
