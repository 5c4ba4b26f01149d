"""Attention blocks, layers with states, encoders and exchanges with experts, as parts of the matrix."""

from collections.abc import Iterator

import numpy as np

import hwspaces
from jaxroof.efficiency.timing import SHORT
from sweeps.measure.validate.collective_errors import band, collective_errors, kind_name
from sweeps.measure.validate.kernel_errors import kernel_errors
from tests.evidence import expert_tables, linear_layers
from tests.evidence.layer_rows import TABLES as LAYERS
from tests.evidence.layer_rows import excluded_rows
from tests.evidence.learned_kernels.blocks import left_out_sites
from tests.evidence.matrix_rows.part import Left, Measured, Part, single

TABLES = "kernels3"
EXCHANGES = "comm__*.parquet"


def blocks(data: Measured) -> Iterator[Part]:
    """Attention blocks with indexers, lists of keys and compressed caches; some sites are left out of their fits."""
    found = kernel_errors(data.folder / TABLES, only=("blocks",))
    data.left += [Left(*one) for one in found.left_out]
    for one in found.scored:
        group = one.group
        yield from _parts(
            "attention blocks",
            f"{group.family} {group.table.removeprefix('sparse_attention__')}",
            group,
            one.seconds,
            left_out_sites(group),
            "block_fit",
            spread=one.spread,
        )


def layers(data: Measured) -> Iterator[Part]:
    """Layers with states, residual streams and encoders: shapes of a fixed hash are left out of their fits."""
    for name in LAYERS:
        data.left += [Left(f"{name}: {words}", count) for words, count in excluded_rows(data.folder, name)]
        for one in linear_layers.scored(data.folder, name):
            case = f"{one.table} {one.group.precision}"
            yield from _parts("layers", case, one.group, one.predicted, one.unseen, "linear_fit")


def _parts(
    kind: str,
    case: str,
    group,
    predicted: np.ndarray,
    unseen: np.ndarray,
    fit: str,
    spread: np.ndarray | None = None,
) -> Iterator[Part]:
    """Rows of a group, those that a fit has seen and short ones apart."""
    for load, sized in (("30 us and more", group.seconds >= SHORT), ("shorter", group.seconds < SHORT)):
        for by, rows in ((fit, sized & ~unseen), ("", sized & unseen)):
            yield Part(
                kind=kind,
                case=case,
                device=hwspaces.hardware(group.device).name,
                engine=group.engine,
                release=group.version,
                fit=by,
                predicted=predicted[rows],
                measured=group.seconds[rows],
                spread=np.nan if spread is None else spread[rows],
                load=load,
            )


def exchanges(data: Measured) -> Iterator[Part]:
    """Exchanges of tokens with experts and collectives of newer releases; kernels of DeepEP were fitted on Hopper."""
    for file in sorted((data.folder / TABLES).glob(EXCHANGES)):
        found = collective_errors(file)
        data.leave(found.left_out)
        for one in found.scored:
            row = one.row
            yield single(
                kind="collectives of newer releases" if row.exchange is None else "exchanges with experts",
                case=kind_name(row) if row.exchange is not None else f"{kind_name(row)} {row.mode}",
                device=row.device,
                engine=row.family,
                release=row.version,
                fit="expert_tables" if row.exchange is not None and expert_tables.seen(row) else "",
                predicted=one.predicted,
                measured=row.seconds,
                model=f"{row.participants:g} devices",
                load=band(row.message_bytes),
            )
