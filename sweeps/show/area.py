"""Die area in a picture: the parts of every die beside its published size."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from sweeps.ask.silicon_names import PARTS
from sweeps.measure.validate.die_areas import DieArea
from sweeps.show import style


@style.styled
def area_by_part(rows: Sequence[DieArea]) -> Any:
    """A bar per die, of the accelerator that it is worst for: predicted parts stacked; a mark where the die is."""
    shown: dict[str, DieArea] = {}
    for row in rows:
        if row.die not in shown or row.error > shown[row.die].error:
            shown[row.die] = row
    kept = sorted(shown.values(), key=lambda row: row.known)
    worst = max((row.error for row in kept if row.fitted), default=0.0)
    title = f"Predicted die areas are within {worst:.0%} of published sizes where fitted to"
    details = "Bars: predicted, by part. Marks: published; hollow ones were not fitted to, or are upper limits."
    made = style.figure(8.4, 0.5 + 0.32 * len(kept), title, details, "jaxroof validate area")
    axes, places, left = made.subplots(), np.arange(len(kept)), np.zeros(len(kept))
    shades = style.matplotlib().colormaps["tab10"].colors
    for (part, words), colour in zip(PARTS.items(), shades, strict=True):
        width = np.array([row.parts[part] for row in kept]) * 1e6
        axes.barh(places, width, 0.7, left, color=colour, label=words)
        left += width
    for place, row in zip(places, kept, strict=True):
        fill = style.INK if row.fitted else "white"
        axes.plot(row.known * 1e6, place, "D", ms=6, mfc=fill, mec=style.INK, zorder=4)
    axes.set_yticks(places, [f"{row.die} ({row.device})" for row in kept])
    axes.set_xlabel("mm2 of all dies of a device")
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), handlelength=1.2)
    return made
