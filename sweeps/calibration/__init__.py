"""Calibration of an engine's overheads to one measured run, by gradients through the simulator."""

from sweeps.calibration.fit import Calibration, calibrated
from sweeps.calibration.measured_run import Run, measured_run
from sweeps.calibration.residual import Residual, residual

__all__ = ["Calibration", "Residual", "Run", "calibrated", "measured_run", "residual"]
