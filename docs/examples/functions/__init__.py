"""Functions of JAX arrays that show what can be priced: networks in plain JAX, with the shapes of their weights."""
