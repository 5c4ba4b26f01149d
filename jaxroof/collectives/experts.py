"""Time of the exchange of tokens with their experts: low-latency kernels, and forwarding inside of nodes."""

from jaxroof.collectives.algorithms import UNAVAILABLE, Tiers, exchange_time, leaving, overlapped
from jaxroof.collectives.topology import Tier, byte_time
from jaxroof.efficiency import ExpertExchange, Forwarding
from jaxroof.fanout import Fanout, copies, device_copies
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.smooth import maximum
from jaxroof.numerics.struct import Array, Scalar, given
from jaxroof.op import Collective


def low_latency(tiers: Tiers, size: Scalar, protocol: str) -> Array:
    """Dispatch or combine of low-latency expert kernels: one kernel that writes to every peer, whatever the tier.

    time = hop_1 + sum_(i>1) (1 + log2 n_i) hop_i + sum_i fixed_i + max_i bytes that leave over tier i / bandwidth_i

    Args:
      protocol: "dispatch" or "combine", a field of `Transport`.

    Source: deepseek-ai/DeepEP, docs/legacy.md (low-latency kernels); constants: tests.evidence.expert_exchange.
    """
    inner, *outer = tiers
    # Writes to all peers start at once. Over the network their hops overlap but for a logarithm, as in `pairwise`.
    hops = jnp.where(inner.devices > 1.0, inner.hop_time, 0.0) + sum(overlapped(tier) * tier.hop_time for tier in outer)
    # The kernel prepares messages for either way, and waits for the flags of both.
    fixed = sum(_fixed_time(tier, protocol) for tier in tiers)
    return hops + fixed + maximum(*(leaving(tier, size) * byte_time(tier, protocol) for tier in tiers))


def _fixed_time(tier: Tier, protocol: str) -> Scalar:
    """s of a protocol's fixed time; 0 in an unused tier."""
    return 0.0 if tier.transport is None else tier.losses * getattr(tier.transport, protocol).fixed_time


def forwarded_exchange(tiers: Tiers, size: Scalar) -> Array:
    """All-to-all of tokens that cross each tier once per part that needs them, and are forwarded inside of the parts.

    time = sum_i (1 + log2 n_i) hop_i + max_i send_i((n_i - 1) / n_i S c_i)

    c_i is copies of a token over tier i to copies that devices need (`Tier.copied`); 1 in the innermost, which forwards
    all of them. Both tiers work at once: chunks are forwarded as they arrive.

    Source: DeepSeek-AI, arXiv:2412.19437 (DeepSeek-V3), section 3.2.2; deepseek-ai/DeepEP, docs/legacy.md (normal
    kernels with NVLink and RDMA forwarding).
    """
    hops = sum(overlapped(tier) * tier.hop_time for tier in tiers)
    # Node-limited forwarding: a token crosses the slow network once per node and is copied inside over the fast links.
    return hops + maximum(*(exchange_time(t, forwarded_bytes(t, size), size / tiers[-1].reached) for t in tiers))


def forwarded_bytes(tier: Tier, size: Scalar) -> Scalar:
    """B that one device sends over this very tier in an all-to-all whose nodes forward what is for several devices."""
    return (tier.devices - 1.0) / tier.devices * (size * tier.copied)


def forwards(tiers: Tiers) -> Array:
    """Whether kernels that forward run: devices of the innermost tier write to each other at full speed, shape ()."""
    inner, *_ = tiers
    reached = inner.devices > 1.0
    return reached if inner.transport is None else reached & (inner.devices <= inner.transport.peers)


def forwarding_kernels(tiers: Tiers, op: Collective, kernels: ExpertExchange, losses: Scalar) -> Array:
    """The same exchange by kernels whose own cores move every row: transmission, and the notice before it.

    time = kernel_time + hops hop_1 + sum_(i>1) (1 + log2 n_i) hop_i + row / row_rate
           + max(cores' time, max_i forwarded bytes over tier i / bandwidth_i) + `notice_time`
    cores' time = T (token_time + (D + own_rows + node_rows N) (row_time + row / core_rate)) / cores

    T tokens of `row` B each are a device's; a token has D copies to devices and N to nodes. `losses` scales fixed times
    and the cores' time.

    Args:
      op: an all-to-all with a `fanout` that knows `token_bytes`.

    Source: deepseek-ai/DeepEP, csrc/kernels/intranode.cu and internode.cu (channels of two cores: one sends, one
    receives); constants: tests.evidence.expert_exchange.
    """
    fanout = given(op.fanout, "fanout of an exchange of tokens")
    row = given(fanout.token_bytes, "bytes of a token")
    way: Forwarding = kernels.combine if fanout.back else kernels.dispatch
    inner, *outer = tiers
    needed = device_copies(fanout, op.participants)
    tokens = op.message_bytes / (row * needed)
    # Rows that cores handle: every copy for a device, and every copy for a node, which is staged and handed on.
    rows = needed + way.own_rows + sum(_node_rows(tier, fanout, op, way) for tier in outer)
    work = losses * tokens * (way.token_time + rows * (way.row_time + row / way.core_rate)) / kernels.cores
    # Links: inside at the kernels' share, over the network at that of a library's exchange.
    shared = inner.byte_time * (1.0 - inner.losses + inner.losses / way.share)
    links = [forwarded_bytes(inner, op.message_bytes) * shared]
    links += [forwarded_bytes(tier, op.message_bytes) * byte_time(tier, "direct") for tier in outer]
    alone = 0.0 if way.row_rate is None else row / way.row_rate
    latency = losses * (way.kernel_time + way.hops * inner.hop_time + alone)
    latency += sum(overlapped(tier) * tier.hop_time for tier in outer)
    return jnp.where(
        forwards(tiers), latency + maximum(work, *links) + notice_time(tiers, kernels, losses), UNAVAILABLE
    )


def notice_time(tiers: Tiers, kernels: ExpertExchange, losses: Scalar) -> Scalar:
    """s in which devices tell each other how many rows will come: fixed + p peer_time over nodes; 0 inside of one.

    Inside of a node the kernels themselves exchange the counts, and their fixed time has it.
    """
    _, *outer = tiers
    if not outer:
        return 0.0
    # The outermost tier in use reaches all devices of the group.
    reached = outer[-1].reached
    across = jnp.where(reached > outer[0].inner, 1.0, 0.0)
    return losses * across * (kernels.notify_time + reached * kernels.peer_time)


def _node_rows(tier: Tier, fanout: Fanout, op: Collective, way: Forwarding) -> Scalar:
    """Rows that the copies of a token to the parts of an outer tier count as; 0 in an unused tier."""
    parts = op.participants / tier.inner
    return jnp.where(tier.devices > 1.0, way.node_rows * copies(fanout, parts), 0.0)
