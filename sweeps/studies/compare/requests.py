"""Requests of a served comparison: the stream at any rate, and the means that a steady state depends on."""

import dataclasses
import functools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxroof.steady.steady_state import LEAST_STEPS, Demand
from sweeps.run.simulated.load import Images, Load, load
from sweeps.run.simulated.spec import ServeSpec
from workloads.streams.classes import RequestClass
from workloads.streams.stream import Stream, part
from workloads.streams.streams import mean_rate
from workloads.streams.tree import ALONE, paths

LEAST, MOST = 1000, 4000
"""Requests of a simulation where the user does not say how many."""

TIMES = 8.0
"""How many times as many requests as run at once are simulated: a run begins with a batch that is not full."""

TIMES_OF_POOLS, MOST_OF_POOLS = 4.0, 8000
"""The same of disaggregated pools, whose replicas all take part in a simulation."""

SAMPLE = 4000
"""Requests whose means describe a distribution."""


@dataclasses.dataclass(frozen=True, eq=False)
class ServedRequests:
    """What is asked of the engines: keys of the offered load, without its rate."""

    keys: Mapping[str, Any]  # of `sweeps.ask.offered_load.OfferedLoad`
    model: str = "-"  # that they are for, as a user names it: what an image is to it

    @functools.cached_property
    def sample(self) -> Stream:
        """Requests from which means are taken."""
        return self.drawn(SAMPLE).stream

    @property
    def classes(self) -> tuple[RequestClass, ...]:
        """Classes of the requests; none where they are all of one."""
        return self.drawn(SAMPLE).classes

    @property
    def images(self) -> Images | None:
        """Images of every request; None where they are text."""
        return self.drawn(SAMPLE).images

    def demand(self, caching: bool) -> Demand:
        """Means of the requests; `caching` as of `demand`."""
        means = demand(self.sample, caching)
        return means if self.images is None else dataclasses.replace(means, encode=self.images.encode)

    @property
    def longest(self) -> float:
        """Tokens of the longest request."""
        return float(np.max(self.sample.isl + self.sample.osl))

    @property
    def without_output(self) -> bool:
        """Whether every request is answered with the one token that comes with its prompt."""
        return float(np.max(self.sample.osl)) <= 1.0

    @property
    def counted(self) -> bool:
        """Whether the user, or a trace, says how many requests there are."""
        return any(self.keys.get(key) is not None for key in ("trace", "requests", "duration"))

    def number(self, sequences: float) -> int:
        """Requests to be simulated where so many sequences run at once."""
        if self.counted:
            return len(self.sample)
        # Powers of two, so that deployments of similar batches have simulations of one size.
        return min(max(LEAST, 2 ** math.ceil(math.log2(TIMES * max(sequences, 1.0)))), MOST)

    def number_of_pools(self, sequences: float) -> int:
        """Requests to be simulated where so many sequences run at once in all replicas that decode."""
        if self.counted:
            return len(self.sample)
        # Doubled until there are enough: few numbers, for each of which a program is compiled.
        doublings = max(math.ceil(math.log2(TIMES_OF_POOLS * sequences / LEAST)), 0)
        return int(min(LEAST << doublings, MOST_OF_POOLS))

    @functools.lru_cache(maxsize=8)  # noqa: B019  (a question has one of these)
    def drawn(self, number: int) -> Load:
        """`number` requests; their times are at a rate of 1/s, or a trace's own."""
        keys = dict(self.keys)
        if not self.counted:
            keys["requests"] = number
        if keys.get("trace") is None and keys.get("arrivals") is None:
            # Times scale with the rate: a stream of 1/s, stretched, is the stream of any other rate.
            keys["rate"] = 1.0
        # Requests do not depend on hardware, which the specification has to name all the same.
        return load(ServeSpec(hardware="-", model=self.model, **keys))

    def rate(self, number: int) -> float:
        """Requests per s of what `drawn` returns: those of a trace at its own speed.

        Raises:
          ValueError: one line, where all requests arrive at one time.
        """
        if self.keys.get("trace") is None and self.keys.get("arrivals") is None:
            return 1.0
        rate = mean_rate(self.drawn(number).stream)
        if not math.isfinite(rate):
            raise ValueError("requests arrive at one time, so they have no rate to change")
        return rate


def demand(stream: Stream, caching: bool) -> Demand:
    """Means of a stream's requests.

    Args:
      caching: whether the engine finds the beginnings of prompts in its cache. All find what they share, but the first
        of groups that do not branch off from others.
    """
    isl, osl = stream.isl, stream.osl
    # At least one token of a prompt is computed: its output is the first token.
    cached = np.where((stream.group != ALONE) & caching, np.minimum(stream.shared, isl - 1.0), 0.0)
    roots = paths(stream.group, stream.parent, stream.base)[0][:, 0]
    cached[_first_of_groups(roots)] = 0.0
    prompt, steps = isl - cached, np.maximum(osl - 1.0, LEAST_STEPS)
    # Mean over all decode steps of the prompt and half of the output: long answers weigh by their steps.
    context = float(np.sum(steps * (isl + 0.5 * osl)) / np.sum(steps))
    classes = []
    if stream.kind is not None:
        # Each class has means of its own, as if it came alone.
        of_kinds = (stream.kind == kind for kind in range(int(np.max(stream.kind)) + 1))
        classes = [dataclasses.replace(part(stream, of_kind), kind=None) for of_kind in of_kinds]
    return Demand(
        prompt=float(np.mean(prompt)),
        cached=float(np.mean(cached)),
        # mean^2 / mean of squares = 1 / (1 + squared coefficient of variation).
        evenness=float(np.mean(prompt) ** 2 / np.mean(prompt**2)),
        output=float(np.mean(steps)) + 1.0,
        briefness=float(np.mean(steps) * np.mean(1.0 / steps)),
        context=context,
        held=context,
        output_evenness=float(np.mean(steps) ** 2 / np.mean(steps**2)),
        classes=tuple(demand(one, caching) for one in classes),
    )


def _first_of_groups(group: np.ndarray) -> np.ndarray:
    """Positions of the first request of every group."""
    numbers, first = np.unique(group, return_index=True)
    return first[numbers != ALONE]
