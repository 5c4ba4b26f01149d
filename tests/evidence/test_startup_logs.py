"""Room for the KV cache against start-up logs: median and largest error, and models that do not start."""

from tests.evidence.startup_logs import score, starts

MEDIAN, LARGEST = 0.03, 0.10


def test_errors_of_starts_that_state_their_flags():
    found = [one for one in starts() if one.stated]
    by = score(found)
    rows, median, largest = by["judged"]
    assert rows >= 15 and median <= MEDIAN and largest <= LARGEST
    assert by["fitted"][2] <= LARGEST


def test_what_did_not_start_has_no_room():
    failed = [one for one in starts() if not one.starts]
    assert failed and all(one.room == 0.0 for one in failed)


def test_parts_of_the_logs():
    """Weights as loaded within 4 %: the largest gaps are a vision tower, 3 %, and buffers counted with weights.

    The step's peak within 5 %, 0.08 GiB at most.
    """
    for one in starts():
        logged, parts = one.logged, one.parts
        if "weights_GiB" in logged:
            assert abs(float(parts.weights) / 2**30 / logged["weights_GiB"] - 1.0) < 0.04, one
        if "activations_GiB" in logged:
            assert abs(float(parts.peak) / 2**30 - logged["activations_GiB"]) < 0.08, one
