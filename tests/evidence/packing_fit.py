"""Cycles of laying out scales under SGLang 0.5.14: `python -m tests.evidence.packing_fit --data DIR`."""

import argparse
import dataclasses
import sys

import numpy as np
from scipy.optimize import minimize_scalar

import hwspaces
from jaxroof.efficiency import Efficiency
from sweeps.measure.kernel_data.gemm import gemm_groups
from sweeps.measure.kernel_data.group import KernelGroup, predicted
from tests.evidence.harness import command, data, error_text
from tests.evidence.learned_kernels.gemm import OLDER_LAYOUT
from tests.evidence.learned_kernels.result import all_rows, held_sites

ROWS = 1000
"""Rows that are fitted, and as many at least of sites that the fit does not see that are scored."""


RANGE = 3e3, 6e4
"""Cycles that are looked at."""


@command(data("folder with kernels/"))
def main(options: argparse.Namespace) -> None:
    """Fit and print."""
    engine, version, device, dtype = OLDER_LAYOUT
    groups = [
        group
        for group in all_rows(gemm_groups, options.data)
        if (group.engine, group.version, group.device, group.precision) == OLDER_LAYOUT
    ]
    if not groups:
        raise ValueError(f"{options.data}: no rows of {engine} {version}, {dtype} on {device}")
    (group,) = groups
    group = group.chosen(np.random.default_rng(0).permutation(len(group)))
    held = held_sites(group.columns["n"], group.columns["k"])
    seen, unseen = group.chosen(np.flatnonzero(~held)[:ROWS]), group.chosen(np.flatnonzero(held)[:ROWS])
    newest = hwspaces.efficiency(f"learned-{engine}").efficiency

    def off(logarithm: float) -> float:
        return float(np.mean(np.abs(np.log(_seconds(seen, packed(newest, np.exp(logarithm))) / seen.seconds))))

    cycles = float(np.exp(minimize_scalar(off, bounds=tuple(np.log(RANGE)), options={"xatol": 1e-3}).x))
    print(f"packing_cycles = {cycles:.4g}: {len(seen)} rows")
    for name, efficiency in (("fitted", packed(newest, cycles)), ("as of the newest release", newest)):
        print(f"{name}, sites left out: {error_text(_seconds(unseen, efficiency), unseen.seconds)} %")


def packed(efficiency: Efficiency, cycles: float) -> Efficiency:
    """`efficiency` with other cycles of the kernel that lays out scales."""
    linear = efficiency.linear
    scaled = dataclasses.replace(linear.scaled, packing_cycles=float(cycles))
    return dataclasses.replace(efficiency, linear=dataclasses.replace(linear, scaled=scaled))


def _seconds(group: KernelGroup, efficiency: Efficiency) -> np.ndarray:
    return predicted(group, hwspaces.hardware(group.device).hardware, efficiency)[0]


if __name__ == "__main__":
    sys.exit(main())
