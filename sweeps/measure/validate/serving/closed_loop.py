"""The requests that a measured point stands for, and the scheduler that answered them."""

import jax.numpy as jnp
import numpy as np

from jaxroof.policy import ORDERS, Policy
from jaxroof.traffic import Traffic
from sweeps.measure.validate.serving.serving_points import ServingPoint


def traffic(point: ServingPoint, seed: int) -> Traffic:
    """The closed loop of the benchmark: every client at once at 0 s, then a request per answer.

    Prompt and output lengths are independent, whole and uniform from `point.low` times nominal to nominal, at least 1.

    Args:
      seed: of NumPy's PCG64; the same seed gives the same requests.

    Returns:
      Requests of shape [round(10 * clients)]; times in s.

    Source: `--dataset-name random --random-range-ratio --num-prompts --max-concurrency --request-rate inf` of the
    benchmark scripts of vLLM and InferenceX.
    """
    clients = max(round(point.concurrency), 1)
    count = max(round(point.requests), clients)
    draw = np.random.Generator(np.random.PCG64(seed))
    isl, osl = _lengths(draw, point.isl, point.low, count), _lengths(draw, point.osl, point.low, count)
    return Traffic(arrival=jnp.zeros(count), isl=jnp.asarray(isl), osl=jnp.asarray(osl), clients=float(clients))


def _lengths(draw: np.random.Generator, nominal: float, low: float, count: int) -> np.ndarray:
    """Whole tokens, uniform between low * nominal and nominal, both included, shape [count]."""
    high = max(int(nominal), 1)
    return draw.integers(max(int(nominal * low), 1), high, size=count, endpoint=True).astype(float)


def policy(point: ServingPoint) -> Policy:
    """The scheduler of one attention group of the point's engine, as its suite started it; prefixes are not cached."""
    preset = point.preset
    return Policy(
        order=float(ORDERS.index(preset.order)),
        token_budget=preset.budget,
        max_sequences=preset.max_sequences,
        chunked=float(preset.chunked),
        block_size=preset.block_size,
        reserve=float(preset.reserve),
        prefix_caching=0.0,
        graph_step=preset.graph_step,
        graph_limit=preset.graph_limit,
    )
