"""Many points at once: sweeps over hardware, models, deployments and workloads, as labelled datasets."""

import sys

from jaxroof.public import public_names

__all__, __getattr__, __dir__ = public_names(__name__, __file__ + "i")

if "xarray" in sys.modules:
    import sweeps.data.accessor  # noqa: F401  # `dataset.jaxroof`; else it comes with the first dataset
