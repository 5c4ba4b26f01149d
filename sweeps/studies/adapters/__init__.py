"""Design problems in the form that other optimisers take: SciPy, optax, pymoo, Optuna and BoTorch."""

from jaxroof.public import public_names

__all__, __getattr__, __dir__ = public_names(__name__, __file__ + "i")
