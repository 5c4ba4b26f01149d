"""Clocks of GPUs at two limits of power, predicted one from the other: `python -m tests.evidence.throttled_clock`."""

import argparse
import dataclasses
import sys
from typing import NamedTuple

import hwspaces
from jaxroof.energy.energy import Joules
from jaxroof.energy.governor import limited_time
from jaxroof.hardware import Hardware
from tests.evidence.harness import command

CORE_SHARE = 0.85
"""Share of a product's energy beside static power that is spent at the cores' voltage: Llama's products on H100."""


class Pair(NamedTuple):
    """Clocks of one load on the same silicon at two limits."""

    load: str
    device: str  # whose silicon, static power and curve it is
    full: float  # MHz at full clock
    known: tuple[float, float]  # W, and MHz
    other: tuple[float, float]  # the same at the limit that is predicted
    source: str


AMD = "AMD ROCm blog, measuring maximum achievable FLOPS, part 2: median clock of hipBLASLt products"
GAMES = "Quasarzone, power limits of the RTX 4090 in games; assumption: full clock 2800 MHz"
PREFILL = "noonghunna/club-3090 on GitHub, #104: sampled clocks of prefill; assumption: full clock 1950 MHz"

PAIRS = (
    Pair("fp16 product", "MI300X", 2100.0, (750.0, 1115.0), (1000.0, 1354.0), AMD),
    Pair("bf16 product", "MI300X", 2100.0, (750.0, 1207.0), (1000.0, 1447.0), AMD),
    Pair("fp8 product", "MI300X", 2100.0, (750.0, 1230.0), (1000.0, 1464.0), AMD),
    Pair("games", "RTX-4090", 2800.0, (347.0, 2726.0), (305.0, 2602.0), GAMES),
    Pair("games", "RTX-4090", 2800.0, (347.0, 2726.0), (268.0, 2443.0), GAMES),
    Pair("prefill", "RTX-3090", 1950.0, (290.0, 1740.0), (210.0, 1545.0), PREFILL),
    Pair("prefill", "RTX-3090", 1950.0, (290.0, 1740.0), (180.0, 1425.0), PREFILL),
)
"""The limit of 1000 W is MI325X's, which has the dies of MI300X. All clocks were measured by those named."""


def predicted(pair: Pair, voltage: float | None = None) -> float:
    """MHz at the other limit: the load's energy is the one that explains the clock at the first.

    Args:
      voltage: V at full clock; None: the catalogue's.
    """
    hardware = hwspaces.hardware(pair.device).hardware
    if voltage is not None:
        curve = dataclasses.replace(hardware.power.curve, full=voltage)
        hardware = dataclasses.replace(hardware, power=dataclasses.replace(hardware.power, curve=curve))
    low, high = 0.0, 1e5
    for _ in range(80):
        middle = 0.5 * (low + high)
        low, high = (
            (middle, high) if _share(hardware, pair.known[0], middle) * pair.full > pair.known[1] else (low, middle)
        )
    return _share(hardware, pair.other[0], low) * pair.full


def _share(hardware: Hardware, limit: float, watts: float) -> float:
    """Share of the full clock at a limit in W for a load that takes `watts` beside static power at full clock."""
    limited = dataclasses.replace(hardware, power=dataclasses.replace(hardware.power, tdp=limit))
    return 1.0 / float(limited_time(1.0, Joules(CORE_SHARE * watts, (1.0 - CORE_SHARE) * watts), limited))


@command()
def main(options: argparse.Namespace) -> None:
    """Print measured and predicted clocks."""
    for pair in PAIRS:
        by_voltage = ", ".join(f"{predicted(pair, volts):,.0f} at {volts:g} V" for volts in (0.75, 0.9))
        print(
            f"{pair.device} {pair.load}: {pair.known[1]:,.0f} MHz at {pair.known[0]:g} W; at {pair.other[0]:g} W "
            f"{pair.other[1]:,.0f} MHz measured, {predicted(pair):,.0f} predicted ({by_voltage} at full clock)"
        )


if __name__ == "__main__":
    sys.exit(main())
