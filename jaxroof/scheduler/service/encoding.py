"""Encoder workers of a service: engines that turn a request's images into vectors, before a router gets the request.

A request comes to these workers in place of a router. They take requests in the order in which they come, each the
images of one request at a time: the worker that is free first takes the next one, of several the first. It begins when
both are there, and is free again after the encoder's time. From then on the vectors are on their way for the time of a
transfer, which keeps no worker busy; when they have arrived, the request comes to the router. Its prompt has no
encoder's work. A request that is refused or rejected by an engine has been encoded before.

Source: Singh et al., arXiv:2501.05460 (EPD disaggregation); vllm/distributed/ec_transfer/ of vLLM, and SGLang's
`--encoder-only` servers, hand the vectors of images over in the same way.
"""

from typing import NamedTuple

from jaxroof.numerics.arrays import entry, jnp
from jaxroof.numerics.struct import Array
from jaxroof.scheduler.state import Clock


class Encoders(NamedTuple):
    """Workers that encode alone."""

    time: Array  # s of one request's images, of every worker, shape [workers]
    transfer: Array  # s that their vectors are on their way


class Encoding(NamedTuple):
    """Work of the encoders so far."""

    free: Array  # s from which on every worker is free, shape [workers]
    done: Array  # bool: whether a request's images have been given to one, shape [requests]


def begun_encoding(encoders: Encoders, requests: int) -> Encoding:
    """Workers that have had nothing to do."""
    return Encoding(jnp.zeros_like(encoders.time), jnp.zeros(requests, bool))


def encoded(encoders: Encoders, encoding: Encoding, request: Array, time: Clock) -> tuple[Encoding, Array, Clock]:
    """A request that comes for the first time goes to a worker.

    Args:
      time: at which it comes.

    Returns:
      The work of the encoders, whether the request has gone to one, and when it comes to the router.
    """
    goes = ~entry(encoding.done, request)
    worker = jnp.argmin(encoding.free).astype(jnp.int32)
    come = time.high + time.low
    ready = jnp.maximum(come, encoding.free[worker]) + encoders.time[worker]
    arrived = ready + encoders.transfer
    free = encoding.free.at[worker].set(jnp.where(goes, ready, encoding.free[worker]))
    place = jnp.where(goes, request, encoding.done.shape[0])
    done = encoding.done.at[place].set(True, mode="drop")
    return Encoding(free, done), goes, Clock(arrived, jnp.zeros_like(arrived))
