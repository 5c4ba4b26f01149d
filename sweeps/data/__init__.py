"""Results: labelled datasets, files and folders of them, the fronts that sweeps keep, and queries."""
