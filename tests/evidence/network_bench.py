"""All kernels of many networks in columns: times of every row in a tenth of a second, for fits of constants."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxroof.efficiency import Efficiency
from jaxroof.energy.energy import Joules, joules_of, power_known
from jaxroof.energy.governor import limited_time
from jaxroof.hardware import Hardware
from jaxroof.numerics.arrays import eager
from jaxroof.numerics.tree import leaves, mapped, structure
from jaxroof.op import Kernel
from jaxroof.roofline import op_time
from tests.evidence.network_rows import Row


class Column(NamedTuple):
    """Kernels of one structure on one device."""

    op: Kernel  # its leaves are arrays, one entry per kernel
    hardware: Hardware
    place: np.ndarray  # number of each one's row


class Bench:
    """Rows with their kernels.

    Args:
      rows: measurements.
      ops: kernels of a row by name.
      hardware: device of a row.
    """

    def __init__(
        self, rows: Sequence[Row], ops: Callable[[Row], Mapping[str, Kernel]], hardware: Callable[[Row], Hardware]
    ):
        self.rows = list(rows)
        self._devices = [hardware(row) for row in self.rows]
        self.measured = np.array([row.time for row in self.rows])
        found: dict[Any, tuple[Kernel, Hardware, list[int], list[list[float]]]] = {}
        self.kernels = np.zeros(len(self.rows))
        self._energy: list[Joules | None] = []
        for number, (row, device) in enumerate(zip(self.rows, self._devices, strict=True)):
            own = ops(row)
            with eager():
                self._energy.append(joules_of(own, device) if power_known(device) else None)
            for op in own.values():
                self.kernels[number] += float(op.count * op.kernels)
                key = (row.device, row.cores, row.clock, structure(op))
                _, _, places, numbers = found.setdefault(key, (op, device, [], []))
                places.append(number)
                numbers.append([float(leaf) for leaf in leaves(op)])
        self._columns = [
            Column(_filled(op, np.array(numbers).T), device, np.array(places))
            for op, device, places, numbers in found.values()
        ]

    def times(self, constants: Callable[[Row], Efficiency]) -> np.ndarray:
        """s of every row, by the constants of its engine."""
        device = np.zeros(len(self.rows))
        engines: dict[int, Efficiency] = {}
        chosen = [constants(row) for row in self.rows]
        for one in chosen:
            engines[id(one)] = one
        with eager():
            for column in self._columns:
                for key, efficiency in engines.items():
                    own = np.array([id(chosen[place]) == key for place in column.place])
                    if own.any():
                        time = column.op.count * op_time(column.op, column.hardware, efficiency)
                        np.add.at(device, column.place[own], np.broadcast_to(time, own.shape)[own])
            for number, energy in enumerate(self._energy):
                if energy is not None:
                    device[number] = limited_time(device[number], energy, self._devices[number])
        launches = [one.host.kernel_time or 0.0 for one in chosen]
        return np.maximum(device, self.kernels * np.array(launches, float))


def _filled(op: Kernel, numbers: np.ndarray) -> Kernel:
    remaining = iter(numbers)
    return mapped(lambda leaf: next(remaining), op)
