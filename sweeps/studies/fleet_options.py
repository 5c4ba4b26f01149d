"""Options of a class of traffic from the served comparison: the load that a replica of each layout takes."""

from collections.abc import Sequence

from sweeps.studies.fleets.option import Found, Option
from sweeps.studies.served.compare import compare
from sweeps.studies.served.figures import RATE


def method(simulated: int) -> str:
    """How the loads of replicas are found, in words."""
    return "estimate of continuous batching" + (f", the best {simulated} of a class by simulation" if simulated else "")


def options(
    model: str,
    isl: str,
    osl: str,
    slo: str,
    hardware: Sequence[str],
    *,
    weights: str | None = None,
    kv: str | None = None,
    efficiency: str | None = None,
    max_devices: int = 16,
    simulated: int = 0,
) -> Found:
    """Every accelerator and layout that keeps a class's limits, with the requests per s that one replica takes.

    Args:
      model: a catalogue name or a config file.
      isl, osl: prompt and output tokens, a number or a distribution in words.
      slo: limits: "ttft=1s,tpot=30ms".
      hardware: accelerators by name or file.
      weights, kv, efficiency: precisions in place of the checkpoint's, and efficiency constants.
      max_devices: of one replica.
      simulated: layouts that are simulated at most; the others have estimates.

    Returns:
      The options, and the reason of every accelerator that has none.

    Raises:
      ValueError: one line that names what is wrong, its value and what is allowed.
    """
    found = compare(
        model,
        slo,
        isl=isl,
        osl=osl,
        hardware=hardware,
        max_devices=max_devices,
        sort=RATE,
        weights=weights,
        kv=kv,
        efficiency=efficiency,
        simulate=simulated,
        disaggregated=False,  # a fleet simulates its replicas
    )
    made = [
        Option(
            hardware=row.hardware,
            devices=row.devices,
            layout=row.layout,
            requests_per_second=row.metrics["load"],
            power=row.metrics["power"] if row.metrics["power"] > 0.0 else None,
            spec=row.spec,
        )
        for row in found.rows
    ]
    missed = {row.hardware: row.reason or "" for row in found.nearest_misses}
    return Found(tuple(made), missed | dict(found.question.lacking))
