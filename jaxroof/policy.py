"""Policy of a scheduler between steps: the prompts to work on, blocks to hand out, and blocks to take back."""

import math

from jaxroof.struct import Scalar, static, struct

ORDERS = ("mixed", "prefill_first", "decode_first", "static")
"""Which work goes first.

mixed: prompts and decoding sequences share a step (vLLM v1, Sarathi). prefill_first: a step is prompts where any can be
admitted, else decoding (vLLM v0). decode_first: prompts only when nothing decodes. static: as decode_first, and a batch
keeps its size until its longest sequence ends.
"""


@struct
class Policy:
    """The scheduler of one engine. Fields are data, so that policies are an axis like any other, but for `queue`.

    Switches are 0 or 1.
    """

    order: Scalar = 0.0  # index into ORDERS
    token_budget: Scalar = 8192.0  # tokens of one step, decoding sequences included
    max_sequences: Scalar = 256.0  # sequences that run at once
    chunked: Scalar = 1.0  # 1: a prompt may be split over steps
    block_size: Scalar = 16.0  # tokens of one block of the KV cache
    watermark: Scalar = 0.0  # share of the blocks that an admission leaves free
    reserve: Scalar = 0.0  # 1: blocks for the whole output are taken at admission
    swap: Scalar = 0.0  # 1: a preempted sequence's cache is kept in host memory; 0: it is computed again
    swap_time: Scalar = 0.0  # s to move one token's cache to or from host memory
    prefix_caching: Scalar = 1.0  # 1: prompts that begin like earlier ones find that part in the cache
    max_waiting: Scalar = math.inf  # requests that wait; one more is rejected
    graph_step: Scalar = 0.0  # decoding batches are padded to 1, 2, 4 and multiples of this; 0: they are not
    graph_limit: Scalar = 512.0  # largest batch that is padded
    hidden_host: Scalar = 0.0  # 1: the host works while the device does, so that the longer of both counts
    acceptance: Scalar = 0.0  # probability that a drafted token is right, given that those before it are
    queue: str = static(default="fcfs")  # one of QUEUES


QUEUES = ("fcfs", "shortest_first")
"""Which of the waiting requests is next: the one that came first, or the one with the shortest prompt."""
