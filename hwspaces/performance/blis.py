"""One set of efficiency constants with the source of each."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from hwspaces.accelerators.blis import UNUSED, UTILISATIONS, utilisations
from hwspaces.accelerators.load import json_accelerator
from jaxroof.efficiency import Decoding, Efficiency, Host, KindEfficiency, LinkEfficiency
from jaxroof.numerics.tree import leaf_paths


@dataclasses.dataclass(frozen=True, kw_only=True)
class EfficiencyEntry:
    """A set of efficiency constants as the project or a user's file gives it."""

    name: str
    efficiency: Efficiency  # leaves are Python floats, times in s
    sources: dict[str, str]  # constant, by dotted path -> what it was fitted to or which fact it is taken from
    engine: str | None = None  # serving engine whose kernels and host code the constants describe, with its version
    date: str | None = None  # when they were fitted, ISO 8601
    refit: str | None = None  # command that fits them again
    errors: str | None = None  # what was left over by the fit
    notes: tuple[str, ...]
    file: str
    devices: tuple[str, ...] = ()  # accelerators on which the constants were fitted or judged; none: it is not said


# Efficiency by phase from the utilisations in a `hardware_config.json` of the BLIS inference simulator.


def blis_efficiency(text: str) -> EfficiencyEntry:
    """The efficiency that a file of BLIS describes, as its roofline has it.

    time of a phase = max(FLOP / (TFlopsPeak mfu), bytes / (BwPeakTBs BwEffConstant)) + TOverheadMicros

    mfuPrefill is of kernels that work on prompts, mfuDecode of those that work on newest tokens. Without
    BwEffConstant, or where it is 0, all of the bandwidth is reached. Here the maximum is of every op, not of a phase.

    Args:
      text: FILE.json, or FILE.json#NAME where the file has several accelerators.

    Raises:
      ValueError: one line that names file, key, value and what is allowed.

    Source: inference-sim/inference-sim, sim/latency (rooflineStepTime) and docs/guide/latency-models.md.
    """
    path, _, name = text.partition("#")
    name, table = json_accelerator(path, name)
    where = f"{path}: {name}"
    values = utilisations(table, where)
    prefill, decode = (_shares(values[key], values["BwEffConstant"]) for key in ("mfuPrefill", "mfuDecode"))
    # That roofline has no losses of collectives and one constant time on the host, in us per step.
    efficiency = Efficiency(
        linear=prefill,
        experts=prefill,
        prefill_attention=prefill,
        decode_attention=decode,
        elementwise=prefill,
        collective=LinkEfficiency(losses=0.0),
        host=Host(step_time=values["TOverheadMicros"] * 1e-6, sequence_time=0.0, request_time=0.0),
        decoding=Decoding(linear=decode, experts=decode, elementwise=decode),
    )
    return EfficiencyEntry(
        name=name,
        efficiency=efficiency,
        sources=dict.fromkeys(leaf_paths(efficiency), f"{', '.join(UTILISATIONS)} of {name} in {path}"),
        notes=_notes(table),
        file=path,
    )


def _shares(mfu: float, bandwidth: float) -> KindEfficiency:
    # Only matrix products and memory have a share below 1, and kernels take no time beside their work.
    return KindEfficiency(
        matrix=mfu, matrix_low=mfu, vector=1.0, bandwidth=bandwidth, cache_bandwidth=1.0, kernel_time=0.0
    )


def _notes(table: Mapping[str, Any]) -> tuple[str, ...]:
    """What of the file's calibration has no place here."""
    others = [f"{key} = {table[key]:g}" for key in UNUSED if table.get(key)]
    return (f"not used: {', '.join(others)}",) if others else ()
