"""Design problems in the form that other optimisers take: SciPy, optax, pymoo, Optuna and BoTorch."""

from sweeps.studies.adapters import with_botorch as with_botorch
from sweeps.studies.adapters import with_optax as with_optax
from sweeps.studies.adapters import with_optuna as with_optuna
from sweeps.studies.adapters import with_pymoo as with_pymoo
from sweeps.studies.adapters import with_scipy as with_scipy
