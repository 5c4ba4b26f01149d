"""Measured electrical power of kernels in a picture: predicted over measured, one panel per kind of kernel."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from sweeps.measure.validate.kernel_power import PowerScore
from sweeps.show import style

COLUMNS = 3


@style.styled
def measured_against_predicted(scores: Sequence[PowerScore]) -> Any:
    """A panel per table and precision: predicted against measured power; short runs, which the meter blurs, in grey."""
    names = list(dict.fromkeys(score.label for score in scores))
    count, devices = sum(len(score.group) for score in scores), list(dict.fromkeys(s.group.device for s in scores))
    made, panels = style.panels(
        len(names),
        COLUMNS,
        (11.0 / COLUMNS, 3.0),
        (0.0, 0.3),
        "Predicted against measured power of kernels",
        "Colour: runs that fill the meter's window; grey: shorter runs, whose readings are of what ran before as well.",
        f"{count:,} rows of {', '.join(devices)}",
    )
    top = 1.05 * max(score.measured.max() for score in scores)
    for axes, name in zip(panels, names, strict=True):
        part = [score for score in scores if score.label == name]
        measured, power, filled = (
            np.concatenate([getattr(s, field) for s in part]) for field in ("measured", "power", "filled")
        )
        axes.plot([0.0, top], [0.0, top], color=style.QUIET, lw=0.8, zorder=1)
        axes.scatter(measured[~filled], power[~filled], s=3, lw=0, color=style.CLOUD, rasterized=True)
        axes.scatter(
            measured[filled], power[filled], s=4, lw=0, alpha=0.5, color=style.SERIES_COLOURS[0], rasterized=True
        )
        error = np.abs(power[filled] / measured[filled] - 1.0)
        note = f": {np.median(error):.0%}, {np.mean(error):.0%}" if filled.any() else ""
        short = name.replace("_attention bfloat16", "").replace("context", "prefill").replace("generation", "decode")
        axes.set_title(f"{short}{note}", fontsize=9)
        axes.set(xlim=(0.0, top), ylim=(0.0, top), xlabel="Measured, W", ylabel="Predicted, W")
    return made
