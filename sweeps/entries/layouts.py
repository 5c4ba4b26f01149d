"""Layouts of a training run in Python: every one that a number of devices allows, fastest first."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hwspaces.quantities.units import plain_arguments
from sweeps.ask.cases import Case
from sweeps.ask.keys import takes
from sweeps.ask.names import variable_attributes
from sweeps.ask.training_case import training_case
from sweeps.entries.result import Result
from sweeps.entries.words import EntryWords, fields
from sweeps.studies.train import MOST_DEVICES, RankedLayouts, search

if TYPE_CHECKING:
    from typing import Unpack

    import matplotlib.figure
    import pandas as pd
    import xarray as xr

    from sweeps.ask.keywords import CaseKeys

TOP = 20
"""Layouts of a record, as many as the command prints."""


class TrainSearchResult(Result, RankedLayouts):
    """Layouts of one training run, fastest first.

    Attributes:
      case: hardware, model and workload.
      devices: of every layout.
    """

    case: Case
    devices: int

    @property
    def dataset(self) -> "xr.Dataset":
        """Every layout that was tried along `layout`, with its degrees and settings as coordinates."""
        import xarray as xr

        rows = [self.layouts.row(place) for place in range(len(self.layouts))]
        coords = {name: ("layout", [row[name] for row in rows]) for name in rows[0]}
        values = {
            name: ("layout", column, variable_attributes(name, column.dtype)) for name, column in self.metrics.items()
        }
        return xr.Dataset(values, coords)

    def table(self) -> "pd.DataFrame":
        """Every layout that fits, fastest first, with its metrics in SI units."""
        import pandas as pd

        return pd.DataFrame(self.rows(len(self.order)))

    def plot(self) -> "matplotlib.figure.Figure":
        """Memory of a device against the time of an iteration, of every layout that fits."""
        from sweeps.show.layouts import drawn

        return drawn(self.case, self, self.devices)

    def _record(self) -> dict[str, Any]:
        from sweeps.answers.train_search import record

        return record(self.case, self, self.devices, TOP)

    def _say(self) -> None:
        from sweeps.answers.train_search import show

        show(self.case, self, self.devices, TOP)


@takes(EntryWords)
@plain_arguments
def train_search(
    hardware: str,
    model: str,
    devices: int,
    *,
    workload: Mapping[str, Any],
    precision: str | None = None,
    **words: "Unpack[CaseKeys]",
) -> TrainSearchResult:
    """Every layout of a training run on `devices` devices, fastest first, as `jaxroof train --search` has it.

    Args:
      hardware, model: names of the catalogues, or files.
      devices: of which each layout uses all.
      workload: global_batch and seq; degrees, micro_batch, zero, recompute and schedule are tried.
      precision: of linear layers, bf16 or fp8.

    Raises:
      ValueError: one line that names what is wrong, its value and what is allowed.

    Example:
      found = sweeps.train_search("H100-SXM", "Llama-2-70B", 64, workload={"global_batch": 256, "seq": 4096})
      found.table().head()
    """
    if not 1 <= devices <= MOST_DEVICES or int(devices) != devices:
        raise ValueError(f"devices = {devices} must be a whole number from 1 to {MOST_DEVICES:,}")
    given = fields(words)
    asked = training_case(hardware, model, workload, precision=precision, **given)
    return TrainSearchResult.of(search(asked, int(devices)), case=asked, devices=int(devices))
