"""Decisions in Python: the best design under constraints, and the cheapest fleet over a day."""

import os
import pathlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from hwspaces.quantities.units import plain_arguments
from sweeps.ask.keys import takes
from sweeps.ask.spec import content
from sweeps.ask.words import SweepWords
from sweeps.entries.result import Result
from sweeps.studies.fleet import answer as fleets
from sweeps.studies.optimize import spec as specs
from sweeps.studies.optimize.optimum import Optimum
from sweeps.studies.optimize.result import dataset, record
from sweeps.studies.optimize.search import searched

if TYPE_CHECKING:
    from typing import Unpack

    import matplotlib.figure
    import pandas as pd
    import xarray as xr

    from sweeps.ask.keywords import SweepKeys


class OptimizeResult(Result, Optimum):
    """The best designs, or a Pareto front."""

    @property
    def dataset(self) -> "xr.Dataset":
        """Every design, the best first, along `design`, with all its metrics."""
        return dataset(self)

    def table(self) -> "pd.DataFrame":
        """A row for every design: its variables, and all its metrics."""
        data = self.dataset
        return data[[name for name in data.variables if data[name].dims == ("design",)]].to_dataframe()

    def plot(self) -> "matplotlib.figure.Figure":
        """Slices through the best design, or the front."""
        from sweeps.show.optimum import optimum

        return optimum(self)

    def _record(self) -> dict[str, Any]:
        return record(self)

    def _say(self) -> None:
        from sweeps.answers.optimize import printed

        printed(self, sum(self.seconds.values()))


class FleetResult(Result, fleets.FleetPlan):
    """Accelerators to rent for a year, and replicas in every hour of a day."""

    @property
    def dataset(self) -> "xr.Dataset":
        """Devices that are rented by accelerator; the load that is served and devices in use by class and hour."""
        import xarray as xr

        import sweeps.data.accessor  # noqa: F401

        question, hours = self.question, ("request_class", "hardware", "hour")
        variables = {
            "rented": ("hardware", self.rented, {"units": "1", "long_name": "devices rented for the year"}),
            "in_use": (hours, self.in_use, {"units": "1", "long_name": "devices that serve"}),
            "capacity": (hours, self.capacity, {"units": "s-1", "long_name": "requests per second that replicas take"}),
            "served": (hours[::2], self.served, {"units": "1", "long_name": "share of the requests that is served"}),
        }
        coordinates = {
            "hardware": np.array([one.name for one in question.supplies], object),
            "request_class": np.array([one.name for one in question.classes], object),
            "hour": np.arange(self.served.shape[1]),
        }
        return xr.Dataset(variables, coordinates, {"usd_per_year": self.cost})

    def table(self) -> "pd.DataFrame":
        """A row for every accelerator: devices that are rented, and what they cost."""
        import pandas as pd

        return pd.DataFrame(self.record()["accelerators"]).drop(columns="in_use")

    def plot(self) -> "matplotlib.figure.Figure":
        """Load and capacity of every class over the day, and devices in use."""
        from sweeps.show.fleet import day

        return day(self)

    def _record(self) -> dict[str, Any]:
        from sweeps.studies.fleet.record import record

        return record(self)

    def _say(self) -> None:
        from sweeps.answers.fleet import printed

        printed(self, False)


@takes(SweepWords, keys=True)
@plain_arguments
def optimize(
    source: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    /,
    *,
    optimize: Mapping[str, Any] | None = None,
    constraints: Mapping[str, Any] | None = None,
    progress: Callable[[str, int, int], None] = lambda stage, done, all_of_it: None,
    **keys: "Unpack[SweepKeys]",
) -> OptimizeResult:
    """The best hardware, deployment and workload numbers under constraints, by gradients, as `jaxroof optimize` does.

    Args:
      source: a specification with [optimize] and [constraints], whose ranges are bounds: a TOML file, a dictionary, or
        a name (`cheapest`); `keys` add to or replace its keys, which are those of `sweeps.sweep`.
      optimize: {"minimize": "tpot"}, or "maximize"; starts, steps, grid, seed.
      constraints: {"tpot": {"max": "40ms"}}.
      progress: called with a stage's name, what is done of it, and all of it.

    Raises:
      ValueError: one line: what is wrong with the specification, or that no design keeps the constraints.

    Example:
      found = sweeps.optimize(
          hardware="H100-SXM", model="Llama-3.1-8B", workload={"batch": 16, "isl": 1024, "osl": 256},
          axes={"hardware.memory.hbm.bandwidth": {"from": "2TB/s", "to": "8TB/s"}}, optimize={"minimize": "tpot"})
      found.table()
    """
    tables = {"optimize": optimize, "constraints": constraints}
    given = {**keys, **{name: table for name, table in tables.items() if table is not None}}
    asked = source if source is not None else {}
    if given:
        asked = {**(asked if isinstance(asked, Mapping) else content(pathlib.Path(asked))), **given}
    question = specs.read(asked)
    return OptimizeResult.of(searched(specs.made(question), question.search, progress))


@plain_arguments
def fleet(
    source: str | os.PathLike[str] | Mapping[str, Any],
    budget: str | float | None = None,
    *,
    gap: float = fleets.GAP,
    seconds: float = fleets.SECONDS,
    with_marginals: bool = True,
    simulated: int = 0,
    prices: str | None = None,
    node: int | None = None,
    progress: Callable[[str], None] = lambda text: None,
) -> FleetResult:
    """The cheapest fleet that serves every class of traffic within its limits over a day, as `jaxroof fleet` finds it.

    Args:
      source: a traffic file, the same as a dictionary, or a name (`fleet`).
      budget: most that the fleet may cost, in place of the file's: "2MUSD/year".
      gap, seconds: share of the cost by which a cheaper fleet may exist; s of every solution.
      with_marginals: find what one more of everything would gain, which takes several times as long.
      simulated: layouts of every class that are simulated at most; the others have estimates.
      prices, node: what devices cost, and devices of one server, where the file does not say.
      progress: called with what is done next, in words.

    Raises:
      ValueError: one line that names what is wrong, its value and what is allowed.

    Example:
      sweeps.fleet("fleet", budget="2MUSD/year").table()
    """
    if not isinstance(source, Mapping):
        source = pathlib.Path(source)
    how: dict[str, Any] = {"gap": gap, "seconds": seconds, "with_marginals": with_marginals, "simulated": simulated}
    return FleetResult.of(fleets.fleet(source, budget, **how, prices=prices, node=node, progress=progress))
