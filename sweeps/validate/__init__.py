"""Predictions against measured data, one module per kind of data, and the fit of the default efficiency."""
