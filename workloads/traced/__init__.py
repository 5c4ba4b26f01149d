"""Functions of JAX arrays as ops: a trace of the function, its kernels under a fusion policy, and their quantities."""
