"""Scores of two-pass search beside exact search, as a table and as a picture."""

import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from rich.table import Table

from sweeps.show import style
from tests.bench.served_questions import PLACES

if TYPE_CHECKING:
    from tests.bench.served_search import Answer

FIRST, FINAL = 0.05, 0.01
"""Cost beyond the cheapest place's that the first pass's choice, and the final one, may have."""

WORST = 10.0
"""Cost beyond the cheapest place's, in %, where the picture ends; more, and places that do not serve, stand there."""

LEAST = 0.1
"""Cost beyond the cheapest place's, in %, where the picture begins: 0 has no place on a logarithmic axis."""


def served(answers: Sequence["Answer"]) -> list["Answer"]:
    """Questions that some place serves."""
    return [one for one in answers if one.serves]


def choices(answers: Sequence["Answer"]) -> dict[str, np.ndarray]:
    """Cost of either pass's choice beyond the cheapest place's, shape [questions that some place serves]."""
    there = served(answers)
    return {
        "first pass": np.array([one.beyond(one.first) for one in there]),
        "final answer": np.array([one.beyond(one.final) for one in there]),
    }


def choice_table(answers: Sequence["Answer"]) -> Table:
    """How often, and by how much, either choice is dearer than the cheapest place."""
    table = Table(title=f"{len(served(answers))} questions that a place serves, of {len(answers)}")
    for heading in ("choice", "cheapest place", "within 1 %", "within 5 %", "p95 beyond", "worst"):
        table.add_column(heading, justify="left" if heading == "choice" else "right")
    for name, beyond in choices(answers).items():
        shares = [f"{100 * float(np.mean(beyond <= most)):.1f} %" for most in (0.0, FINAL, FIRST)]
        p95 = float(np.sort(beyond)[int(np.ceil(0.95 * len(beyond))) - 1])
        table.add_row(name, *shares, *(f"{100 * value:+.1f} %" for value in (p95, float(np.max(beyond)))))
    return table


def error_table(answers: Sequence["Answer"]) -> Table:
    """Estimated over simulated load, less 1, of all places that serve; and places that only one of the two serves."""
    table = Table(title="estimated / simulated load - 1")
    for heading in (
        "places",
        "number",
        "median",
        "median of sizes",
        "p90 of sizes",
        "estimate alone",
        "simulation alone",
    ):
        table.add_column(heading, justify="left" if heading == "places" else "right")
    groups = {"all": list(answers)}
    for one in answers:
        groups.setdefault(one.keys["engine"], []).append(one)
        groups.setdefault(one.keys["model"], []).append(one)
    for name, group in groups.items():
        pairs = np.array([pair for one in group for pair in zip(one.estimated, one.exact, strict=True)])
        estimated, exact = pairs.T
        both = (estimated > 0.0) & (exact > 0.0)
        alone = [str(int(np.sum(only))) for only in ((estimated > 0.0) & ~both, (exact > 0.0) & ~both)]
        if not both.any():
            continue
        error = estimated[both] / exact[both] - 1.0
        found = np.median(error), np.median(np.abs(error)), np.quantile(np.abs(error), 0.9)
        signed, *sized = (f"{100 * value:.1f} %" for value in found)
        table.add_row(name, str(int(both.sum())), signed, *sized, *alone)
    return table


def picture(answers: Sequence["Answer"], path: pathlib.Path) -> None:
    """Cost found against the true best, and how many questions are within what of it."""
    style.saved(_drawn(answers), path)


@style.styled
def _drawn(answers: Sequence["Answer"]):
    there, beyond = served(answers), choices(answers)
    least = np.array([one.cheapest for one in there])
    models, engines = (len({one.keys[name] for one in answers}) for name in ("model", "engine"))
    heading = (
        "Cost of the deployment that the two-pass search finds, beside the cheapest one",
        f"{len(there)} random questions of {models} models and {engines} engines, each among at most {PLACES} "
        "deployments on priced accelerators; the cheapest one by simulating each up to its largest load",
    )
    made, (left, right) = style.panels(2, 2, (4.6, 3.7), (0.0, 0.0), *heading)
    marks = {"first pass": ("o", 26, "none"), "final answer": (".", 22, None)}
    ends = np.array([least.min() / 1.5, least.max() * 1.5])
    left.plot(ends, ends, color=style.QUIET, lw=0.8, label="equal")
    left.fill_between(ends, ends, ends * (1.0 + FIRST), color=style.CLOUD, lw=0, label="up to 5 % dearer")
    for (name, values), colour in zip(beyond.items(), style.SERIES_COLOURS, strict=False):
        marker, size, face = marks[name]
        fine = np.isfinite(values)
        colours = {"facecolors": face, "edgecolors": colour} if face else {"color": colour}
        left.scatter(least[fine], least[fine] * (1.0 + values[fine]), marker=marker, s=size, label=name, **colours)
        shown = np.clip(np.sort(100.0 * values), LEAST, WORST)
        right.step(
            [LEAST, *shown, WORST], [0.0, *(np.arange(1, len(shown) + 1) / len(shown)), 1.0],
            where="post", color=colour, label=name,
        )  # fmt: skip
    left.set(
        title="Cost found against true best",
        xscale="log",
        yscale="log",
        xlim=ends,
        xlabel="Cheapest deployment (USD per million output tokens)",
        ylabel="Deployment found (USD per million output tokens)",
    )
    for axis in (left.xaxis, left.yaxis):
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter("")
    right.plot([100 * FIRST] * 2, [0.0, 0.95], color=style.QUIET, lw=0.8, ls=":")
    right.plot([LEAST, 100 * FIRST], [0.95, 0.95], color=style.QUIET, lw=0.8, ls=":", label="5 % dearer in 95 %")
    right.set(
        title="Questions by the cost beyond the best",
        xscale="log",
        xlim=(LEAST, WORST),
        ylim=(0.5, 1.005),
        xlabel="Cost of the deployment found over the cheapest one's, less 1 (%)",
        ylabel="Share of questions with at most this (%)",
    )
    ticks = [0.1, 0.2, 0.5, 1, 2, 5, 10]
    right.set_xticks(ticks, ["0 to 0.1", *(f"{tick:g}" for tick in ticks[1:-1]), "10 or more"])
    right.xaxis.set_minor_formatter("")
    right.set_yticks([0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0], ["50", "60", "70", "80", "90", "95", "100"])
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.legend(loc="lower right" if axes is right else "upper left")
    return made
