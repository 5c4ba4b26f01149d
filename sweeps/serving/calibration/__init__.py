"""Calibration of an engine's overheads to one measured run, by gradients through the simulator."""

from sweeps.serving.calibration.fit import Calibration, calibrated
from sweeps.serving.calibration.measured_run import Run, measured_run
from sweeps.serving.calibration.residual import Residual, residual

__all__ = ["Calibration", "Residual", "Run", "calibrated", "measured_run", "residual"]
