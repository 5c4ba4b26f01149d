"""Pictures of elasticities: pairs of knobs, and maps over a sweep of where a knob matters."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from sweeps.data import labels
from sweeps.show import style
from sweeps.show.plane import positions
from sweeps.studies.sensitivity.knobs import Knob, gains, pairs
from sweeps.studies.sensitivity.point import Sensitivities

COLUMNS = 3
"""Metrics side by side."""

PAIR_COLOURS = "PuOr"
"""Violet: complements; orange: substitutes; white: neither."""

LEAST = 0.1
"""Gain to which the scale of colours reaches at least, so that pairs of no weight stay pale."""

MAP_COLUMNS, MOST_MAPS = 4, 12
"""Maps side by side, and of one picture."""

MAP_COLOURS = "RdBu_r"
"""Red: more of the knob, more of the metric; blue: less; white: flat."""


@style.styled
def pair_maps(point: Sensitivities, curvatures: Mapping[str, tuple[Sequence[Knob], np.ndarray]], heading: str) -> Any:
    """A figure with one triangle of pairs per metric, coloured by what one knob gains where the other is improved.

    All metrics share one scale of colours. A pair at whose point a gradient jumps is hatched.

    Args:
      curvatures: by metric, its knobs and the second derivatives in them.
      heading: what was asked, for the title.

    Raises:
      ValueError: where no metric depends on two knobs.
    """
    drawn = {name: entry for name, entry in curvatures.items() if len(entry[0]) > 1}
    if not drawn:
        raise ValueError("no metric depends on two of the knobs: there are no pairs to draw")
    tables = {name: _triangle(point, name, *entry) for name, entry in drawn.items()}
    # One scale for all metrics, symmetric around no gain.
    reach = max(LEAST, *(float(np.abs(np.nan_to_num(table.filled(0.0))).max()) for table in tables.values()))
    columns = min(len(drawn), COLUMNS)
    most = max(len(knobs) for knobs, _ in drawn.values())
    fig, panels = style.panels(
        len(drawn),
        columns,
        (2.2 + 0.52 * most, 1.9 + 0.36 * most),
        (1.0, 0.0),
        _title(point, drawn),
        _first_lines(heading),
        "gain: what a knob's elasticity gains per unit of ln of the other, both turned to the better; "
        "hatched: the gradient jumps here; * taken as continuous",
    )
    for axes, (name, table) in zip(panels, tables.items(), strict=True):
        mesh = _pairs(axes, name, drawn[name][0], table, reach)
    _bar(fig, mesh, "substitutes            gain            complements")
    return fig


def _triangle(point: Sensitivities, name: str, knobs: Sequence[Knob], curvatures: np.ndarray) -> np.ma.MaskedArray:
    """Gains of pairs, rows from the second knob on, columns to the last but one; masked beyond the diagonal."""
    slopes = np.array([point.elasticities[name][point.knobs.index(knob)] for knob in knobs])
    # The last knob has no column and the first no row: each pair appears once.
    table = gains(name, slopes, curvatures)[1:, :-1]
    return np.ma.masked_array(table, np.triu(np.ones_like(table, bool), 1))


def _pairs(axes: Any, name: str, knobs: Sequence[Knob], table: np.ma.MaskedArray, reach: float) -> Any:
    # Not a number within the triangle: the gradient jumps at this point.
    jumps = ~np.isfinite(table.data) & ~table.mask
    shown = np.ma.masked_array(table, table.mask | jumps)
    size = len(table)
    mesh = axes.pcolormesh(np.arange(size + 1), np.arange(size + 1), shown, cmap=PAIR_COLOURS, vmin=-reach, vmax=reach)
    for row, column in zip(*np.nonzero(~table.mask), strict=True):
        value = table.data[row, column]
        if jumps[row, column]:
            patch = style.matplotlib().patches.Rectangle
            axes.add_patch(patch((column, row), 1, 1, facecolor=style.INFEASIBLE, edgecolor="white", hatch="////"))
        elif abs(value) >= 0.005:
            colour = "white" if abs(value) > 0.7 * reach else style.INK
            axes.text(column + 0.5, row + 0.5, f"{value:+.2f}", ha="center", va="center", fontsize=7.5, color=colour)
    names = [_plain(knob) for knob in knobs]
    middles = np.arange(size) + 0.5
    axes.set_yticks(middles, names[1:])
    axes.set_xticks(middles, names[:-1], rotation=40, ha="right", rotation_mode="anchor")
    axes.set_ylim(size, 0)
    axes.tick_params(length=0, labelsize=8)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
    axes.set_title(name)
    return mesh


def _title(point: Sensitivities, drawn: Mapping[str, tuple[Sequence[Knob], np.ndarray]]) -> str:
    """Title about the strongest pair of all metrics."""
    strongest = []
    for name, (knobs, values) in drawn.items():
        slopes = np.array([point.elasticities[name][point.knobs.index(knob)] for knob in knobs])
        # Pairs come sorted: the first is the strongest of its metric.
        strongest += [(abs(pair.gain), name, pair) for pair in pairs(name, knobs, slopes, values)[:1]]
    if not strongest:
        return "No pair of knobs bends any metric"
    _, name, pair = max(strongest, key=lambda found: found[0])
    first, second = (_plain(knob).rstrip(" *") for knob in (pair.first, pair.second))
    return f"For {labels.words(name)}, {first} and {second} are {pair.kind}"


@style.styled
def elasticity_maps(dataset: xr.Dataset) -> Any:
    """A figure of the first `elasticity_of_<metric>` over the two longest axes of a grid, or lines over its only one.

    Other axes are held at their middle. One scale of colours for all knobs, from -1 to 1 or as far as it goes.

    Args:
      dataset: of `sweeps.sensitivity` over a grid.

    Raises:
      ValueError: for a sample, or a grid without axes.
    """
    name = next(str(name) for name in dataset.data_vars if str(name).startswith("elasticity_of_"))
    metric, array = name.removeprefix("elasticity_of_"), dataset[name]
    axes_names = [str(dim) for dim in array.dims if dim != "knob"]
    if not axes_names or "point" in axes_names:
        raise ValueError("maps are drawn of a grid with at least one axis; a sample has none: read its file instead")
    chosen = sorted(axes_names, key=lambda dim: -dataset.sizes[dim])[:2]
    held = {dim: dataset.sizes[dim] // 2 for dim in axes_names if dim not in chosen}
    array = array.isel(held)
    at = ", ".join(f"{dim} = {labels.text(dataset, dim, dataset[dim].values[i])}" for dim, i in held.items())
    title = f"What {labels.words(metric)} depends on, and where: elasticity d ln y / d ln x"
    details = f"{dataset.attrs['title']}{f'; at {at}' if at else ''}"
    knobs = [str(knob) for knob in dataset["knob"].values][:MOST_MAPS]
    source = dataset.attrs.get("source", "")
    if len(chosen) == 1:
        fig = style.figure(8.0, 4.6, title, details, source)
        _lines(fig.add_subplot(), dataset, array, knobs, chosen[0])
        return fig
    columns = min(MAP_COLUMNS, len(knobs))
    fig, panels = style.panels(len(knobs), columns, (3.1, 2.7), (1.0, 0.0), title, details, source)
    # Elasticities of magnitude 1 and below use the same scale in every picture.
    reach = max(1.0, float(np.nanmax(np.abs(array.values))))
    across, up = positions(dataset, chosen[0]), positions(dataset, chosen[1])
    for axes, knob in zip(panels, knobs, strict=True):
        # Shape [up, across], as cells are drawn.
        values = array.sel(knob=knob).transpose(chosen[1], chosen[0]).values
        shown = np.ma.masked_invalid(values)
        mesh = axes.pcolormesh(
            across.edges, up.edges, shown, cmap=MAP_COLOURS, vmin=-reach, vmax=reach, rasterized=True
        )
        across.applied(axes, "x")
        up.applied(axes, "y")
        axes.set_title("\n".join(_wrapped(knob)), fontsize=8)
    _bar(fig, mesh, f"elasticity of {metric}")
    return fig


def _lines(axes: Any, dataset: xr.Dataset, array: xr.DataArray, knobs: list[str], dim: str) -> None:
    across = positions(dataset, dim)
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


def _bar(made: Any, mesh: Any, words: str) -> None:
    """A bar beside all panels that says what their colours mean."""
    bar = made.colorbar(mesh, ax=made.axes, pad=0.02, fraction=0.04, aspect=30)
    bar.set_label(words)
    bar.outline.set_visible(False)


def _first_lines(heading: str) -> str:
    """What was asked, and the first line of its particulars."""
    title, _, details = heading.partition("\n")
    return f"{title}\n{details.splitlines()[0] if details else ''}"


def _plain(knob: Knob) -> str:
    """A knob's path without its root."""
    return _name(knob, knob.path.partition(".")[2])


def _name(knob: Knob, path: str) -> str:
    """A path in short, marked where its knob is a count."""
    plain = path.replace("transport.", "")
    return f"{plain} *" if knob.count else plain
