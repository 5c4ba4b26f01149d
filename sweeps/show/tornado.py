"""Tornado: change of a metric for a tenth less and a tenth more of every knob, the largest first."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sweeps.ask.names import variable
from sweeps.data.labels import amount
from sweeps.show import style
from sweeps.studies.elasticity.knobs import Knob
from sweeps.studies.elasticity.point import FACTORS, Sensitivities, Turn

LESS, MORE = "#56b4e9", "#d55e00"
"""Colours of a knob turned down and up."""

COLUMNS = 3
"""Metrics side by side."""


@style.styled
def tornado(point: Sensitivities, checks: Mapping[str, Sequence[Turn]], heading: str, top: int = 15) -> Any:
    """A figure with one tornado per metric; each is sorted by itself.

    A bar is what the model says of a knob turned by a tenth, the tick in it what the elasticity predicts. A knob that
    comes in whole pieces has the tick alone.

    Args:
      heading: what was asked, for the title.
      top: knobs per metric.
    """
    names = list(point.metrics)
    columns = min(len(names), COLUMNS)
    rows = -(-len(names) // columns)
    orders = {
        name: [i for i in point.order([name])[:top] if abs(point.elasticities[name][i]) >= 5e-4] for name in names
    }
    longest = max(len(order) for order in orders.values())
    title, _, details = heading.partition("\n")
    best = names[0]
    first = point.knobs[orders[best][0]].path if orders[best] else "nothing"
    words = variable(best).long_name.partition(",")[0].partition(":")[0]
    made = style.figure(
        5.0 * columns + 1.0,
        rows * (1.1 + 0.22 * longest),
        f"{words[:1].upper()}{words[1:]} depends most on {first}",
        f"{title}\n{details.splitlines()[0] if details else ''}",
        "bars: the model at 10 % less and more of a knob; ticks: what the elasticity predicts; * taken as continuous",
    )
    grid = made.subplots(rows, columns, squeeze=False)
    for axes, name in zip(grid.ravel(), names, strict=False):
        _one(axes, point, name, [point.knobs[i] for i in orders[name]], checks[name])
    for axes in grid.ravel()[len(names) :]:
        axes.set_visible(False)
    patch = style.matplotlib().patches.Patch
    handles = [patch(color=colour, label=f"{f - 1:+.0%}") for colour, f in zip((LESS, MORE), FACTORS, strict=True)]
    grid.ravel()[0].legend(handles=handles, loc="lower right", handlelength=1.0)
    return made


def _one(axes: Any, point: Sensitivities, name: str, knobs: Sequence[Knob], checks: Sequence[Turn]) -> None:
    known = {row.knob.path: row for row in checks}
    slopes = point.elasticities[name]
    for place, knob in enumerate(knobs):
        slope = float(slopes[point.knobs.index(knob)])
        for factor, colour, i in zip(FACTORS, (LESS, MORE), (0, 1), strict=True):
            predicted = 100 * (factor**slope - 1.0)
            if knob.path in known:
                axes.barh(place, 100 * known[knob.path].actual[i], height=0.7, color=colour)
            axes.plot([predicted] * 2, [place - 0.35, place + 0.35], color=style.INK, lw=1.2)
    axes.axvline(0.0, color=style.QUIET, lw=0.8)
    axes.set_yticks(range(len(knobs)), [_name(knob) for knob in knobs])
    axes.set_ylim(len(knobs) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0, labelsize=8)
    axes.spines["left"].set_visible(False)
    reach = max((abs(x) for line in axes.lines for x in np.ravel(line.get_xdata())), default=1.0)
    reach = max(reach, *(abs(bar.get_width()) for bar in axes.patches), 0.01) * 1.08
    axes.set_xlim(-reach, reach)
    axes.set_xlabel("change (%)")
    axes.set_title(f"{name} = {amount(point.metrics[name], variable(name).unit)}")


def _name(knob: Knob) -> str:
    """The path without its root where that says enough, and marked where it is a count."""
    plain = knob.path.replace("hardware.", "").replace("deployment.", "").replace("transport.", "")
    return f"{plain} *" if knob.count else plain
