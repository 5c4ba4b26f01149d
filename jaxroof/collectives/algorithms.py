"""Time of each collective algorithm on the tiers of links that a group uses; sizes in bytes, times in seconds.

In all formulas tier i joins n_i parts, S_i = S / (n_1 ... n_(i-1)) is what one device holds of the message there,
hop_i its latency and stream_i(b) the time of b bytes per device in a pipeline (`topology.stream_time`).
"""

from collections.abc import Sequence

from jaxroof.collectives.topology import Tier, byte_time, stream_time
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.smooth import cheapest, maximum
from jaxroof.numerics.struct import Array, Scalar

UNAVAILABLE = 1e6
"""s that an algorithm reports where it cannot run, so that it is never the cheapest and nothing becomes infinite."""

Tiers = tuple[Tier, ...]


def ring(tiers: Tiers, size: Scalar, passes: float) -> Array:
    """One ring through all devices, `passes` times around: 2 for an all-reduce, 1 for gather, scatter, broadcast.

    time = passes * sum_i (n_i - 1) n_(i+1) ... hop_i + max_i stream_i(passes s_i)

    s_i is (p - 1) / p S_i of all p devices in the outermost tier in use, where the ring closes: as many rings as a part
    of it has devices pass through it, each with its share of the message. Inside, where the rings leave, it is
    (n_i - 1) / n_i S_i.

    A gather or scatter alone moves own_part of S_i / n_i more in tier i, where losses apply: the device's own part.
    All tiers carry their part of the stream at once, so the slowest counts; each hop counts.

    Source: Thakur, Rabenseifner & Gropp, IJHPCA 19(1), 2005, section 4.5; the hops over several nodes as in NCCL's
    tuning model (src/graph/tuning.cc).
    """
    # Alpha term: a ring through all devices pays every hop once per pass, those of inner tiers as often as there are
    # outer parts.
    hops = passes * sum(tier.hops * tier.hop_time * tier.outer for tier in tiers)
    # Beta term: a pipeline is as fast as its slowest tier. An all-reduce moves 2 (p - 1) / p S per device, which is
    # optimal.
    return hops + maximum(*_streams(tiers, [_closing_bytes(tier, size) for tier in tiers], size, passes))


def chain(tiers: Tiers, size: Scalar) -> Array:
    """Broadcast from neighbour to neighbour in a pipeline.

    time = sum_i (n_i - 1) n_(i+1) ... hop_i + max_i stream_i(S_i)

    Source: Thakur, Rabenseifner & Gropp, section 4.2, with a pipelined chain in place of scatter and ring.
    """
    hops = sum(tier.hops * tier.hop_time * tier.outer for tier in tiers)
    # Pipelined in chunks: each device passes the whole message on once, and only the first chunk waits for all hops.
    return hops + maximum(*(stream_time(tier, size / tier.inner) for tier in tiers))


def hierarchical(tiers: Tiers, size: Scalar, passes: float) -> Scalar:
    """Rings inside each tier, one after the other: scatter inwards out, reduce at the top, gather back.

    time = sum_i (passes (n_i - 1) hop_i + stream_i(passes (n_i - 1) / n_i S_i))

    Source: Jia et al., arXiv:1807.11205, section 3.3 (hierarchical all-reduce).
    """
    # Latencies of a few short rings in place of one through all devices: the sum of ring sizes, not their product.
    hops = passes * sum(tier.hops * tier.hop_time for tier in tiers)
    # Stages follow one another, so their times add; each outer stage has only its share S_i of the message.
    return hops + sum(_streams(tiers, [_ring_bytes(tier, size) for tier in tiers], size, passes))


def tree(tiers: Tiers, size: Scalar, passes: float) -> Array:
    """Two complementary binary trees over the parts of the outer tiers, a chain inside the innermost.

    time = passes * ((n_1 - 1) hop_1 + sum_(i>1) log2(n_i) hop_i) + max(stream_1(passes S), stream_i(w_i S_i))

    w_i = min(passes, n_i / 2). In an all-reduce a part passes on the whole message twice where it has a parent and two
    children in one tree; of two parts each has one child in one tree and a parent in the other, and passes on half.

    Source: Sanders, Speck & Traff, Parallel Computing 35(12), 2009 (two trees use the full bandwidth); chains inside
    a node as NCCL builds them.
    """
    inner, *outer = tiers
    # Depth of a binary tree: latency grows with the logarithm, which wins for short messages over many nodes.
    hops = passes * (inner.hops * inner.hop_time + sum(_depth(tier) * tier.hop_time for tier in outer))
    # Inside a node the whole message passes a chain; between nodes two complementary trees use both directions.
    return hops + maximum(stream_time(inner, passes * size), *_branches(outer, size, passes))


def halving_doubling(tiers: Tiers, size: Scalar, passes: float) -> Scalar:
    """Recursive halving, doubling, or both: partners at distance 1, 2, 4, ...

    time = sum_i (passes log2(n_i) hop_i + stream_i(passes (n_i - 1) / n_i S_i))

    Source: Thakur, Rabenseifner & Gropp, IJHPCA 19(1), 2005, sections 4.1 and 4.5 (Rabenseifner's algorithm).
    """
    # Partners at distances 1, 2, 4, ...: log2 n messages in place of the ring's n - 1, with the same bytes.
    hops = passes * sum(_depth(tier) * tier.hop_time for tier in tiers)
    return hops + sum(_streams(tiers, [_ring_bytes(tier, size) for tier in tiers], size, passes))


def aggregated_trees(tiers: Tiers, size: Scalar) -> Array:
    """All-gather or reduce-scatter along binary trees over the parts of the outer tiers, a chain inside the innermost.

    time = (n_1 - 1) hop_1 + sum_(i>1) log2(n_i) hop_i + max_i stream_i(min(s_i, w_i S_i)),  s_i as in `ring`

    w_i S_i is what the trees of an all-reduce move (`tree`): fewer over parts of uneven sizes.

    Source: PAT (parallel aggregated trees) of NCCL 2.23, src/graph/tuning.cc: as many bytes as a ring, a logarithm of
    its hops.
    """
    inner, *outer = tiers
    hops = inner.hops * inner.hop_time + sum(_depth(tier) * tier.hop_time for tier in outer)
    parts = (_closing_bytes(tier, size) + _own_bytes(tier, size) for tier in tiers)
    # Devices need no more than a ring's bytes; where parts are uneven, trees carry less.
    most = (2.0 * size, *(_tree_bytes(tier, size, 2.0) for tier in outer))
    return hops + maximum(*map(stream_time, tiers, map(jnp.minimum, parts, most)))


def direct_exchange(tiers: Tiers, size: Scalar) -> Array:
    """All-gather or reduce-scatter in which every device reads its peers' parts at once; one domain, to `shot_limit` B.

    time = hop + fixed + (n - 1) signal + (n - 1) / n S / bandwidth

    It is one of the two stages of `two_shot`, with that kernel's fixed time and rate.

    Source: NVIDIA/nccl, src/device/symmetric (all_gather.cuh, reduce_scatter.cuh); both stages of vllm-project/vllm,
    csrc/custom_all_reduce.cuh (cross_device_reduce_2stage).
    """
    inner, *_ = tiers
    # Direct reads over a switch: no ring, one hop, all peers at once; one synchronisation per stage.
    return _shot(tiers, size, _stage(inner) + _ring_bytes(inner, size) * byte_time(inner, "shot"))


def multicast(tiers: Tiers, size: Scalar) -> Array:
    """All-gather by the innermost tier's switch, which copies, or reduce-scatter, where it adds; trees across others.

    time = hop_1 + sum_(i>1) log2(n_i) hop_i + max(fixed + S / bandwidth_1, stream_i((n_i - 1) / n_i S_i))

    A device gets, or sends, the whole message with its own part in it. Only where the link's switch reduces.

    Source: NVLS of NCCL (all_gather.h, reduce_scatter.h of src/device).
    """
    # One multicast store reaches all peers: latency independent of their number.
    inner, *outer = tiers
    hops = inner.hop_time + sum(_depth(tier) * tier.hop_time for tier in outer)
    across = _streams(tuple(outer), [_ring_bytes(tier, size) for tier in outer], size, 1.0)
    # In-network copies and sums need a switch that can do them.
    possible = (inner.reduces > 0.5) & (inner.devices > 1.0)
    return jnp.where(possible, hops + maximum(_with(inner, "switch", size), *across), UNAVAILABLE)


def one_shot(tiers: Tiers, size: Scalar) -> Array:
    """All-reduce in which every device reads the whole message of every peer; one domain, up to `shot_limit` B.

    A broadcast by it takes as long: all peers read the message of one device.

    time = hop + fixed + (n - 1) signal + (n - 1) S / bandwidth

    Source: vllm-project/vllm, csrc/custom_all_reduce.cuh (cross_device_reduce_1stage).
    """
    inner, *_ = tiers
    # One shot: latency of one stage, but (n - 1) S bytes per device; wins for the short messages of decoding.
    return _shot(tiers, size, _stage(inner) + (inner.devices - 1.0) * size * byte_time(inner, "shot"))


def two_shot(tiers: Tiers, size: Scalar) -> Array:
    """All-reduce in which every device reduces its part of the message, then reads the others' parts; one domain.

    A broadcast by it takes as long: every device reads a part of the message, then the others' parts.

    time = 2 (hop + fixed + (n - 1) signal) + 2 (n - 1) / n S / bandwidth

    Source: vllm-project/vllm, csrc/custom_all_reduce.cuh (cross_device_reduce_2stage).
    """
    inner, *_ = tiers
    # Two shots: reduce-scatter and all-gather by direct reads; twice the latency, 2 (n - 1) / n S bytes.
    return _shot(tiers, size, 2.0 * _stage(inner) + _ring_bytes(inner, 2.0 * size) * byte_time(inner, "shot"))


def in_switch(tiers: Tiers, size: Scalar, passes: float) -> Array:
    """The innermost tier's switch reduces what its devices send (and sends the sum to all); trees across the others.

    time = passes (hop_1 + sum_(i>1) log2(n_i) hop_i)
           + max(fixed + (1 + 1 / n_1) S / bandwidth_1, stream_i(w_i S_i))

    w_i is that of `tree`. Only where the link says that its switch reduces.

    Source: NVLS and NVLS tree of NCCL; Graham et al., COMHPC 2016 (SHARP).
    """
    inner, *outer = tiers
    hops = passes * (inner.hop_time + sum(_depth(tier) * tier.hop_time for tier in outer))
    # Reduction in the network: (1 + 1 / n) S per device in place of a ring's 2 (n - 1) / n S.
    across = _branches(outer, size, passes)
    possible = (inner.reduces > 0.5) & (inner.devices > 1.0)
    return jnp.where(
        possible, hops + maximum(_with(inner, "switch", size + size / inner.devices), *across), UNAVAILABLE
    )


def pairwise(tiers: Tiers, size: Scalar) -> Array:
    """All-to-all in which every device sends to every other at once, over whichever tier lies between them.

    time = sum_i (1 + log2 n_i) hop_i + max_i send_i(bytes that leave over tier i),  (n_i - 1) / n_i S of S there

    `send` is the cheaper of small buffers, whose rate is per peer, and chunks; both are slower where devices share
    ways (`exchange_time`).

    Source: Thakur, Rabenseifner & Gropp, section 4.3 (pairwise exchange); that hops overlap but for a logarithm is
    ours.
    """
    # All peers at once, so hops overlap; every tier carries the part of the message whose peers lie beyond it.
    hops = sum(overlapped(tier) * tier.hop_time for tier in tiers)
    return hops + maximum(*(exchange_time(tier, leaving(tier, size), size / tiers[-1].reached) for tier in tiers))


def gathered_exchange(tiers: Tiers, size: Scalar) -> Scalar:
    """All-to-all inside each tier, one after the other: blocks for the same part travel together.

    time = sum_i ((1 + log2 n_i) hop_i + send_i((n_i - 1) / n_i S))

    Source: PXN of NCCL 2.12 (aggregation inside the node before the network).
    """
    hops = sum(overlapped(tier) * tier.hop_time for tier in tiers)
    exchanges = ((tier.devices - 1.0) / tier.devices * size for tier in tiers)
    # Fewer, larger messages over the network: blocks for one node are collected inside first, at the price of two
    # stages.
    return hops + sum(exchange_time(t, sent, size / t.devices) for t, sent in zip(tiers, exchanges, strict=True))


def point_to_point(tiers: Tiers, size: Scalar) -> Array:
    """One message to one peer over the outermost tier between them.

    time = 2 hop + send(S); one hop for the receiver's credit, one for the data
    """
    # Rendezvous protocol: the receiver announces its buffer, then data flow.
    hops = (jnp.where(tier.devices > 1.0, 2.0 * tier.hop_time, 0.0) for tier in tiers)
    to_one = (tier._replace(byte_time=tier.peer_byte_time) for tier in tiers)
    sends = (_send_time(tier, "peer", size, size) for tier in to_one)
    return maximum(*(hop + send for hop, send in zip(hops, sends, strict=True)))


def _streams(tiers: Tiers, sent: Sequence[Scalar], size: Scalar, passes: float) -> list[Array]:
    """Time in each tier of `passes` times `sent` B; one that only gathers or scatters moves devices' own parts too."""
    each = zip(tiers, sent, strict=True)
    if passes == 1.0:
        return [stream_time(tier, part + _own_bytes(tier, size)) for tier, part in each]
    return [stream_time(tier, passes * part) for tier, part in each]


def _ring_bytes(tier: Tier, size: Scalar) -> Scalar:
    """B that a device passes on in one round of a ring inside the tier: (n - 1) / n of what it holds there."""
    return size / tier.inner - size / tier.reached


def _closing_bytes(tier: Tier, size: Scalar) -> Scalar:
    """B that a device passes on in one round of a ring through all devices, which closes in the outermost tier."""
    if tier.crowded:  # the innermost: in a part of one device, a ring inside the tier and one through all are the same
        return _ring_bytes(tier, size)
    # The tier in which the ring closes carries (p - 1) / p of its share; inner tiers, which the ring leaves, (n - 1) /
    # n.
    return size / tier.inner - size / (tier.reached * jnp.where(tier.outer > 1.0, 1.0, tier.inner))


def _own_bytes(tier: Tier, size: Scalar) -> Scalar:
    """B of the local chunk that a device copies from input to output meanwhile, as bytes on the link."""
    # The device's own chunk is copied locally but passes through the same kernels.
    return 0.0 if tier.transport is None else tier.losses * tier.transport.own_part * (size / tier.reached)


def _branches(outer: Sequence[Tier], size: Scalar, passes: float) -> list[Array]:
    """Time in each outer tier of what its busiest part sends along two complementary trees, `passes` times."""
    return [stream_time(tier, _tree_bytes(tier, size, passes)) for tier in outer]


def _tree_bytes(tier: Tier, size: Scalar, passes: float) -> Scalar:
    """B that the busiest part of an outer tier sends along two complementary trees, `passes` times."""
    # Of two parts each is root of one tree and leaf in the other: half the message each way.
    return jnp.minimum(passes, 0.5 * tier.devices) * (size / tier.inner)


def _depth(tier: Tier) -> Array:
    """Levels of a binary tree over the tier's parts."""
    return jnp.log2(tier.devices)


def overlapped(tier: Tier) -> Array:
    """Hops that an exchange with every peer of the tier waits for; 0 where the tier is not used."""
    return jnp.where(tier.devices > 1.0, 1.0 + _depth(tier), 0.0)


def leaving(tier: Tier, size: Scalar) -> Scalar:
    """B of an all-to-all that one device sends over this very tier: to devices outside its part, inside the tier."""
    return (tier.devices - 1.0) / (tier.devices * tier.outer) * size


def exchange_time(tier: Tier, sent: Scalar, to_one: Scalar) -> Scalar:
    """Time of `sent` B per device to all its peers in the tier, `to_one` B to each; 0 in an unused tier.

    Where p of n devices share a way, all of them send over it at once: p (n - p) parts against the n - 1 of a ring,
    and every one of the small buffers takes it in turn.
    """
    transport = tier.transport
    if transport is None:
        return sent * tier.byte_time
    shared = tier.crowded & (tier.reached > transport.peers)
    # Cut of p x (n - p) pairs over a shared way, relative to the n - 1 flows that a ring puts on it.
    flows = transport.peers * (tier.reached - transport.peers) / maximum(tier.reached - 1.0, 1.0) / transport.spread
    spread = 1.0 + tier.losses * (jnp.where(shared, flows, 1.0) - 1.0)
    turns = jnp.where(shared, (tier.devices - 1.0) * tier.crowding, 1.0)
    return _send_time(tier._replace(byte_time=tier.byte_time * spread), "direct", sent, to_one * turns)


def _send_time(tier: Tier, chunks: str, sent: Scalar, buffered: Scalar) -> Scalar:
    """The cheaper of chunks and of small buffers, through which `buffered` B pass one after another."""
    if tier.transport is None:
        return sent * tier.byte_time
    # Small buffers (LL protocol) start fast and run slowly, chunks the other way round.
    small = tier.transport.low_latency.fixed_time + buffered / tier.transport.peer_rate
    return cheapest(sent * tier.byte_time + tier.losses * small, _with(tier, chunks, sent))


def _with(tier: Tier, protocol: str, sent: Scalar) -> Scalar:
    """Time of `sent` B by a protocol, hops left out; 0 in an unused tier."""
    if tier.transport is None:
        return sent * tier.byte_time
    # Protocol as a straight line: fixed time plus bytes over its share of the link.
    return tier.losses * getattr(tier.transport, protocol).fixed_time + sent * byte_time(tier, protocol)


def _stage(tier: Tier) -> Scalar:
    """Fixed time of one stage of an engine's kernel: a barrier with every peer."""
    if tier.transport is None:
        return tier.hop_time
    return tier.hop_time + tier.losses * (
        tier.transport.shot.fixed_time + (tier.devices - 1.0) * tier.transport.signal_time
    )


def _shot(tiers: Tiers, size: Scalar, time: Scalar) -> Array:
    """`time` where an engine's own kernel can run: all devices in one domain that reach each other, few bytes."""
    inner, *_ = tiers
    possible = jnp.asarray(inner.outer <= 1.0)
    if inner.transport is not None:
        # Custom all-reduce kernels use registered buffers of limited size, and need peer access among all devices.
        possible = possible & (size <= inner.transport.shot_limit) & (inner.devices <= inner.transport.peers)
    return jnp.where(possible, time, UNAVAILABLE)
