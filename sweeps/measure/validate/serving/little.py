"""Time per output token by Little's law, without a simulation: from a point's measured latencies how full it was."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from jaxroof import batch
from jaxroof.efficiency import Efficiency
from jaxroof.smooth import maximum
from jaxroof.step import step_time
from jaxroof.struct import Scalar, struct
from sweeps.measure.validate.serving.serving_points import ServingPoint
from sweeps.measure.validate.stacks import stacked


@struct
class Load:
    """Mean state of a closed loop."""

    sequences: Scalar  # that decode at once
    isl: Scalar  # mean, tokens
    osl: Scalar
    mixed_share: Scalar  # prompts per decode step


@struct
class StepTimes:
    """s, shape [points]."""

    decode: jax.Array  # one decode step
    prompt: jax.Array  # what one prompt adds to it
    alone: jax.Array  # one prompt without anything else
    tpot: jax.Array  # decode step and the share of prompts between steps


def load(point: ServingPoint) -> Load:
    """Sequences that decode at once: clients * osl tpot / (osl tpot + ttft), with mean lengths.

    Every sequence that ends is replaced, and its successor's prompt is worked on between the others' steps.
    """
    mean = 0.5 * (1.0 + point.low)
    isl, osl = mean * point.isl, mean * point.osl
    decoding = osl * point.tpot
    sequences = max(point.concurrency * decoding / (decoding + point.ttft), 1.0)
    return Load(sequences=sequences, isl=isl, osl=osl, mixed_share=max(sequences - 1.0, 0.0) / osl)


def little_times(points: Sequence[ServingPoint], efficiencies: Sequence[Efficiency]) -> StepTimes:
    """Times of the mean step of every point under its own efficiency, which all have one structure."""
    trees = [
        (point.hardware, point.model, point.deployment, load(point), efficiency)
        for point, efficiency in zip(points, efficiencies, strict=True)
    ]
    order, stacks = stacked(trees)
    parts = [_times(*stack) for stack in stacks]
    return jax.tree.map(lambda *leaves: np.concatenate([np.asarray(leaf) for leaf in leaves])[order], *parts)


@jax.jit
def _times(hardware: Any, model: Any, deployment: Any, state: Any, efficiency: Any) -> StepTimes:
    return jax.vmap(_point_times)(hardware, model, deployment, state, efficiency)


def _point_times(hardware: Any, model: Any, deployment: Any, state: Load, efficiency: Efficiency) -> StepTimes:
    decode = batch.decode(state.sequences, state.isl + 0.5 * state.osl)
    prompt = batch.prefill(1.0, state.isl)
    steady = step_time(hardware, model, deployment, decode, efficiency)
    both = step_time(hardware, model, deployment, batch.mixed(prompt, decode), efficiency)
    alone = step_time(hardware, model, deployment, prompt, efficiency)
    added = maximum(both - steady, 0.0)
    return StepTimes(decode=steady, prompt=added, alone=alone, tpot=steady + state.mixed_share * added)
