"""Figures of every kind of replicas in a simulated service: requests, tokens, busy share."""

import dataclasses

import numpy as np

from hwspaces import hardware
from jaxroof.batch import STATUSES
from jaxroof.deployment import replica_devices
from jaxroof.scheduler.service.handover import ROLES
from sweeps.run.simulated.service import EngineKind
from sweeps.serving.run import Simulation


@dataclasses.dataclass(frozen=True)
class KindFigures:
    """What one kind of replicas did."""

    hardware: str
    role: str  # of `ROLES`
    replicas: int
    devices: int  # of one replica
    requests: int  # finished ones that it worked on
    prompt_tokens: float  # of them; computed there or found in a cache
    output_tokens: float
    busy_share: float  # of its replicas' time from the first arrival to the last finish
    ttft_mean: float  # s, of requests that came to it; NaN where none did


def kind_figures(simulation: Simulation) -> list[KindFigures]:
    """Figures of every kind, where there are several."""
    places, engines = simulation.places, simulation.engines
    if places is None or engines is None or len(simulation.kinds) < 2:
        return []
    served, stream, line = simulation.served, simulation.replica.stream, simulation.timeline
    done = served.status == STATUSES.index("finished")
    first, then = np.asarray(places.first), np.asarray(places.then)
    busy = np.where(line.steps > 0, line.duration, 0.0)
    span, found, begin = simulation.metrics["duration"], [], 0
    for name, kind in of_kinds(simulation):
        end = begin + kind.replicas
        came = done & (first >= begin) & (first < end)
        decoded = done & (then >= begin) & (then < end)
        # A prompt's replica makes all tokens, or the first one where another one decodes.
        made = np.where(then < 0, stream.osl, 1.0)
        here = (engines >= begin) & (engines < end)
        found.append(
            KindFigures(
                hardware=name,
                role=ROLES[kind.role],
                replicas=kind.replicas,
                devices=int(replica_devices(kind.scenario.deployment)),
                requests=int(np.sum(came | decoded)),
                prompt_tokens=float(np.sum(stream.isl[came])),
                output_tokens=float(np.sum(made[came]) + np.sum(stream.osl[decoded] - 1.0)),
                busy_share=float(np.sum(busy[here])) / (span * kind.replicas),
                ttft_mean=float(np.mean((served.first_token - served.arrival)[came])) if came.any() else float("nan"),
            )
        )
        begin = end
    return found


def of_kinds(simulation: Simulation) -> list[tuple[str, EngineKind]]:
    """Every kind of replicas and the name of its hardware."""
    own = simulation.case.hardware.name
    names = [own, *(kind.hardware.name for kind in simulation.also)]
    if simulation.case.scenario.prefill is not None:
        named = simulation.spec.prefill.get("hardware")
        names = [own if named is None else hardware(named).name, own]
    return list(zip(names, simulation.kinds, strict=True))
