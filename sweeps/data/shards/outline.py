"""A sweep as its manifest describes it: axes, variables and kept parts, without planning any of it."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from sweeps.ask.names import variable
from sweeps.data.pieces import Output


@dataclasses.dataclass(frozen=True)
class Side:
    """An axis by name and size."""

    name: str
    size: int


@dataclasses.dataclass(frozen=True)
class Outline:
    """Facts of a sweep that `sweeps.data.keep` and readers of shards need."""

    axes: tuple[Side, ...]
    outputs: Mapping[str, Output]
    keep: tuple[str, ...]
    job: str

    @property
    def points(self) -> int:
        """Points of the whole sweep."""
        return math.prod(axis.size for axis in self.axes)


def outline(header: Mapping[str, Any], where: Any) -> Outline:
    """The sweep that a manifest's header describes; ValueError of one line where it describes none."""
    try:
        axes = tuple(Side(str(name), int(size)) for name, size in header["axes"])
        outputs = {output.name: output for output in map(_output, header["outputs"])}
        keep = tuple(word for words in header["keep"] for word in str(words).split(","))
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{where} is damaged: its header describes no sweep ({error})") from None
    sizes = {axis.name: axis.size for axis in axes}
    for output in outputs.values():
        sides = [sizes.get(dim) if dim != "op" else len(output.ops) for dim in output.dims]
        if list(output.shape) != sides:
            raise ValueError(f"{where} is damaged: {output.name} is of shape {output.shape} over {output.dims}")
    return Outline(axes, outputs, keep, str(header["spec"].get("job", "request")))


def _output(found: Mapping[str, Any]) -> Output:
    dtype = np.dtype(str(found["dtype"]))
    try:
        variable(str(found["name"]))
    except KeyError:
        raise ValueError(f"there is no variable {str(found['name'])[:40]!r}") from None
    if dtype.kind not in "fiub":
        raise ValueError(f"dtype = {found['dtype']!r}")
    return Output(
        name=str(found["name"]),
        dims=tuple(map(str, found["dims"])),
        shape=tuple(map(int, found["shape"])),
        dtype=dtype,
        ops=tuple(map(str, found["ops"])),
        complete=bool(found["complete"]),
    )
