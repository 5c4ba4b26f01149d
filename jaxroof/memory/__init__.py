"""Memory of a device: what weights, caches and the engine hold, and whether a deployment is legal."""
