"""Questions to a sweep's dataset, as `dataset.jaxroof`: its front, its best points, its elasticities, its picture."""

from collections.abc import Sequence
from typing import Any

import xarray as xr

from hwspaces.quantities.units import plain_arguments
from sweeps.data.querying.front import front
from sweeps.data.querying.run import query
from sweeps.data.querying.slopes import slopes

FLAGS = ("feasible", "legal", "fits")


class Questions:
    """Questions to a dataset of `sweeps.sweep`, `sweeps.open` or `xarray.open_dataset`.

    Example:
      data = sweeps.sweep(hardware=["H100-SXM", "MI300X"], model="Llama-3.1-8B", workload={"batch": [1, 8, 64], ...})
      data.jaxroof.best("tpot", where="hardware == 'MI300X'")
    """

    def __init__(self, dataset: xr.Dataset):
        self._dataset = dataset

    @plain_arguments
    def pareto(self, x: str, y: str, per: str | Sequence[str] | None = None) -> xr.Dataset:
        """The feasible points that no other beats in two metrics, along `row`, in the order of `x`, the best first.

        Args:
          x, y: metrics; which way each is better is part of its declaration.
          per: axes of each of whose values there is a front. None: the model and the numbers of its traffic, where they
            vary; "none": one front of all points.

        Raises:
          ValueError: one line, for a name that there is not, or that is better neither high nor low.

        Example:
          data.jaxroof.pareto("tpot", "tokens_per_second_per_device").to_pandas()
        """
        return front(self._dataset, x, y, per)

    @plain_arguments
    def best(
        self, metric: str, where: str | None = None, n: int = 1, per: str | Sequence[str] | None = None
    ) -> xr.Dataset:
        """The `n` best feasible points along `row`, the best first: all variables, and axes as coordinates.

        Args:
          metric: that they are best in; of an axis the lowest.
          where: a condition that they keep, as of `jaxroof query`: "ttft < 500 ms and hardware != 'L40S'".
          n: how many.
          per: as of `pareto`: the `n` best of each value.

        Raises:
          ValueError: one line, for a name that there is not, or what is no condition.

        Example:
          data.jaxroof.best("usd_per_million_tokens", where="tpot < 40 ms", n=3)
        """
        # `feasible` is both other flags in one; a dataset without it may have either of them.
        flags = [name for name in FLAGS if name in self._dataset]
        kept = flags[:1] if flags[:1] == ["feasible"] else flags
        conditions = [*kept, *([f"({where})"] if where else [])]
        return query(self._dataset, " and ".join(conditions) or None, metric, n, per=per).rows

    @plain_arguments
    def sensitivity(self, metric: str) -> xr.Dataset:
        """Elasticities d ln y / d ln x of a metric y in every number x along an axis, over `knob` and the axes.

        They are the model's gradients where the dataset holds them (`sweeps.sensitivity`). Else they are slopes in
        logarithms between neighbouring points of a grid, or of a plane through the points of a sample.

        Raises:
          ValueError: one line, for a metric that there is not, or where no axis has two positive numbers.

        Example:
          data.jaxroof.sensitivity("tpot").elasticity_of_tpot.sel(knob="batch")
        """
        return slopes(self._dataset, metric)

    @plain_arguments
    def plot(
        self,
        kind: str = "overview",
        x: str | None = None,
        y: str | None = None,
        metric: str | None = None,
        at: str | Sequence[str] = (),
    ) -> Any:
        """A matplotlib Figure of the dataset, as `jaxroof plot` draws it.

        Args:
          kind: overview, heatmap, lines, pareto, breakdown, spread, ...
          x, y: axes; of a Pareto front, metrics.
          metric: that is drawn; None: the first of those that readers ask for.
          at: "AXIS=VALUE", one or several: only there.

        Example:
          data.jaxroof.plot("pareto", x="tpot", y="tokens_per_second_per_device").savefig("front.png")
        """
        from sweeps.data.labels import known
        from sweeps.show.of_file import KINDS, drawn

        places = [at] if isinstance(at, str) else list(at)
        return drawn(self._dataset, known(kind, KINDS, "picture of a dataset,"), x, y, metric, places)
