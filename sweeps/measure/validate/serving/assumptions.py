"""Assumptions that nobody measured, of served points: settings, constants, formats of other vendors."""

from collections import Counter
from collections.abc import Sequence

from sweeps.measure.validate.serving.presets import NVIDIA_DEVICES
from sweeps.measure.validate.serving.serving_points import ServingPoint


def assumptions(points: Sequence[ServingPoint], learned: bool) -> Counter[str]:
    """Sentences, one per device, engine and assumption, and how many of the points each is made for.

    Args:
      learned: whether the constants are the learned ones of each engine.
    """
    found: Counter[str] = Counter()
    for point in points:
        place = f"{point.gpu} under {point.engine}"
        if point.preset.assumed is not None:
            found[f"{place}: settings are {point.preset.assumed}"] += 1
        if point.vendor == NVIDIA_DEVICES:
            continue
        if learned:
            found[f"{place}: constants are those of learned-{point.engine}, fitted on NVIDIA's devices"] += 1
        if "nvfp4" in point.precision:
            found[f"{place}: 4-bit weights are priced in NVIDIA's format, NVFP4"] += 1
    return found
