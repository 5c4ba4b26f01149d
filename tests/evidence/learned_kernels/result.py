"""Result of a fit of one class of kernels: constants, and errors on devices that were left out."""

import dataclasses
from typing import Any

import numpy as np

from jaxroof.efficiency.timing import NINETY_PERCENT, SHORT
from sweeps.measure.validate.relative_errors import Errors, errors

ARCHITECTURES = {
    "a100_sxm": "Ampere",
    "l40s": "Ada and RTX Blackwell",
    "rtx_pro_6000_server": "Ada and RTX Blackwell",
    "h100_sxm": "Hopper",
    "h200_sxm": "Hopper",
    "b200_sxm": "Blackwell",
}
"""Device of the measured tables -> the architecture that is left out together with it."""


@dataclasses.dataclass(frozen=True)
class KernelFit:
    """Constants of one class of kernels of one engine."""

    path: str  # where they belong: a kind and a class of `jaxroof.efficiency.kernels.Kernels`, "linear.wide"
    kernel: Any  # the struct of constants, its spread included
    engine: str
    versions: tuple[str, ...]  # of the engine, that were fitted
    kernels: tuple[str, ...]  # the engine's names of the kernels that were fitted
    devices: tuple[str, ...]
    rows: int
    errors: Errors  # of the rows that were fitted
    held_out: dict[str, tuple[Errors, Errors]]  # device -> errors over all rows and over long ones, without its
    # architecture in the fit
    blind: dict[str, Any]  # device -> the struct of constants that was fitted without its architecture


def errors_by_length(predicted: np.ndarray, measured: np.ndarray) -> tuple[Errors, Errors]:
    """Errors over all rows, and over those that take `SHORT` and more; arrays of s, shape [rows]."""
    long = measured >= SHORT
    return errors(predicted, measured), errors(predicted[long], measured[long])


def deviation(logs: np.ndarray) -> float:
    """Standard deviation of the normal distribution that has as much as 90 % of these absolute log errors within."""
    return float(np.quantile(logs, 0.9) / NINETY_PERCENT)
