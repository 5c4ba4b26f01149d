"""How a group of devices lies on tiers of links, and what a byte and a hop cost there."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxroof.hardware import Link, Links, Protocol, Transport
from jaxroof.op import Op
from jaxroof.smooth import maximum, minimum
from jaxroof.struct import Scalar

CROSSING_DEVICES = 4.0
"""Group size that `Transport.crossing` is measured at."""


class Tier(NamedTuple):
    """One tier of links as a group of devices uses it. Scalars of shape ()."""

    devices: Scalar  # parts of the group that the tier joins; 1 where it is not used
    inner: Scalar  # devices in one such part
    outer: Scalar  # such tiers side by side in the group
    hops: Scalar  # from a device all the way around a ring, or along it, to the last
    hop_time: Scalar  # s
    byte_time: Scalar  # s per B that one device sends, at the datasheet and without losses
    peer_byte_time: Scalar  # s per B to one peer alone
    losses: Scalar  # 0 to 1, of the transport's
    transport: Transport | None
    reduces: Scalar


def tiers(links: Links, op: Op, losses: Scalar) -> tuple[Tier, ...]:
    """The tiers that exist, innermost first, as the group of `op` uses them.

    A tier reaches d / stride of the group's devices, at least one and at most all of them; the last one reaches
    all that are left. The parts need not be even: a group of 12 on domains of 8 is 8 x 1.5.

    Args:
      links: tiers of links.
      op: participants p and stride; None: 1.
      losses: share of the transports' losses that applies.

    Source: ours.
    """
    present = [link for link in (links.scale_up, links.scale_out, links.cluster) if link is not None]
    if not present:
        return ()
    group = op.participants
    stride = 1.0 if op.stride is None else op.stride
    reached = [jnp.clip(link.devices / stride, 1.0, group) for link in present[:-1]] + [group]
    inner, found = 1.0, []
    for link, reach in zip(present, reached, strict=True):
        outermost = maximum(reach, inner)
        found.append(_tier(link, outermost / inner, inner, group / outermost, losses))
        inner = outermost
    return tuple(found)


def protocol_time(protocol: Protocol, losses: Scalar, datasheet_time: Scalar) -> Scalar:
    """Time in s, shape (), of a message that takes `datasheet_time` at the link's bandwidth, hops left out.

    time = losses * fixed_time + datasheet_time * (1 + losses * (1 / share - 1))
    """
    return losses * protocol.fixed_time + datasheet_time * (1.0 + losses * (1.0 / protocol.share - 1.0))


def stream_time(tier: Tier, sent: Scalar) -> jax.Array:
    """Time in s, shape (), of `sent` B per device in a pipeline of neighbours, hops left out; 0 in an unused tier.

    The cheapest protocol for the size: low latency, medium or bulk. The result is concave in `sent`.

    Source: the three protocols LL, LL128 and Simple of NCCL (src/graph/tuning.cc), as straight lines.
    """
    datasheet = sent * tier.byte_time
    if tier.transport is None:
        return datasheet
    kinds = (tier.transport.low_latency, tier.transport.medium, tier.transport.bulk)
    fastest = minimum(*(protocol_time(kind, tier.losses, datasheet) for kind in kinds))
    return jnp.where(tier.devices > 1.0, fastest, 0.0)


def _tier(link: Link, devices: Scalar, inner: Scalar, outer: Scalar, losses: Scalar) -> Tier:
    hops, slowdown, peer_slowdown = LAYOUTS[link.topology](link, devices)
    byte_time = link.oversubscription / link.bandwidth
    if link.transport is not None:
        lost = _crossing(link.transport, devices * inner)
        byte_time = byte_time * (1.0 + losses * (lost - 1.0))
    return Tier(
        devices=devices,
        inner=inner,
        outer=outer,
        hops=hops,
        hop_time=link.latency,
        byte_time=byte_time * slowdown,
        peer_byte_time=byte_time * peer_slowdown,
        losses=losses,
        transport=link.transport,
        reduces=link.reduces,
    )


def _switched(link: Link, devices: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """Every device sends at its full rate, to one peer or to all."""
    return devices - 1.0, 1.0, 1.0


def _mesh(link: Link, devices: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """A group uses the links between its own devices only: n - 1 of d - 1; one peer gets one of them."""
    pairs = maximum(link.devices - 1.0, 1.0)
    return devices - 1.0, maximum(pairs / maximum(devices - 1.0, 1.0), 1.0), pairs


def _torus(link: Link, devices: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """A group is a block with sides as equal as can be, in which one ring per axis carries its part of the message.

    axes used a = clip(log2 n, 1, axes), side s = n^(1/a); hops a (s - 1), half of it where the block is the whole
    torus and rings close. A ring that does not close has one link in each direction, so it carries half.

    Source: Austin et al., How to Scale Your Model, Google DeepMind, 2025, section 3 (collectives on ICI).
    """
    used = jnp.clip(jnp.log2(maximum(devices, 2.0)), 1.0, maximum(link.axes, 1.0))
    side = maximum(devices, 1.0) ** (1.0 / used)
    closed = devices >= link.devices
    slowdown = link.axes / used * jnp.where(closed, 1.0, 2.0)
    return used * (side - 1.0) * jnp.where(closed, 0.5, 1.0), slowdown, 2.0 * link.axes


LAYOUTS = {"switched": _switched, "mesh": _mesh, "torus": _torus}
"""Topology -> hops, and slowdown against the device's full bandwidth of a whole group and of one peer."""


def _crossing(transport: Transport, group: Scalar) -> jax.Array:
    """Slowdown of a group that is larger than what reaches each other at full speed; 1 or more."""
    growth = 1.0 + transport.congestion * (group - CROSSING_DEVICES)
    return jnp.where(group > transport.peers, maximum(transport.crossing * maximum(growth, 0.0), 1.0), 1.0)
