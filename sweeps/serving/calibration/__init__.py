"""Calibration of an engine's overheads to one measured run, by gradients through the simulator."""

from sweeps.serving.calibration.fit import Calibration, calibrated
from sweeps.serving.calibration.measured_run import MeasuredRun, measured_run
from sweeps.serving.calibration.residual import Residual, residual

__all__ = ["Calibration", "Residual", "MeasuredRun", "calibrated", "measured_run", "residual"]
