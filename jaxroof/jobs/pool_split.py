"""Latency of a split of devices into replicas that prefill and replicas that decode, at a load of requests."""

from jaxroof.arrays import jnp
from jaxroof.smooth import maximum, minimum
from jaxroof.struct import Array, Scalar, struct

BUSIEST = 0.999
"""Utilisation at which waiting is still told: a queue that is busier has no mean waiting time."""


def waiting_time(rate: Scalar, service: Scalar) -> Array:
    """Mean time in s that requests wait which arrive at random and are served one after the other, shape ().

    rate service^2 / (2 (1 - rate service)); a queue that is fuller than `BUSIEST` is told as if it were that full, so
    that value and gradient stay finite: `rate` against the pool's own says whether it can keep up.

    Args:
      rate: requests/s of one server.
      service: s of each.

    Source: the M/D/1 queue; Zhong et al., arXiv:2401.09670 (DistServe), equation 1.
    """
    busy = jnp.minimum(rate * service, BUSIEST)
    return service * busy / (2.0 * (1.0 - busy))


def decode_batch_at(rate: Scalar, batches: Array, step_times: Array, steps: Scalar) -> Array:
    """Sequences that one decode replica has at once when `rate` requests/s arrive, shape ().

    Little's law: batch = rate * steps * step_time(batch), solved on the curve of measured or modelled step times;
    between its points both are linear. Below the first point and beyond the last it is the point's.

    Args:
      rate: requests/s of the replica.
      batches: sequences at the points of the curve, increasing, shape [points].
      step_times: s of a decode step at each, shape [points].
      steps: decode steps of each request.

    Source: Little, Operations Research 9(3), 1961.
    """
    return jnp.interp(rate, batches / (steps * step_times), batches)


@struct
class Curve:
    """Latencies of one replica of each pool alone, over the sequences that the decode replica has at once."""

    ttft: Scalar  # s without waiting
    service: Scalar  # s of a prefill replica per prompt
    transfer: Scalar  # s that one request's cache is on its way
    batches: Array  # sequences, increasing, shape [points]
    tpots: Array  # s per output token at each, shape [points]
    tokens: Scalar  # output tokens of each request after the first


def split_latency(curve: Curve, prefill: Scalar, decode: Scalar, rate: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """TTFT and TPOT in s, and use, shapes (), of `prefill` and `decode` replicas at `rate` requests/s.

    Prompts wait for one of the prefill replicas, each with its share of the load; decode replicas have as many
    sequences at once as their share of it leaves under way. `use` is the load over what the slower pool, or the links
    between them, can do at most: from 1 on, latencies are those of the edge and mean nothing.
    """
    most = (curve.batches / (curve.tokens * curve.tpots))[-1]
    use = maximum(
        rate * curve.service / prefill, rate / (decode * most), rate * curve.transfer / minimum(prefill, decode)
    )
    batch = decode_batch_at(rate / decode, curve.batches, curve.tpots, curve.tokens)
    tpot = jnp.interp(batch, curve.batches, curve.tpots)
    return curve.ttft + waiting_time(rate / prefill, curve.service), tpot, use
