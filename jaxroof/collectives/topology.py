"""Layout of a group of devices on tiers of links, and the cost of a byte and of a hop there."""

from typing import NamedTuple

from jaxroof.fanout import Fanout, copies, device_copies
from jaxroof.hardware import Link, Links, Transport
from jaxroof.numerics.arrays import is_traced, jnp, stacked
from jaxroof.numerics.smooth import cheapest, cheapest_of, maximum
from jaxroof.numerics.struct import Array, Scalar
from jaxroof.op import Collective


class Tier(NamedTuple):
    """One tier of links as a group of devices uses it. Scalars of shape ()."""

    devices: Scalar  # parts of the group that the tier joins; 1 where it is not used
    inner: Scalar  # devices in one such part
    reached: Scalar  # devices in all of them
    outer: Scalar  # such tiers side by side in the group
    hops: Scalar  # from a device all the way around a ring, or along it, to the last
    hop_time: Scalar  # s
    byte_time: Scalar  # s per B that one device sends, without the protocols' losses; 0 in an unused tier
    peer_byte_time: Scalar  # s per B to one peer alone; 0 in an unused tier
    crowded: bool  # whether devices may share ways; static
    crowding: Scalar  # slowdown, in both of them, because devices share the way; 1 or more
    losses: Scalar  # 0 to 1, of the transport's; 0 in an unused tier
    transport: Transport | None
    reduces: Scalar
    lines: tuple[Array, Array] | None = None  # in a trace: fixed times in s and s per B of `STREAMS`, shapes [3]
    copied: Scalar = 1.0  # copies of a token over the tier, where nodes forward them, to those that devices need


def tiers(links: Links, op: Collective, losses: Scalar) -> tuple[Tier, ...]:
    """The tiers that exist, innermost first, as the group of `op` uses them.

    A tier reaches d / stride of the group's devices, at least one and at most all of them; the last one reaches
    all that are left. The parts need not be even: a group of 12 on domains of 8 is 8 x 1.5.

    Arithmetic is kept down to what an all-reduce needs: it is evaluated for millions of points.

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
    # Tensor parallelism has neighbours, other groups one device of each: with stride s a domain of d holds d / s of
    # them.
    stride = 1.0 if op.stride is None else op.stride
    inner, used_tiers = 1.0, list[Tier]()
    for link in present[:-1]:
        # Not rounded: a sweep varies the group's size continuously, and uneven parts are priced by their mean.
        reached = jnp.minimum(jnp.maximum(link.devices / stride, inner), group)
        used_tiers.append(_tier(link, inner, reached, group / reached, losses, crowded=not used_tiers))
        inner = reached
    used_tiers.append(_tier(present[-1], inner, group, 1.0, losses, crowded=not used_tiers))
    return tuple(used_tiers) if op.fanout is None else _forwarding(used_tiers, op.fanout, group)


def _forwarding(found: list[Tier], fanout: Fanout, group: Scalar) -> tuple[Tier, ...]:
    """The tiers with what of an exchange crosses each: copies to the parts that it joins, over copies to all devices.

    A router's limit of groups counts between nodes. Inside of them all devices are taken for equally likely: copies of
    popular experts spread the groups over them.
    """
    needed = device_copies(fanout, group)
    inner, *outer = found
    # Tokens that share a node are sent once over the network: the fewer nodes a token's experts lie on, the less it
    # carries.
    return (inner, *(tier._replace(copied=copies(fanout, group / tier.inner) / needed) for tier in outer))


def byte_time(tier: Tier, protocol: str) -> Scalar:
    """s per B, shape (), by a protocol of the tier's transport: byte_time * (1 - losses + losses / share)."""
    if tier.transport is None:
        return tier.byte_time
    share = getattr(tier.transport, protocol).share
    return _lossy(tier.byte_time, tier.losses, share)


def _lossy(byte_time: Scalar, losses: Scalar, share: Scalar) -> Scalar:
    """s per B between the datasheet (losses 0) and the measured share (losses 1), linear in time per byte."""
    return (1.0 - losses) * byte_time + losses * byte_time / share


def stream_time(tier: Tier, sent: Scalar) -> Scalar:
    """Time in s, shape (), of `sent` B per device in a pipeline of neighbours, hops left out; 0 in an unused tier.

    The cheapest protocol for the size, each losses * fixed_time + sent * `byte_time`: low latency, medium or bulk.
    The result is concave in `sent`.

    Source: the three protocols LL, LL128 and Simple of NCCL (src/graph/tuning.cc), as straight lines.
    """
    if tier.transport is None:
        return sent * tier.byte_time
    # LL, LL128 and Simple as three lines: the lower envelope is concave, and its kinks are NCCL's switching points.
    if tier.lines is not None:
        return cheapest_of(tier.lines[0] + jnp.asarray(sent)[None] * tier.lines[1])
    return cheapest(*(fixed + sent * per_byte for fixed, per_byte in _lines(tier)))


def _lines(tier: Tier) -> list[tuple[Scalar, Scalar]]:
    """Fixed time in s and s per B of the three protocols of a pipeline."""
    return [(tier.losses * getattr(tier.transport, name).fixed_time, byte_time(tier, name)) for name in STREAMS]


STREAMS = "low_latency", "medium", "bulk"
"""Protocols of a pipeline, by their names in `Transport`."""


def _tier(link: Link, inner: Scalar, reached: Scalar, outer: Scalar, losses: Scalar, crowded: bool) -> Tier:
    """The tier; its devices share ways where it is `crowded`, which only the inside of a server is."""
    devices = reached / inner
    used = devices > 1.0
    hops, slowdown, peer_slowdown = LAYOUTS[link.topology](link, devices)
    crowding = _crowding(link.transport, reached, losses) if crowded and link.transport is not None else 1.0
    # Contention and oversubscription slow bytes, not hops: the alpha term stays the latency.
    byte_time = jnp.where(used, link.oversubscription / link.bandwidth * crowding, 0.0)
    tier = Tier(
        devices=devices,
        inner=inner,
        reached=reached,
        outer=outer,
        hops=hops,
        hop_time=link.latency,
        byte_time=byte_time * slowdown,
        peer_byte_time=byte_time * peer_slowdown,
        crowded=crowded,
        crowding=crowding,
        losses=jnp.where(used, losses, 0.0),
        transport=link.transport,
        reduces=link.reduces,
    )
    if tier.transport is None or not is_traced():
        return tier
    # The lines of all protocols as arrays: a program has one of each, however many algorithms read them.
    protocols = [getattr(tier.transport, name) for name in STREAMS]
    fixed, share = (stacked([getattr(one, name) for one in protocols], axis=0) for name in ("fixed_time", "share"))
    own_losses, own_byte_time = (jnp.asarray(number)[None] for number in (tier.losses, tier.byte_time))
    return tier._replace(lines=(own_losses * fixed, _lossy(own_byte_time, own_losses, share)))


def _switched(link: Link, devices: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """Every device sends at its full rate, to one peer or to all."""
    # Crossbar: non-blocking for any pattern.
    return devices - 1.0, 1.0, 1.0


def _mesh(link: Link, devices: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """A group uses the links between its own devices only: n - 1 of d - 1; one peer gets one of them."""
    # Point-to-point links of full mesh: bandwidth is divided over d - 1 peers, and a small group leaves most of it
    # unused.
    pairs = maximum(link.devices - 1.0, 1.0)
    return devices - 1.0, maximum(pairs / maximum(devices - 1.0, 1.0), 1.0), pairs


def _torus(link: Link, devices: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """A group is a block with sides as equal as can be, in which one ring per axis carries its part of the message.

    axes used a = clip(log2 n, 1, axes), side s = n^(1/a); hops a (s - 1), half of it where the block is the whole
    torus and rings close. A ring that does not close has one link in each direction, so it carries half.

    Source: Austin et al., How to Scale Your Model, Google DeepMind, 2025, section 3 (collectives on ICI).
    """
    used = jnp.clip(jnp.log2(maximum(devices, 2.0)), 1.0, maximum(link.axes, 1.0))
    # A group of n devices as a cube: equal sides minimise the hops.
    side = maximum(devices, 1.0) ** (1.0 / used)
    # Wrap-around links exist only where the group spans the whole torus: rings close, and both directions carry data.
    closed = devices >= link.devices
    slowdown = link.axes / used * jnp.where(closed, 1.0, 2.0)
    # Where rings close, the farthest device is half of the way around.
    return used * (side - 1.0) * jnp.where(closed, 0.5, 1.0), slowdown, 2.0 * link.axes


LAYOUTS = {"switched": _switched, "mesh": _mesh, "torus": _torus}
"""Topology -> hops, and slowdown against the device's full bandwidth of a whole group and of one peer."""


def _crowding(transport: Transport, group: Scalar, losses: Scalar) -> Array:
    """Slowdown of a group that is larger than what reaches each other at full speed; 1 or more.

    PCIe servers have two levels of ways that devices share: out of a pair, and out of a socket's two pairs.
    """
    shared = 1.0 + losses * (transport.crossing - 1.0)
    out_of_pair = jnp.where(group > transport.peers, shared, 1.0)
    return jnp.where(group > 2.0 * transport.peers, shared, 1.0) * out_of_pair
