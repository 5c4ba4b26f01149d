"""Options of a class of traffic from the static comparison: the load that a replica of each layout takes."""

from collections.abc import Sequence

import numpy as np

import hwspaces
from sweeps.studies.comparison import Candidate, compare
from sweeps.studies.fleets.option import Found, Option
from workloads.lengths import Lengths, parse_lengths

METHOD = "static batches of mean lengths"
"""How the loads of replicas are found, in words."""

DRAWN = 20_000
"""Lengths whose mean stands for a distribution's."""


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
) -> Found:
    """Every accelerator and layout that keeps a class's limits, with the requests per s that one replica takes.

    Args:
      model: a catalogue name or a config file.
      isl, osl: prompt and output tokens, a number or a distribution in words.
      slo: limits: "ttft=1s,tpot=30ms".
      hardware: accelerators by name or file.
      weights, kv, efficiency: precisions in place of the checkpoint's, and efficiency constants.
      max_devices: of one replica.

    Returns:
      The options, and the reason of every accelerator that has none.

    Raises:
      ValueError: one line that names what is wrong, its value and what is allowed.
    """
    prompt, output = _mean(parse_lengths(isl)), _mean(parse_lengths(osl))
    found = compare(
        model,
        prompt,
        output,
        hardware=hardware,
        max_devices=max_devices,
        slo=slo,
        sort="tokens_per_second_per_device",
        weights=weights,
        kv=kv,
        efficiency=efficiency,
    )
    made = []
    for row in found.rows:
        spec = {"hardware": row.hardware, "model": model, "isl": isl, "osl": osl, "slo": slo}
        chosen = {"deployment": _degrees(row), "weights": weights, "kv": kv, "efficiency": efficiency}
        made.append(
            Option(
                hardware=row.hardware,
                devices=row.devices,
                layout=row.layout,
                requests_per_second=row.metrics["tokens_per_second"] / output,
                power=hwspaces.hardware(row.hardware).hardware.power.tdp,
                spec=spec | {name: value for name, value in chosen.items() if value is not None},
            )
        )
    missed = {row.hardware: row.reason or "" for row in found.nearest_misses}
    return Found(tuple(made), missed | dict(found.lacking))


def _mean(lengths: Lengths) -> float:
    """Mean in whole tokens."""
    return float(np.rint(lengths.drawn(np.random.default_rng(0), DRAWN).mean()))


def _degrees(row: Candidate) -> dict[str, int]:
    """Degrees of a layout's words: "tp4 pp2" is {"tp": 4, "pp": 2}."""
    parts = [word.rstrip("0123456789") for word in row.layout.split()]
    return {name: int(word[len(name) :]) for name, word in zip(parts, row.layout.split(), strict=True)}
