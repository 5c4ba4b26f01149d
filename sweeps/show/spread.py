"""Histograms and quantiles of the metrics of a sweep that kept counts alone."""

from typing import Any

import numpy as np
import xarray as xr

from sweeps.ask.names import variable
from sweeps.data import labels
from sweeps.show import style
from sweeps.show.plane import source_note

MOST = 9
"""Panels of one picture."""

LABEL_BOX = {"facecolor": "white", "alpha": 0.7, "lw": 0, "pad": 1}

MARKED = (0.05, 0.5, 0.95)
"""Quantiles that are drawn as lines."""


@style.styled
def spread(dataset: xr.Dataset) -> Any:
    """A figure of a panel per metric: how many feasible designs have which value.

    Raises:
      ValueError: one line, where no histogram was kept.
    """
    names = [str(name).removeprefix("histogram_") for name in dataset.data_vars if str(name).startswith("histogram_")]
    # A metric with a single bin has nothing to spread over.
    names = [name for name in names if f"{name}_bin" in dataset and dataset.sizes[f"{name}_bin"] > 1][:MOST]
    if not names:
        raise ValueError("the sweep kept no histogram: --keep histogram,quantiles does")
    points = int(dataset[f"histogram_{names[0]}"].sum())
    heading = f"How {points:,} feasible designs spread", "", source_note(dataset)
    fig, panels = style.panels(len(names), min(3, len(names)), (4.6, 2.9), (0.0, 0.9), *heading)
    for axes, name in zip(panels, names, strict=True):
        _panel(axes, dataset, name)
    return fig


def _panel(axes: Any, dataset: xr.Dataset, name: str) -> None:
    low, high = dataset[f"{name}_bin"].values, dataset[f"{name}_bin_upper"].values
    counts, unit = dataset[f"histogram_{name}"].values, variable(name).unit
    # Bins may differ in width: counts per factor of two make heights comparable on a logarithmic axis.
    per_octave = counts / np.log2(np.maximum(high, 1e-300) / np.maximum(low, 1e-300)) if low[0] > 0 else counts
    axes.stairs(
        per_octave / per_octave.sum(), np.append(low, high[-1]), fill=True, color=style.SERIES_COLOURS[0], alpha=0.7
    )
    if f"quantiles_{name}" in dataset:
        levels = dataset["quantile"].values
        for level in MARKED:
            # The quantile that is stored nearest to the wanted one.
            value = float(dataset[f"quantiles_{name}"].values[np.argmin(np.abs(levels - level))])
            axes.axvline(value, color=style.INK, lw=1.0, ls="-" if level == 0.5 else ":")
            words = f"{level:.0%}: {labels.amount(value, unit)}"
            axes.text(
                value,
                0.97,
                f" {words}",
                rotation=90,
                va="top",
                ha="left",
                fontsize=7,
                bbox=LABEL_BOX,
                transform=axes.get_xaxis_transform(),
            )
    words = variable(name).long_name.partition(":")[0]
    style.quantity_axis(axes, "x", words, unit, np.array([low[0], high[-1]]))
    # Heights are shares without a meaning of their own.
    axes.set_yticks([])
