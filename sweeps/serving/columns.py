"""Columns of a simulation: what became of every request, and what the engine did in every iteration."""

import numpy as np

from jaxroof.batch import STATUSES
from jaxroof.numerics.struct import Array
from sweeps.serving.run import Simulation, waiting


def request_columns(found: Simulation) -> dict[str, Array]:
    """Outcome of every request of the replica, in the order in which they were given. Shape [requests] each."""
    served, stream = found.served, found.replica.stream
    done = served.status == STATUSES.index("finished")
    decoded = served.finish - served.first_token
    arrival = served.arrival
    if found.load.clients is None:
        arrival = np.where(np.isfinite(arrival), arrival, stream.arrival)
    return {
        "arrival": arrival,
        "ttft": served.first_token - served.arrival,
        "tpot": np.where(stream.osl > 1, decoded / np.maximum(stream.osl - 1, 1), np.nan),
        "e2e": np.where(done, served.finish - served.arrival, np.nan),
        "queueing": served.admitted - served.arrival,
        "isl": stream.isl.astype(np.int32),
        "osl": stream.osl.astype(np.int32),
        "status": served.status.astype(np.int8),
        "preempted": served.preemptions.astype(np.int32),
        "cached": served.cached.astype(np.int32),
        **({} if stream.kind is None else {"request_class": stream.kind.astype(np.int8)}),
    }


def iteration_columns(found: Simulation) -> dict[str, np.ndarray]:
    """Timeline of the replica's engine. Shape [iterations] each."""
    timeline = found.timeline
    counts = {name: getattr(timeline, name) for name in ("steps", "decoding", "prompt_tokens", "blocks", "running")}
    counts["waiting"] = waiting(found)
    times = {"end": timeline.end, "iteration_time": timeline.duration}
    return times | {name: values.astype(np.int32) for name, values in counts.items()}
