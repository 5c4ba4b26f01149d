"""One iteration of training in a picture: the parts of its time, and what a device's memory holds."""

from collections.abc import Mapping
from typing import Any

from hwspaces import formatted
from jaxroof.deployment import devices
from sweeps.ask.cases import Case
from sweeps.data.labels import number
from sweeps.show import style
from sweeps.studies.train import MEMORY, time_parts

LEAST = 1e-6
"""Share from which on a part is drawn."""


@style.styled
def iteration(case: Case, metrics: Mapping[str, Any]) -> Any:
    """A figure of two panels of bars: seconds by what they are spent on, bytes by what they hold.

    Args:
      case: of job "train".
      metrics: of its answer.
    """
    work, capacity = case.scenario.workload, float(case.scenario.hardware.memory.hbm.capacity)
    rate = number(metrics["training_tokens_per_second"])
    time = formatted(metrics["iteration_time"], "s")
    where = f"{case.model.name} on {number(devices(case.scenario.deployment))} x {case.hardware.name}"
    size = f"{work.global_batch:,.0f} sequences of {work.seq:,.0f} tokens"
    fig = style.figure(
        10.4,
        2.9,
        f"{where}: {time} per iteration, {rate} tokens/s",
        f"{size}; MFU {100 * metrics['mfu']:.1f} %.",
        f"weights {case.model.precision}; efficiency {case.efficiency.name}",
    )
    left, right = fig.subplots(1, 2)
    _bars(left, time_parts(metrics), "s", "Time of an iteration", style.SERIES_COLOURS[0], metrics["iteration_time"])
    held = {kind: metrics[f"{kind}_memory"] for kind in MEMORY}
    _bars(right, held, "B", "Memory of one device", style.SERIES_COLOURS[1], capacity)
    fits = "fits" if metrics["fits"] else "does not fit"
    total = f"{formatted(metrics['training_memory'], 'B')} of {formatted(capacity, 'B')}"
    right.set_title(f"Memory of one device: {fits}, {total}")
    return fig


def _bars(axes: Any, parts: Mapping[str, float], unit: str, title: str, colour: str, whole: float) -> None:
    """A bar for every part, the first on top, with its size and share of the whole."""
    drawn = {name: value for name, value in parts.items() if value > LEAST * whole}
    axes.barh(range(len(drawn)), list(drawn.values()), 0.62, color=colour)
    for place, value in enumerate(drawn.values()):
        axes.text(value, place, f"  {formatted(value, unit)}, {100 * value / whole:.1f} %", va="center", fontsize=8.5)
    axes.set_yticks(range(len(drawn)), list(drawn))
    axes.set(xlim=(0.0, 1.45 * max(drawn.values())), title=title)
    axes.invert_yaxis()
    axes.tick_params(axis="y", length=0)
    axes.set_xticks([])
    for side in ("top", "right", "bottom"):
        axes.spines[side].set_visible(False)
