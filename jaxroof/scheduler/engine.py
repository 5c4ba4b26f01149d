"""Constants of a simulation: the policy in whole numbers, the cache, and the requests in their order."""

from typing import Any, NamedTuple

from jaxroof.batch import ORDERS, Encode, Policy, Traffic
from jaxroof.numerics.arrays import entry, jnp
from jaxroof.numerics.struct import Array, Scalar
from jaxroof.numerics.tree import mapped
from jaxroof.scheduler.state import Clock, State, blocks_of, total_of


class Measured(NamedTuple):
    """Probabilities that drafts are right, as an `AcceptanceTable` has them, with nodes that increase."""

    sequences: Array  # shape [n]
    contexts: Array  # shape [m]
    right: Array  # p_1 ... p_k, shape [n, m, most]


class Lengths(NamedTuple):
    """Tokens that are drafted by the number of decoding sequences: where this step function rises, and by how much."""

    starts: Array  # decoding sequences from which on, float, shape [n]
    tokens: Array  # more tokens per sequence, int32, shape [n]
    depths: Array  # more tokens that may be kept, int32, shape [n]


class Drafts(NamedTuple):
    """What an engine drafts; of several engines, every array has a leading axis for them."""

    reached: Array  # probability that so many drafts are right: p_1 ... p_k, 0 of those not made, shape [most]
    tokens: Array  # per sequence and step, int32
    limit: Array  # decoding sequences up to which they are drafted, float
    seed: Array  # int32
    number: Array | None = None  # of every request, which is hashed, shape [requests]; None: its place
    measured: Measured | None = None  # in place of `reached`; None: that holds at every batch and context
    lengths: Lengths | None = None  # in place of `tokens`; None: that holds at every batch
    match: Array | None = None  # probability that there are drafts for a sequence, float; None: always


class Engine(NamedTuple):
    """Constants of one simulation: int32 of shape () unless a field says otherwise."""

    mixed: Array  # bool: prompts and decoding sequences share steps
    gated: Array  # bool: prompts only into an engine that decodes nothing
    static: Array  # bool: a batch keeps its size
    budget: Array
    sequences: Array
    chunked: Array  # bool
    size: Array  # tokens per block
    blocks: Array
    spare: Array  # blocks that an admission leaves free, float
    reserve: Array  # bool
    swap: Array  # bool
    swap_time: Array  # s per token, float
    caching: Array  # bool
    most_waiting: Array  # float
    graph_step: Array
    graph_limit: Array
    longest: Array  # decode steps that one iteration may take together
    requests: Array  # requests that are not refused: the first ones of the arrays
    clients: Array  # of a closed loop
    think: Array  # s, float
    delay: Array  # s from a request to its place in the queue, float
    isl: Array  # shape [requests]
    osl: Array  # shape [requests]
    group: Array | None  # shape [requests]; -1: none
    shared: Array | None  # tokens of the prompt that an earlier one of the group has too, shape [requests]
    keep: Array | None  # tokens with which a later one of the group begins, shape [requests]
    encode: Encode | None  # images of every request, floats; None: there are none
    rank: Array | None = None  # the lowest of the queue goes first, shape [requests]; None: the first that came
    single: Array | None = None  # bool: answers end here with their first token; None: none do
    path: Array | None = None  # nodes of the prefix tree, from the root on, -1: none, shape [requests, depth]
    starts: Array | None = None  # blocks of the prompt at which they begin, shape [requests, depth]
    drafts: Drafts | None = None  # None: nothing is drafted
    tiers: Any = None  # numbers of the tiers below the cache, `service.tiers.TierRules`; None: there are none


class Run(NamedTuple):
    """A simulation that can go on."""

    engine: Engine
    state: State
    order: Array


def engine(
    traffic: Traffic, policy: Policy, blocks: Array, delay: Array, longest: Array
) -> tuple[Engine, Clock, Array]:
    """The engine's constants, the times at which requests join the queue, and their order: refused ones last.

    Args:
      traffic: requests, shape [requests].
      policy: of the scheduler.
      blocks: of KV cache.
      delay: s from a request to its place in the queue.
      longest: decode steps that one iteration may take together.

    Returns:
      The constants; times at which requests join the queue, infinite where one is refused or not yet sent; and the
      index into `traffic` of every request, shape [requests].
    """
    # A request whose prompt and output exceed the whole cache, or that asks for no output, is refused.
    size, count = whole(policy.block_size), whole(blocks)
    isl, osl = whole(traffic.isl), whole(traffic.osl)
    refused = (blocks_of(isl + osl, size) > count) | (osl < 1)
    order = jnp.argsort(refused, stable=True)

    # Of a closed loop only the first request of each client is sent; `ending.sent` sends the others.
    sent = jnp.asarray(traffic.arrival, dtype=float)[order]
    place = jnp.arange(isl.shape[0], dtype=jnp.int32)
    clients = whole(isl.shape[0] if traffic.clients is None else traffic.clients)
    admissible = total_of(~refused)
    sent = jnp.where((place < admissible) & (place < clients), sent + delay, jnp.inf)

    def ordered(values: Array | None) -> Array | None:
        """Numbers of requests in the engine's order."""
        return None if values is None else whole(values)[order]

    constants = Engine(
        **rules(policy, count, longest),
        requests=admissible,
        clients=clients,
        think=jnp.asarray(traffic.think, dtype=float),
        delay=jnp.asarray(delay, dtype=float),
        isl=isl[order],
        osl=osl[order],
        group=ordered(traffic.group),
        shared=ordered(traffic.shared),
        keep=ordered(traffic.keep),
        encode=mapped(lambda number: jnp.asarray(number, dtype=float), traffic.encode),
        rank=ordered(rank(traffic, policy.queue)),
    )
    return constants, Clock(sent, jnp.zeros_like(sent)), order


def rules(policy: Policy, blocks: Array, longest: Scalar) -> dict[str, Array]:
    """The fields of an `Engine` that are the scheduler's, of shape () or of the policy's leaves.

    Args:
      blocks: of KV cache, int32.
      longest: decode steps that one iteration may take together.
    """

    def on(value: Scalar) -> Array:
        """A switch, 0 or 1, as a bool."""
        return jnp.asarray(value) > 0.5

    kind = jnp.asarray(policy.order)
    return {
        "mixed": kind == ORDERS.index("mixed"),
        "gated": kind >= ORDERS.index("decode_first"),
        "static": kind == ORDERS.index("static"),
        "budget": whole(policy.token_budget),
        "sequences": whole(policy.max_sequences),
        "chunked": on(policy.chunked),
        "size": whole(policy.block_size),
        "blocks": blocks,
        "spare": jnp.asarray(policy.watermark * blocks.astype(float), dtype=float),
        "reserve": on(policy.reserve),
        "swap": on(policy.swap),
        "swap_time": jnp.asarray(policy.swap_time, dtype=float),
        "caching": on(policy.prefix_caching),
        "most_waiting": jnp.asarray(policy.max_waiting, dtype=float),
        "graph_step": whole(policy.graph_step),
        "graph_limit": whole(policy.graph_limit),
        "longest": whole(longest),
    }


def rank(traffic: Traffic, queue: str) -> Array | None:
    """Of every request its rank in a queue of this kind, shape [requests]; None: the first that came goes first."""
    if queue == "shortest_first":
        return traffic.isl
    return traffic.priority if queue == "priority" else None


def whole(value: Scalar) -> Array:
    """int32 of a number; what is larger than 2^30, infinity too, is no limit."""
    return jnp.asarray(jnp.minimum(jnp.asarray(value, dtype=float), 2.0**30), dtype=jnp.int32)


def osl_of(engine: Engine, request: Array) -> Array:
    """Tokens that the engine produces of a request."""
    osl = entry(engine.osl, request)
    return osl if engine.single is None else jnp.where(engine.single, 1, osl)
