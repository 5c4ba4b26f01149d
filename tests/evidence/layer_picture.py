"""Picture of predicted over measured times of layers with states, residual streams and encoders, by device."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sweeps.show import style

WORDS = {
    "gdn": "gated delta net",
    "kda": "Kimi delta attention",
    "mamba2": "convolution of Mamba-2",
    "mhc": "hyper-connections",
    "encoder": "attention of encoders",
}
"""Table -> what its panel is called."""

DOTS = 700
"""Of each device in a panel, drawn at random."""


@style.styled
def drawn(found: Sequence[Any]) -> Any:
    """A panel per table: predicted over measured time against the measured one, of shapes that no fit saw."""
    names = [name for name in WORDS if any(one.table == name for one in found)]
    devices = sorted({one.group.device for one in found})
    title = "Kernels of linear attention, hyper-connections and encoders on shapes that no fit saw"
    details = "Predicted over measured time. Dashed: 17 % off. Beyond a factor of 3: at the edge."
    fig, panels = style.panels(len(names), 3, (3.0, 2.2), (0.2, 0.3), title, details, "tests.evidence.linear_layers")
    draw = np.random.default_rng(0)
    for axes, name in zip(panels, names, strict=True):
        for device, colour in zip(devices, style.SERIES_COLOURS, strict=False):
            parts = [one for one in found if (one.table, one.group.device) == (name, device)]
            if not parts:
                continue
            measured = np.concatenate([one.group.seconds[one.unseen] for one in parts])
            ratios = np.concatenate([one.predicted[one.unseen] for one in parts]) / measured
            some = draw.permutation(len(measured))[:DOTS]
            edge = style.LARGEST_RATIO
            axes.plot(1e6 * measured[some], np.clip(ratios[some], 1 / edge, edge), ".", ms=2, color=colour, alpha=0.5)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_yticks([1 / 3, 0.5, 1.0, 2.0, 3.0], ["1/3", "1/2", "1", "2", "3"])
        axes.yaxis.set_minor_locator(style.matplotlib().ticker.NullLocator())
        for level, kind in ((1.0, "-"), (1.17, "--"), (1 / 1.17, "--")):
            axes.axhline(level, color=style.INK, lw=0.6, ls=kind)
        axes.set_title(WORDS[name])
        axes.set_xlabel("measured, us")
    marks = [
        style.matplotlib().lines.Line2D([], [], ls="", marker="o", ms=4, color=colour, label=device)
        for device, colour in zip(devices, style.SERIES_COLOURS, strict=False)
    ]
    fig.legend(handles=marks, loc="lower right", bbox_to_anchor=(0.93, 0.2))
    return fig


def picture(found: Sequence[Any], path: Path) -> None:
    """Write the picture."""
    style.saved(drawn(found), path, force=True)
