"""Algorithms that may run a collective: the time of each, and the cheapest."""

from collections.abc import Callable, Sequence

from jaxroof.collectives.algorithms import (
    UNAVAILABLE,
    Tiers,
    aggregated_trees,
    chain,
    direct_exchange,
    gathered_exchange,
    halving_doubling,
    hierarchical,
    in_switch,
    multicast,
    one_shot,
    pairwise,
    point_to_point,
    ring,
    tree,
    two_shot,
)
from jaxroof.collectives.experts import forwarded_bytes, forwarded_exchange, forwarding_kernels, forwards, low_latency
from jaxroof.collectives.topology import tiers
from jaxroof.efficiency import LinkEfficiency
from jaxroof.hardware import TIERS, Links
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.smooth import cheapest, maximum
from jaxroof.numerics.struct import Array, Scalar, given
from jaxroof.op import Collective

ALGORITHMS = (
    "ring",
    "tree",
    "hierarchical",
    "one_shot",
    "two_shot",
    "in_switch",
    "halving_doubling",
    "direct",
    "expert_kernel",
    "forwarded",
)
"""Every algorithm, in the order of the codes of `collective_algorithm`."""

LIBRARIES = {
    "nccl": ("ring", "tree", "hierarchical", "in_switch", "direct"),
    "engine": ("one_shot", "two_shot", "expert_kernel", "forwarded"),
}
"""Who implements which algorithm: collective libraries, and the kernels that serving engines bring along."""


def collective_times(
    links: Links, op: Collective, efficiency: LinkEfficiency, algorithms: Sequence[str] = ALGORITHMS
) -> dict[str, Array]:
    """Time in s of `op`'s collective by every algorithm of `algorithms` that knows how, each of shape ().

    An algorithm that cannot run here (more devices than it joins, a switch that does not reduce, too large a
    message for an engine's kernel) reports `UNAVAILABLE`. A group of one device takes 0. Without links nothing is
    known: the result is empty. On a torus only rings and sends between neighbours run.

    Args:
      links: tiers of links; which of them exist and their topology are static.
      op: operation, message_bytes, participants and stride.
      efficiency: `losses`, the share of the measured losses that applies.
      algorithms: names to choose from.

    Returns:
      Differentiable times; of degree -1 in bandwidths and peer rates, +1 in latencies and fixed times.

    Raises:
      ValueError: while tracing, when the operation is not one of `COLLECTIVES`.

    Source: Thakur, Rabenseifner & Gropp, IJHPCA 19(1), 2005, for the alpha-beta model; each algorithm names its own.
    """
    times = _times(links, op, efficiency, algorithms)
    # One device has nothing to send, whatever the formulas say at n = 1.
    return {name: jnp.where(op.participants > 1.0, time, 0.0) for name, time in times.items()}


def collective_time(
    links: Links, op: Collective, efficiency: LinkEfficiency, algorithms: Sequence[str] | None = None
) -> Array:
    """Time in s of `op`'s collective by the cheapest of `algorithms`, shape (); 0 on one device and without links.

    None stands for those that an engine on today's libraries can run: `in_use(collective)`.
    Differentiable; where two algorithms take about as long, the gradient is shared by both.
    """
    names = in_use(op.operation) if algorithms is None else algorithms
    times = _times(links, op, efficiency, names)
    # Libraries and engines choose by message size, so the cheapest algorithm is assumed; latency-optimal ones win small
    # messages, bandwidth-optimal ones large ones.
    return jnp.where(op.participants > 1.0, cheapest(*times.values()), 0.0) if times else jnp.zeros(())


def collective_algorithm(
    links: Links, op: Collective, efficiency: LinkEfficiency, algorithms: Sequence[str] | None = None
) -> Array:
    """The cheapest of `algorithms` for `op`'s collective, shape (): an int8 index into `ALGORITHMS`.

    None stands for those of `in_use(collective)`. A group of one device, and a device without links, report the first.
    """
    names = in_use(op.operation) if algorithms is None else algorithms
    times = iter(collective_times(links, op, efficiency, names).items())
    first, shortest = next(times, (ALGORITHMS[0], jnp.zeros(())))
    # Codes instead of names, so that a sweep can store the choice as an array.
    chosen = jnp.int8(ALGORITHMS.index(first))
    for name, time in times:
        chosen = jnp.where(time < shortest, jnp.int8(ALGORITHMS.index(name)), chosen)
        shortest = jnp.minimum(shortest, time)
    return chosen


def in_use(collective: str) -> tuple[str, ...]:
    """Algorithms that an engine on today's libraries can run.

    NCCL all-reduces by ring, tree and in the switch, not in rings inside rings, and no GPU library by halving and
    doubling. Its halves of an all-reduce, all-gather and reduce-scatter, have the same forms.

    Source: NVIDIA/nccl, src/graph/tuning.cc (ring, tree, CollNet, NVLS, NVLS tree, PAT).
    """
    library = (name for name in LIBRARIES["nccl"] if (collective, name) != ("all_reduce", "hierarchical"))
    return (*library, *LIBRARIES["engine"])


def _times(links: Links, op: Collective, efficiency: LinkEfficiency, algorithms: Sequence[str]) -> dict[str, Array]:
    """The times of `collective_times`, for groups of more than one device."""
    kind = op.operation
    if kind not in WAYS:
        raise ValueError(f"{kind!r} is not a collective; known: {', '.join(WAYS)}")
    used = tiers(links, op, efficiency.losses)
    if not used:
        return {}
    times = {
        name: way(used, op.message_bytes)
        for name, way in WAYS[kind].items()
        if name in algorithms and _legal(name, links, used) and (name != "forwarded" or op.fanout is not None)
    }
    if "two_shot" in times:
        # Whether an engine's kernel has the two-stage form is data, not structure: a table of engines is swept.
        times["two_shot"] = jnp.where(jnp.asarray(efficiency.two_shot) > 0.5, times["two_shot"], UNAVAILABLE)
    inner = given(links.scale_up or links.scale_out or links.cluster, "tier of links")
    own = inner.topology == "switched" and "forwarded" in algorithms and efficiency.exchange is not None
    return _by_kernels(times, used, op, efficiency) if own else times


def _by_kernels(times: dict[str, Array], used: Tiers, op: Collective, efficiency: LinkEfficiency) -> dict[str, Array]:
    """The times where an engine has kernels of its own for an exchange of tokens: it runs no other where they run."""
    kernels = given(efficiency.exchange, "kernels of an exchange of tokens")
    if op.fanout is None or op.fanout.token_bytes is None:
        return times
    own, run = forwarding_kernels(used, op, kernels, efficiency.losses), forwards(used)
    others = {name: jnp.where(run, UNAVAILABLE, time) for name, time in times.items()}
    # Over links without full speed between all devices the library's algorithms are left, forwarding by it too.
    return others | {"forwarded": jnp.minimum(own, others.get("forwarded", UNAVAILABLE))}


def _legal(name: str, links: Links, used: Tiers) -> bool:
    """Whether static structure lets the algorithm run: on a torus devices have neighbours only."""
    inner = given(links.scale_up or links.scale_out or links.cluster, "tier of links")
    if inner.topology == "torus" and name in ("one_shot", "two_shot", "in_switch", "halving_doubling"):
        return False
    if inner.topology == "mesh" and name == "in_switch":
        return False
    # With one tier the hierarchical forms are the plain ones: no need to price them twice.
    return not (name in ("hierarchical", "tree", "forwarded") and len(used) == 1)


Way = Callable[[Tiers, Scalar], Array]
"""Time in s of an algorithm, from the tiers that are used and the message in B."""


def _sweep(way: Callable[[Tiers, Scalar, float], Array], passes: float) -> Way:
    """An algorithm for a collective that goes `passes` times over the devices."""
    return lambda used, size: way(used, size, passes)


PARTS: dict[str, Way] = {
    "ring": _sweep(ring, 1.0),
    "tree": aggregated_trees,
    "hierarchical": _sweep(hierarchical, 1.0),
    "one_shot": direct_exchange,
    "in_switch": multicast,
    "halving_doubling": _sweep(halving_doubling, 1.0),
}
"""Algorithm of an all-gather, and of a reduce-scatter -> its time: one of the two halves of an all-reduce."""

WAYS: dict[str, dict[str, Way]] = {
    "all_reduce": {
        "ring": _sweep(ring, 2.0),
        "tree": _sweep(tree, 2.0),
        "hierarchical": _sweep(hierarchical, 2.0),
        "one_shot": one_shot,
        "two_shot": two_shot,
        "in_switch": _sweep(in_switch, 2.0),
        "halving_doubling": _sweep(halving_doubling, 2.0),
    },
    "all_gather": PARTS,
    "reduce_scatter": PARTS,
    "all_to_all": {"direct": pairwise, "hierarchical": gathered_exchange, "forwarded": forwarded_exchange},
    "broadcast": {
        "ring": chain,
        "tree": _sweep(tree, 1.0),
        "one_shot": one_shot,
        "two_shot": two_shot,
        "in_switch": _sweep(in_switch, 1.0),
    },
    "send_recv": {"direct": point_to_point},
    "dispatch": {"expert_kernel": lambda used, size: low_latency(used, size, "dispatch")},
    "combine": {"expert_kernel": lambda used, size: low_latency(used, size, "combine")},
}
"""Collective -> algorithm -> its time from the tiers that are used and the message in B."""


# Bytes that a device sends over each tier of links in a collective, for its energy.


PASSES = {"all_reduce": 2.0, "all_gather": 1.0, "reduce_scatter": 1.0, "broadcast": 1.0}
"""Times that a collective's message goes around the devices."""

EXCHANGES = ("all_to_all", "dispatch", "combine")
"""Collectives in which every device sends a part of its own to every other."""


def sent_bytes(links: Links, op: Collective) -> dict[str, Scalar]:
    """B that one device sends over each tier in one run of `op`'s collective, by the tier's name, shapes ().

    ring:     passes (S / inner_i - S / reached_i), S the message, of which a device holds S / inner_i in tier i
    exchange: (n_i - 1) / (n_i outer_i) S; with a fan-out (n_i - 1) / n_i S c_i, as nodes forward (`Tier.copied`)
    send:     S over the outermost tier between the two

    Whatever the algorithm: rings, trees and the halves of recursive doubling send the same within a factor of two,
    and what a reduction in the switch saves is not counted. 0 on one device; empty without links.

    Args:
      links: tiers of links; which of them exist is static.
      op: operation, message_bytes, participants and stride.

    Source: Thakur, Rabenseifner & Gropp, IJHPCA 19(1), 2005, sections 4.1 to 4.5, for the volumes.
    """
    names = [name for name in TIERS if getattr(links, name) is not None]
    used, size, kind = tiers(links, op, 0.0), op.message_bytes, op.operation
    if kind in PASSES:
        # A ring's volume, the least without reduction in a switch: for energy the bytes count, not the time.
        sent = [PASSES[kind] * (size / tier.inner - size / tier.reached) for tier in used]
    elif op.fanout is not None:
        sent = [forwarded_bytes(tier, size) for tier in used]
    elif kind in EXCHANGES:
        # Personalised exchange: every device gets an equal part; over a tier go the parts of devices outside the
        # sender's own part of it.
        sent = [(tier.devices - 1.0) / (tier.devices * tier.outer) * size for tier in used]
    else:
        # Shares of the way that each tier is: of the devices that a tier adds, as many peers are over it.
        apart = maximum(op.participants - 1.0, 1.0)
        sent = [(tier.reached - tier.inner) / apart * size for tier in used]
    return dict(zip(names, sent, strict=True))
