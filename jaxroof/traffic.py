"""Traffic: requests that arrive at an engine, and their outcome over time."""

import jax

from jaxroof.struct import Array, Scalar, struct


@struct
class Traffic:
    """Requests in the order of their arrival, arrays of shape [requests].

    Open loop: they arrive when they say. Closed loop: `clients` of them are under way at any time, and the one after
    them is sent `think` s after one of these ends.
    """

    arrival: Array  # s, non-decreasing; of a closed loop those of the first `clients` count
    isl: Array  # prompt tokens, whole numbers of at least 1
    osl: Array  # output tokens, whole numbers of at least 1; 0: there is no such request
    group: Array | None = None  # requests that begin alike, 0 .. groups - 1, or -1; None: there are no groups
    shared: Array | None = None  # prompt tokens that an earlier request of the group began with
    keep: Array | None = (
        None  # tokens of prompt and output, but the last, that a later one of the group begins with
    )
    clients: Scalar | None = None  # of a closed loop
    think: Scalar = 0.0  # s


STATUSES = ("finished", "refused", "rejected", "unfinished", "absent")
"""What became of a request: answered; too long for the cache; turned away by a full queue; left when the run ended; or
there is none, because arrays are padded."""


@struct
class Served:
    """Outcome of every request, shape [requests]; times in s, NaN where it did not come to that."""

    arrival: jax.Array  # s; in a closed loop when it was sent
    admitted: jax.Array  # s, start of the first step that worked on its prompt
    first_token: jax.Array  # s
    finish: jax.Array  # s
    status: jax.Array  # index into STATUSES
    preemptions: jax.Array
    cached: jax.Array  # prompt tokens found in the prefix cache


@struct
class Timeline:
    """Every iteration of the simulator, shape [iterations]; those of no duration are parts of the step that follows."""

    end: jax.Array  # s, clock after it
    duration: jax.Array  # s; idle time too
    steps: jax.Array  # engine steps; 0: none, or idle
    decoding: jax.Array  # sequences that each add a token per step
    prompt_tokens: jax.Array
    blocks: jax.Array  # KV blocks in use after it, those of idle prefixes included
    joined: jax.Array  # prompts that its step completes
    running: jax.Array  # sequences admitted and not ended, after it
