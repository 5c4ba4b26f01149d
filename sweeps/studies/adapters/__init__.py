"""Design problems in the form that other optimisers take: SciPy, optax, pymoo, Optuna and BoTorch."""
