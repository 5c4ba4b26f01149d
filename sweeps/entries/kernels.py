"""Kernels in Python: any function of JAX arrays on accelerators, and a collective by algorithm and size."""

import dataclasses
import functools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hwspaces import quantity
from hwspaces.quantities.units import plain, plain_arguments
from sweeps.ask.names import variable_attributes
from sweeps.entries.result import Result
from sweeps.studies.collective import CollectiveTimes, message_sizes, require_kind, times_of_collective
from sweeps.studies.price.named import from_text
from sweeps.studies.price.points import Priced, accelerators, parted, priced
from sweeps.studies.price.question import USUAL_POLICY, PricedFunction, from_function

if TYPE_CHECKING:
    import matplotlib.figure
    import pandas as pd
    import xarray as xr


class PriceResult(Result, Priced):
    """A function on accelerators: `answer` is that of the first point, op by op."""

    @property
    def metrics(self) -> dict[str, float | bool | str]:
        """Metrics of the first point by name, in SI units."""
        return self.answer.metrics

    @functools.cached_property
    def dataset(self) -> "xr.Dataset":
        """Metrics over accelerators, sizes and numbers of the hardware."""
        return self.swept()

    def table(self) -> "pd.DataFrame":
        """The ops of one point, or a row for every one of many."""
        import pandas as pd

        if not self.one_point:
            return pd.DataFrame(self.record()["points"])
        return pd.DataFrame([dataclasses.asdict(op) for op in self.answer.ops])

    def plot(self) -> "matplotlib.figure.Figure":
        """The roofline of the first point."""
        from sweeps.answers.price import picture

        return picture(self)

    def _record(self) -> dict[str, Any]:
        from sweeps.answers.price import whole_record

        return whole_record(self)

    def _say(self) -> None:
        from sweeps.answers.price import show

        show(self)


class CollectiveResult(Result):
    """Times of one collective.

    Attributes:
      times: by algorithm and message size, and the algorithm that is chosen at each.
    """

    def __init__(self, times: CollectiveTimes):
        self.times = times

    @property
    def dataset(self) -> "xr.Dataset":
        """Times over algorithms and message sizes, and of the chosen algorithm; NaN where one cannot run."""
        import xarray as xr

        import sweeps.data.accessor  # noqa: F401
        from jaxroof.collectives import UNAVAILABLE

        found, about = self.times, variable_attributes("op_time", np.dtype(float))
        every = np.stack([np.where(time < UNAVAILABLE, time, np.nan) for time in found.times.values()])
        words = {"units": "1", "long_name": "how a collective runs"}
        return xr.Dataset(
            {
                "time": ("message_bytes", found.fastest, about | {"long_name": "time by the algorithm that is chosen"}),
                "algorithm_time": (("algorithm", "message_bytes"), every, about | {"long_name": "time"}),
                "chosen": ("message_bytes", np.array(found.chosen, object), words),
            },
            {
                "algorithm": ("algorithm", np.array(list(found.times), object), words),
                "message_bytes": ("message_bytes", found.sizes, {"units": "byte", "long_name": "size of the message"}),
            },
            {"title": found.about, "efficiency": found.efficiency},
        )

    def table(self) -> "pd.DataFrame":
        """A row for every message size: the algorithm, its time and bus bandwidth, and the time of every algorithm."""
        import pandas as pd

        rows = [{**row, **row.pop("times_s")} for row in self.record()["sizes"]]
        return pd.DataFrame(rows).set_index("message_bytes")

    def plot(self) -> "matplotlib.figure.Figure":
        """Bus bandwidth and time over message size."""
        from sweeps.show.collectives import algorithms

        found, details = self.times, f"Bus bandwidth and time over message size, efficiency {self.times.efficiency}."
        return algorithms(found.about, details, found.kind, found.devices, found.sizes, found.times, found.fastest)

    def _record(self) -> dict[str, Any]:
        from sweeps.answers.collective import record

        return record(self.times)

    def _say(self) -> None:
        from sweeps.answers.collective import show

        show(self.times)


def price(
    function: Callable[..., Any] | PricedFunction | str | os.PathLike[str],
    *args: Any,
    hardware: str | Iterable[str],
    over: Mapping[str, Any] | None = None,
    fusion: str = USUAL_POLICY,
    trips: float | None = None,
    fused_loops: bool = False,
    efficiency: str | None = None,
    set: Mapping[str, Any] | None = None,
    elasticities: bool = False,
) -> PriceResult:
    """A function of JAX arrays, or a model in StableHLO, as ops on accelerators, as `jaxroof price` has it.

    Args:
      function: any function of JAX arrays, traced and never run; "module:name" or "model.mlir"; or what
        `sweeps.from_function` returns.
      *args: its arguments: arrays or `jax.ShapeDtypeStruct`s, whose shapes may have symbols; of "module:name" texts
        such as "x=bf16[b,s,4096]".
      hardware: accelerators.
      over: values of symbols, {"b": [1, 8, 64]}, and of numbers of the hardware by their path.
      fusion, trips, fused_loops: as of `sweeps.from_function`.
      efficiency, set: constants; numbers of the hardware by their path.
      elasticities: also how much the time follows every number, at one point.

    Raises:
      ValueError: one line that names what is wrong, its value and what is allowed.

    Example:
      x = jax.ShapeDtypeStruct((2048, 4096), jnp.bfloat16)
      sweeps.price(lambda x: jax.nn.softmax(x @ x.T), x, hardware=["H100-SXM", "MI300X"]).table()
    """
    names = [name.strip() for name in hardware.split(",")] if isinstance(hardware, str) else list(hardware)
    values = {name: _listed(each) for name, each in (over or {}).items()}
    sizes, leaves = parted(values)
    devices = accelerators(names, plain(set or {}), tuple(leaves))
    first = {name: each[0] for name, each in sizes.items()}
    how: dict[str, Any] = {"fusion": fusion, "sizes": first or None, "trips": plain(trips), "fused_loops": fused_loops}
    if isinstance(function, PricedFunction):
        question = function
    elif callable(function):
        question = from_function(function, *args, **how)
    else:
        question = from_text(os.fspath(function), args, **how)
    return PriceResult.of(priced(question, devices, sizes, leaves, efficiency, elasticities))


def _listed(values: Any) -> list[Any]:
    """Values as a list; one of a single value."""
    found = plain(values)
    return list(found) if isinstance(found, list | tuple) else [found]


@plain_arguments
def collective(
    hardware: str,
    devices: float,
    kind: str = "all_reduce",
    *,
    size: str | float | Sequence[str | float] = "1KiB..1GiB",
    step: float = 4.0,
    stride: float | None = None,
    efficiency: str | None = None,
    set: Mapping[str, Any] | None = None,
) -> CollectiveResult:
    """Time of a collective over message sizes by every algorithm, and the one chosen, as `jaxroof collective` has it.

    Args:
      hardware: a name of the catalogue, or a file.
      devices: that take part, `stride` apart.
      kind: all_reduce, all_gather, reduce_scatter, all_to_all, ...
      size: of messages: one, several, or a range in steps of a factor of `step`; in B, or "1MiB".
      efficiency, set: constants; numbers of the links by their path.

    Raises:
      ValueError: one line that names what is wrong, its value and what is allowed.

    Example:
      sweeps.collective("H100-SXM", 8, size="1MiB..1GiB").table()
    """
    require_kind(kind)
    if devices < 2 or devices != int(devices):
        raise ValueError(f"devices = {devices!r} must be a whole number of at least 2")
    if isinstance(size, str):
        sizes = message_sizes(size, str(step))
    else:
        several: Any = size if isinstance(size, list | tuple) else [size]
        sizes = np.array([quantity(one, "B", "size") for one in several])
    found = times_of_collective(hardware, kind, float(devices), sizes, stride, efficiency, set)
    return CollectiveResult(found)
