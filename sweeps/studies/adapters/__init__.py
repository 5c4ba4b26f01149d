"""Design problems in the form that other optimisers take: SciPy, optax, pymoo, Optuna and BoTorch."""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sweeps.studies.adapters import with_botorch as with_botorch
    from sweeps.studies.adapters import with_optax as with_optax
    from sweeps.studies.adapters import with_optuna as with_optuna
    from sweeps.studies.adapters import with_pymoo as with_pymoo
    from sweeps.studies.adapters import with_scipy as with_scipy

__all__ = ["with_botorch", "with_optax", "with_optuna", "with_pymoo", "with_scipy"]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> object:
    """Import an adapter when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module 'sweeps.adapters' has no attribute {name!r}")
    return importlib.import_module(f"sweeps.studies.adapters.{name}")
