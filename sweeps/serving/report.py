"""Sentences on a simulation: its service-level objective, and requests that were not served."""

import dataclasses

import numpy as np

from hwspaces import formatted
from jaxroof.batch import STATUSES
from sweeps.data.labels import number
from sweeps.run.simulated.objective import WORDS, limits, slo_text
from sweeps.serving.columns import request_columns
from sweeps.serving.run import Simulation


@dataclasses.dataclass(frozen=True)
class Nearest:
    """The finished request that comes nearest to an objective that none keeps, and how far the usual one is."""

    request: int  # its place in the stream
    values: dict[str, float]  # limited latency -> its value, s
    medians: dict[str, float]  # limited latency -> its median over finished requests, s
    limits: dict[str, float]  # s

    @property
    def missed(self) -> tuple[str, ...]:
        """Limits that the request misses."""
        return tuple(name for name, value in self.values.items() if value > self.limits[name])


def nearest(found: Simulation) -> Nearest | None:
    """The finished request whose worst limit is missed by the smallest factor; None without limits or such a request.

    A request of one output token has no TPOT, and so keeps its limit.
    """
    wanted = limits(found.objective)
    columns = request_columns(found)
    done = np.flatnonzero(columns["status"] == STATUSES.index("finished"))
    if not wanted or not done.size:
        return None
    values = {name: columns[name][done] for name in wanted}
    ratios = np.stack([np.nan_to_num(values[name] / limit, nan=0.0) for name, limit in wanted.items()])
    best = int(np.argmin(ratios.max(axis=0)))
    return Nearest(
        request=int(done[best]),
        values={name: float(column[best]) for name, column in values.items() if np.isfinite(column[best])},
        medians={name: float(np.nanmedian(column)) for name, column in values.items() if np.isfinite(column).any()},
        limits=wanted,
    )


def slo_lines(found: Simulation) -> list[str]:
    """Lines on the requests under the objective; empty without one."""
    wanted = limits(found.objective)
    if not wanted:
        return []
    text = slo_text(found.objective)
    good = found.metrics["good_share"]
    if good > 0.0:
        rate = number(found.metrics["goodput"])
        return [f"{text}: {100 * good:.1f} % of the requests keep it, {rate} of them per second"]
    lines = [f"{text}: no request keeps it"]
    near = nearest(found)
    if near is None:
        return [f"{lines[0]}, because none finished"]
    best = " and ".join(_against(name, near.values[name], near.limits[name]) for name in near.missed)
    median = ", ".join(_against(name, value, near.limits[name]) for name, value in near.medians.items())
    return [*lines, f"nearest: request {near.request} has {best}", f"median: {median}"]


def status_text(found: Simulation) -> str:
    """Outcomes of the replica's requests: "998 finished, 2 refused: longer than the KV cache"."""
    counts = {name: int(found.metrics[name]) for name in STATUSES[:-1]}
    why = {
        "finished": "",
        "refused": f": prompt and output are more than the KV cache's {number(cache_tokens(found))} tokens",
        "rejected": f": {number(found.policy.max_waiting)} others were waiting",
        "unfinished": " when the run was ended",
    }
    return ", ".join(f"{count:,} {name}{why[name]}" for name, count in counts.items() if count) or "no requests"


def cache_tokens(found: Simulation) -> float:
    """Tokens of KV cache in whole blocks, of one replica."""
    return found.blocks * float(found.policy.block_size)


def _against(name: str, value: float, limit: float) -> str:
    """A time against its limit: TTFT 700 ms (40 % above 500 ms)."""
    far = f"{number(100.0 * (value / limit - 1.0))} % above" if value > limit else "within"
    return f"{WORDS[name]} {formatted(value, 's')} ({far} {formatted(limit, 's')})"
