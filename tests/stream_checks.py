"""Checks of request streams: what `Stream` promises of its arrays."""

import numpy as np

from workloads.streams.stream import NONE, Stream
from workloads.streams.tree import ALONE, MOST_LEVELS, paths

COLUMNS = ("arrival", "isl", "osl", "group", "shared")


def lawful(stream: Stream) -> Stream:
    """The stream, if it is what `Stream` says."""
    assert all(len(getattr(stream, name)) == len(stream) for name in COLUMNS)
    assert stream.arrival[0] >= 0 and (np.diff(stream.arrival) >= 0).all()
    assert (stream.isl >= 1).all() and (stream.osl >= 1).all()
    assert ((stream.shared >= 0) & (stream.shared <= stream.isl)).all()
    assert (stream.shared[stream.group == ALONE] == 0).all()
    assert stream.group.dtype == np.int32
    lawful_groups(stream)
    if stream.after is not None:
        follows = stream.after != NONE
        assert follows.any() and (stream.after < np.arange(len(stream))).all() and stream.after.dtype == np.int32
        assert (stream.pause >= 0).all() and (stream.pause[~follows] == 0).all()
    return stream


def lawful_groups(stream: Stream) -> None:
    """Groups in the order of first appearance, after their parents, no deeper than is allowed."""
    nodes, starts = paths(stream.group, stream.parent, stream.base)
    seen = list(dict.fromkeys(nodes[nodes >= 0].tolist()))
    assert seen == list(range(len(seen))) and len(seen) <= len(stream)
    # Before the first request of a group there is nobody to share what begins with the group.
    _, first = np.unique(nodes[:, 0], return_index=True)
    assert (stream.shared[first] == 0).all()
    assert (stream.parent is None) == (stream.base is None)
    if stream.parent is None or stream.base is None:
        return
    assert len(stream.parent) == len(stream.base) == len(seen) and nodes.shape[1] <= MOST_LEVELS
    assert (stream.parent >= 0).any() and (stream.parent < np.arange(len(seen))).all()
    assert (stream.base[stream.parent < 0] == 0).all()
    # Along a path every group begins behind the one above, and no group has one request alone.
    inside = (nodes[:, 1:] >= 0) & (nodes[:, :-1] >= 0)
    assert (np.diff(np.where(np.isinf(starts), 0, starts), axis=1)[inside] > 0).all()
    assert (np.bincount(nodes[nodes >= 0]) >= 2).all()
