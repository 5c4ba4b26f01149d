"""Maps of elasticities: where in a sweep a knob matters to a metric, one small map per knob."""

from typing import Any

import numpy as np
import xarray as xr

from sweeps.ask.names import variable
from sweeps.data import labels
from sweeps.show import style
from sweeps.show.positions import positions

COLUMNS, MOST = 4, 12
"""Maps side by side, and of one picture."""

COLOURS = "RdBu_r"
"""Red: more of the knob, more of the metric; blue: less; white: flat."""


@style.styled
def elasticity_maps(found: xr.Dataset, metric: str | None = None) -> Any:
    """A figure of `elasticity_of_<metric>` over the two longest axes of a grid, or lines over its only one.

    Other axes are held at their middle. One scale of colours for all knobs, from -1 to 1 or as far as it goes.

    Args:
      found: of `sweeps.sensitivity` over a grid.
      metric: None: the first of the dataset.

    Raises:
      ValueError: for a sample, a grid without axes, or a metric that there is not.
    """
    known = [
        str(name).removeprefix("elasticity_of_") for name in found.data_vars if str(name).startswith("elasticity_of_")
    ]
    metric = labels.known(metric, known, "metric") if metric else known[0]
    array = found[f"elasticity_of_{metric}"]
    axes_names = [str(dim) for dim in array.dims if dim != "knob"]
    if not axes_names or "point" in axes_names:
        raise ValueError("maps are drawn of a grid with at least one axis; a sample has none: read its file instead")
    chosen = sorted(axes_names, key=lambda dim: -found.sizes[dim])[:2]
    held = {dim: found.sizes[dim] // 2 for dim in axes_names if dim not in chosen}
    array = array.isel(held)
    words = variable(metric).long_name.partition(",")[0].partition(":")[0]
    at = ", ".join(f"{dim} = {labels.text(found, dim, found[dim].values[i])}" for dim, i in held.items())
    title = f"What {words} depends on, and where: elasticity d ln y / d ln x"
    details = f"{found.attrs['title']}{f'; at {at}' if at else ''}"
    knobs = [str(knob) for knob in found["knob"].values][:MOST]
    source = found.attrs.get("source", "")
    if len(chosen) == 1:
        made = style.figure(8.0, 4.6, title, details, source)
        _lines(made.add_subplot(), found, array, knobs, chosen[0])
        return made
    columns = min(COLUMNS, len(knobs))
    rows = -(-len(knobs) // columns)
    made = style.figure(3.1 * columns + 1.0, 2.7 * rows, title, details, source)
    grid = made.subplots(rows, columns, squeeze=False)
    reach = max(1.0, float(np.nanmax(np.abs(array.values))))
    across, up = positions(found, chosen[0]), positions(found, chosen[1])
    for axes, knob in zip(grid.ravel(), knobs, strict=False):
        values = array.sel(knob=knob).transpose(chosen[1], chosen[0]).values
        shown = np.ma.masked_invalid(values)
        mesh = axes.pcolormesh(across.edges, up.edges, shown, cmap=COLOURS, vmin=-reach, vmax=reach, rasterized=True)
        across.applied(axes, "x")
        up.applied(axes, "y")
        axes.set_title("\n".join(_wrapped(knob)), fontsize=8)
    for axes in grid.ravel()[len(knobs) :]:
        axes.set_visible(False)
    bar = made.colorbar(mesh, ax=grid, pad=0.02, fraction=0.04, aspect=30)
    bar.set_label(f"elasticity of {metric}")
    bar.outline.set_visible(False)
    return made


def _lines(axes: Any, found: xr.Dataset, array: xr.DataArray, knobs: list[str], dim: str) -> None:
    across = positions(found, dim)
    for i, knob in enumerate(knobs):
        colour = style.SERIES_COLOURS[i % len(style.SERIES_COLOURS)]
        dashes = "-" if i < len(style.SERIES_COLOURS) else "--"
        axes.plot(across.at, array.sel(knob=knob).values, dashes, color=colour, label=knob)
    axes.axhline(0.0, color=style.QUIET, lw=0.8)
    across.applied(axes, "x")
    axes.set_ylabel("elasticity")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _wrapped(knob: str) -> list[str]:
    """A path in lines of at most thirty letters, broken at dots."""
    lines = [""]
    for part in knob.replace("hardware.", "").replace("transport.", "").split("."):
        longer = f"{lines[-1]}.{part}" if lines[-1] else part
        lines = [*lines[:-1], longer] if len(longer) <= 30 else [*lines, part]
    return lines
