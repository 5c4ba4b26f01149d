"""Rows of each expert of the measured device in the tables' synthetic routings."""

import functools
from typing import NamedTuple

import numpy as np

DRAWS = 6
"""Random routings that figures of a power law are the mean of; the tables hold one draw, with an unknown seed."""

SCARCE = (0.01, 2.0)
"""Bounds of a power law's unscaled loads where choices are fewer than experts; else 1 and `BUSIEST` of the tokens."""

BUSIEST = 0.8


class Routing(NamedTuple):
    """Rows of the experts that the measured device holds: the first device's, or the one with the most rows."""

    rows: float  # over all its experts
    touched: float  # experts with rows
    largest: float  # rows of the busiest
    visitors: float  # tokens with one of its experts at least


@functools.cache
def routing(distribution: str, tokens: int, experts: int, top_k: int, devices: int, adjoining: bool = False) -> Routing:
    """What `tokens` tokens of the whole group send to the measured one of `devices` devices.

    Args:
      distribution: "balanced", or "power_law_" and the exponent.
      adjoining: experts of a power law's device are neighbours, not a number of devices apart.

    Source: README of the tables; ai-dynamo/aiconfigurator, collector/helper.py, for the two distributions.
    """
    if distribution == "balanced":
        counts = balanced_rows(tokens, experts, top_k, devices)[None]
    else:
        counts = power_law_rows(float(distribution.rsplit("_", 1)[1]), tokens, experts, top_k, devices, adjoining)
    rows = np.mean(np.sum(counts, axis=1))
    touched, largest = np.mean(np.sum(counts > 0, axis=1)), np.mean(np.max(counts, axis=1))
    if distribution == "balanced":  # a token's choices are as far apart as they can be
        visitors = min(tokens, rows)
    else:
        visitors = tokens * (1.0 - max(1.0 - rows / (tokens * top_k), 0.0) ** top_k)
    return Routing(float(rows), float(touched), float(largest), float(visitors))


def balanced_rows(tokens: int, experts: int, top_k: int, devices: int) -> np.ndarray:
    """Rows of every expert of the first device, shape [experts / devices].

    The choices of a token are a stride of experts / top_k apart, and the next token's are one further, or so much
    further that tokens spread over the stride where they are fewer.
    """
    held, stride = experts // devices, -(-experts // top_k)
    choices = np.arange(top_k) * stride
    if tokens < stride:
        chosen = (np.arange(tokens)[:, None] * stride // tokens + choices) % experts
        return np.bincount(chosen.ravel(), minlength=experts)[:held]
    first = (np.arange(held)[:, None] - choices) % experts  # the first token that chooses the expert
    return np.sum(np.where(first < tokens, (tokens - 1 - first) // experts + 1, 0), axis=1)


def power_law_rows(
    exponent: float, tokens: int, experts: int, top_k: int, devices: int, adjoining: bool = False
) -> np.ndarray:
    """Rows of every expert of the device with the most, shape [DRAWS, experts / devices].

    Loads are drawn from a density x^-exponent between two bounds and scaled to the number of choices; an expert takes
    each token once at most, and what is left over goes to those that have least.
    """
    choices = tokens * top_k
    low, high = (1.0, BUSIEST * tokens) if choices > experts else SCARCE
    uniform = np.random.default_rng(experts * 1000 + tokens).random((DRAWS, experts))
    power = 1.0 - exponent
    loads = ((high**power - low**power) * uniform + low**power) ** (1.0 / power)
    counts = np.minimum(np.rint(loads / np.sum(loads, axis=1, keepdims=True) * choices), tokens).astype(int)
    for row in counts:
        _fill(row, choices, tokens)
    if adjoining:
        by_device = np.swapaxes(counts.reshape(DRAWS, devices, experts // devices), 1, 2)
    else:  # `_fill` is even over the devices
        by_device = counts.reshape(DRAWS, experts // devices, devices)
    busiest = np.argmax(np.sum(by_device, axis=1), axis=1)
    return by_device[np.arange(DRAWS), :, busiest]


def _fill(counts: np.ndarray, total: int, limit: int) -> None:
    """Change `counts` in place, least ones up or largest ones down, until they add up to `total`."""
    while (missing := total - int(np.sum(counts))) != 0:
        step = 1 if missing > 0 else -1
        order = np.argsort(counts * step, kind="stable")
        free = order[counts[order] < limit] if missing > 0 else order[counts[order] > 0]
        if len(free) == 0:
            return
        chosen = free[: min(abs(missing), max(len(free) // 2, 1))]
        counts[chosen] += step
