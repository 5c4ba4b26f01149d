"""Time per output token by Little's law, without a simulation: from a point's measured latencies how full it was."""

import functools
from collections.abc import Sequence

import jax
import numpy as np

from jaxroof import batch
from jaxroof.deployment import Deployment
from jaxroof.efficiency import Efficiency
from jaxroof.hardware import Hardware
from jaxroof.model import Model
from jaxroof.numerics.smooth import maximum
from jaxroof.numerics.struct import Scalar, struct
from jaxroof.step.step import step_time
from sweeps.measure.validate.serving.serving_points import ServingPoint
from sweeps.measure.validate.stacks import stacked


@struct
class Load:
    """Mean state of a closed loop."""

    sequences: Scalar  # that decode at once
    isl: Scalar  # mean, tokens
    osl: Scalar
    mixed_share: Scalar  # prompts per decode step


def load(point: ServingPoint) -> Load:
    """Sequences that decode at once: clients * osl tpot / (osl tpot + ttft), with mean lengths.

    Every sequence that ends is replaced, and its successor's prompt is worked on between the others' steps.
    """
    mean = 0.5 * (1.0 + point.launch.shortest)
    isl, osl = mean * point.isl, mean * point.osl
    decoding = osl * point.tpot
    sequences = max(point.concurrency * decoding / (decoding + point.ttft), 1.0)
    return Load(sequences=sequences, isl=isl, osl=osl, mixed_share=max(sequences - 1.0, 0.0) / osl)


def little_times(points: Sequence[ServingPoint], efficiency: Efficiency) -> np.ndarray:
    """Time per output token, and of one prompt without anything else, in s, shape [2, points]."""
    order, stacks = stacked([(point.hardware, point.model, point.deployment, load(point)) for point in points])
    return np.concatenate([np.stack(_times(*stack, efficiency)) for stack in stacks], axis=1)[:, order]


@jax.jit
@functools.partial(jax.vmap, in_axes=(0, 0, 0, 0, None))
def _times(
    hardware: Hardware, model: Model, deployment: Deployment, state: Load, efficiency: Efficiency
) -> tuple[jax.Array, jax.Array]:
    decode = batch.decode(state.sequences, state.isl + 0.5 * state.osl)
    prompt = batch.prefill(1.0, state.isl)
    steady = step_time(hardware, model, deployment, decode, efficiency)
    both = step_time(hardware, model, deployment, batch.mixed(prompt, decode), efficiency)
    alone = step_time(hardware, model, deployment, prompt, efficiency)
    return steady + state.mixed_share * maximum(both - steady, 0.0), alone
