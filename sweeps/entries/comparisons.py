"""Comparisons in Python: accelerators, their number, layout and settings for one model, best first."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hwspaces.quantities.units import plain_arguments
from sweeps.ask.keys import takes
from sweeps.ask.offered_load import COMPARED, OfferedLoad
from sweeps.ask.words import ComparisonWords, StaticWords
from sweeps.entries.result import Result
from sweeps.studies.compare import comparison as served
from sweeps.studies.compare import static
from sweeps.studies.compare.compare import comparison
from sweeps.studies.compare.rows import Row
from sweeps.studies.compare.words import read

if TYPE_CHECKING:
    from typing import Unpack

    import matplotlib.figure
    import pandas as pd
    import xarray as xr

    from sweeps.ask.keywords import CompareKeys, StaticKeys

DRAWN = 20
"""Rows that are drawn, as many as the command prints."""

TABLES = ("spec", "prefill", "classes")
"""What a record says of a row in tables of its own."""


class CompareResult(Result, served.Comparison):
    """A ranking of deployments under requests over time."""

    def record(self, rows: Sequence[Row] | None = None) -> dict[str, Any]:
        """As of `Comparison`."""
        return served.Comparison.record(self, rows)

    @property
    def dataset(self) -> "xr.Dataset":
        """Figures of every deployment as estimated, over settings, accelerators and layouts.

        Raises:
          ValueError: one line, where several precisions of the weights were compared, which are not one dataset.
        """
        if len(self.questions) > 1:
            raise ValueError(f"weights {', '.join(map(str, self.questions))} are not one dataset: ask for each alone")
        return served.dataset(self)

    def table(self) -> "pd.DataFrame":
        """The best row of every accelerator and number of devices, best first."""
        return _frame(self.record()["rows"])

    def plot(self) -> "matplotlib.figure.Figure":
        """The best rows as bars with their certainty, and the latency that throughput costs."""
        from sweeps.show.served import ranking

        return ranking(self, self.best_layouts[:DRAWN])

    def _say(self) -> None:
        from sweeps.answers.compare import show

        show(self, self.best_layouts, DRAWN, False)


class StaticResult(Result, static.StaticComparison):
    """A ranking of deployments by static batches."""

    @functools.cached_property
    def dataset(self) -> "xr.Dataset":
        """Every point, over hardware, deployment and batch."""
        return self.grid()

    def table(self) -> "pd.DataFrame":
        """The best row of every accelerator and number of devices, best first."""
        return _frame(self.record()["rows"])

    def plot(self) -> "matplotlib.figure.Figure":
        """The best rows as bars, and the latency that throughput costs."""
        from sweeps.show.compare import ranking

        return ranking(self, self.best_layouts[:DRAWN])

    def _record(self) -> dict[str, Any]:
        from sweeps.answers.compare_static import record

        return record(self, self.best_layouts, self.nearest_misses)

    def _say(self) -> None:
        from sweeps.answers.compare_static import show

        show(self, self.best_layouts, self.nearest_misses, DRAWN, False)


@takes(OfferedLoad, COMPARED)
@takes(ComparisonWords)
@plain_arguments
def compare(
    model: str,
    slo: str | Mapping[str, Any] | None = None,
    *,
    begun: Callable[[int], Callable[[int], None]] = lambda simulations: lambda done: None,
    **words: "Unpack[CompareKeys]",
) -> CompareResult:
    """Rank deployments of a model by the largest load of requests that keeps the limits, as `jaxroof compare` does.

    Words, defaults and rows are the command's: `jaxroof compare --help` says what each is. Numbers are in SI units, or
    texts with a unit; several values are a list, or a text with commas.

    Args:
      model: a name of the catalogue, or a file.
      slo: what has to be kept: "ttft=1s,tpot=30ms" by a `share` of the requests, "ttft.p99=1s" by the run.
      isl, osl: prompt and output tokens of every request; or trace, traffic.
      hardware, devices, weights, kv, policy: what is tried; None: all accelerators that are rented out, 1 to 16.
      rate: requests per second that have to be served, by as many replicas as it takes; None: what one takes.
      simulate: deployments of every accelerator that are simulated at most; 0: estimates, in seconds.
      begun: called with about as many simulations as come; returns what is called with those that are done.

    Returns:
      `best_layouts` are the rows that the command prints, `rows` those of its --all.

    Raises:
      ValueError: one line that names what is wrong, its value and what is allowed.

    Example:
      found = sweeps.compare("Llama-3.1-8B", "ttft=1s,tpot=30ms", isl=2048, osl=256, hardware=["H100-SXM", "MI300X"])
      found.table()[["hardware", "devices", "layout", "usd_per_million_tokens"]]
    """
    return CompareResult.of(comparison(read({"model": model, "slo": slo, **words}), begun))


@takes(StaticWords)
@plain_arguments
def compare_static(
    model: str,
    isl: float | str,
    osl: float | str,
    *,
    begun: Callable[[int], Callable[[int], None]] = lambda points: lambda done: None,
    **words: "Unpack[StaticKeys]",
) -> StaticResult:
    """Rank deployments of a model by a static batch of requests, as `jaxroof compare --static` does: no traffic.

    Args:
      model: a name of the catalogue, or a file.
      isl, osl: prompt and output tokens of every request.
      hardware, devices, batch: what is tried; None: all accelerators that are rented out, 1 to 16, 1 to 512.
      slo: "ttft=500ms,tpot=40ms"; what misses it is not feasible.
      sort: a metric; None: US dollars per million tokens where there are prices, else tokens per second and device.
      begun: called with the number of points before they are computed; returns a callback for those that are done.

    Raises:
      ValueError: one line that names what is wrong, its value and what is allowed.

    Example:
      sweeps.compare_static("Llama-3.1-70B", 1024, 256, hardware=["H100-SXM", "MI300X"], slo="ttft=2s").table()
    """
    return StaticResult.of(static.compare_static(model, isl, osl, begun=begun, **words))


def _frame(rows: list[dict[str, Any]]) -> "pd.DataFrame":
    """Rows of a record as a table, without what is a table itself."""
    import pandas as pd

    return pd.DataFrame([{name: value for name, value in row.items() if name not in TABLES} for row in rows])
