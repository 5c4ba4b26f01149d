"""Single kernels, collectives and the power of kernels, as parts of the matrix."""

import functools
import re
from collections.abc import Iterator

import numpy as np

import hwspaces
from jaxroof.efficiency.timing import SHORT
from sweeps.measure.validate.collective_errors import band, collective_errors, kind_name
from sweeps.measure.validate.kernel_errors import kernel_errors, learned_name
from sweeps.measure.validate.kernel_power import power_scores
from tests.evidence import link_fit
from tests.evidence.matrix_rows.part import Left, Measured, Part, single

TABLES = "kernels"
COLLECTIVES = ("kernels/aic_comm.csv", "other/vidur_llmcompass_collectives.csv")

FITTED = re.compile(r"rows of \S+ ([\w., ]+) \(([^()]+)\) on ([\w, ]+) \(aiconfigurator")
"""Releases, kernels and devices in the source of a kernel's constants."""


def kernels(data: Measured) -> Iterator[Part]:
    """Kernels of tables, those of 30 us and more apart: fitted where a source names release, kernel and device."""
    found = kernel_errors(data.folder / TABLES)
    data.left += [Left(*one) for one in found.left_out]
    for one in found.scored:
        group = one.group
        device = hwspaces.hardware(group.device).name
        seen = (group.version, group.kernel, device) in _fitted(learned_name(group.engine))
        for load, rows in (("30 us and more", group.seconds >= SHORT), ("shorter", group.seconds < SHORT)):
            yield Part(
                kind="kernels",
                case=f"{group.family} {group.precision}",
                device=device,
                engine=group.engine,
                release=group.version,
                fit="learned_fit" if seen else "",
                predicted=one.seconds[rows],
                measured=group.seconds[rows],
                spread=one.spread[rows],
                load=load,
            )


@functools.cache
def _fitted(efficiency: str) -> frozenset[tuple[str, str, str]]:
    """Release, kernel and device of every table that constants of an efficiency were fitted to."""
    matches = (FITTED.search(text) for text in hwspaces.efficiency(efficiency).sources.values())
    lists = [[part.split(", ") for part in found.groups()] for found in matches if found]
    names = {name: hwspaces.hardware(name).name for *_, devices in lists for name in devices}
    return frozenset(
        (version, kernel, names[device])
        for versions, kernels, devices in lists
        for version in versions
        for kernel in kernels
        for device in devices
    )


def collectives(data: Measured) -> Iterator[Part]:
    """Collectives of tables and profiles; what a fit of links has seen is fitted."""
    for file in COLLECTIVES:
        found = collective_errors(data.folder / file)
        data.leave(found.left_out)
        seen = {id(row) for row in link_fit.fittable([one.row for one in found.scored])}
        for one in found.scored:
            row = one.row
            yield single(
                kind="collectives",
                case=f"{kind_name(row)} {row.mode}",
                device=row.device,
                engine=row.family,
                release=row.version,
                fit="link_fit" if id(row) in seen else "",
                predicted=one.predicted,
                measured=row.seconds,
                load=band(row.message_bytes),
            )


def power(data: Measured) -> Iterator[Part]:
    """Board power of single kernels from their measured times, where the meter was filled."""
    for one in power_scores(data.folder / TABLES)[0]:
        group = one.group
        for fit in ("power_fit", ""):
            rows = one.filled & (one.held_out == (fit == ""))
            yield Part(
                kind="power",
                case=one.label,
                device=hwspaces.hardware(group.device).name,
                engine=group.engine,
                release=group.version,
                fit=fit,
                predicted=np.asarray(one.power)[rows],
                measured=np.asarray(one.measured)[rows],
            )
