"""Errors of all kernels of a class: the uncertainty where the kernel that an engine runs is unknown."""

import dataclasses
from collections.abc import Iterable

from jaxroof.efficiency import Efficiency, Spread
from sweeps.measure.kernel_data.group import KernelGroup
from sweeps.measure.validate.relative_errors import grouped
from tests.evidence.hulls import errors_of, evidence, measured


def widened(efficiency: Efficiency, groups: Iterable[KernelGroup], engine: str) -> Efficiency:
    """`efficiency` with the spreads of `spreads` where there are any."""
    for path, spread in spreads(efficiency, groups, engine).items():
        kind, _, name = path.partition(".")
        kernels = getattr(efficiency, kind)
        kernel = dataclasses.replace(getattr(kernels, name), spread=spread)
        efficiency = dataclasses.replace(efficiency, **{kind: dataclasses.replace(kernels, **{name: kernel})})
    return efficiency


def spreads(efficiency: Efficiency, groups: Iterable[KernelGroup], engine: str) -> dict[str, Spread]:
    """Spreads that hold 90 % of all of the engine's rows, also of kernels that were not fitted, by path of the class.

    A fit leaves out kernels that an engine runs only where another one cannot; whoever predicts does not know which
    it will be. They are of devices that were measured: what others add is the growth of the hull.
    """
    found = {}
    for path, own in grouped(measured(groups, engine, efficiency), lambda one: one.path).items():
        kind, _, name = path.partition(".")
        # Kernels that claim no errors, such as streams, keep to that.
        if getattr(getattr(getattr(efficiency, kind), name), "spread", None) is not None:
            found[path] = errors_of(own, efficiency, evidence(own)).spread()
    return found
