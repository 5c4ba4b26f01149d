"""Placement of weights, experts and KV cache: which share of each lies in which memory of a device."""

from typing import NamedTuple

from jaxroof.deployment import Deployment, largest_stage
from jaxroof.hardware import Hardware
from jaxroof.layers.registry import feed_forward_kind
from jaxroof.memory.capacity import beside_bytes, device_bytes, layer_count, reserved_bytes, weight_bytes
from jaxroof.model import Model
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.smooth import maximum, minimum, positive_part
from jaxroof.numerics.struct import Scalar

Shares = dict[str, Scalar]
"""What lies in each memory by name, as a share of it all or in B; `DEVICE` is the device memory."""

DEVICE = "hbm"


class Placement(NamedTuple):
    """Shares of the weights by memory, and B that are left in each for the KV cache."""

    weights: Shares  # of all weights but routed experts
    experts: Shares  # of routed experts
    rooms: Shares  # B left for KV cache


def resident_share(hardware: Hardware, model: Model, deployment: Deployment) -> Scalar:
    """Share of the weights of the fullest device that its on-chip memory keeps from step to step, shape ().

    share = keeps_weights min(1, capacity / weights)

    Every step reads every weight once, so that none is worth more of the memory than another: what does not fit is
    streamed. Of experts all are kept to the same share, whichever a step asks for. 0 without such a memory.
    """
    on_chip = hardware.memory.on_chip
    if on_chip is None:
        return 0.0
    # A model without weights, as in a probe of structures, fits.
    fits = on_chip.capacity / jnp.maximum(weight_bytes(model, deployment), 1.0)
    return on_chip.keeps_weights * minimum(1.0, fits)


def placement(hardware: Hardware, model: Model, deployment: Deployment) -> Placement:
    """Where weights and experts lie, and what is left for the KV cache, by `deployment.placement`.

    weights_first: weights, then experts, then KV cache, each from the fastest memory to the slowest.
    experts_last: experts from the slowest memory, for few of them are read in a step; the rest as before.
    interleaved: all in proportion to bandwidths, so that all memories end together, as far as each has room.
    What fits nowhere counts as in the slowest memory: such a deployment does not fit.
    """
    rates, rooms = memory_rates(hardware), memory_rooms(hardware, model, deployment)
    experts = expert_bytes(model, deployment)
    others = positive_part(weight_bytes(model, deployment) - experts)
    beside = hardware.memory.beside or {}
    may = {name: beside[name].weights if name in beside else 1.0 for name in rooms}

    held: list[Shares] = []
    for size, last in ((others, False), (experts, deployment.placement == "experts_last")):
        open_rooms = {name: may[name] * room for name, room in rooms.items()}
        taken = _taken(size, open_rooms, rates, deployment, last)
        rooms = {name: rooms[name] - taken[name] for name in rooms}
        held.append(shares_of(size, taken, rates))
    cached = {name: (beside[name].cache if name in beside else 1.0) * room for name, room in rooms.items()}
    return Placement(held[0], held[1], cached)


def memory_rooms(hardware: Hardware, model: Model, deployment: Deployment) -> Shares:
    """B for weights and KV cache of one device in each of its memories."""
    device = device_bytes(hardware, deployment) - reserved_bytes(hardware, model, deployment)
    return {DEVICE: positive_part(device), **beside_bytes(hardware)}


def memory_rates(hardware: Hardware) -> Shares:
    """B/s of one device from each of its memories."""
    beside = hardware.memory.beside or {}
    return {DEVICE: hardware.memory.hbm.bandwidth} | {n: one.bandwidth / one.devices for n, one in beside.items()}


def cache_shares(size: Scalar, rooms: Shares, hardware: Hardware, deployment: Deployment) -> Shares:
    """Shares of `size` B of KV cache by memory, of which each has `rooms` B left."""
    rates = memory_rates(hardware)
    return shares_of(size, _taken(size, rooms, rates, deployment), rates)


def _taken(size: Scalar, rooms: Shares, rates: Shares, deployment: Deployment, slowest_first: bool = False) -> Shares:
    if deployment.placement == "interleaved":
        return spread(size, rooms, rates)
    return filled(size, rooms, rates, slowest_first)


def filled(size: Scalar, rooms: Shares, rates: Shares, slowest_first: bool = False) -> Shares:
    """B of `size` in each memory, filled from the fastest to the slowest or the other way; ties go by name.

    Memories are laid end to end in that order; each takes what of [0, size] lies over it.
    """
    taken, names = {}, sorted(rooms)
    for place, name in enumerate(names):
        start: Scalar = 0.0
        for other_place, other in enumerate(names):
            if other == name:
                continue
            # Which memory comes first is data: bandwidths may be swept.
            before = rates[other] < rates[name] if slowest_first else rates[other] > rates[name]
            before = jnp.logical_or(before, jnp.logical_and(rates[other] == rates[name], other_place < place))
            start = start + jnp.where(before, rooms[other], 0.0)
        taken[name] = minimum(positive_part(size - start), rooms[name])
    return taken


def spread(size: Scalar, rooms: Shares, rates: Shares) -> Shares:
    """B of `size` in each memory in proportion to its bandwidth; what has no room there goes where room is left."""
    total = sum(rates.values())
    taken = {name: minimum(size * rates[name] / total, room) for name, room in rooms.items()}
    left = {name: rooms[name] - taken[name] for name in rooms}
    rest, room = size - sum(taken.values()), sum(left.values())
    more = minimum(1.0, rest / maximum(room, 1.0))
    return {name: taken[name] + more * left[name] for name in rooms}


def shares_of(size: Scalar, taken: Shares, rates: Shares) -> Shares:
    """Shares of `size` by memory; what no memory has taken counts as in the slowest."""
    shares = {name: amount / jnp.maximum(size, 1.0) for name, amount in taken.items()}
    slowest = {name: jnp.where(rates[name] <= minimum(*rates.values()), 1.0, 0.0) for name in taken}
    rest = positive_part(1.0 - sum(shares.values())) / sum(slowest.values())
    shares = {name: share + rest * slowest[name] for name, share in shares.items()}
    # Rounding is the device memory's, so that shares add up to 1.
    return shares | {DEVICE: 1.0 - sum(share for name, share in shares.items() if name != DEVICE)}


def expert_bytes(model: Model, deployment: Deployment) -> Scalar:
    """B of routed experts that the fullest device holds, shape ()."""
    held: Scalar = 0.0
    for block in model.blocks:
        if block.feedforward is None:
            continue
        matrices = feed_forward_kind(block.feedforward).matrices(block.feedforward, model.hidden, deployment)
        held = held + block.count * sum(
            (matrix.stored * matrix.weights.bytes for matrix in matrices.values() if matrix.routed), start=0.0
        )
    return held * largest_stage(deployment, layer_count(model))
