"""Interval of the die area of a device whose dies nobody has measured, from the errors of dies left out of the fit."""

import dataclasses
import math

from hwspaces.accelerators.constants import technology_constants
from hwspaces.accelerators.entry import HardwareEntry
from hwspaces.accelerators.silicon import UNKNOWN_SIZE
from jaxroof.chip.area import die_area
from jaxroof.efficiency.timing import NINETY_PERCENT
from jaxroof.hardware import Hardware

SOURCE = "errors of published dies whose family was left out of the fit: docs/evidence/power_and_area.md"


def area_ends(entry: HardwareEntry, hardware: Hardware | None = None) -> tuple[Hardware, Hardware] | None:
    """The device with the least and the largest dies of an interval of 90 %; None where its dies are of known size.

    area x exp(-+1.645 error), all parts alike, of dies with cores and of dies without where the size of either is
    unknown; `error` is the constant of `technology_constants("area", "usual")`.

    Args:
      entry: an accelerator of the catalogue or of a file, or the start of a design space.
      hardware: another device with its areas per unit, such as a design of the space; the entry's own otherwise.

    Returns:
      Two devices that differ from it in `silicon` alone, from which area and cost to make follow.

    Source: ours, `python -m tests.evidence.area_fit`: standard deviation of the logarithmic errors by family.
    """
    device = entry.hardware if hardware is None else hardware
    silicon = device.silicon
    cores, others = (entry.sources.get(f"silicon.{leaf}") == UNKNOWN_SIZE for leaf in ("scale", "shared_scale"))
    if silicon is None or not (cores or others):
        return None
    error = technology_constants("area", "usual")["error"].value
    ends = []
    for deviations in (-NINETY_PERCENT, NINETY_PERCENT):
        factor = math.exp(deviations * error)
        scale, shared = factor if cores else 1.0, factor if others else 1.0
        changed = dataclasses.replace(
            silicon,
            scale=silicon.scale * scale,
            shared_scale=silicon.shared_scale * shared,
            # Dies under those with cores grow once: with these, or by an error of their own.
            base_ratio=silicon.base_ratio / scale,
        )
        ends.append(dataclasses.replace(device, silicon=changed))
    return ends[0], ends[1]


def area_note(entry: HardwareEntry) -> str | None:
    """How far the area of any design with the entry's areas per unit may be off, in a sentence; None as `area_ends`."""
    ends = area_ends(entry)
    if ends is None:
        return None
    area = float(die_area(entry.hardware))
    low, high = (float(die_area(end)) / area for end in ends)
    return f"die areas: 90 % within {low:.2f} to {high:.2f} of what is predicted ({SOURCE})"
