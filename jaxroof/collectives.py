"""Time of a collective over the links between devices: a latency per hop plus bytes over bandwidth."""

import jax
import jax.numpy as jnp

from jaxroof.hardware import Links
from jaxroof.struct import Scalar


def all_reduce_time(links: Links, message_bytes: Scalar, devices: Scalar, share: Scalar) -> jax.Array:
    """Time in s of a ring all-reduce, shape (), 0 on one device.

    time = 2 (p - 1) latency + 2 (p - 1) / p * message / (bandwidth * share)

    A ring that is larger than the scale-up domain runs at the speed of the scale-out link, the slowest
    that it crosses. Devices without any link between them report 0: `legality` refuses them.

    Args:
      links: tiers of links, bandwidth per direction and device.
      message_bytes: B of the buffer that every device holds.
      devices: p, at least 1.
      share: share of the link's bandwidth that large messages reach.

    Source: Thakur, Rabenseifner & Gropp, IJHPCA 19(1), 2005, section 4.5 (ring), reduction time left out.
    """
    tier = ring_tier(links, devices)
    if tier is None:
        return jnp.zeros(())
    bandwidth, latency = tier
    hops = 2.0 * (devices - 1.0)
    return hops * (latency + message_bytes / (devices * bandwidth * share))


def ring_tier(links: Links, devices: Scalar) -> tuple[Scalar, Scalar] | None:
    """Bandwidth in B/s and latency in s of the slowest link that a ring of `devices` crosses; None without links."""
    inner, outer = links.scale_up, links.scale_out
    if inner is None and outer is None:
        return None
    if inner is None or outer is None:
        only = inner if outer is None else outer
        return only.bandwidth, only.latency
    crosses = devices > inner.devices
    return (
        jnp.where(crosses, outer.bandwidth, inner.bandwidth),
        jnp.where(crosses, outer.latency, inner.latency),
    )
