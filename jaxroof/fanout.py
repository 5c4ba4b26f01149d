"""Fan-out of a token: the places of its experts, and the number of devices or nodes that it is sent to."""

from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.struct import Array, Scalar, static, struct


@struct
class Fanout:
    """Where the experts of one token may lie. Scalars of shape ()."""

    holders: Scalar  # parts that the experts are spread over: the expert-parallel degree
    experts: Scalar  # of one layer
    choices: Scalar  # experts of one token
    groups: Scalar | None = None  # groups that the router sorts experts into; None: one
    reached: Scalar | None = None  # groups that one token's experts lie in at most; None: all
    token_bytes: Scalar | None = None  # B of one token as it is sent; None: unknown, and kernels count bytes alone
    back: bool = static(default=False)  # results return, and are added up on the way


def distinct_devices(devices: Scalar, experts: Scalar, top_k: Scalar) -> Array:
    """Expected number of `devices` that hold at least one of a token's `top_k` different experts, shape ().

    p (1 - (1 - b / (E - (a - 1) / 2))^a), with a the smaller and b the larger of k and E / p, the experts of a device:
    p (1 - C(E - E / p, k) / C(E, k)), whose a factors 1 - b / E, 1 - b / (E - 1), ... are replaced by their middle one.
    Exact for a = 1, else within 2 %.

    Source: the hypergeometric distribution: a router's k choices are different experts.
    """
    # Hypergeometric draw without replacement: k of E experts are chosen, E / p of them lie on each of p devices.
    own = experts / devices
    # C(E - b, a) / C(E, a) is symmetric in a and b, and the product of fewer factors has the smaller error.
    fewer, more = jnp.minimum(top_k, own), jnp.maximum(top_k, own)
    # The middle one of the a factors, whose denominators run from E down to E - a + 1.
    share = more / (experts - 0.5 * (fewer - 1.0))
    # Powers by log1p and expm1: with hundreds of experts a factor is close to 1, where float32 would lose the
    # difference.
    missed = jnp.log1p(-jnp.minimum(share, 1.0 - 1e-6))
    return -devices * jnp.expm1(fewer * missed)


def allowed_parts(fanout: Fanout, parts: Scalar) -> Scalar:
    """Expected number of `parts` with an expert of a group that the router has chosen, shape (), at least 1.

    p (1 - (1 - M/G)^max(G/p, 1)), for M of G groups that lie side by side on p parts; all of them without groups.
    A part of a few groups is allowed by any of them; a group over several parts allows all of these.

    Source: DeepSeek-AI, arXiv:2412.19437 (DeepSeek-V3), section 2.1.2 (node-limited routing); the expectation is ours.
    """
    # A router without groups may choose experts anywhere: no part is barred.
    if fanout.groups is None or fanout.reached is None:
        return parts
    # A part is barred where none of its groups is among the M of G chosen ones: (1 - M / G) for each group that it
    # holds.
    barred = jnp.log1p(-jnp.minimum(fanout.reached / fanout.groups, 1.0 - 1e-6))
    # A group that is spread over several parts counts as one group for each of them.
    held = jnp.maximum(fanout.groups / parts, 1.0)
    return jnp.maximum(-parts * jnp.expm1(held * barred), 1.0)


def copies(fanout: Fanout, parts: Scalar) -> Array:
    """Expected number of `parts` that one token is sent to, once each, shape ().

    Where there are more parts than holders, every holder is several of them, each of which needs the token.
    """
    # More parts than holders: each expert's matrices are themselves divided, so every part of a holder needs the token.
    held = jnp.minimum(parts, fanout.holders)
    allowed = allowed_parts(fanout, held)
    # Only experts of allowed parts can be chosen; they keep their number per part.
    experts = fanout.experts * (allowed / held)
    return distinct_devices(allowed, experts, fanout.choices) * jnp.maximum(parts / fanout.holders, 1.0)


def device_copies(fanout: Fanout, devices: Scalar) -> Array:
    """Expected number of `devices`, at least as many as holders, that need one token, whatever its groups; shape ()."""
    return distinct_devices(fanout.holders, fanout.experts, fanout.choices) * (devices / fanout.holders)
