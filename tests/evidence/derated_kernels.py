"""Constants from kernels alone: values for the experts, priors for the rest."""

from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np

from jaxroof.efficiency import Efficiency
from sweeps.measure.validate.relative_errors import Errors, errors
from tests.evidence import derated_kernel_rows
from tests.evidence.least_squares import fitted
from tests.evidence.parameters import EXPERTS, SHARED, Parameter, with_values

SPREAD = 0.3
"""Standard deviation of the log ratio of one kernel to constants alone: tiles and waves are not in them."""

FAMILIES: dict[str, tuple[Callable[[Path], list[derated_kernel_rows.Kernel]], tuple[str, ...]]] = {
    "GEMM, bf16": (
        lambda folder: derated_kernel_rows.gemms(folder, "bfloat16"),
        ("linear.matrix", "linear.bandwidth", "linear.kernel_time"),
    ),
    "GEMM, fp8, large, with quantisation": (
        lambda folder: derated_kernel_rows.gemms(folder, "fp8"),
        ("linear.matrix_low",),
    ),
    "prefill attention": (
        derated_kernel_rows.prefill_attentions,
        ("prefill_attention.matrix", "prefill_attention.bandwidth", "prefill_attention.kernel_time"),
    ),
    "decode attention": (
        derated_kernel_rows.decode_attentions,
        ("decode_attention.bandwidth", "decode_attention.kernel_time"),
    ),
    "experts, bf16": (
        lambda folder: derated_kernel_rows.expert_layers(folder, "bfloat16"),
        ("experts.matrix", "experts.bandwidth", "experts.kernel_time"),
    ),
    "experts, fp8 blocks": (
        lambda folder: derated_kernel_rows.expert_layers(folder, "fp8_block"),
        ("experts.matrix_low",),
    ),
}
"""Family of kernels -> (its rows, the constants that they determine), in the order in which they are fitted."""


def kernel_fit(folder: Path, start: Efficiency) -> tuple[dict[str, float], dict[str, tuple[int, Errors]]]:
    """Constants fitted to kernels alone by path, and per family the number of rows and their errors.

    A constant that an earlier family has determined stays as it is in later ones.

    Args:
      folder: of the kernel tables.
      start: constants that no family determines.

    Raises:
      ValueError: one line, when a table is missing or pandas and pyarrow are not installed.
    """
    known = {parameter.path: parameter for parameter in (*SHARED, *EXPERTS)}
    found: dict[str, float] = {}
    left_over = {}
    for family, (rows, paths) in FAMILIES.items():
        calls = rows(folder)
        measured = np.asarray([call.seconds for call in calls])
        values, predicted = _fitted(calls, measured, with_values(start, found), [known[path] for path in paths])
        found |= values
        left_over[family] = len(calls), errors(predicted, measured)
    return found, left_over


def _fitted(
    calls: list[derated_kernel_rows.Kernel], measured: np.ndarray, start: Efficiency, parameters: list[Parameter]
) -> tuple[dict[str, float], np.ndarray]:
    times = derated_kernel_rows.call_times(calls)
    values = fitted(
        lambda moved: times(with_values(start, moved)), measured, np.full(len(measured), SPREAD), parameters
    )
    return values, np.asarray(jax.jit(times)(with_values(start, values)))
