"""Heat maps of pairs of knobs, complements and substitutes, for every metric."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sweeps.ask.names import variable
from sweeps.show import style
from sweeps.studies.elasticity.knobs import Knob
from sweeps.studies.elasticity.point import Sensitivities
from sweeps.studies.elasticity.second_order import gains, pairs

COLUMNS = 3
"""Metrics side by side."""

COLOURS = "PuOr"
"""Violet: complements; orange: substitutes; white: neither."""

LEAST = 0.1
"""Gain to which the scale of colours reaches at least, so that pairs of no weight stay pale."""


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
    drawn = {name: found for name, found in curvatures.items() if len(found[0]) > 1}
    if not drawn:
        raise ValueError("no metric depends on two of the knobs: there are no pairs to draw")
    tables = {name: _triangle(point, name, *found) for name, found in drawn.items()}
    reach = max(LEAST, *(float(np.abs(np.nan_to_num(table.filled(0.0))).max()) for table in tables.values()))
    columns = min(len(drawn), COLUMNS)
    rows, most = -(-len(drawn) // columns), max(len(knobs) for knobs, _ in drawn.values())
    said, _, details = heading.partition("\n")
    made = style.figure(
        columns * (2.2 + 0.52 * most) + 1.0,
        rows * (1.9 + 0.36 * most),
        _title(point, drawn),
        f"{said}\n{details.splitlines()[0] if details else ''}",
        "gain: what a knob's elasticity gains per unit of ln of the other, both turned to the better; "
        "hatched: the gradient jumps here; * taken as continuous",
    )
    grid = made.subplots(rows, columns, squeeze=False)
    for axes, (name, table) in zip(grid.ravel(), tables.items(), strict=False):
        mesh = _one(axes, name, drawn[name][0], table, reach)
    for axes in grid.ravel()[len(drawn) :]:
        axes.set_visible(False)
    bar = made.colorbar(mesh, ax=grid, pad=0.02, fraction=0.04, aspect=30)
    bar.set_label("substitutes            gain            complements")
    bar.outline.set_visible(False)
    return made


def _triangle(point: Sensitivities, name: str, knobs: Sequence[Knob], curvatures: np.ndarray) -> np.ma.MaskedArray:
    """Gains of pairs, rows from the second knob on, columns to the last but one; masked beyond the diagonal."""
    slopes = np.array([point.elasticities[name][point.knobs.index(knob)] for knob in knobs])
    table = gains(name, slopes, curvatures)[1:, :-1]
    return np.ma.masked_array(table, np.triu(np.ones_like(table, bool), 1))


def _one(axes: Any, name: str, knobs: Sequence[Knob], table: np.ma.MaskedArray, reach: float) -> Any:
    jumps = ~np.isfinite(table.data) & ~table.mask
    shown = np.ma.masked_array(table, table.mask | jumps)
    size = len(table)
    mesh = axes.pcolormesh(np.arange(size + 1), np.arange(size + 1), shown, cmap=COLOURS, vmin=-reach, vmax=reach)
    for row, column in zip(*np.nonzero(~table.mask), strict=True):
        value = table.data[row, column]
        if jumps[row, column]:
            patch = style.matplotlib().patches.Rectangle
            axes.add_patch(patch((column, row), 1, 1, facecolor=style.INFEASIBLE, edgecolor="white", hatch="////"))
        elif abs(value) >= 0.005:
            colour = "white" if abs(value) > 0.7 * reach else style.INK
            axes.text(column + 0.5, row + 0.5, f"{value:+.2f}", ha="center", va="center", fontsize=7.5, color=colour)
    labels = [_name(knob) for knob in knobs]
    middles = np.arange(size) + 0.5
    axes.set_yticks(middles, labels[1:])
    axes.set_xticks(middles, labels[:-1], rotation=40, ha="right", rotation_mode="anchor")
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
        strongest += [(abs(pair.gain), name, pair) for pair in pairs(name, knobs, slopes, values)[:1]]
    if not strongest:
        return "No pair of knobs bends any metric"
    _, name, pair = max(strongest, key=lambda found: found[0])
    words = variable(name).long_name.partition(",")[0].partition(":")[0]
    first, second = (_name(knob).rstrip(" *") for knob in (pair.first, pair.second))
    return f"For {words}, {first} and {second} are {pair.kind}"


def _name(knob: Knob) -> str:
    """The path without its root where that says enough, and marked where it is a count."""
    plain = knob.path.partition(".")[2].replace("transport.", "")
    return f"{plain} *" if knob.count else plain
