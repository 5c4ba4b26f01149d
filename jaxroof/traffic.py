"""Traffic: requests that arrive at an engine, and their outcome over time."""

from jaxroof.batch import Encode
from jaxroof.field import count, number
from jaxroof.struct import Array, Scalar, struct


@struct
class Traffic:
    """Requests in the order of their arrival, arrays of shape [requests].

    Open loop: they arrive when they say. Closed loop: `clients` of them are under way at any time, and the one after
    them is sent `think` s after one of these ends.
    """

    arrival: Array = number("s", "arrival", "non-decreasing; of a closed loop those of the first `clients` count")
    isl: Array = count("prompt tokens", "at least 1")
    osl: Array = count("output tokens", "at least 1; 0: there is no such request", zero=True)
    group: Array | None = number(
        "1", "group of requests that begin alike", "0 .. groups - 1, or -1; none: there are no groups", default=None
    )
    shared: Array | None = number(
        "1", "prompt tokens that an earlier request of the group began with", zero=True, default=None
    )
    keep: Array | None = number(
        "1",
        "tokens that a later request of the group begins with",
        "of prompt and output, but the last",
        zero=True,
        default=None,
    )
    kind: Array | None = number(
        "1", "class of the request", "0 .. classes - 1; none: there are no classes", zero=True, default=None
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
    joined: Array = number("1", "prompts that its step completes")
    running: Array = number("1", "sequences that were admitted and have not ended, after it")
