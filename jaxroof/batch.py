"""Batch of one engine step, as the sums that its cost depends on: O(1) in the number of requests."""

import dataclasses
import math
from typing import Any

from jaxroof.numerics.struct import Array, Scalar, count, given, number, share, struct, switch, text, word
from jaxroof.numerics.tree import mapped


@struct
class Prefill:
    """New prompt tokens of one step."""

    # Sums over sequences are enough: linear layers cost by tokens, attention by tokens times mean context, launches by
    # step. The cost of a step is then independent of how many requests it holds.
    sequences: Scalar = number("1", "prompts of the step")
    tokens: Scalar = number("1", "new prompt tokens", "summed over sequences")
    past: Scalar = number("1", "tokens in the cache before the step", "summed over sequences", zero=True)


@struct
class Decode:
    """Sequences that each add one token in one step, and verify the ones that a deployment drafts."""

    sequences: Scalar = number("1", "decoding sequences")
    context: Scalar = number("1", "tokens that are attended to", "the new one included, summed over sequences")
    drafted: Scalar | None = number(
        "1",
        "tokens drafted per sequence in this step",
        "none: those of the deployment, and the step's share of one kept token",
        zero=True,
        default=None,
    )


@struct
class Encode:
    """Images, sounds or texts that the encoder turns into vectors in one step."""

    sequences: Scalar = number("1", "inputs of the encoder")
    tokens: Scalar = number("1", "patches, frames or words", "summed over sequences")


def encoder_tokens_count() -> Any:
    """A workload's field: what the encoder works on per request; None: nothing."""
    return count("patches, frames or words per request that the encoder works on", condition=True, default=None)


def encoder_inputs_count() -> Any:
    """A workload's field: parts of `encoder_tokens_count` that do not see one another; None: they are one."""
    about = "images, or tiles of them, that do not see one another; none: 1"
    return count("inputs of the encoder per request", about, condition=True, default=None)


def encode(requests: Scalar, tokens: Scalar, inputs: Scalar | None = None) -> Encode:
    """The encoder's part of a step: requests of `tokens` tokens each, in `inputs` inputs each; None: in one."""
    return Encode(sequences=requests if inputs is None else requests * inputs, tokens=requests * tokens)


@struct
class Batch:
    """One engine step. A part that is None launches no kernels; costs of a mixed step are additive.

    Sequences of one part are taken to be alike: a window clips their mean length.
    """

    prefill: Prefill | None
    decode: Decode | None
    logits: Scalar = number("1", "sequences that sample a token", zero=True)
    encode: Encode | None = None
    encoded: Scalar = number(
        "1", "encoder outputs that every sequence attends to in cross-attention", zero=True, default=0.0
    )


def prefill(sequences: Scalar, tokens: Scalar, past: Scalar = 0.0) -> Batch:
    """A step of `sequences` prompts with `tokens` new tokens each, on top of `past` cached tokens each."""
    return Batch(
        # With all sequences alike, sums are products.
        prefill=Prefill(sequences=sequences, tokens=sequences * tokens, past=sequences * past),
        decode=None,
        logits=sequences,
    )


def decode(sequences: Scalar, context: Scalar) -> Batch:
    """A step in which `sequences` sequences of `context` tokens each (the new one included) add one token."""
    return Batch(prefill=None, decode=Decode(sequences=sequences, context=sequences * context), logits=sequences)


def mixed(prefill: Batch, decode: Batch) -> Batch:
    """One step with the prefill part of one batch and the decode part of another."""
    # Linear layers of both parts run as one product (continuous batching), attention as one kernel of each kind.
    return dataclasses.replace(prefill, decode=decode.decode, logits=prefill.logits + decode.logits)


def prompts_and_decoding(batch: Batch) -> tuple[Prefill, Decode]:
    """Both parts of an engine's step, which has them where a part's numbers are 0, too.

    Raises:
      ValueError: where one is None.
    """
    return given(batch.prefill, "prefill part of the step"), given(batch.decode, "decode part of the step")


def divided(batch: Batch, ways: Scalar) -> Batch:
    """An even share of the sequences of a step: every sum over `ways`; `encoded` is per sequence and stays."""
    # Data-parallel replicas take an even share of the sequences, each with its whole encoder output.
    return dataclasses.replace(mapped(lambda total: total / ways, batch), encoded=batch.encoded)


# Policy of a scheduler between steps: the prompts to work on, blocks to hand out, and blocks to take back.


ORDERS = ("mixed", "prefill_first", "decode_first", "static")
"""Which work goes first.

mixed: prompts and decoding sequences share a step (vLLM v1, Sarathi). prefill_first: a step is prompts where any can be
admitted, else decoding (vLLM v0). decode_first: prompts only when nothing decodes. static: as decode_first, and a batch
keeps its size until its longest sequence ends.
"""

QUEUES = ("fcfs", "shortest_first", "priority")
"""Which of the waiting requests is next: the one that came first, the one with the shortest prompt, or the one with the
lowest priority number."""

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
    decode_sequences: Scalar = count(
        "sequences at once in an engine that decodes what others computed",
        "where it is below max_sequences",
        least=1.0,
        default=math.inf,
    )
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
    acceptance: Scalar | tuple[Scalar, ...] = share(
        "probability that a drafted token is right",
        "given that those before it are; several by position, or a table of them",
        zero=True,
        open=True,
        default=0.0,
    )
    draft_limit: Scalar = count(
        "decoding sequences with which tokens are drafted", "with more of them none are", zero=True, default=math.inf
    )
    draft_lengths: str | None = text(
        "tokens drafted per sequence by the number of decoding sequences",
        "1:5,16:3,64:0: 5 with 1 to 15 of them, 3 with 16 to 63, none with more; none: those of the deployment",
        default=None,
    )
    queue: str = word("which waiting request is next", QUEUES, default="fcfs")


def draft_steps(policy: Policy) -> tuple[tuple[float, float], ...]:
    """Decoding sequences from which on so many tokens are drafted, as `draft_lengths` says; none where it does not."""
    pairs = [each.split(":") for each in (policy.draft_lengths or "").split(",") if each]
    return tuple((float(start), float(tokens)) for start, tokens in pairs)


def waiting_steps(policy: Policy) -> Scalar:
    """Steps between a request and its place in the queue: held back, launched ahead, half of a look."""
    # A request arrives at a random time between two looks, so it waits for half of the steps between them on average.
    return policy.wait_steps + policy.ahead_steps + 0.5 * (policy.poll_steps - 1.0)


# Traffic: requests that arrive at an engine, and their outcome over time.


@struct
class Traffic:
    """Requests in the order of their arrival, arrays of shape [requests], or [requests, depth] where they say so.

    Open loop: they arrive when they say, or `pause` s after the answer that they wait for. Closed loop: `clients` of
    them are under way at any time, and the one after them is sent `think` s after one of these ends. Where requests
    wait for answers, a client holds a conversation: from a request that `opens` one to the answer that `closes` it.
    """

    arrival: Array = number("s", "arrival", "non-decreasing; of a closed loop those of the first `clients` count")
    isl: Array = count("prompt tokens", "at least 1")
    osl: Array = count("output tokens", "at least 1; 0: there is no such request", zero=True)
    group: Array | None = number(
        "1",
        "group of requests that begin alike",
        "0 .. groups - 1, the deepest of its path, or -1; none: there are no groups",
        default=None,
    )
    shared: Array | None = number("1", "prompt tokens that an earlier request began with", zero=True, default=None)
    keep: Array | None = number(
        "1",
        "tokens that a later request begins with",
        "of prompt and output, but the last",
        zero=True,
        default=None,
    )
    kind: Array | None = number(
        "1", "class of the request", "0 .. classes - 1; none: there are no classes", zero=True, default=None
    )
    path: Array | None = number(
        "1",
        "groups from the root of the prefix tree to the request's own",
        "[requests, depth], a parent's number is smaller, -1 after the last; none: no group branches off from another",
        default=None,
    )
    starts: Array | None = number(
        "1",
        "tokens of the prompt at which each group of the path begins",
        "[requests, depth], 0 first; where there is no group the end of prompt and output",
        zero=True,
        default=None,
    )
    after: Array | None = number(
        "1",
        "earlier request whose answer this one waits for",
        "a position, or -1; none: no request waits; `arrival` is then the time by plan",
        default=None,
    )
    pause: Array | None = number("s", "time between that answer and this request", zero=True, default=None)
    priority: Array | None = number("1", "priority", "lower ones go first; none: all are alike", default=None)
    opens: Array | None = switch("1 where a client begins a conversation", "none: every request is one", default=None)
    closes: Array | None = switch(
        "1 where the answer ends a client's conversation", "none: every request is one", default=None
    )
    encode: Encode | None = (
        None  # of every request, in the step that begins its prompt; None: there is no encoder's work
    )
    clients: Scalar | None = count("clients of a closed loop", default=None)
    think: Scalar = number("s", "time between an answer and its client's next request", zero=True, default=0.0)


STATUSES = ("finished", "refused", "rejected", "unfinished", "absent")
"""What became of a request: answered; too long for the cache; turned away by a full queue; left when the run ended; or
there is none, because arrays are padded."""


@struct
class Served:
    """Outcome of every request, shape [requests]; times in s, NaN where it did not come to that."""

    arrival: Array = number("s", "when the request was sent")
    admitted: Array = number("s", "start of the first step that worked on the prompt")
    first_token: Array = number("s", "when the first token was there")
    finish: Array = number("s", "when the last token was there")
    status: Array = number("1", "what became of the request", codes=STATUSES)
    preemptions: Array = number("1", "times that the request's cache was taken away")
    cached: Array = number("1", "prompt tokens that the prefix cache had")


@struct
class Timeline:
    """Every iteration of the simulator, shape [iterations]; those of no duration are parts of the step that follows."""

    end: Array = number("s", "when the iteration ends")
    duration: Array = number("s", "time of the iteration", "idle time too")
    steps: Array = number("1", "engine steps of the iteration", "0: none, or idle")
    decoding: Array = number("1", "sequences that each add a token per step")
    prompt_tokens: Array = number("1", "prompt tokens of the step")
    blocks: Array = number("1", "KV blocks in use after it", "those of idle prefixes included")
    joined: Array = number("1", "prompts that its step completes", "those whose cache came meanwhile included")
    running: Array = number("1", "sequences that were admitted and have not ended, after it")
    right: Array | None = number("1", "drafted tokens of its step that are right", "none: nothing drafts", default=None)
