"""Back-cast of shipped accelerators from the files of technologies: `python -m tests.evidence.back_cast`.

Area by areas per unit that were fitted without the architecture's dies; TDP as the lesser of the power at full rate, by
a law that was fitted to none of these boards, and of what air had been seen to cool; bandwidth and peak as counts x
width x rate; and the rate of a large product under the predicted TDP.
"""

import argparse
import dataclasses
import sys
from collections.abc import Sequence

import hwspaces
from hwspaces.accelerators.load import catalogue_tables
from jaxroof.chip.cost import device_cost
from jaxroof.energy.energy import joules_of
from jaxroof.energy.governor import limited_time
from jaxroof.hardware import Hardware
from jaxroof.numerics.struct import given
from jaxroof.roofline import op_time
from sweeps.measure.kernel_data.gemm import gemm_call
from tests.evidence import area_fit, tdp_fit
from tests.evidence.harness import command
from tests.evidence.redesign import ROWS, gains


@dataclasses.dataclass(frozen=True)
class Product:
    """Published figures of one accelerator that the catalogue does not hold; None where nobody publishes one."""

    name: str
    pin_rate: float  # bit/s per pin, of the product: below the largest of its memory's standard
    stacks: float
    width: float  # 16-bit FLOP per clock and core
    clock: float  # Hz, at which the peak is stated
    cooling: float = tdp_fit.UNLIMITED  # W, the most that others had sold in air-cooled servers by its year
    measured: float | None = None  # FLOP/s of the best bf16 product
    made_for: float | None = None  # USD, what others estimate that it costs to make


PRODUCTS = (
    Product("A100-SXM-80GB", 3.186e9, 5, 2048, 1410e6, 450.0, 271e12),
    Product("H100-SXM", 5.238e9, 5, 4096, 1830e6, 600.0, 795e12, 3320.0),
    Product("B200-SXM", 7.8e9, 8, 8192, 1860e6, 1000.0, 1745e12, 6400.0),
    Product("MI300X", 5.2e9, 8, 2048, 2100e6, 700.0, 668e12, 5300.0),
    Product("TPU-v5e", 3.2e9, 2, 4 * 2 * 128**2, 1500e6),
    Product("TPU-v6e", 6.4e9, 2, 4 * 2 * 256**2, 1750e6),
)
"""Sources. Pin rates: twice the memory clock that the drivers of A100 and H100 report (1593, 2619 MHz); AMD CDNA 3
whitepaper; B200's and the TPUs' are assumptions: bandwidth over the pins of eight and two stacks. Widths: cuDNN
frontend tables, AMD CDNA 3 whitepaper, Google's TPU documentation (v6e's four units are an assumption: two of them
would need 3.5 GHz). Clocks at the peak: datasheets; B200's 1860 MHz and all measured products: stas00/ml-engineering,
compute/accelerator, MAMF. Cooling: V100 in NVIDIA's DGX-2H of 2018 (450 W), Gaudi2 (2022, 600 W), H100 (2022, 700 W)
and MI325X (2024, 1,000 W): never a product of the same architecture. Costs to make: Raymond James 2023 (H100), Silicon
Analysts 2026 (B200, MI300X); nobody publishes one of a vendor."""

SIZES = (4096.0, 8192.0, 16384.0)
"""m = n = k of the products of which the fastest counts."""

UNPUBLISHED = "unpublished"


@dataclasses.dataclass(frozen=True)
class Row:
    """Predicted over published figures of one accelerator; None where a published figure is missing."""

    name: str
    area: float | None  # the architecture left out of the fit
    area_fitted: float | None  # with it
    kinds: tuple[float, float] | None  # left out, of dies with cores and of those without, where they are known apart
    cost: float | None  # to make, at the left-out area, over what others estimate
    full_rate: float | None  # power at the full rate over TDP
    tdp: float | None  # the lesser of that and cooling
    bandwidth: float
    peak: float
    per_watt: float | None


def rows() -> list[Row]:
    """A row for each of `PRODUCTS`."""
    constants = tdp_fit.fitted(tdp_fit.boards())
    return [row(product, constants) for product in PRODUCTS]


def row(product: Product, constants: dict[str, float]) -> Row:
    """The row of one accelerator, TDP by these constants of `tdp_fit`."""
    entry = hwspaces.hardware(product.name)
    hardware, table = entry.hardware, catalogue_tables()[entry.name]
    stack = hwspaces.technology_constants("stack", table["memory"]["hbm"]["technology"])
    bandwidth = product.stacks * stack["pins"].value * product.pin_rate / 8.0
    peak = _cores(product.name, hardware.cores.count) * product.width * product.clock
    area = area_fitted = kinds = cost = full_rate = tdp = per_watt = None
    if entry.die is not None:
        known = area_fit.dies()
        others = [one for one in known if one.family != entry.architecture]
        area, cores, base = areas(entry, others, False)
        area_fitted, _, _ = areas(entry, known, True)
        kinds = None if base is None else (cores, base)
        if product.made_for is not None:
            cost = device_cost(resized(hardware, cores, cores if base is None else base)) / product.made_for
    if hardware.power.tdp is not None:
        board = tdp_fit.board(product.name)
        built_for = tdp_fit.predicted(board, constants, product.cooling)
        full_rate, tdp = tdp_fit.predicted(board, constants) / board.tdp, built_for / board.tdp
        per_watt = product_rate(product.name, built_for) / built_for * hardware.power.tdp / product.measured
    return Row(
        product.name,
        area,
        area_fitted,
        kinds,
        cost,
        full_rate,
        tdp,
        bandwidth / hardware.memory.hbm.bandwidth,
        peak / hardware.matrix["bf16"],
        per_watt,
    )


def areas(
    entry: hwspaces.HardwareEntry, known: Sequence[area_fit.Die], seen: bool
) -> tuple[float, float, float | None]:
    """Predicted over published area by a fit to `known`: of all dies, of those with cores, of those that carry them.

    Base dies are as large as the predicted dies with cores need; their ratio is fitted to this device too where `seen`.
    """
    die, (fitted, exponent) = area_fit.die(entry.die or ""), area_fit.fitted(known)
    cores = area_fit.predicted(die, fitted, exponent)
    for base in area_fit.BASES:
        if base.name == entry.name:
            ratio = area_fit.base_ratio([one for one in area_fit.BASES if seen or one is not base], fitted)
            others = area_fit.base_area(base, ratio, fitted, cores)
            return (cores + others) / (die.known + base.known), cores / die.known, others / base.known
    return cores / die.known, cores / die.known, None


def resized(hardware: Hardware, cores: float, others: float) -> Hardware:
    """The device with dies with cores, and all other area, this many times as large."""
    silicon = given(hardware.silicon, "silicon of the device")
    changed = dataclasses.replace(
        silicon,
        scale=silicon.scale * cores,
        shared_scale=silicon.shared_scale * others,
        base_ratio=silicon.base_ratio / cores,
    )
    return dataclasses.replace(hardware, silicon=changed)


def product_rate(name: str, tdp: float) -> float:
    """FLOP/s of the fastest bf16 product of `SIZES` where the device may draw `tdp` W, of which it has the usual share
    as static power; learned efficiencies."""
    hardware, efficiency = hwspaces.hardware(name).hardware, hwspaces.efficiency("learned").efficiency
    share = hardware.power.static / hardware.power.tdp
    power = dataclasses.replace(hardware.power, tdp=tdp, static=share * tdp)
    limited = dataclasses.replace(hardware, power=power)
    call, best = gemm_call("bfloat16"), 0.0
    for size in SIZES:
        ops = call({"m": size, "n": size, "k": size, "copies": 1.0})
        time = sum(op.count * op_time(op, limited, efficiency) for op in ops)
        joules = joules_of({str(place): op for place, op in enumerate(ops)}, limited)
        best = max(best, 2.0 * size**3 / float(limited_time(time, joules, limited)))
    return best


@command()
def main(options: argparse.Namespace) -> None:
    """Print both tables; returns the exit status."""
    print("predicted over published")
    print(
        f"{'':15}{'area':>13}{'(fitted to)':>13}{'cost':>13}{'full rate':>13}{'TDP':>13}{'bandwidth':>11}{'peak':>8}"
        f"{'GEMM/W':>13}"
    )
    found = rows()
    for one in found:
        shown = [_shown(figure) for figure in (one.area, one.area_fitted, one.cost, one.full_rate, one.tdp)]
        numbers = f"{''.join(f'{text:>13}' for text in shown)}{one.bandwidth:11.3f}{one.peak:8.3f}"
        print(f"{one.name:15}{numbers}{_shown(one.per_watt):>13}")
    for one in found:
        if one.kinds is not None:
            print(f"area of {one.name}: dies with cores {one.kinds[0]:.2f}, dies that carry them {one.kinds[1]:.2f}")
    print("\nA100 with H100's cores, width, memory, L2 and links in 4N: gain in tokens/s per device, Llama-2-70B")
    print(f"{'TensorRT-LLM':14}{'lengths':>11}{'published':>11}{'TDP of law':>12}{'700 W':>8}{'H100':>8}")
    for run, ours in zip(ROWS, gains(), strict=True):
        lengths = f"{run.isl:.0f}/{run.osl:.0f}"
        ratios = "".join(f"{gain:{width}.2f}" for gain, width in zip(ours, (12, 8, 8), strict=True))
        print(f"{run.version:14}{lengths:>11}{run.gain:11.2f}{ratios}")


def _cores(name: str, count: float) -> float:
    """Cores that the width is of: TPU v5e and v6e have one TensorCore."""
    return 1.0 if name.startswith("TPU") else count


def _shown(ratio: float | None) -> str:
    return UNPUBLISHED if ratio is None else f"{ratio:.2f}"


if __name__ == "__main__":
    sys.exit(main())
