"""Energy: joules of an op, power of a device, and the clock that its limit leaves."""
