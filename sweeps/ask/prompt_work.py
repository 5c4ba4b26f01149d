"""Figures of work without output: prompts that are answered with one token, or with a vector.

The one token, or vector, comes with the prompt: there is no time per token after it, and what a token of output costs
says nothing. Money is of a million prompt tokens and of a thousand requests.
"""

from collections.abc import Mapping
from typing import Any

THOUSAND = 1e3
"""Requests that a price is of."""

OF_OUTPUT = ("tpot", "itl", "decode_", "tokens_per_second", "run_tokens_per_second", "tokens_per_joule", "energy_delay")
"""Beginnings of the names of figures that are of output tokens alone."""

PER_MILLION, OF_PROMPTS = "_per_million_tokens", "_per_million_prompt_tokens"
"""Endings of figures of output tokens, and of the same figures of prompt tokens."""


def without_output(metrics: Mapping[str, Any], prompt: float) -> dict[str, Any]:
    """Metrics of requests of one output token each, those of output tokens in terms of requests and of prompt tokens.

    Args:
      metrics: of a job or a simulation.
      prompt: tokens of a prompt, mean.
    """
    found = {name: value for name, value in metrics.items() if not name.startswith(OF_OUTPUT)}
    if "tokens_per_second" in metrics and "requests_per_second" not in metrics:
        found["requests_per_second"] = metrics["tokens_per_second"]
        found["prompt_tokens_per_second"] = metrics["tokens_per_second"] * prompt
    for name in metrics:
        if name.endswith(PER_MILLION):
            found[name.removesuffix(PER_MILLION) + OF_PROMPTS] = found.pop(name) / prompt
    if "usd_per_million_tokens" in metrics:
        found["usd_per_thousand_requests"] = metrics["usd_per_million_tokens"] / THOUSAND
    if "joules_per_token" in metrics:
        found["joules_per_request"] = found.pop("joules_per_token")
    return found


def prompt_metric(name: str) -> str:
    """The name under which `without_output` has a figure; "requests_per_second" for one of output alone."""
    if name.endswith(PER_MILLION):
        return name.removesuffix(PER_MILLION) + OF_PROMPTS
    if name == "joules_per_token":
        return "joules_per_request"
    return "requests_per_second" if name.startswith(OF_OUTPUT) else name
