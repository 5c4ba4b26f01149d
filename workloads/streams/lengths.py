"""Lengths of prompts and outputs: distributions of token counts, in words or as objects, drawn with a seed."""

import dataclasses
import math
from collections.abc import Mapping

import numpy as np
from scipy import special

from workloads.streams.kinds import Kind, Range, number, parsed, shown, words_of
from workloads.streams.stream import LARGEST_TOKENS, numbered
from workloads.streams.tree import ALONE

RANGES = {
    **dict.fromkeys(("tokens", "low", "high", "max"), Range(1, LARGEST_TOKENS, whole=True)),
    **dict.fromkeys(("mean", "p50", "p90", "p95", "p99"), Range(1, LARGEST_TOKENS)),
    "std": Range(0, LARGEST_TOKENS),
    "sigma": Range(0, 5, above=True),
    "alpha": Range(0, 10, above=True),
    "ratio": Range(0, 1),
}
"""Parameter -> what it may be."""

KINDS = {
    "fixed": Kind(("tokens",), (), "fixed:1024, or 1024"),
    "uniform": Kind(("low", "high"), (), "uniform:128..2048"),
    "normal": Kind(("mean", "std"), ("max",), "normal:mean=1024,std=200"),
    "lognormal": Kind((), ("mean", "p50", "sigma", "std", "p90", "p95", "p99", "max"), "lognormal:mean=1024,sigma=0.8"),
    "pareto": Kind(("low", "high", "alpha"), (), "pareto:low=16,high=8192,alpha=1.2"),
    "zipf": Kind(("low", "high", "alpha"), (), "zipf:low=16,high=8192,alpha=1.1"),
    "vllm-range": Kind(("tokens", "ratio"), (), "vllm-range:tokens=1024,ratio=0.2"),
    "sglang-range": Kind(("tokens", "ratio"), (), "sglang-range:tokens=1024,ratio=0.5"),
}
"""Every kind of distribution of lengths, and what it takes."""

_PERCENTILES = {"p90": 0.90, "p95": 0.95, "p99": 0.99}


@dataclasses.dataclass(frozen=True)
class Lengths:
    """A distribution of token counts: whole numbers of at least 1.

    fixed         always `tokens`
    uniform       every whole number from `low` to `high` alike
    normal        mean and std of the normal distribution, of which what is under 1 or above `max` is cut away
    lognormal     from two of: mean, p50; sigma, std, p90, p95, p99. Cut like the normal
    pareto        density ~ x^-(alpha + 1) from `low` to `high`, rounded: a heavy tail
    zipf          P(n) ~ n^-alpha for whole n from `low` to `high`
    vllm-range    uniform from floor(tokens (1 - ratio)) to ceil(tokens (1 + ratio)), of `--random-range-ratio`
    sglang-range  uniform from int(tokens ratio) to tokens, of SGLang's flag of the same name

    Mean and percentiles are those before the cut and before rounding to whole tokens.

    Source: vLLM, vllm/benchmarks/datasets (`get_sampling_params`; until 2025 its ratio meant what SGLang's does);
    SGLang, benchmark/datasets/common.py (`compute_random_lens`).
    """

    kind: str
    values: Mapping[str, float]

    @property
    def text(self) -> str:
        """The words for it, which `parse_lengths` reads."""
        return f"{self.values['tokens']:.12g}" if self.kind == "fixed" else shown(self.kind, self.values)

    def drawn(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """`count` lengths. float64, shape [count]."""
        v = self.values
        if self.kind == "fixed":
            return np.full(count, float(v["tokens"]))
        if self.kind in ("uniform", "vllm-range", "sglang-range"):
            low, high = self._bounds()
            return rng.integers(low, high, size=count, endpoint=True).astype(float)
        if self.kind == "pareto":
            # Bounded Pareto, by its inverse distribution: F(x) = (1 - (low / x)^alpha) / (1 - (low / high)^alpha).
            ratio = (v["low"] / v["high"]) ** v["alpha"]
            return np.rint(v["low"] * (1.0 - rng.random(count) * (1.0 - ratio)) ** (-1.0 / v["alpha"]))
        if self.kind == "zipf":
            numbers = np.arange(v["low"], v["high"] + 1.0)
            # A uniform number selects the first length whose cumulative weight is above it.
            total = np.cumsum(numbers ** -v["alpha"])
            return numbers[np.searchsorted(total, rng.random(count) * total[-1], side="right").clip(max=len(total) - 1)]
        return self._truncated(rng, count)

    def _bounds(self) -> tuple[int, int]:
        v = self.values
        if self.kind == "uniform":
            return int(v["low"]), int(v["high"])
        if self.kind == "sglang-range":
            return max(int(v["tokens"] * v["ratio"]), 1), int(v["tokens"])
        return max(math.floor(v["tokens"] * (1 - v["ratio"])), 1), math.ceil(v["tokens"] * (1 + v["ratio"]))

    def _truncated(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """By the inverse of the cumulative distribution between the halves beside the smallest and largest length."""
        low, high = 0.5, self.values.get("max", LARGEST_TOKENS) + 0.5
        place, spread = self.place_and_spread()
        if self.kind == "lognormal":
            low, high = math.log(low), math.log(high)
        # Without a spread there is no distribution to invert.
        if spread == 0.0:
            drawn = np.full(count, place)
        else:
            # Probabilities at both cuts: a uniform number between them gives a draw of the truncated distribution.
            ends = special.ndtr((np.array([low, high]) - place) / spread)
            drawn = place + spread * special.ndtri(ends[0] + rng.random(count) * (ends[1] - ends[0]))
        drawn = np.exp(drawn) if self.kind == "lognormal" else drawn
        return np.clip(np.rint(drawn), 1.0, self.values.get("max", LARGEST_TOKENS))

    def place_and_spread(self) -> tuple[float, float]:
        """Mean and standard deviation of the normal distribution, or of a lognormal's logarithm.

        Raises:
          ValueError: one line, where a lognormal's parameters are not two that determine it.
        """
        v = self.values
        if self.kind == "normal":
            return v["mean"], v["std"]
        # `max` only cuts the distribution, it does not determine it.
        given = tuple(key for key in v if key != "max")
        tail = next((key for key in given if key in _PERCENTILES), None)
        z = special.ndtri(_PERCENTILES[tail]) if tail else 0.0
        # With m and s of the logarithm: p50 = exp(m), mean = exp(m + s^2 / 2), percentile = exp(m + z s), where z is
        # the quantile of the standard normal distribution.
        if len(given) == 2 and "p50" in given:
            place = math.log(v["p50"])
            if "sigma" in given:
                return place, v["sigma"]
            if tail and v[tail] > v["p50"]:
                return place, math.log(v[tail] / v["p50"]) / z
            if "mean" in given and v["mean"] > v["p50"]:
                return place, math.sqrt(2.0 * math.log(v["mean"] / v["p50"]))
        elif len(given) == 2 and "mean" in given:
            spread = v.get("sigma")
            if "std" in given:
                # std^2 = mean^2 (exp(s^2) - 1)
                spread = math.sqrt(math.log1p((v["std"] / v["mean"]) ** 2))
            elif tail and 0.0 < 2.0 * math.log(v[tail] / v["mean"]) <= z * z:
                # percentile / mean = exp(z s - s^2 / 2), solved for the smaller s.
                spread = z - math.sqrt(z * z - 2.0 * math.log(v[tail] / v["mean"]))
            if spread is not None:
                return math.log(v["mean"]) - spread**2 / 2.0, spread
        raise ValueError(
            f"{self.text!r}: a lognormal distribution takes mean or p50, and one of sigma, std (with mean), p90, p95 "
            f"or p99 above them; such as {KINDS['lognormal'].example}"
        )


def parse_lengths(
    text: "str | int | float | Lengths", kinds: Mapping[str, Kind] = KINDS, ranges: Mapping[str, Range] = RANGES
) -> Lengths:
    """The distribution that `text` describes: "1024", "uniform:128..2048", "lognormal:mean=1024,sigma=0.8".

    Args:
      text: the words, or what they describe.
      kinds: those that are allowed.
      ranges: what each parameter may be.

    Raises:
      ValueError: one line that names the word, what is known or allowed, and the nearest.
    """
    if isinstance(text, Lengths):
        return text
    kind, values = parsed(str(text), kinds, "fixed", ranges)
    lengths = Lengths(kind, values)
    if "low" in values and values["low"] > values["high"]:
        raise ValueError(f"{text!r}: low is {values['low']:g}, above high, {values['high']:g}")
    if kind in ("lognormal", "normal"):
        place, _ = lengths.place_and_spread()
        largest = values.get("max", LARGEST_TOKENS)
        # Where the maximum is under the median, most of the distribution would be cut away.
        if (math.exp(place) if kind == "lognormal" else place) > largest:
            raise ValueError(f"{text!r}: max is {largest:g}, under the middle of the distribution")
    return lengths


# Prompts with a common beginning: system prompts of many requests.


_GROUPS = Range(1, 1_000_000, whole=True)
_EXPONENT = Range(0, 10)
_PREFIXES = "groups=10,tokens=1000,zipf=1"


@dataclasses.dataclass(frozen=True)
class Prefixes:
    """System prompts: `groups` texts before prompts, the k-th most popular with probability ~ k^-zipf."""

    groups: int
    tokens: Lengths  # of each text, drawn once; they come before a request's own prompt, and lengthen it
    zipf: float = 0.0  # 0: all alike

    @property
    def text(self) -> str:
        """The words for it, which `parse_prefixes` reads where `tokens` is a number or a range."""
        return f"groups={self.groups},tokens={self.tokens.text},zipf={self.zipf:.12g}"

    def drawn(self, rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Group and tokens of the text before each of `count` prompts. int64 and float64, shape [count] each."""
        # Zipf's law: cumulative popularity of the texts, the most popular first.
        weight = np.cumsum(np.arange(1.0, self.groups + 1.0) ** -self.zipf)
        lengths = self.tokens.drawn(rng, self.groups)
        group = np.searchsorted(weight, rng.random(count) * weight[-1], side="right").clip(max=self.groups - 1)
        return group, lengths[group]


def parse_prefixes(text: "str | Prefixes | None") -> Prefixes | None:
    """System prompts from "groups=10,tokens=1000,zipf=1"; tokens may be a range, 500..2000. None stays None."""
    if text is None or isinstance(text, Prefixes):
        return text
    words = {"zipf": "0"} | words_of(text, ("groups", "tokens", "zipf"), _PREFIXES)
    for key in ("groups", "tokens"):
        if key not in words:
            raise ValueError(f"{text!r}: {key} is missing; such as {_PREFIXES}")
    groups = number(words["groups"], "groups", _GROUPS, text)
    return Prefixes(int(groups), parse_lengths(words["tokens"]), number(words["zipf"], "zipf", _EXPONENT, text))


def shared_prefixes(key: np.ndarray, tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`group` and `shared` of requests whose prompts begin with the text of their key.

    Args:
      key: which text, in the order of arrival, negative for none; shape [requests].
      tokens: how long it is; shape [requests].

    Returns:
      As of a `Stream`: the first request with a text shares nothing. Shape [requests] each.
    """
    group = numbered(key)
    _, first = np.unique(group, return_index=True)
    shared = np.where(group == ALONE, 0.0, tokens)
    shared[first] = 0.0
    return group, shared
