"""Price tables of places, made on NumPy and kept: loads of one place, and the next question, read the same ones."""

import collections
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from jaxroof.numerics.arrays import eager
from jaxroof.prices.tables import Limits, Parts, StepPrices, price_tables

COLUMN = 8
"""Places whose price tables are computed together: their columns stay in a cache."""

KEPT_BYTES = 512e6
"""B of price tables that are kept for the next simulations of the same places: each of a megabyte, and all of one call
together."""


def tables_of(place: tuple, limits: Limits, number: int) -> StepPrices:
    """Price tables of every simulation, on the device: leaves of shape [simulations, ...].

    Args:
      place: hardware, model, deployment, efficiency, and what every request encodes or None, leaves of shape () or
        [simulations].
      number: of simulations.
    """
    numbers = jax.tree.map(lambda leaf: np.broadcast_to(np.asarray(leaf, np.float64), number), place)
    leaves = np.stack(jax.tree.leaves(numbers), axis=1)
    kind = jax.tree.structure(place), limits
    keys = [(kind, row.tobytes()) for row in leaves]
    asked = *keys, jax.numpy.result_type(float)  # 32 or 64 bits on the device
    with _keeping:
        if asked in _kept:
            _kept.move_to_end(asked)
            return _kept[asked]
        found = {key: _kept[key] for key in keys if key in _kept}
    missing = list({key: at for at, key in enumerate(keys) if key not in found}.values())
    found |= zip((keys[at] for at in missing), _made(numbers, limits, missing), strict=True)
    tables = jax.device_put(jax.tree.map(lambda *each: np.stack(each), *(found[key] for key in keys)))
    with _keeping:
        _kept.keep(found | {asked: tables})
    return tables


def _made(numbers: tuple, limits: Limits, chosen: Sequence[int]) -> Iterator[StepPrices]:
    """Price tables of the chosen places, in columns: a program that makes them is traced for seconds."""
    kinds = None
    for low in range(0, len(chosen), COLUMN):
        rows = np.asarray(chosen[low : low + COLUMN])
        hardware, model, deployment, efficiency, encode = jax.tree.map(
            lambda leaf, rows=rows: leaf[rows].reshape(-1, 1, 1), numbers
        )
        with eager():
            parts = Parts(hardware, model, deployment, efficiency, kinds)
            kinds = parts.kinds
            made = price_tables(parts, deployment, limits, encode)
        for lane in range(len(rows)):
            yield jax.tree.map(lambda leaf, lane=lane: np.array(leaf[lane]), made)


class _Kept(collections.OrderedDict):
    """Price tables by what they depend on, the least recently used ones dropped beyond `KEPT_BYTES`."""

    def keep(self, found: Mapping[Any, StepPrices]) -> None:
        """Keep these too, as the most recently used."""
        for key, tables in found.items():
            self[key] = tables
            self.move_to_end(key)
        held = sum(leaf.nbytes for tables in self.values() for leaf in jax.tree.leaves(tables))
        while held > KEPT_BYTES:
            _, dropped = self.popitem(last=False)
            held -= sum(leaf.nbytes for leaf in jax.tree.leaves(dropped))


_kept, _keeping = _Kept(), threading.Lock()