"""Sources of the matrix: what is measured of each kind, its predictions, and into how many shares its rows are cut."""

from typing import NamedTuple

from tests.evidence.matrix_rows import kernels, newer, served, whole
from tests.evidence.matrix_rows.part import Source


class Entry(NamedTuple):
    """A source, and the shares of it that run side by side; each is asked for its own rows."""

    parts: Source
    shares: int = 1


SOURCES: dict[str, Entry] = {
    "pooled": Entry(served.pooled, shares=4),
    "served": Entry(served.served, shares=4),
    "dated": Entry(served.dated, shares=2),
    "saturated": Entry(whole.saturated),
    "kernels": Entry(kernels.kernels),
    "blocks": Entry(newer.blocks),
    "layers": Entry(newer.layers),
    "exchanges": Entry(newer.exchanges),
    "collectives": Entry(kernels.collectives),
    "power": Entry(kernels.power),
    "energy": Entry(whole.energy),
    "steps": Entry(whole.steps),
    "requests": Entry(whole.requests),
    "training": Entry(whole.training),
    "runs": Entry(whole.runs),
    "areas": Entry(whole.areas),
    "others": Entry(whole.others),
}
"""Name on the command line -> its rows, those that take longest first. A new source is one entry."""
