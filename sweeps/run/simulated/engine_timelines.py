"""Timelines of the engines of a simulated service, from the records of its iterations."""

import numpy as np

from jaxroof.batch import Timeline
from jaxroof.scheduler.service.record import Happening


def timelines(records: Happening, engines: int) -> list[Timeline]:
    """What every engine did between its instants, NumPy arrays; waits are left out.

    Where none did anything, the first one has an iteration of no duration: metrics are of one at least.
    """
    found = []
    for engine in range(engines):
        here = np.flatnonzero(records.engine == engine)
        began = here[records.began[here] > 0]
        end = records.high[began] + records.low[began]
        # Steps begin at the instant before, whose last iteration says what the cache holds during them.
        last = np.concatenate([began[1:], [len(records.engine)]]) - 1
        inside = here[np.searchsorted(here, last, side="right") - 1] if len(began) else here[:0]
        before = np.concatenate([[0.0], end[:-1]])
        blocks = np.concatenate([[0], records.blocks[inside][:-1]])
        bounds = np.concatenate([began, [len(records.engine)]])
        completes = np.searchsorted(here[records.produced[here] >= 0], bounds)
        joined = np.concatenate([[0], np.diff(completes)[:-1]]) if len(began) else completes[:0]
        steps = records.steps[began]
        works = steps > 0
        # Caches that have arrived when the next steps begin.
        ready = np.sort(records.ready[here[records.accepted[here] >= 0]])
        there = np.searchsorted(ready, before[works], side="right")
        joined = np.array(joined)
        joined[works] += np.diff(there, append=len(ready))
        columns = {
            "end": end,
            "duration": end - before,
            "steps": steps,
            "decoding": records.decoding[began],
            "prompt_tokens": records.prompt[began],
            "blocks": np.maximum(blocks, records.blocks[began]),
            "joined": joined,
            "running": records.running[began],
        }
        found.append(Timeline(**{name: np.asarray(values)[works] for name, values in columns.items()}))
    if not any(len(one.end) for one in found):
        found[0] = Timeline(**{name: np.zeros(1, np.asarray(values).dtype) for name, values in columns.items()})
    return found
