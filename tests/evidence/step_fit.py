"""Constants of the step model fitted to measured steps and times per output token, and how well they carry over."""

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxroof.efficiency import Efficiency
from sweeps.ask.axes import leaf
from sweeps.measure.validate.relative_errors import Errors, errors
from tests.evidence.least_squares import fitted
from tests.evidence.observation import Observation, step_times
from tests.evidence.parameters import OTHER_ENGINES, Parameter, with_scaled_kernel_times, with_values

ENGINE = "vllm"
"""The engine whose host times the constants are. Its kernels are also in `older_vllm`."""

VLLM = (ENGINE, "older_vllm")

SPREAD = 0.05
"""Standard deviation of the log ratio that one deployment would have under the right constants: what two versions
of one engine differ by on the same GPU (GEMM 1 to 10 %)."""

INDEPENDENT = 8
"""Rows of one deployment that count as independent; more of them share a smaller weight each."""


@dataclasses.dataclass(frozen=True)
class ServingFit:
    """Result of one fit."""

    efficiency: Efficiency
    nuisances: dict[str, float]
    predicted: np.ndarray  # s, per observation


def serving_fit(observations: Sequence[Observation], start: Efficiency, shared: Sequence[Parameter]) -> ServingFit:
    """The shared constants and what the other engine does otherwise, fitted together.

    Args:
      observations: of both engines.
      start: constants that are not among `shared` stay as here.
      shared: constants of the efficiency that move, with their priors.
    """
    sizes = Counter(observation.group for observation in observations)
    spreads = [SPREAD * np.sqrt(max(1.0, sizes[o.group] / INDEPENDENT)) for o in observations]
    times = _times(observations, start)
    nuisances = [parameter for engine in OTHER_ENGINES.values() for parameter in engine]
    values = fitted(times, [o.seconds for o in observations], spreads, (*shared, *nuisances))
    paths = [parameter.path for parameter in shared]
    return ServingFit(
        efficiency=with_values(start, {path: values[path] for path in paths}),
        nuisances={path: value for path, value in values.items() if path not in paths},
        predicted=np.asarray(jax.jit(times)(values)),
    )


def predicted_times(observations: Sequence[Observation], fit: ServingFit) -> np.ndarray:
    """Times in s of `observations` under `fit`, shape [observations]."""
    return np.asarray(jax.jit(_times(observations, fit.efficiency))(fit.nuisances))


def leave_one_model_out(
    observations: Sequence[Observation], start: Efficiency, shared: Sequence[Parameter]
) -> dict[str, tuple[Efficiency, int, Errors]]:
    """Per model: constants fitted without any row of it, its vLLM rows, and their errors under these constants."""
    held_out = {}
    for model in sorted({o.model for o in observations if o.engine in VLLM}):
        fit = serving_fit([o for o in observations if o.model != model], start, shared)
        own = [o for o in observations if o.model == model and o.engine in VLLM]
        predicted = predicted_times(own, fit)
        held_out[model] = fit.efficiency, len(own), errors(predicted, np.asarray([o.seconds for o in own]))
    return held_out


def group_errors(observations: Sequence[Observation], predicted: np.ndarray) -> dict[str, tuple[int, Errors]]:
    """Per deployment: number of rows and their errors."""
    groups = defaultdict(list)
    for observation, time in zip(observations, predicted, strict=True):
        groups[observation.group].append((time, observation.seconds))
    return {group: (len(pairs), errors(*np.asarray(pairs).T)) for group, pairs in groups.items()}


def _times(observations: Sequence[Observation], start: Efficiency) -> Callable[[dict[str, Any]], jax.Array]:
    engines = sorted({o.engine for o in observations})
    indices = [[i for i, o in enumerate(observations) if o.engine == engine] for engine in engines]
    order = np.argsort(np.concatenate(indices))
    functions = [step_times([observations[i].step for i in own]) for own in indices]

    def times(values: dict[str, Any]) -> jax.Array:
        efficiency = with_values(start, {path: value for path, value in values.items() if _is_constant(start, path)})
        each = [
            function(_of_engine(engine, efficiency, values))
            for engine, function in zip(engines, functions, strict=True)
        ]
        return jnp.concatenate(each)[order]

    return times


def _of_engine(engine: str, efficiency: Efficiency, values: dict[str, Any]) -> Efficiency:
    """`efficiency` with what `engine` does otherwise."""
    if engine == ENGINE:
        return efficiency
    host = {f"host.{name}": values[f"{engine}.{name}"] for name in ("step_time", "sequence_time")}
    return with_scaled_kernel_times(with_values(efficiency, host), values[f"{engine}.kernel_times"])


def _is_constant(efficiency: Efficiency, path: str) -> bool:
    try:
        leaf(efficiency, path)
    except ValueError:
        return False
    return True
