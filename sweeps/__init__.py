"""Many points at once: sweeps over hardware, models, deployments and workloads, as labelled datasets."""

from sweeps.api import linear, log, sweep, sweep_to_file
from sweeps.case import Case, case
from sweeps.spec import Range, Spec

__all__ = ["Case", "Range", "Spec", "case", "linear", "log", "sweep", "sweep_to_file"]
