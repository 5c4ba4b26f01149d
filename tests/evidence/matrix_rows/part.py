"""Measured values with their predictions and labels, and where a source of them reads."""

import dataclasses
import math
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from sweeps.measure.validate.measured_csv import LeftOut, by_reason

Item = TypeVar("Item")


class Part(NamedTuple):
    """Measured values that share all labels, and their predictions in the same unit; arrays of shape [rows]."""

    kind: str
    case: str  # what was measured of it, and at which precision
    device: str
    engine: str
    release: str  # of the engine or library
    fit: str  # module that fitted constants of the predictions to them; "": none did
    predicted: np.ndarray
    measured: np.ndarray
    spread: np.ndarray | float = math.nan  # claimed standard deviation of the logarithm
    model: str = ""
    load: str = ""  # clients, sequences or size of the work, in words
    date: str = ""  # day of the measurement
    source: str = ""  # of `matrix_rows.SOURCES`, which sets it


LABELS = ("kind", "case", "device", "engine", "release", "fit", "model", "load", "date", "source")
"""What rows are told apart by: fields of `Part`."""


class Left(NamedTuple):
    """Rows without a prediction for one reason."""

    reason: str
    rows: int
    names: str = ""  # file and lines


MANY = 8
"""Rows without a prediction that are named, of each reason."""


@dataclasses.dataclass
class Measured:
    """The folder of measured files, the share of the rows that is asked for, and what had no prediction."""

    folder: Path
    share: int = 0
    shares: int = 1
    whole: bool = True  # False: a sample where a source has one
    left: list[Left] = dataclasses.field(default_factory=list)

    def leave(self, out: Iterable[LeftOut]) -> None:
        """Rows of a file that have no prediction, by their reasons."""
        for reason, rows in by_reason(out):
            lines = ", ".join(str(one.row) for one in rows[:MANY]) + (", ..." if len(rows) > MANY else "")
            self.left.append(Left(reason, len(rows), f"{Path(rows[0].file).name} row {lines}".strip()))

    def sample(self, items: Sequence[Item], key: Callable[[Item], str], one_in: int) -> list[Item]:
        """All items, or those of which a hash of the key says so, the same in every run; how many go is stated."""
        if self.whole:
            return list(items)
        kept = [one for one in items if not zlib.crc32(key(one).encode()) % one_in]
        if not self.share:
            reason = f"outside of the sample of one deployment in {one_in}: --all"
            self.left.append(Left(reason, len(items) - len(kept)))
        return kept


Source = Callable[[Measured], Iterable[Part]]


def single(
    kind: str,
    case: str,
    device: str,
    fit: str,
    predicted: float,
    measured: float,
    engine: str = "",
    release: str = "",
    spread: float = math.nan,
    model: str = "",
    load: str = "",
    date: str = "",
) -> Part:
    """A part of one value."""
    values = np.array([predicted], float), np.array([measured], float)
    return Part(kind, case, device, engine, release, fit, *values, spread, model, load, date)
