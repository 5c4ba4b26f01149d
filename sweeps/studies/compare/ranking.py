"""Ranking of a comparison: the metric, the order and its ties, and how far a deployment gets that is not ranked."""

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Protocol, TypeVar

import numpy as np

import hwspaces
from hwspaces import formatted
from sweeps.ask.names import variable
from sweeps.data.labels import number

MAX_DEVICES = 16
"""Devices of one replica that are tried at most where nothing is said."""

PRICE, RATE = "usd_per_million_tokens", "tokens_per_second_per_device"

UNTRIED, ILLEGAL, UNEVEN, WEIGHTS, CACHE, LIMIT, UNPRICED, FEASIBLE = range(8)
"""How far a deployment gets: beyond what the links connect and not asked for; a split that cannot be; a batch that its
attention groups cannot share evenly; weights, then KV cache, that do not fit; a limit that is missed; an accelerator
without the figure that rows are sorted by; or all the way."""


def default_metric(devices: Sequence[hwspaces.HardwareEntry]) -> tuple[str, int]:
    """The metric where none is asked for, by money where at least half have a price; and how many have one."""
    # Rows without a price cannot be ranked by money, so that most accelerators need one.
    priced = sum(device.hardware.price is not None for device in devices)
    return (PRICE if 2 * priced >= len(devices) > 0 else RATE), priced


def ascending(values: np.ndarray, name: str) -> np.ndarray:
    """Numbers that are lower where a deployment is better; infinite where the figure is unknown."""
    sign = -1.0 if variable(name).higher_is_better else 1.0
    return np.where(np.isfinite(values), sign * values, math.inf)


def ranks(values: np.ndarray, ties: np.ndarray) -> np.ndarray:
    """Position of every number in rising order, of the same shape; of equal ones, the one with the lower tie first."""
    # np.lexsort sorts by its last key first: values, then ties.
    order = np.lexsort((ties.ravel(), values.ravel()))
    positions = np.empty(order.size)
    # The inverse permutation: from the order of places to the rank of every place.
    positions[order] = np.arange(order.size)
    return positions.reshape(values.shape)


def within(best: float, factor: float) -> float:
    """The highest value, lower is better, that is at most this many times worse than the best one, of either sign."""
    return best * factor if best > 0.0 else best / factor


class Ranked(Protocol):
    """A row of a comparison."""

    @property
    def hardware(self) -> str:
        """Name of the accelerator."""

    @property
    def stage(self) -> int:
        """How far it gets."""

    @property
    def distance(self) -> float:
        """What separates it from the next stage."""


R = TypeVar("R", bound=Ranked)


def first_of_each(rows: Iterable[R], key: Callable[[R], Hashable]) -> tuple[R, ...]:
    """Of ranked rows, the first with every value of `key`, in their order."""
    first: dict[Hashable, R] = {}
    for row in rows:
        first.setdefault(key(row), row)
    return tuple(first.values())


def nearest_misses(rows: Iterable[R], infeasible: Iterable[R]) -> tuple[R, ...]:
    """For every accelerator without any of `rows`, the infeasible one that came nearest to being one."""
    served, nearest = {row.hardware for row in rows}, dict[str, R]()
    for row in infeasible:
        # A later stage is nearer to serving; within a stage, a smaller distance. Of equals the later row stays.
        before = nearest.get(row.hardware, row)
        if row.hardware not in served and (-row.stage, row.distance) <= (-before.stage, before.distance):
            nearest[row.hardware] = row
    return tuple(nearest.values())


def too_large(weights: float, capacity: float, all_weights: float, usable: float, devices: int, linked: float) -> str:
    """Why weights do not fit, in words.

    Args:
      weights: B per device.
      capacity: B of one device's memory.
      all_weights: B of the model's weights on a single device.
      usable: B of a device's memory that weights and cache may take.
      devices: of the replica.
      linked: devices that the links connect.
    """
    # Devices that the weights need at least, were they split evenly.
    least = math.ceil(all_weights / usable) if usable > 0 else 0
    needs = f", needs at least {least} devices" if least > devices else ""
    reached = f"; its links connect {number(linked)}" if least > linked else ""
    return f"does not fit: weights {formatted(weights, 'B')} of {formatted(capacity, 'B')} per device{needs}{reached}"
