"""Studies made of many answers: comparisons, sensitivities, optima, splits, layouts and scenarios."""
