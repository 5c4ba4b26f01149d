"""A priced function on accelerators: op by op at one point, or in rows over sizes and numbers of the hardware."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import hwspaces
from sweeps.studies.price.named import require_sizes
from sweeps.studies.price.question import FunctionAnswer, PricedFunction

if TYPE_CHECKING:
    import xarray as xr


@dataclasses.dataclass(frozen=True, eq=False)
class Priced:
    """A function at the points that were asked for."""

    question: PricedFunction
    devices: tuple[hwspaces.HardwareEntry, ...]
    sizes: Mapping[str, Sequence[float]]  # values of every symbol
    leaves: Mapping[str, Sequence[Any]]  # values of numbers of the hardware, by their path
    efficiency: str | None
    answer: FunctionAnswer  # on the first device at the first sizes
    slopes: Mapping[str, float]  # elasticities of the time there, where they were asked for

    @property
    def first(self) -> dict[str, float]:
        """The first value of every symbol: the point that is priced op by op."""
        return {name: values[0] for name, values in self.sizes.items()}

    @property
    def one_point(self) -> bool:
        """Whether a single point is asked for."""
        return len(self.devices) == 1 and not self.leaves and all(len(values) == 1 for values in self.sizes.values())

    @functools.cached_property
    def dataset(self) -> "xr.Dataset":
        """Metrics over accelerators, sizes and numbers of the hardware."""
        return self.swept()

    def swept(self) -> "xr.Dataset":
        """The same, computed anew."""
        return self.question.sweep(self.devices, self.sizes, self.efficiency, self.leaves)

    @functools.cached_property
    def beyond(self) -> dict[str, str]:
        """How far accelerators are beyond the evidence at the first sizes, those that are."""
        judged = {one.name: self.question.answer(one, self.efficiency, **self.first).beyond for one in self.devices}
        return {name: one.text for name, one in judged.items() if one.marked}

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the rows should know."""
        return self.question.notes(self.devices, self.sizes, self.efficiency)


def priced(
    question: PricedFunction,
    devices: Sequence[hwspaces.HardwareEntry],
    sizes: Mapping[str, Sequence[float]],
    leaves: Mapping[str, Sequence[Any]],
    efficiency: str | None = None,
    elasticities: bool = False,
) -> Priced:
    """A function priced on accelerators.

    Args:
      question: the function.
      devices: accelerators, different ones.
      sizes: values of every symbol.
      leaves: values of numbers of the hardware by their path.
      efficiency: constants: a name or a file.
      elasticities: also how much the time follows every number of the hardware and every size, at one point.

    Raises:
      ValueError: one line: a size without a value or a value without a size, elasticities of several points.
    """
    require_sizes(question, sizes)
    first: dict[str, Any] = {name: values[0] for name, values in sizes.items()}
    answer = question.answer(devices[0], efficiency, **first)
    found = Priced(question, tuple(devices), sizes, leaves, efficiency, answer, {})
    if not elasticities:
        return found
    if not found.one_point:
        raise ValueError("--elasticities are of one point: give one accelerator and one value per size")
    return dataclasses.replace(found, slopes=question.elasticities(devices[0], efficiency, **first))


def accelerators(
    names: Sequence[str], settings: Mapping[str, Any], varied: Sequence[str] = ()
) -> list[hwspaces.HardwareEntry]:
    """Accelerators by name, each with the figures that are set, none of which is `varied`.

    Raises:
      ValueError: one line, for a name that there is not or that comes twice, or a figure of anything but the hardware.
    """
    # A traced function has no deployment and no model: only hardware has numbers to set.
    for path in settings:
        if not path.startswith("hardware."):
            raise ValueError(f"--set {path}: a function depends on hardware alone, and on sizes that --over gives")
        if path in varied:
            raise ValueError(f"--set {path}: --over varies it")
    devices = [hwspaces.hardware(name) for name in names]
    if len({device.name for device in devices}) < len(devices) or not devices:
        raise ValueError(f"--hardware {','.join(names)!r} must be names of different accelerators, commas between")
    return [hwspaces.overridden(device, settings) if settings else device for device in devices]


def parted(over: Mapping[str, Sequence[Any]]) -> tuple[dict[str, Sequence[Any]], dict[str, Sequence[Any]]]:
    """What is varied as symbols and as numbers of the hardware; ValueError of one line for anything else."""
    sizes: dict[str, Sequence[Any]] = {}
    leaves: dict[str, Sequence[Any]] = {}
    for name, values in over.items():
        # A dot marks a path of hardware; a symbol of the function has none.
        if "." in name and not name.startswith("hardware."):
            raise ValueError(f"--over {name}: a function depends on numbers of hardware alone")
        if not values:
            raise ValueError(f"--over {name}: it has no values")
        # Repeated values would repeat points of the grid.
        if len(set(values)) < len(values):
            raise ValueError(f"--over {name}={','.join(map(str, values))} has a value twice")
        (leaves if "." in name else sizes)[name] = values
    return sizes, leaves
