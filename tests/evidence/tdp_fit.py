"""Fit of the power that a device is built for to published TDP: `python -m tests.evidence.tdp_fit`."""

import argparse
import dataclasses
import sys
from collections.abc import Sequence

import hwspaces
from hwspaces.load import catalogue_tables
from jaxroof.area import die_area, dies, memory_stacks
from jaxroof.hardware import Hardware
from jaxroof.technology import leakage, peak_power, static_power

PRIORS = {
    "uncore": (1.5e-4, 1.0),
    "matrix_share": (0.7, 0.3),
    "memory_share": (0.3, 0.2),
    "fixed": (20.0, 0.4),
}
"""What is fitted -> where it starts, in SI units, and the standard deviation of its logarithm that is believed."""

ERROR = 0.15
"""Log error of a TDP that counts as one standard deviation; larger ones count linearly."""

BACK_CAST = ("Ampere GA100", "Hopper", "Blackwell", "Blackwell Ultra", "CDNA 3")
"""Architectures that `back_cast` predicts: never fitted to. Nor are TPU v5e and v6e, whose TDP nobody publishes."""

SLOT = 75.0
"""W that a PCIe slot gives: boards of at most as much are limited by it, and not fitted to."""

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


def boards() -> list[Board]:
    """Accelerators that are fitted to: those of a die of published size or configuration."""
    found = [board(name) for name, entry in hwspaces.catalogue().items() if entry.die]
    return [one for one in found if one is not None and one.family not in BACK_CAST and one.tdp > SLOT]


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
    """The constants of `PRIORS` that suit `known` best; boards of one die count as one."""
    import numpy as np
    from scipy.optimize import least_squares

    start = np.log([value for value, _ in PRIORS.values()])
    spread = np.array([deviation for _, deviation in PRIORS.values()])
    dies_of = [one.die for one in known]
    weight = np.array([dies_of.count(die) ** -0.5 for die in dies_of])

    def residuals(logarithms: np.ndarray) -> np.ndarray:
        constants = dict(zip(PRIORS, np.exp(logarithms).tolist(), strict=True))
        errors = np.log([predicted(one, constants) / one.tdp for one in known])
        return np.concatenate([weight * errors / ERROR, (logarithms - start) / spread])

    found = least_squares(residuals, start, loss="soft_l1").x
    return dict(zip(PRIORS, np.exp(found).tolist(), strict=True))


def main(words: list[str] | None = None) -> int:
    """Fit, print the constants, the boards and the errors of families that were left out; returns the exit status."""
    argparse.ArgumentParser(prog="python -m tests.evidence.tdp_fit", description=__doc__).parse_args(words)
    known = boards()
    constants = fitted(known)
    print("[draw.usual]")
    for name, value in constants.items():
        size, unit = {"uncore": (1e3, "_nJ_per_mm2"), "fixed": (1.0, "_W")}.get(name, (1.0, ""))
        print(f"{name}{unit} = {value * size:.3g}")
    print(f"\n{'board':22}{'family':16}{'TDP, W':>8}{'static':>8}{'predicted':>11}{'ratio':>7}{'left out':>10}")
    for one in known:
        alone = fitted([other for other in known if other.family != one.family])
        ratios = [predicted(one, each) / one.tdp for each in (constants, alone)]
        numbers = f"{static(one, constants):8.0f}{predicted(one, constants):11.0f}{ratios[0]:7.2f}{ratios[1]:10.2f}"
        print(f"{one.name:22}{one.family:16}{one.tdp:8.0f}{numbers}")
    print("left out: the ratio when the family is not fitted to")
    return 0


def _known(hardware: Hardware, precision: str) -> bool:
    return precision in hardware.matrix and hardware.energy is not None and precision in hardware.energy.matrix


def _values(kind: str, name: str) -> dict[str, float]:
    return {key: one.value for key, one in hwspaces.technology_constants(kind, name).items()}


if __name__ == "__main__":
    sys.exit(main())
