"""Tornado: bars of what a metric really does when each knob is turned, ticks of what its gradient predicts."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sweeps.ask.names import variable
from sweeps.data import labels
from sweeps.show import style
from sweeps.studies.sensitivity.point import Sensitivities
from sweeps.studies.sensitivity.turns import FACTORS, TOLERANCE, Turn, ranked

COLUMNS = 3
"""Metrics side by side."""

LESS, MORE = "#56b4e9", "#d55e00"
"""Colours of a knob turned down and up."""

TURNED = "Each knob is turned by 10 %; counts go to whole numbers, degrees to legal ones (in brackets)."

HATCH = "//////"
"""Of bars that the gradient does not predict."""

ROOM, LEAST = 1.25, 0.01
"""Ends of the axis over the longest bar of a knob that is turned by about a tenth, and the least such bar."""


@style.styled
def tornado(point: Sensitivities, checks: Mapping[str, Sequence[Turn]], heading: str, top: int = 15) -> Any:
    """A figure with one tornado per metric; each is sorted by its own real changes.

    A number that is doubled or halved may change far more than the rest: its bars are cut, and their lengths written.

    Args:
      heading: what was asked, for the title.
      top: knobs per metric.
    """
    names = list(point.metrics)
    columns = min(len(names), COLUMNS)
    rows = {name: _largest(checks, name, top) for name in names}
    longest = max(1, *(len(turns) for turns in rows.values()))
    best = names[0]
    first = rows[best][0].knob.path if rows[best] else "nothing"
    words = labels.words(best)
    fig, panels = style.panels(
        len(names),
        columns,
        (5.4, 1.0 + 0.27 * longest),
        (0.0, 0.35),
        f"{words[:1].upper()}{words[1:]} changes most with {first}",
        f"{heading.partition(chr(10))[0]}\n{TURNED}",
    )
    for axes, name in zip(panels, names, strict=True):
        _bars(axes, point, name, rows[name])
    fig.legend(handles=_handles(), loc="outside lower center", ncols=4, handlelength=1.4)
    return fig


def _largest(checks: Mapping[str, Sequence[Turn]], name: str, top: int) -> list[Turn]:
    by_knob = {row.knob: row for row in checks[name]}
    return [by_knob[knob] for knob in ranked(checks, [name])[:top]]


def _handles() -> list[Any]:
    patch = style.matplotlib().patches.Patch
    line = style.matplotlib().lines.Line2D
    turned = [
        patch(color=colour, label=f"real change, knob {100 * (factor - 1):+.0f} %")
        for colour, factor in zip((LESS, MORE), FACTORS, strict=True)
    ]
    tick = line([], [], color=style.INK, marker="|", ms=10, mew=1.4, ls="", label="what the gradient predicts")
    differ = patch(
        facecolor=style.CLOUD, edgecolor="white", hatch=HATCH, label=f"* they differ by more than {100 * TOLERANCE:g} %"
    )
    return [*turned, tick, differ]


def _bars(axes: Any, point: Sensitivities, name: str, rows: Sequence[Turn]) -> None:
    # Numbers that are doubled or halved would stretch the axis: the other ones set its length.
    usual = [row.size for row in rows if not row.large] or [row.size for row in rows]
    reach = 100 * ROOM * max([LEAST, *usual])
    for place, row in enumerate(rows):
        for i, colour in enumerate((LESS, MORE)):
            # A knob may not be turned to one side, such as a count that is 1.
            if np.isfinite(row.actual[i]):
                _bar(axes, place + (i - 0.5) * 0.4, 100 * row.actual[i], reach, colour, not row.agrees)
                predicted = 100 * row.predicted[i]
                if abs(predicted) <= reach:
                    at = place + (i - 0.5) * 0.4
                    axes.plot([predicted] * 2, [at - 0.24, at + 0.24], color=style.INK, lw=1.4)
    axes.axvline(0.0, color=style.QUIET, lw=0.8)
    axes.set_yticks(range(len(rows)), [_name(row) for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0, labelsize=8)
    axes.spines["left"].set_visible(False)
    axes.set_xlim(-reach, reach)
    axes.set_xlabel("change (%)")
    axes.set_title(f"{name} = {labels.amount(point.metrics[name], variable(name).unit)}")


def _bar(axes: Any, at: float, length: float, reach: float, colour: str, differs: bool) -> None:
    """One bar; one that is longer than the axis ends with it, and its length is written there."""
    # Bars that do not fit end with the axis, and have their length written.
    shown = float(np.clip(length, -reach, reach))
    hatched = {"hatch": HATCH, "edgecolor": "white", "linewidth": 0.0} if differs else {}
    axes.barh(at, shown, height=0.38, facecolor=colour, **hatched)
    if shown != length:
        side = "right" if length > 0 else "left"
        box = {"facecolor": "white", "edgecolor": "none", "pad": 0.6, "alpha": 0.85}
        axes.text(0.97 * shown, at, f"{length:+.0f} %", ha=side, va="center", fontsize=7, color=style.INK, bbox=box)


def _name(row: Turn) -> str:
    """A knob's path in short, with what a count is turned to, and a mark where the gradient differs."""
    path = row.knob.path.removeprefix("hardware.").removeprefix("deployment.").replace("transport.", "")
    if row.knob.count:
        # A count is turned to whole numbers, which differ from the heading's share.
        ends = ", ".join("-" if np.isnan(value) else labels.number(value) for value in row.values)
        path = f"{path} {labels.number(row.knob.value)} ({ends})"
    return path if row.agrees else f"{path} *"
