"""Bytes that a device sends over each tier of links in a collective, for its energy."""

from jaxroof.collectives.algorithms import forwarded_bytes
from jaxroof.collectives.topology import tiers
from jaxroof.hardware import TIERS, Links
from jaxroof.op import Collective
from jaxroof.smooth import maximum
from jaxroof.struct import Scalar

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
        sent = [PASSES[kind] * (size / tier.inner - size / tier.reached) for tier in used]
    elif op.fanout is not None:
        sent = [forwarded_bytes(tier, size) for tier in used]
    elif kind in EXCHANGES:
        sent = [(tier.devices - 1.0) / (tier.devices * tier.outer) * size for tier in used]
    else:
        # Shares of the way that each tier is: of the devices that a tier adds, as many peers are over it.
        apart = maximum(op.participants - 1.0, 1.0)
        sent = [(tier.reached - tier.inner) / apart * size for tier in used]
    return dict(zip(names, sent, strict=True))
