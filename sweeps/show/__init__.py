"""Pictures of sweeps and steps: each module holds a function from a dataset, or a case, to a matplotlib figure."""
