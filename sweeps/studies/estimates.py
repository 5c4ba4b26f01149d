"""Effects of the estimates of a chip described in a few lines on times of steps."""

from typing import NamedTuple

import workloads
from hwspaces import HardwareEntry, efficiency, overridden
from hwspaces.accelerators.described import estimates_of
from hwspaces.quantities.leaves import leaf
from jaxroof import Deployment, decode, prefill, step_time
from jaxroof.numerics.arrays import eager

MODEL = "Llama-3.1-8B"

STEPS = {"decode": decode(32.0, 2048.0), "prefill": prefill(1.0, 4096.0)}
"""Steps that are asked: 32 sequences at 2,048 tokens each, and one prompt of 4,096."""

LEAST = 0.005
"""Relative change of both steps below which an estimate has no effect worth a row."""


class EstimateEffect(NamedTuple):
    """Time of the steps with half and with twice an estimate, over that with it; by name of `STEPS`."""

    path: str
    value: float
    half: dict[str, float]
    twice: dict[str, float]

    @property
    def size(self) -> float:
        """The largest relative change."""
        return max(abs(ratio - 1.0) for ratio in (*self.half.values(), *self.twice.values()))


def effects_of_estimates(entry: HardwareEntry) -> list[EstimateEffect]:
    """Effect of every estimate on steps of `MODEL`, the largest first; those below `LEAST` are left out.

    Args:
      entry: a chip from a file in the short form; with the learned efficiency, on one device.
    """
    precision = "bf16" if "bf16" in entry.hardware.matrix else "fp8" if "fp8" in entry.hardware.matrix else None
    if precision is None:
        return []
    model = workloads.model(MODEL, weights=None if precision == "bf16" else precision).model
    constants = efficiency("learned").efficiency

    def seconds(one: HardwareEntry) -> dict[str, float]:
        with eager():
            return {
                name: float(step_time(one.hardware, model, Deployment(), batch, constants))
                for name, batch in STEPS.items()
            }

    base = seconds(entry)
    effects = []
    for path in estimates_of(entry):
        declared, ratios = leaf(path), []
        if declared.discrete:
            continue
        for factor in (0.5, 2.0):
            value = entry.figures[path] * factor
            changed = seconds(overridden(entry, {path: max(round(value), 1) if declared.counts else value}))
            ratios.append({name: changed[name] / base[name] for name in STEPS})
        effects.append(EstimateEffect(path, entry.figures[path], *ratios))
    return sorted((one for one in effects if one.size >= LEAST), key=lambda one: -one.size)
