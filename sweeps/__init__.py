"""Many points at once: sweeps over hardware, models, deployments and workloads, as labelled datasets."""

from jaxroof.public import public_names

__all__, __getattr__, __dir__ = public_names(__name__, __file__ + "i")
