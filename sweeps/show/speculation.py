"""Speed-up of TPOT by drafted tokens, against their acceptance and their number."""

from typing import Any

import numpy as np
import xarray as xr

from sweeps.data import labels
from sweeps.show import style

DRAFTS, CHANCE = "drafts", "acceptance"
"""The two axes of a sweep that is drawn."""

MOST_LINES = 8


@style.styled
def speculation(dataset: xr.Dataset) -> Any:
    """A figure of a sweep of requests over `deployment.drafts`, 0 among them, and `workload.acceptance`.

    Speed-up is TPOT without drafts over TPOT with them.

    Raises:
      ValueError: one line, where an axis or the point without drafts is missing.
    """
    for name in (DRAFTS, CHANCE):
        if name not in dataset.dims:
            raise ValueError(
                f"a picture of speculation needs an axis over {name}; the file has {', '.join(map(str, dataset.dims))}"
            )
    if dataset.sizes.keys() != {DRAFTS, CHANCE}:
        others = ", ".join(str(dim) for dim in dataset.dims if dim not in (DRAFTS, CHANCE))
        raise ValueError(
            f"a picture of speculation has two axes, drafts and acceptance; choose one position of {others}"
        )
    drafts, chances = dataset[DRAFTS].values.astype(float), dataset[CHANCE].values.astype(float)
    if not (drafts == 0.0).any():
        raise ValueError("a picture of speculation needs drafts = 0, against which it is quicker")
    tpot = dataset["tpot"].transpose(DRAFTS, CHANCE).values.astype(float)
    # Speed-up: TPOT of the first row without drafts over that of every place.
    quicker = tpot[drafts == 0.0][0] / tpot
    best = np.unravel_index(quicker.argmax(), quicker.shape)
    title = f"Up to {quicker[best]:.2f} times as fast: {drafts[best[0]]:g} drafts, each right at {chances[best[1]]:.3g}"
    fig = style.figure(10.0, 4.2, title, dataset.attrs.get("title", ""), dataset.attrs.get("entries", ""))
    left, right = fig.subplots(1, 2, sharey=True)
    # Without drafts the speed-up is 1 whatever the acceptance: that line is left out.
    _panel(left, chances, quicker[drafts > 0.0], drafts[drafts > 0.0], "probability that a draft is right", "drafts")
    _panel(right, drafts, quicker.T, chances, "drafts per step", "probability")
    left.set_ylabel("TPOT without drafts over TPOT with them")
    return fig


def _panel(axes: Any, across: np.ndarray, values: np.ndarray, names: np.ndarray, words: str, title: str) -> None:
    for row, colour in zip(style.evenly(len(values), MOST_LINES), style.SERIES_COLOURS, strict=False):
        axes.plot(across, values[row], marker="o", ms=3, lw=1.6, color=colour, label=labels.number(float(names[row])))
        # A ring marks the best place of each line.
        at = int(values[row].argmax())
        axes.plot(across[at], values[row][at], "o", ms=7, mfc="none", color=colour)
    axes.axhline(1.0, color=style.INK, lw=0.8, ls=":")
    axes.set_xlabel(words)
    axes.legend(title=title, loc="upper left", fontsize=8)
    style.grid_behind(axes)
