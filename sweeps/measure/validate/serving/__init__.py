"""Published serving measurements: what ran, as far as the labels say, and how far predictions are off."""
