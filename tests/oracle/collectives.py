"""Seconds of a collective again: the fastest of the algorithms that run on the tiers of links that there are."""

import dataclasses
from typing import Any

import numpy as np


@dataclasses.dataclass
class Tier:
    """One tier of links as a group of devices uses it."""

    link: Any
    n: Any  # parts of the group that it joins
    below: Any  # devices in one part
    above: Any  # such tiers side by side
    hops: Any  # around a ring
    per_byte: Any  # s for a B that a device sends to all its peers
    per_byte_to_one: Any
    losses: Any
    crowding: Any  # slowdown in both, because devices share the way
    first: bool  # the innermost, where they may

    @property
    def used(self):
        return self.n > 1.0


def tiers(links, devices, stride, losses) -> list[Tier]:
    """The group laid on the tiers from the inside out: each holds what it can, the last one all that is left."""
    present = [link for link in (links.scale_up, links.scale_out, links.cluster) if link is not None]
    found, below = [], 1.0
    for i, link in enumerate(present):
        last = i == len(present) - 1
        held = devices if last else np.maximum(np.minimum(np.maximum(link.devices / stride, 1.0), devices), below)
        n = held / below
        hops, slow, slow_to_one = _layout(link, n)
        per_byte, crowding = link.oversubscription / link.bandwidth, 1.0
        if link.transport is not None:
            crowding = _crowding(link.transport, held, losses) if i == 0 else 1.0
        found.append(
            Tier(
                link,
                n,
                below,
                devices / held,
                hops,
                per_byte * slow * crowding,
                per_byte * slow_to_one * crowding,
                losses,
                crowding,
                i == 0,
            )
        )
        below = held
    return found


def _layout(link, n):
    """Hops around, and how much slower than its bandwidth a device sends to all of n and to one of them."""
    if link.topology == "switched":
        return n - 1.0, 1.0, 1.0
    if link.topology == "mesh":
        pairs = np.maximum(link.devices - 1.0, 1.0)
        return n - 1.0, np.maximum(pairs / np.maximum(n - 1.0, 1.0), 1.0), pairs
    axes = np.clip(np.log2(np.maximum(n, 2.0)), 1.0, np.maximum(link.axes, 1.0))
    side, whole = np.maximum(n, 1.0) ** (1.0 / axes), n >= link.devices
    return axes * (side - 1.0) * np.where(whole, 0.5, 1.0), link.axes / axes * np.where(whole, 1.0, 2.0), 2 * link.axes


def _crowding(transport, group, losses):
    levels = (group > transport.peers) * 1 + (group > 2.0 * transport.peers)
    return (1.0 + losses * (transport.crossing - 1.0)) ** levels


def _protocol(tier, name, ideal):
    """`ideal` s at the link's bandwidth, with the share of a protocol's losses that applies."""
    if tier.link.transport is None:
        return ideal
    protocol = getattr(tier.link.transport, name)
    return ideal + tier.losses * (protocol.fixed_time + ideal / protocol.share - ideal)


def _stream(tier, size):
    ideal = size * tier.per_byte
    if tier.link.transport is None:
        return ideal
    kinds = [_protocol(tier, name, ideal) for name in ("low_latency", "medium", "bulk")]
    return np.where(tier.used, np.minimum.reduce(np.broadcast_arrays(*kinds)), 0.0)


def _sent(tier, size, to_one, chunks):
    """Seconds of `size` B to peers of which each gets `to_one`: small buffers or chunks, "direct" or to one "peer"."""
    per_byte = tier.per_byte_to_one if chunks == "peer" else tier.per_byte
    transport, ideal = tier.link.transport, size * per_byte
    if transport is None:
        return np.where(tier.used, ideal, 0.0)
    if chunks == "direct" and tier.first:
        group, p = tier.n * tier.below, transport.peers
        flows = p * (group - p) / np.maximum(group - 1.0, 1.0) / transport.spread
        ideal = np.where(group > p, ideal + tier.losses * (flows * ideal - ideal), ideal)
        to_one = np.where(group > p, to_one * (tier.n - 1.0) * tier.crowding, to_one)
    small = ideal + tier.losses * (transport.low_latency.fixed_time + to_one / transport.peer_rate)
    return np.where(tier.used, np.minimum(small, _protocol(tier, chunks, ideal)), 0.0)


def _largest(times):
    return np.maximum.reduce(np.broadcast_arrays(*times))


def seconds(links, kind, size, devices, stride, losses, needed=None):
    """s of a collective of `size` B between `devices` devices that are `stride` apart."""
    used = tiers(links, devices, stride, losses)
    if not used:
        return 0.0 * size * devices
    ways = [way for way in _ways(kind, used, size) if way is not None]
    if needed is not None and len(used) > 1:
        ways.append(_forwarded(used, size, needed))
    return np.where(devices > 1.0, np.minimum.reduce(np.broadcast_arrays(*ways)), 0.0)


def _forwarded(used, size, needed):
    """Seconds of an all-to-all in which a token is sent once to a part, which hands it on to whoever needs it there."""
    whole = used[-1].n * used[-1].below
    crossing = [size] + [size * needed(whole / tier.below) for tier in used[1:]]
    sends = [_sent(t, (t.n - 1.0) / t.n * part, size / whole, "direct") for t, part in zip(used, crossing, strict=True)]
    return sum(np.where(t.used, 1.0 + np.log2(t.n), 0.0) * t.link.latency for t in used) + _largest(sends)


def _ways(kind, used, size) -> list:
    inner, *outer = used
    several = bool(outer)
    if kind in ("dispatch", "combine"):
        rounds = [1.0 if t.first else 1.0 + np.log2(t.n) for t in used]
        hop = sum(np.where(t.used, steps, 0.0) * t.link.latency for t, steps in zip(used, rounds, strict=True))
        leaving = [(t.n - 1.0) / t.n / t.above * size * t.per_byte for t in used]
        whole = [_protocol(t, kind, ideal) for t, ideal in zip(used, leaving, strict=True)]
        started = [_protocol(t, kind, 0.0 * ideal) for t, ideal in zip(used, leaving, strict=True)]
        moved = [time - start for time, start in zip(whole, started, strict=True)]
        return [hop + sum(np.where(t.used, s, 0.0) for t, s in zip(used, started, strict=True)) + _largest(moved)]
    if kind == "send_recv":
        return [_largest([np.where(t.used, 2.0 * t.link.latency, 0.0) + _sent(t, size, size, "peer") for t in used])]
    if kind == "all_to_all":
        hop = sum(np.where(t.used, 1.0 + np.log2(t.n), 0.0) * t.link.latency for t in used)
        whole = used[-1].n * used[-1].below
        leaving = [_sent(t, (t.n - 1.0) / t.n / t.above * size, size / whole, "direct") for t in used]
        staged = sum(_sent(t, (t.n - 1.0) / t.n * size, size / t.n, "direct") for t in used)
        return [hop + _largest(leaving), hop + staged if several else None]
    rounds = 2.0 if kind == "all_reduce" else 1.0
    streams = [_stream(t, (rounds * (t.n - 1.0) + _own(t, kind)) / t.n / t.below * size) for t in used]
    everyone = used[-1].n * used[-1].below
    passed = [t.n if t.first else np.where(t.above > 1.0, t.n, everyone) for t in used]
    through = [
        _stream(t, (rounds * (1.0 - 1.0 / n) + _own(t, kind) / t.n) / t.below * size)
        for t, n in zip(used, passed, strict=True)
    ]
    around = sum(rounds * t.hops * t.above * t.link.latency for t in used)
    inward = sum(rounds * t.hops * t.link.latency for t in used)
    if kind != "all_reduce":
        return [around + _largest(through), *_halves(used, size, streams, through, inward)]
    ways = [around + _largest(through)]
    depth = sum(2.0 * np.log2(t.n) * t.link.latency for t in outer)
    branches = [_stream(t, (2.0 if t.first else np.minimum(2.0, t.n / 2.0)) * size / t.below) for t in used]
    if several:
        ways.append(2.0 * inner.hops * inner.link.latency + depth + _largest(branches))
    if inner.link.topology == "switched":
        reduced = _protocol(inner, "switch", (1.0 + 1.0 / inner.n) * size * inner.per_byte)
        time = 2.0 * inner.link.latency + depth + _largest([reduced, *branches[1:]])
        ways.append(np.where((inner.link.reduces > 0.5) & inner.used, time, np.inf))
    if inner.link.topology != "torus":
        ways += _engine(inner, size)
    return ways


def _halves(used, size, streams, through, inward) -> list:
    """All-gathers and reduce-scatters other than by one ring: rings in rings, trees, the switch, and all at once."""
    inner, *outer = used
    ways, depth = [], sum(np.log2(t.n) * t.link.latency for t in outer)
    most = [_stream(t, (2.0 if t.first else np.minimum(2.0, t.n / 2.0)) * size / t.below) for t in used]
    trees = [np.minimum(*both) for both in zip(through, most, strict=True)]
    if outer:
        ways += [inward + sum(streams), inner.hops * inner.link.latency + depth + _largest(trees)]
    if inner.link.topology == "switched":
        copied = _protocol(inner, "switch", size * inner.per_byte)
        time = inner.link.latency + depth + _largest([copied, *streams[1:]])
        ways.append(np.where((inner.link.reduces > 0.5) & inner.used, time, np.inf))
    if inner.link.topology != "torus":
        # one of the two equal stages of the engines' second way
        ways.append(_engine(inner, size)[1] / 2.0)
    return ways


def _own(tier, kind):
    """Of a device's own part, what it moves as if over the link."""
    if kind not in ("all_gather", "reduce_scatter") or tier.link.transport is None:
        return 0.0
    return tier.losses * tier.link.transport.own_part


def _engine(inner, size) -> list:
    """All-reduces of serving engines, at once and in two stages: devices of one domain read each other's memory."""
    transport, n = inner.link.transport, inner.n
    barrier, alone, inflated = inner.link.latency, inner.above <= 1.0, 1.0
    if transport is not None:
        barrier = barrier + inner.losses * (transport.shot.fixed_time + (n - 1.0) * transport.signal_time)
        inflated = 1.0 + inner.losses * (1.0 / transport.shot.share - 1.0)
        alone = alone & (size <= transport.shot_limit) & (n <= transport.peers)
    once = barrier + (n - 1.0) * size * inner.per_byte * inflated
    twice = 2.0 * barrier + 2.0 * (n - 1.0) / n * size * inner.per_byte * inflated
    return [np.where(alone, once, np.inf), np.where(alone, twice, np.inf)]
