"""Differences between releases of an engine: host work beside the device, front ends, and longer steps."""

import re
from typing import NamedTuple

from jaxroof.hardware import Hardware

TOKEN_TIMES = {("trtllm", "1.0.0rc3"): 85e-6}
"""Engine and version -> s of its server per token, of one process, where measured points show an end of it:
Llama-3.1-8B on 4 and 8 devices of H100 stops at 12,000 tokens/s, however many devices there are."""


class Release(NamedTuple):
    """Releases of SGLang on AMD's devices whose steps took longer than those of later ones, at any load alike."""

    version: str  # first later version
    date: str  # first day of its runs, for those that say no version
    step_time: float  # s of a step


CDNA3 = (Release("0.5.5", "2025-12-16", 5.5e-3), Release("0.5.12", "2026-05-01", 10.9e-3))
CDNA4 = (Release("0.5.6", "2025-12-16", 4.7e-3),)
"""Medians of what InferenceX's runs of DeepSeek-R1 took longer than the newest run of the same point, at 4 to 64
clients: MI300X 5.2 to 5.9 ms, then 9.9 to 11.0 (one day 15.1), MI355X 4.7 ms and later 0.4, which is left out."""


def hides_host(engine: str, version: str, usual: bool) -> bool:
    """Whether an engine of this version works for the sequences on its host while the device does.

    TensorRT-LLM's overlap scheduler is on by default; so is vLLM's asynchronous scheduling from 0.14 on. SGLang's
    scheduler overlaps too, and yet its served points show the whole time of the host, at any number of devices.

    Args:
      version: "" where it is not recorded: not known to be new.
      usual: of the engine's other versions.
    """
    return numbers(version) >= [0, 14] if engine == "vllm" else usual


def longer_step(engine: str, version: str, date: str, vendor: str | None, hardware: Hardware) -> float:
    """s by which a step of this release of an engine on a device is longer than today's: of SGLang on AMD's.

    Args:
      version: of the engine, "" where it is not recorded: then the date counts.
      date: of the run, ISO 8601; "" where that is not recorded either: today's.
    """
    if engine != "sglang" or vendor != "AMD":
        return 0.0
    releases = CDNA4 if "fp4" in hardware.matrix else CDNA3
    for later in releases:
        if (version and numbers(version) < numbers(later.version)) or (not version and date and date < later.date):
            return later.step_time
    return 0.0


def numbers(version: str) -> list[int]:
    """The first three numbers of a version; [] of ""."""
    return [int(number) for number in re.findall(r"\d+", version)[:3]]
