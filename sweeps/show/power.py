"""Power of a device by part in the prefill and decode steps of a batch, or in one step, under its TDP."""

import re
from typing import Any

import numpy as np

from hwspaces import formatted
from jaxroof.energy.energy import power_known
from jaxroof.jobs.request import step_powers
from jaxroof.numerics.struct import given
from sweeps.ask.cases import Case
from sweeps.ask.names import POWER_PARTS
from sweeps.data.labels import number
from sweeps.run.answer import answer
from sweeps.run.evaluate import at_base
from sweeps.show import style

_BOUNDS = style.BOUND_COLOURS

COLOURS = dict(
    zip(
        POWER_PARTS,
        (
            style.CLOUD,
            *(_BOUNDS[name] for name in ("hbm", "scratchpad", "matrix", "vector", "link")),
        ),
        strict=True,
    )
)
"""Part of a device's power -> its colour: that of the resource that draws it."""

WIDTH, APART = 0.42, 1.6
"""Width of a bar, and from one bar to the next: names of its parts stand between."""

LEAST_SHARE = 1e-3
"""Share of a bar from which a part is named."""

ASSUMED = re.compile(r"\b((?:energy|power)\.\w+)(?=: )")
"""Figures of energy and power in an accelerator's sentences on what was assumed."""


@style.styled
def power(case: Case, what: str = "") -> Any:
    """A figure of the mean power of one device by part, a bar for each engine step.

    Args:
      case: a static batch of requests, or one step.
      what: what the device works on, in words.

    Raises:
      ValueError: one line, where the device's energy per operation, static power or TDP are unknown.
    """
    if not power_known(case.scenario.hardware):
        raise ValueError(
            f"{case.hardware.name}: power is unknown: its energy per operation, static power or TDP is missing"
        )
    metrics, powers = answer(case).metrics, _powers(case)
    tdp = float(given(case.scenario.hardware.power.tdp, "TDP"))
    fig = style.figure(1.6 + 4.2 * len(powers), 4.6, *_heading(case, what, metrics, powers))
    axes = fig.subplots()
    top = 1.08 * max(tdp, *(sum(parts.values()) for parts in powers.values()))
    axes.set(xlim=(-0.75, APART * len(powers) - 0.3), ylim=(0.0, top))
    for i, parts in enumerate(powers.values()):
        # Names of parts stay below the line of the TDP where the bar does.
        below = sum(parts.values()) <= tdp * (1.0 + 1e-9)
        _bar(axes, APART * i, parts, top, tdp if below else top)
    axes.axhline(tdp, color=style.INK, lw=1.2, ls="--", zorder=1)
    axes.text(-0.72, tdp + 0.008 * top, f"TDP {formatted(tdp, 'W')}", va="bottom", fontsize=9)
    names = [_step_text(case, step, metrics, parts) for step, parts in powers.items()]
    axes.set_xticks(APART * np.arange(len(powers)), names, fontsize=9.5)
    axes.tick_params(axis="x", length=0)
    axes.set_ylabel("Mean power of one device (W)")
    return fig


def _powers(case: Case) -> dict[str, dict[str, float]]:
    """W by the words of `POWER_PARTS`, of every engine step."""
    by_step = at_base(step_powers, case.scenario)
    return {
        # W of each part: several keys may belong to one name.
        step: {words: sum(float(parts.get(name, 0.0)) for name in names) for words, names in POWER_PARTS.items()}
        for step, parts in by_step.items()
    }


def _heading(case: Case, what: str, metrics: dict[str, Any], powers: dict[str, dict[str, float]]) -> tuple[str, ...]:
    """Title, details and source."""
    token = "token" if "step" in powers else "output token"
    joules = f"{formatted(metrics['joules_per_token'], 'J')} per {token}"
    drawn = {step: formatted(sum(parts.values()), "W") for step, parts in powers.items()}
    # A single step has one power; a batch has that of its phases and a mean.
    if "step" in powers:
        said = drawn["step"]
    else:
        mean_power = formatted(metrics["power"], "W")
        said = f"{drawn['prefill']} in prefill, {drawn['decode']} in decode and {mean_power} over the whole batch"
    assumed = [name for note in case.hardware.assumptions for name in ASSUMED.findall(note)]
    weights = [note for note in case.notes if note.startswith("weights")]
    known = [f"assumed of the device: {', '.join(assumed)}"] if assumed else []
    return (
        f"{case.model.name} on {number(metrics['devices'])} x {case.hardware.name}: {joules}",
        f"{what[:1].upper()}{what[1:]}{'. ' * bool(what)}One device draws {said} on average.",
        "; ".join((f"efficiency {case.efficiency.name}", *weights, *known, f"jaxroof hardware {case.hardware.name}")),
    )


def _step_text(case: Case, step: str, metrics: dict[str, Any], parts: dict[str, float]) -> str:
    """Name, power and clock of a step."""
    prefix = "" if step == "step" else f"{step}_"
    slowdown, full = metrics[f"{prefix}slowdown"], case.scenario.hardware.cores.clock
    if full is None:
        # Slowdown is the ratio of the full clock to the one at the power limit.
        clock = "full clock" if slowdown <= 1.0 else f"{100.0 / slowdown:.1f} % of the full clock, held by TDP"
    elif slowdown <= 1.0:
        clock = f"full clock, {formatted(float(full), 'Hz')}"
    else:
        clock = f"clock {formatted(metrics[f'{prefix}clock'], 'Hz')} of {formatted(float(full), 'Hz')}, held by TDP"
    return f"{step.capitalize()}: {formatted(sum(parts.values()), 'W')}\n{clock}"


def _bar(axes: Any, x: float, parts: dict[str, float], top: float, highest: float) -> None:
    """One stacked bar with the names of its parts at its right, below `highest`."""
    total, floor, middles = sum(parts.values()), 0.0, {}
    for words, watts in parts.items():
        axes.bar(x, watts, WIDTH, floor, color=COLOURS[words], ec="white", lw=0.5, zorder=2)
        middles[words] = floor + 0.5 * watts
        floor += watts
    named = [words for words, watts in parts.items() if watts >= LEAST_SHARE * total]
    right = x + 0.5 * WIDTH
    # Names keep a distance, and are led to their parts by lines.
    places = spaced([middles[words] for words in named], 0.05 * top, highest)
    for words, y in zip(named, places, strict=True):
        axes.plot([right, right + 0.06, right + 0.1], [middles[words], y, y], color=style.QUIET, lw=0.7, zorder=3)
        share = 100.0 * parts[words] / total
        text = f"{words} {formatted(parts[words], 'W')}, {share:.{0 if share >= 9.95 else 1}f} %"
        axes.text(right + 0.12, y, text, va="center", fontsize=8.5, zorder=4)


def spaced(places: list[float], least: float, top: float) -> list[float]:
    """Rising places moved as little as keeps them `least` apart and from half of that to as far below `top`."""
    moved: list[float] = []
    # Upwards first: each place at least the distance above the one before.
    for place in places:
        moved.append(max(place, moved[-1] + least if moved else 0.5 * least))
    # Then downwards from the top, where the places were pushed too far.
    limit = top - 0.5 * least
    for i in reversed(range(len(moved))):
        moved[i] = min(moved[i], limit)
        limit = moved[i] - least
    return moved
