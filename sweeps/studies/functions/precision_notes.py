"""Precision that float32 products run in on given accelerators, in words."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import hwspaces
from hwspaces.units import formatted

if TYPE_CHECKING:
    from workloads.traced.function import Traced

ENVIRONMENT = "JAX_DEFAULT_MATMUL_PRECISION"
"""Variable that JAX reads the precision of products from where code says none."""


def precision_notes(traced: "Traced", devices: Sequence[hwspaces.HardwareEntry]) -> tuple[str, ...]:
    """For each precision that products of float32 ask for, what they run in on each accelerator.

    One accelerator: with the peak, and with that of the most accurate precision beside it.
    """
    from workloads.traced.precisions import HIGHEST

    notes = []
    for name, asked in traced.asked_products():
        text = f"{name} products (precision {asked}) run {_runs(name, asked, devices)}"
        if asked != HIGHEST and len(devices) == 1:
            text += f"; {ENVIRONMENT}=highest: {_runs(name, HIGHEST, devices)}"
        notes.append(text)
    return tuple(notes)


def _runs(name: str, asked: str, devices: Sequence[hwspaces.HardwareEntry]) -> str:
    """Precision, passes and, of one accelerator, peak: "as tf32 at 495 TFLOP/s on H100-SXM"."""
    from workloads.traced.precisions import run_of

    found: dict[str, list[str]] = {}
    for device in devices:
        matrix = device.hardware.matrix
        precision, passes = run_of(name, asked, tuple(matrix))
        text = f"as {precision}" if passes == 1.0 else f"in {passes:g} passes of {precision}"
        peak = f" at {formatted(float(matrix[precision]) / passes, 'FLOP/s')}" if precision in matrix else ""
        found.setdefault(text + (peak if len(devices) == 1 else ""), []).append(device.name)
    return ", ".join(f"{text} on {' and '.join(names)}" for text, names in found.items())
