"""Fit of a device's power at its full rate to published TDP: `python -m tests.evidence.tdp_fit`.

TDP is that power, or what the board can be fed with and cooled of. The law is fitted to boards of which neither a slot
nor a server's air decides: desktop boards with coolers of their own, and liquid-cooled modules.
"""

import argparse
import dataclasses
import sys
from collections.abc import Iterable, Sequence

import hwspaces
from hwspaces.accelerators.load import catalogue_tables
from jaxroof.chip.area import die_area, dies, memory_stacks
from jaxroof.energy.technology import leakage, peak_power, static_power
from jaxroof.hardware import Hardware
from tests.evidence.harness import command

PRIORS = {
    "uncore": (1.2e-4, 1.0),
    "matrix_share": (0.9, 0.1),
    "memory_share": (0.3, 0.3),
    "fixed": (20.0, 0.4),
}
"""What is fitted -> where it starts, in SI units, and the standard deviation of its logarithm that is believed.

Good kernels keep nine tenths of the matrix units busy in every cycle; a large product reads little.
"""

ERROR = 0.15
"""Log error of a TDP that counts as one standard deviation; larger ones count linearly."""

FREE = ("RTX-3090", "RTX-4090", "RTX-5090", "Arc-Pro-B60", "MI355X", "TPU-v4")
"""Boards of which neither a slot nor a server's air decides. Of no architecture that `back_cast` predicts."""

LIMITED = {
    **dict.fromkeys(("P4", "T4", "L4"), "slot"),
    **dict.fromkeys(("P100-PCIe", "V100-PCIe", "MI100", "MI210", "A40", "RTX-A6000", "L20", "L40", "L40S"), "card"),
    **dict.fromkeys(("RTX-6000-Ada", "A10G"), "card"),
    **dict.fromkeys(("V100-SXM", "MI250", "MI250X"), "air-2018"),
    "MI350X": "air",
    "RTX-PRO-6000-Server": "card-2022",
}
"""Other boards that the law is judged by -> what feeds or cools them, a name of `cooling`. A single slot (A10) has no
standard limit of its own."""

UNLIMITED = 1e9
"""W of cooling that never binds."""


@dataclasses.dataclass(frozen=True)
class Board:
    """What the law takes of one accelerator, SI units."""

    name: str
    family: str
    die: str
    tdp: float
    area: float  # of all dies
    core_area: float  # of the dies with cores
    clock: float
    stacks: float
    stack_floor: float
    matrix_power: float  # at the 16-bit matrix peak
    memory_power: float  # at the full bandwidth of device memory
    leakage: float  # W/m2
    growth: float
    nominal: float  # V


def board(name: str, hardware: Hardware | None = None) -> Board | None:
    """One accelerator of the catalogue, or another device with its names; None where something is unknown."""
    entry, table = hwspaces.hardware(name), catalogue_tables()[hwspaces.hardware(name).name]
    hardware = entry.hardware if hardware is None else hardware
    peaks = [hardware.matrix[key] * hardware.energy.matrix[key] for key in ("bf16", "fp16") if _known(hardware, key)]
    if not peaks or hardware.silicon is None or hardware.power.tdp is None or hardware.cores.clock is None:
        return None
    voltage = _values("voltage", table["process"].partition("+")[0])
    return Board(
        name=entry.name,
        family=entry.architecture,
        die=entry.die or entry.name,
        tdp=float(hardware.power.tdp),
        area=float(die_area(hardware)),
        core_area=float(dies(hardware)[0].area),
        clock=float(hardware.cores.clock),
        stacks=float(memory_stacks(hardware)),
        stack_floor=_values("stack", table["memory"]["hbm"]["technology"])["floor_power"],
        matrix_power=float(peaks[0]),
        memory_power=float(hardware.memory.hbm.bandwidth * hardware.energy.hbm),
        leakage=voltage["leakage"],
        growth=voltage["leakage_growth"],
        nominal=voltage["nominal"],
    )


def boards(names: Iterable[str] = FREE) -> list[Board]:
    """Accelerators by name, those that are fitted to; without those of which something is unknown."""
    found = [board(name) for name in names]
    return [one for one in found if one is not None]


def static(one: Board, constants: dict[str, float]) -> float:
    """W of the device beside what its kernels do, at nominal voltage."""
    leaked = leakage(one.area, one.nominal, one.nominal, one.leakage, one.growth)
    return float(
        static_power(
            leaked, one.core_area, one.clock, 1.0, constants["uncore"], one.stacks, one.stack_floor, constants["fixed"]
        )
    )


def predicted(one: Board, constants: dict[str, float], cooling: float = UNLIMITED) -> float:
    """TDP in W by the law, at nominal voltage."""
    shares = constants["matrix_share"], constants["memory_share"]
    return float(peak_power(static(one, constants), one.matrix_power, one.memory_power, 1.0, *shares, cooling))


def fitted(known: Sequence[Board]) -> dict[str, float]:
    """The constants of `PRIORS` that suit `known` best."""
    import numpy as np
    from scipy.optimize import least_squares

    start = np.log([value for value, _ in PRIORS.values()])
    spread = np.array([deviation for _, deviation in PRIORS.values()])

    def residuals(logarithms: np.ndarray) -> np.ndarray:
        constants = dict(zip(PRIORS, np.exp(logarithms).tolist(), strict=True))
        errors = np.log([predicted(one, constants) / one.tdp for one in known])
        return np.concatenate([errors / ERROR, (logarithms - start) / spread])

    found = least_squares(residuals, start, loss="soft_l1").x
    return dict(zip(PRIORS, np.exp(found).tolist(), strict=True))


@command()
def main(options: argparse.Namespace) -> None:
    """Fit, print the constants, and both kinds of boards; returns the exit status."""
    known = boards()
    constants = fitted(known)
    print("[draw.usual]")
    for name, value in constants.items():
        size, unit = {"uncore": (1e3, "_nJ_per_mm2"), "fixed": (1.0, "_W")}.get(name, (1.0, ""))
        print(f"{name}{unit} = {value * size:.3g}")
    print(f"\n{'board':22}{'limit':>10}{'TDP, W':>8}{'static':>8}{'full rate':>11}{'ratio':>7}{'left out':>10}")
    for one in known:
        alone = fitted([other for other in known if other is not one])
        ratios = f"{predicted(one, constants) / one.tdp:7.2f}{predicted(one, alone) / one.tdp:10.2f}"
        print(f"{one.name:22}{'':10}{_shown(one, constants)}{ratios}")
    for one in boards(LIMITED):
        limit = _values("cooling", LIMITED[one.name])["power"]
        ratio = predicted(one, constants, limit) / one.tdp
        print(f"{one.name:22}{limit:10.0f}{_shown(one, constants)}{ratio:7.2f}")
    print("ratio: of the full rate's power, or the limit, to TDP; left out: when the board is not fitted to")


def _shown(one: Board, constants: dict[str, float]) -> str:
    return f"{one.tdp:8.0f}{static(one, constants):8.0f}{predicted(one, constants):11.0f}"


def _known(hardware: Hardware, precision: str) -> bool:
    return precision in hardware.matrix and hardware.energy is not None and precision in hardware.energy.matrix


def _values(kind: str, name: str) -> dict[str, float]:
    return {key: one.value for key, one in hwspaces.technology_constants(kind, name).items()}


if __name__ == "__main__":
    sys.exit(main())
