"""Limits of admission control, from a user's text: a time, or every request's own limit on its TTFT."""

import numpy as np

from hwspaces import quantity
from jaxroof.jobs.serve import Objective

OWN = "slo"
"""The word for the limit that a request's objective has, its class's where it has a class."""


def admission_limits(text: str, objective: Objective, requests: int) -> np.ndarray:
    """s of expected TTFT above which every request is rejected, shape [requests].

    Args:
      text: "2s", or "slo".
      objective: limits of every request, of shape () or [requests].

    Raises:
      ValueError: one line, for what is no time, or "slo" where no request has such a limit.
    """
    if text.strip() != OWN:
        return np.full(requests, quantity(text, "s", "admission"))
    limits = np.broadcast_to(np.asarray(objective.ttft, float), (requests,))
    if not np.isfinite(limits).any():
        raise ValueError("admission = 'slo' needs a limit on the time to first token: slo = 'ttft=1s'")
    return limits
