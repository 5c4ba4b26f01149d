"""Policy of a scheduler between steps: the prompts to work on, blocks to hand out, and blocks to take back."""

import math

from jaxroof.field import count, number, share, switch, word
from jaxroof.struct import Scalar, struct

ORDERS = ("mixed", "prefill_first", "decode_first", "static")
"""Which work goes first.

mixed: prompts and decoding sequences share a step (vLLM v1, Sarathi). prefill_first: a step is prompts where any can be
admitted, else decoding (vLLM v0). decode_first: prompts only when nothing decodes. static: as decode_first, and a batch
keeps its size until its longest sequence ends.
"""

QUEUES = ("fcfs", "shortest_first")
"""Which of the waiting requests is next: the one that came first, or the one with the shortest prompt."""

MOST = 2.0**30
"""Tokens, sequences and the like that a policy may name."""


@struct
class Policy:
    """The scheduler of one engine. Fields are data, so that policies are an axis like any other, but for `queue`."""

    order: Scalar = number("1", "which work goes first", codes=ORDERS, default=0.0)
    token_budget: Scalar = count(
        "tokens of one step", "decoding sequences included", least=1.0, most=MOST, default=8192.0
    )
    max_sequences: Scalar = count("sequences that run at once", least=1.0, most=MOST, default=256.0)
    chunked: Scalar = switch("1 where prompts are split over steps", default=1.0)
    block_size: Scalar = count("tokens of one block of the KV cache", least=1.0, most=4096.0, default=16.0)
    watermark: Scalar = share("share of the KV blocks that an admission leaves free", zero=True, open=True, default=0.0)
    reserve: Scalar = switch("1 where blocks for the whole output are taken at admission", default=0.0)
    swap: Scalar = switch(
        "1 where a preempted sequence's cache is kept in host memory", "0: it is computed again", default=0.0
    )
    swap_time: Scalar = number("s", "time to move one token's cache to or from host memory", zero=True, default=0.0)
    prefix_caching: Scalar = switch("1 where prompts find their beginning in the cache", default=1.0)
    max_waiting: Scalar = count("requests that wait at most", "one more is rejected", least=1.0, default=math.inf)
    graph_step: Scalar = count(
        "multiples that decoding batches are padded to",
        "beside 1, 2 and 4; 0: they are not padded",
        zero=True,
        most=MOST,
        default=0.0,
    )
    graph_limit: Scalar = count("largest batch that is padded", zero=True, most=MOST, default=512.0)
    hidden_host: Scalar = switch(
        "1 where the host works for the sequences while the device does", "the longer of both counts", default=0.0
    )
    front_time: Scalar = number(
        "s",
        "time between a client and the queue, and back",
        "beyond the host's time of a request: HTTP, tokeniser, front end",
        zero=True,
        default=0.0,
    )
    first_time: Scalar = number(
        "s",
        "time that the first request of every client of a closed loop takes longer",
        "kernels are built and loaded",
        zero=True,
        default=0.0,
    )
    ahead_steps: Scalar = number(
        "1", "steps that are launched before the prompt of a new request", zero=True, most=MOST, default=0.0
    )
    wait_steps: Scalar = number(
        "1", "steps that a new request is held back, for others to join it", zero=True, most=MOST, default=0.0
    )
    poll_steps: Scalar = number("1", "steps between two looks for new requests", least=1.0, most=MOST, default=1.0)
    acceptance: Scalar = share(
        "probability that a drafted token is right", "given that those before it are", zero=True, open=True, default=0.0
    )
    queue: str = word("which waiting request is next", QUEUES, default="fcfs")


def waiting_steps(policy: Policy) -> Scalar:
    """Steps between a request and its place in the queue: held back, launched ahead, half of a look."""
    return policy.wait_steps + policy.ahead_steps + 0.5 * (policy.poll_steps - 1.0)
