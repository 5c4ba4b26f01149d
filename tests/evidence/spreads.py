"""Errors of the kernels of a class on the devices that were measured: its spread."""

import dataclasses
from collections.abc import Iterable, Sequence

from jaxroof.efficiency import Efficiency, Spread
from sweeps.measure.validate.relative_errors import grouped
from tests.evidence.hulls import Measured, errors_of, evidence, fitted_rows
from tests.evidence.learned_kernels.result import KernelFit


def with_spreads(efficiency: Efficiency, fits: Sequence[KernelFit], rows: Iterable[Measured]) -> Efficiency:
    """`efficiency` with the spreads of `spreads` where there are any."""
    for path, spread in spreads(efficiency, fits, rows).items():
        kind, _, name = path.partition(".")
        kernels = getattr(efficiency, kind)
        kernel = dataclasses.replace(getattr(kernels, name), spread=spread)
        efficiency = dataclasses.replace(efficiency, **{kind: dataclasses.replace(kernels, **{name: kernel})})
    return efficiency


def spreads(efficiency: Efficiency, fits: Sequence[KernelFit], rows: Iterable[Measured]) -> dict[str, Spread]:
    """Spreads that hold 90 % of the rows of the kernels that engines choose by default, by path of the class.

    Kernels that an engine runs only where its default one cannot are left out as they are of the fits: with them TPOT
    of DeepSeek-R1 under TensorRT-LLM had an interval of a factor of 8, though no GPU with its own latent kernel runs
    them. What devices that were not measured add is the growth of the hull.
    """
    found = {}
    for path, own in grouped(fitted_rows(fits, rows), lambda one: one.path).items():
        kind, _, name = path.partition(".")
        # Kernels that claim no errors, such as streams, keep to that.
        if getattr(getattr(getattr(efficiency, kind), name, None), "spread", None) is not None:
            found[path] = errors_of(own, efficiency, evidence(own)).spread()
    return found
