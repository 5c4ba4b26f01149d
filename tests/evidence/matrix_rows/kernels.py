"""Single kernels, collectives and the power of kernels, as parts of the matrix."""

import functools
import itertools
import re
from collections.abc import Iterator

import numpy as np

import hwspaces
from jaxroof.efficiency.timing import SHORT
from sweeps.measure.kernel_data.group import KernelGroup
from sweeps.measure.validate.collective_errors import band, collective_errors, kind_name
from sweeps.measure.validate.kernel_errors import FAMILIES, LEARNED, ScoredKernels, kernel_errors
from sweeps.measure.validate.kernel_power import power_scores
from tests.evidence import link_fit
from tests.evidence.learned_kernels.result import unseen_sites
from tests.evidence.matrix_rows.part import Left, Measured, Part, single

TABLES, NEWER = "kernels", "kernels3"
"""Folders of tables: of the releases that most constants were fitted to, and of newer ones."""

COLLECTIVES = ("kernels/aic_comm.csv", "other/vidur_llmcompass_collectives.csv")

FITTED = re.compile(r"rows of \S+ ([\w., ]+) \(([^()]+)\) on ([\w, ]+) \((?:tables of )?aiconfigurator(.*)")
"""Releases, kernels and devices in the source of a kernel's constants, and what is said of rows that were left out."""

SITE_WORDS = "sites left out"
"""In the source of constants that sites of a fixed hash were left out of."""


def kernels(data: Measured) -> Iterator[Part]:
    """Kernels of tables, those of 30 us and more apart: fitted where a source names release, kernel and device."""
    families = tuple(name for name in FAMILIES if name != "blocks")
    for folder in (TABLES, NEWER):
        if (data.folder / folder).is_dir():
            found = kernel_errors(data.folder / folder, only=families)
            data.left += [Left(*one) for one in found.left_out]
            for one in found.scored:
                yield from _parts(one)


def _parts(one: ScoredKernels) -> Iterator[Part]:
    group = one.group
    unseen = _unseen(group)
    for load, sized in (("30 us and more", group.seconds >= SHORT), ("shorter", group.seconds < SHORT)):
        for fit, rows in (("learned_fit", sized & ~unseen), ("", sized & unseen)):
            yield Part(
                kind="kernels",
                case=f"{group.family} {group.precision}",
                device=hwspaces.hardware(group.device).name,
                engine=group.engine,
                release=group.version,
                fit=fit,
                predicted=one.seconds[rows],
                measured=group.seconds[rows],
                spread=one.spread[rows],
                load=load,
            )


def _unseen(group: KernelGroup) -> np.ndarray:
    """Mask of the rows that no fit has seen: whole groups that no source names, else the sites that were left out."""
    key = group.version, group.kernel, hwspaces.hardware(group.device).name
    sited = _fitted(group.engine).get(key)
    if not sited:
        return np.full(len(group), sited is None)
    return unseen_sites(group)


@functools.cache
def _fitted(engine: str) -> dict[tuple[str, str, str], bool]:
    """Release, kernel and device of every table that constants of an engine were fitted to; whether without sites."""
    found: dict[tuple[str, str, str], bool] = {}
    for name in (each for each in hwspaces.efficiencies() if each.startswith(f"{LEARNED}-{engine}")):
        for source in map(FITTED.search, hwspaces.efficiency(name).sources.values()):
            if source is not None:
                lists, sited = [part.split(", ") for part in source.groups()[:3]], SITE_WORDS in source[4]
                for version, kernel, device in itertools.product(*lists):
                    key = version, kernel, hwspaces.hardware(device).name
                    found[key] = sited and found.get(key, True)
    return found


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
