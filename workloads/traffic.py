"""A request stream as the arrays that the scheduler takes."""

import numpy as np

from jaxroof.traffic import Traffic
from workloads.stream import ALONE, Stream


def traffic(stream: Stream, *, clients: int | None = None, think: float = 0.0, pad: int = 0) -> Traffic:
    """The requests of a stream, NumPy arrays of float64, shape [max(requests, pad)].

    Args:
      stream: requests; without groups the traffic has none.
      clients: of a closed loop, which takes lengths from the stream and ignores its times; None: an open loop.
      think: s between an answer and its client's next request.
      pad: requests to fill the arrays up to with absent ones, so that streams of several lengths stack.

    Raises:
      ValueError: one line, for clients or a think time that cannot be.
    """
    if clients is not None and (clients != int(clients) or clients < 1):
        raise ValueError(f"clients is {clients}; it must be a whole number of at least 1")
    if not 0.0 <= think < 1e9:
        raise ValueError(f"think is {think:g} s; it must be from 0 to 1e9")
    more = max(pad - len(stream), 0)

    def padded(values: np.ndarray, fill: float) -> np.ndarray:
        return np.concatenate([np.asarray(values, float), np.full(more, fill)])

    grouped = bool((stream.group != ALONE).any())
    return Traffic(
        arrival=padded(stream.arrival if clients is None else np.zeros(len(stream)), np.inf),
        isl=padded(stream.isl, 1.0),
        osl=padded(stream.osl, 0.0),
        group=padded(stream.group, ALONE) if grouped else None,
        shared=padded(stream.shared, 0.0) if grouped else None,
        keep=padded(kept(stream), 0.0) if grouped else None,
        clients=None if clients is None else float(clients),
        think=float(think),
    )


def kept(stream: Stream) -> np.ndarray:
    """Tokens of each request's prompt and output, but for the last, that a later one of its group begins with.

    Shape [requests]; 0 where there is no later one.
    """
    order = np.lexsort((np.arange(len(stream)), stream.group))[::-1]
    group, shared = stream.group[order], stream.shared[order]
    following = np.concatenate([[0.0], shared[:-1]])
    following[np.concatenate([[True], group[1:] != group[:-1]])] = 0.0
    # Groups come in falling order: an offset that rises keeps the running maximum of one from the next.
    offset = (group.max(initial=0) - group).astype(float) * (shared.max(initial=0.0) + 1.0)
    most = np.maximum.accumulate(following + offset) - offset
    keep = np.zeros(len(stream))
    keep[order] = np.minimum(most, (stream.isl + stream.osl - 1.0)[order])
    return np.where(stream.group == ALONE, 0.0, keep)
