"""Latencies of a static batch again, with pipeline stages and drafted tokens."""

from typing import Any

import numpy as np

from tests.oracle.layer import Part, Step
from tests.oracle.memory import largest_stage
from tests.oracle.step import step_time


def request(hardware, model, deployment, requests, efficiency) -> dict[str, Any]:
    """ttft, tpot and e2e in s of a static batch."""
    parts = 1.0 if deployment.pp is None else np.minimum(deployment.pp, requests.batch)
    n, new = requests.batch / parts, requests.isl - requests.cached
    prompts = Step(Part(n, tokens=n * new, past=n * requests.cached), None, n)
    tokens = Step(None, Part(n, context=n * (requests.isl + requests.osl / 2.0)), n)
    if requests.encoder_tokens is not None and model.encoder is not None:
        inputs = 1.0 if requests.encoder_inputs is None else requests.encoder_inputs
        prompts.encode = Part(n * inputs, tokens=n * requests.encoder_tokens)
        prompts.encoded = tokens.encoded = requests.encoder_tokens / model.encoder.merged
    first = step_time(hardware, model, deployment, prompts, efficiency)
    later = step_time(hardware, model, deployment, tokens, efficiency)
    slowest = largest_stage(model, deployment)
    ttft = efficiency.host.request_time + first + (parts - 1.0) * slowest * first
    tpot = np.maximum(later, parts * slowest * later) / tokens_per_step(deployment, requests.acceptance)
    return {"ttft": ttft, "tpot": tpot, "e2e": ttft + np.maximum(requests.osl - 1.0, 0.0) * tpot}


def tokens_per_step(deployment, acceptance):
    """1 + a + a^2 + ... + a^k: a draft counts when it and all before it are right, which is never quite certain."""
    if deployment.drafts is None:
        return 1.0
    right, most = acceptance * (1.0 - 1e-6) + 1e-9, int(np.max(deployment.drafts))
    return sum(np.where(i <= deployment.drafts, right**i, 0.0) for i in range(most + 1))
