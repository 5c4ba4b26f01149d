"""The requests that a simulated deployment is given: of a trace, drawn from distributions, or sent by clients."""

import dataclasses
import math
from typing import Any

import numpy as np

from hwspaces import quantity
from hwspaces.quantities.leaves import declared_quantity
from hwspaces.quantities.units import is_zero
from jaxroof.batch import Encode, Policy, Traffic
from jaxroof.jobs.serve import Objective
from jaxroof.numerics.struct import given
from sweeps.ask.leaves import known_leaf
from sweeps.ask.spaces import specification
from sweeps.data.labels import number
from sweeps.run.simulated.classes import objective_of
from sweeps.run.simulated.spec import ServeSpec
from workloads import model
from workloads.models.images import image_sizes, prompt_images
from workloads.streams.classes import RequestClass, classes_of, mixed, together
from workloads.streams.sessions import parse_sessions
from workloads.streams.stream import LARGEST_TOKENS, Stream, part, sessions_of, span_text, traffic
from workloads.streams.streams import first, generated, mean_rate, with_rate
from workloads.streams.tree import ALONE
from workloads.traces import read_trace


@dataclasses.dataclass(frozen=True)
class Images:
    """Images of one request."""

    sizes: tuple[tuple[int, int], ...]  # pixels
    count: int  # of every size
    encode: Encode  # all of them together
    language: float  # tokens that they take in the prompt

    @property
    def text(self) -> str:
        """They in words: "2 images of 1036x1036 and 640x480 each"."""
        number, sizes = self.count * len(self.sizes), [f"{width}x{height}" for width, height in self.sizes]
        words = sizes[0] if len(sizes) == 1 else f"{', '.join(sizes[:-1])} and {sizes[-1]}"
        return f"{number:,} image{'s' * (number > 1)} of {words}"

    def record(self) -> dict[str, Any]:
        """They as plain data."""
        sizes, encode = [list(size) for size in self.sizes], self.encode
        encoder = {"encoder_tokens": encode.tokens, "encoder_inputs": encode.sequences}
        return {"sizes": sizes, "count": self.count, **encoder, "prompt_tokens": self.language}

    def added(self, stream: Stream) -> Stream:
        """The stream with these images in every prompt, behind what prompts share.

        Raises:
          ValueError: one line, for prompts that are too long to be.
        """
        # Tokens of images are added to those of the prompt's text.
        isl = stream.isl + self.language
        if np.max(isl) > LARGEST_TOKENS:
            raise ValueError(
                f"image: {self.text} make prompts of {np.max(isl):,.0f} tokens; at most {LARGEST_TOKENS:,} are possible"
            )
        notes = stream.notes
        # Prefix caching works on text tokens of groups of requests, which come before the images.
        if (stream.group != ALONE).any():
            notes = (*notes, "images stand behind what prompts share: the prefix cache has none of them")
        return dataclasses.replace(stream, isl=isl, source=f"{stream.source}; {self.text}", notes=notes)


def images_of(asked: ServeSpec) -> Images | None:
    """The images of every request; None where they are text.

    Raises:
      ValueError: one line: a size or number that cannot be, a model that sees no images, turns of conversations.
    """
    if asked.image is None:
        if asked.images is not None:
            raise ValueError(f"images = {asked.images} counts images of image = WIDTHxHEIGHT, which is missing")
        return None
    sizes = image_sizes(str(asked.image))
    # Later turns repeat the earlier prompt; whether images in it are cached is not modelled.
    if asked.sessions is not None:
        raise ValueError(
            f"image = {asked.image!r} cannot be given with sessions: turns begin with earlier ones, whose images are "
            "not known to be kept"
        )
    count = 1 if asked.images is None else int(declared_quantity(asked.images, known_leaf("workload.images"), "images"))
    entry = model(asked.model, weights=asked.weights)
    if entry.images is None:
        raise ValueError(f"image = {asked.image!r}, but {entry.name} sees no images")
    # The encoder and the language model see different numbers of tokens per image.
    tokens = prompt_images(entry.images, sizes, count)
    encode = Encode(sequences=tokens.inputs, tokens=float(round(tokens.encoder)))
    return Images(sizes, count, encode, float(round(tokens.language)))


REQUESTS = 1000
"""Requests that are drawn where neither their number nor a duration is given."""

OF_TRACES = ("format", "sort", "drop", "columns", "time_unit", "trace_block_tokens")
OF_DISTRIBUTIONS = ("arrivals", "isl", "osl", "duration", "prefixes", "sessions", "traffic")
"""Keys that go with a trace, or without one."""

OF_ONE_CLASS = ("isl", "osl", "prefixes", "sessions")
"""Keys that a file of classes takes the place of."""

MOST_CLIENTS = 100_000
"""Clients of a closed loop: the state of a simulation has a place for each."""


@dataclasses.dataclass(frozen=True)
class Load:
    """Requests, and who sends them."""

    stream: Stream
    clients: int | None = None  # of a closed loop; None: an open one
    think: float = 0.0  # s
    classes: tuple[RequestClass, ...] = ()  # of the stream's requests
    images: Images | None = None  # of every request, whose tokens the stream's prompts have; None: they are text

    @property
    def text(self) -> str:
        """It in words: "1,000 requests at 8 per second of 1,024 + 256 tokens"."""
        lengths = " + ".join(number(float(np.mean(tokens)), 4) for tokens in (self.stream.isl, self.stream.osl))
        count = f"{len(self.stream):,} request{'s' * (len(self.stream) > 1)}"
        # With equal lengths the mean is each request's length.
        even = np.ptp(self.stream.isl) == 0.0 and np.ptp(self.stream.osl) == 0.0
        of = f"of {lengths} tokens{'' if even else ' on average'}"
        if self.classes:
            of += f" ({', '.join(f'{100 * one.share:.3g} % {one.name}' for one in self.classes)})"
        of += "" if self.images is None else f" with {self.images.text}"
        if self.clients is not None:
            each = "answer" if self.stream.after is None else "conversation"
            think = f", {span_text(self.think)} after each {each}" if self.think else ""
            return f"{count} {of} from {self.clients:,} client{'s' * (self.clients > 1)}{think}"
        rate = mean_rate(self.stream)
        # All requests at time 0 have an infinite rate.
        if not math.isfinite(rate):
            return f"{count} {of}{', all at once' if len(self.stream) > 1 else ''}"
        return f"{count} at {number(rate)} per second {of}"

    @property
    def traffic(self) -> Traffic:
        """It as arrays for the scheduler."""
        encode = None if self.images is None else self.images.encode
        return traffic(self.stream, clients=self.clients, think=self.think, encode=encode)

    def objective(self, common: Objective) -> Objective:
        """Limits of every request: those of its class, or the common ones."""
        return objective_of(self.stream.kind, self.classes, common)

    def replica(self, replicas: int) -> "Load":
        """Load of one of `replicas`: every `replicas`-th request, and an equal part of the clients.

        Requests that wait for an answer stay together: every `replicas`-th conversation.

        Raises:
          ValueError: one line, where the clients cannot be shared evenly.
        """
        if replicas == 1:
            return self
        clients = self.clients
        if clients is not None:
            # Every replica needs the same number of clients to be represented by one of them.
            if clients % replicas:
                raise ValueError(f"concurrency = {clients} must be a multiple of the {replicas} replicas (dp)")
            clients //= replicas
        chosen: Any = slice(None, None, replicas)
        if self.stream.after is not None:
            _, conversation = np.unique(sessions_of(self.stream.after), return_inverse=True)
            chosen = conversation % replicas == 0
        return dataclasses.replace(self, stream=part(self.stream, chosen), clients=clients)


def load(asked: ServeSpec) -> Load:
    """The load that is asked for.

    Args:
      asked: of its model is read only what an image is to it, where there are images.

    Raises:
      ValueError: one line that names the key or the file's row, the value and what is allowed.
    """
    _check_together(asked)
    images, text_load = images_of(asked), _text_load(asked)
    return (
        text_load
        if images is None
        else dataclasses.replace(text_load, stream=images.added(text_load.stream), images=images)
    )


def seed_of(asked: ServeSpec) -> int:
    """The seed of all that is drawn; ValueError, one line, where it is none."""
    return _whole("seed", asked.seed, least=0)


def _text_load(asked: ServeSpec) -> Load:
    """The load without its images."""
    seed = seed_of(asked)
    requests = None if asked.requests is None else _whole("requests", asked.requests)
    clients = None if asked.concurrency is None else _whole("concurrency", asked.concurrency)
    if clients is not None and clients > MOST_CLIENTS:
        raise ValueError(f"concurrency = {clients:,} must be at most {MOST_CLIENTS:,}")
    think = declared_quantity(asked.think, known_leaf("workload.think"), "think")
    rate = None if asked.rate is None else quantity(asked.rate, "1", "rate")
    # A trace has lengths and times of its own; only rate, number and prefix hits may change it.
    if asked.trace is not None:
        blocks = None if asked.trace_block_tokens is None else _whole("trace_block_tokens", asked.trace_block_tokens)
        words: dict[str, Any] = {"columns": asked.columns, "time_unit": asked.time_unit, "block_tokens": blocks}
        words |= {"sort": asked.sort, "drop": asked.drop, "seed": seed}
        stream = read_trace(asked.trace, asked.format or "auto", **words)
        stream = stream if requests is None else first(stream, requests)
        return Load(_found(stream if rate is None else with_rate(stream, rate), asked.hit_rate), clients, think)
    duration = None if asked.duration is None else quantity(asked.duration, "s", "duration")
    classes = () if asked.traffic is None else classes_of(str(specification(asked.traffic)))
    if classes and classes[0].arrivals is not None:
        return _of_own_times(asked, classes, requests, duration, rate)
    # In a closed loop answers decide when requests come: all of them are ready from the start.
    arrivals = asked.arrivals if clients is None else "once"
    if arrivals is None and rate is None:
        raise ValueError(
            f"the load is missing: give rate, arrivals or concurrency, or a rate of every class in {asked.traffic}"
        )
    arrivals = given(rate, "rate of the load") if arrivals is None else arrivals
    # Arrivals in stages have durations of their own, and need no number of requests.
    if requests is None and duration is None and not str(arrivals).strip().lower().startswith("stages"):
        requests = REQUESTS
    counts: dict[str, Any] = {"requests": requests, "duration": duration, "seed": seed}
    if classes:
        several = mixed(arrivals, classes, **counts, name=str(asked.traffic))
        return Load(_found(several, asked.hit_rate), clients, think, classes)
    sessions = parse_sessions(asked.sessions)
    if sessions is not None and clients is not None:
        # A client has an answer before it sends the next turn.
        if sessions.wait is False:
            raise ValueError(f"sessions = {asked.sessions}: wait = 0 cannot be given with concurrency: clients wait")
        sessions = dataclasses.replace(sessions, wait=True)
    shared: dict[str, Any] = {"prefixes": asked.prefixes, "sessions": sessions}
    if asked.isl is None or asked.osl is None:
        raise ValueError("isl and osl are missing: the tokens of a request; or give a trace")
    stream = generated(arrivals, asked.isl, asked.osl, **counts, **shared)
    return Load(_found(stream, asked.hit_rate), clients, think)


def _of_own_times(
    asked: ServeSpec,
    classes: tuple[RequestClass, ...],
    requests: int | None,
    duration: float | None,
    rate: float | None,
) -> Load:
    """The load of classes each of which says when its requests come; a rate scales their times."""
    for key in ("arrivals", "concurrency"):
        if getattr(asked, key) is not None:
            raise ValueError(f"{key} cannot be given: {asked.traffic} says when requests of every class come")
    ends = all(one.arrivals is not None and one.arrivals.kind == "stages" for one in classes)
    if requests is None and duration is None and not ends:
        requests = REQUESTS
    stream = together(classes, requests=requests, duration=duration, seed=seed_of(asked), name=str(asked.traffic))
    # Shares are those of the requests that are there: rates may change over time.
    shares = np.bincount(given(stream.kind, "classes of the requests"), minlength=len(classes)) / len(stream)
    classes = tuple(dataclasses.replace(one, share=float(share)) for one, share in zip(classes, shares, strict=True))
    return Load(_found(stream if rate is None else with_rate(stream, rate), asked.hit_rate), classes=classes)


def _found(stream: Stream, hit_rate: Any) -> Stream:
    """The stream with a share of every prompt in the prefix cache: all prompts begin alike.

    Raises:
      ValueError: one line, for a share that cannot be, and for prompts of which is known what they share.
    """
    if hit_rate is None:
        return stream
    share = declared_quantity(hit_rate, known_leaf("workload.hit_rate"), "hit_rate")
    # Traces and prefixes state what requests share, which a hit rate would contradict.
    if (stream.group != ALONE).any():
        raise ValueError(f"hit_rate = {hit_rate} cannot be given: the requests say themselves what they share")
    # Whole tokens, rounded down.
    shared = np.floor(share * stream.isl)
    note = f"{100 * share:g} % of every prompt is in the prefix cache, as if all began alike"
    # Group 0 for all requests: they begin alike.
    return dataclasses.replace(
        stream, group=np.zeros(len(stream), stream.group.dtype), shared=shared, notes=(*stream.notes, note)
    )


def require_prefix_cache(hit_rate: Any, policy: Policy) -> None:
    """ValueError, one line, for a share of prompts in a prefix cache that is switched off."""
    if hit_rate is not None and not policy.prefix_caching:
        raise ValueError(f"hit_rate = {hit_rate} has no effect without a prefix cache: policy prefix_caching=0")


def _check_together(asked: ServeSpec) -> None:
    """ValueError, one line, for keys that contradict one another or that are missing."""
    # Keys of the other kind of load are refused, rather than ignored.
    for key in OF_TRACES if asked.trace is None else OF_DISTRIBUTIONS:
        if getattr(asked, key):
            why = "it needs a trace" if asked.trace is None else f"{asked.trace} says what requests are"
            raise ValueError(f"{key} cannot be given: {why}")
    for key in OF_ONE_CLASS if asked.traffic is not None else ():
        if getattr(asked, key):
            raise ValueError(f"{key} cannot be given: {asked.traffic} says what requests are")
    # Exactly one key may say when requests come.
    ways = [key for key in ("rate", "arrivals", "concurrency") if getattr(asked, key) is not None]
    if len(ways) > 1:
        raise ValueError(f"{ways[0]} and {ways[1]} both say when requests come: give one")
    if asked.trace is None:
        if not ways and asked.traffic is None:
            raise ValueError("the load is missing: give trace, rate, arrivals or concurrency")
        for key in ("isl", "osl") if asked.traffic is None else ():
            if getattr(asked, key) is None:
                raise ValueError(f"{key} is missing: the tokens of a request; or give a trace")
    if asked.concurrency is None and not is_zero(asked.think, "s"):
        raise ValueError(f"think = {asked.think}: only the clients of a concurrency wait before they ask again")
    if asked.concurrency is not None and asked.duration is not None:
        raise ValueError(
            "duration cannot be given with concurrency, whose requests come when others end: give requests"
        )


def _whole(key: str, value: Any, least: int = 1) -> int:
    """A whole number of at least `least`."""
    try:
        count = float(value)
    except (TypeError, ValueError):
        count = math.nan
    # NaN fails the first comparison; the upper limit is that of a 64-bit integer.
    if not (least <= count < 2**63 and count == int(count)):
        raise ValueError(f"{key} = {value} must be a whole number of at least {least}")
    return int(count)
