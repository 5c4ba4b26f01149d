"""Eyeriss's silicon on AlexNet, batch of 4: `python -m tests.evidence.eyeriss_nests`; docs/evidence/nests.md.

Measured figures and mappings: Chen et al., JSSC 52(1) 2017, tables III and V.
"""

import argparse
from typing import NamedTuple

from jaxroof.nests import NestCost, nest_cost
from workloads import nests
from workloads.nests.checks import built_mapping
from workloads.nests.documents import convolution

MEGABYTE = 1e6
WORD = 2.0
"""B."""

RUN_LENGTH = 64.0 / 3.0 / 16.0
"""Compressed words per word that is not zero: 64 bits hold three values of 16 bits, each with 5 bits of a run."""

WEIGHT_BUS = 4.0
"""Words per cycle of the bus of weights, 64 bits; a pass begins when its weights are there (assumed)."""


class Layer(NamedTuple):
    """A layer, the row-stationary mapping of table III, and what was measured."""

    sizes: dict[str, int]
    stride: int
    parts: tuple[int, int, int, int, int, int, int]  # m n e p q r t
    zeros: tuple[float, float]  # share in inputs, and in the next layer's inputs
    units: int  # active
    milliseconds: float  # of processing
    buffer: float  # MB
    dram: float  # MB


def _sizes(groups: int, filters: int, channels: int, outputs: int, rows: int, window: int) -> dict[str, int]:
    return {"G": groups, "N": 4, "M": filters, "C": channels, "P": outputs, "Q": rows, "R": window, "S": window}


# Rows of CONV1 are 56 in place of 55: 8 strips of 7. Zeros in the outputs of CONV5 are not stated: those of its inputs.
LAYERS = {
    "CONV1": Layer(_sizes(1, 96, 3, 55, 56, 11), 4, (96, 1, 7, 16, 1, 1, 2), (0.0001, 0.387), 154, 16.5, 18.5, 5.0),
    "CONV2": Layer(_sizes(2, 128, 48, 27, 27, 5), 1, (64, 1, 27, 16, 2, 1, 1), (0.387, 0.725), 135, 39.2, 77.6, 4.0),
    "CONV3": Layer(_sizes(1, 384, 256, 13, 13, 3), 1, (64, 4, 13, 16, 4, 1, 4), (0.725, 0.793), 156, 21.8, 50.2, 3.0),
    "CONV4": Layer(_sizes(2, 192, 192, 13, 13, 3), 1, (64, 4, 13, 16, 3, 2, 2), (0.793, 0.776), 156, 16.0, 37.4, 2.1),
    "CONV5": Layer(_sizes(2, 128, 192, 13, 13, 3), 1, (64, 4, 13, 16, 3, 2, 2), (0.776, 0.776), 156, 10.0, 24.9, 1.3),
}


class Row(NamedTuple):
    """Predictions of one layer."""

    cost: NestCost
    units: float
    milliseconds: float
    arithmetic: float  # ms, of the MACs alone
    buffer: float  # MB
    dram: float  # MB


def predicted(layer: Layer) -> Row:
    """Units, processing time and traffic of a layer in its published mapping."""
    m, n, e, p, q, r, t = layer.parts
    sizes = layer.sizes
    problem, machine = convolution(sizes, layer.stride), nests.architecture("eyeriss").value
    loops = {
        "DRAM": [
            ("G", sizes["G"]),
            ("M", sizes["M"] // m),
            ("N", 4 // n),
            ("Q", sizes["Q"] // e),
            ("C", sizes["C"] // (q * r)),
        ],
        "buffer": [("M", m // (p * t)), ("N", n), ("P", sizes["P"])],
        "units": [("Q", e), ("M", t), ("S", sizes["S"]), ("C", r)],
        "weights": [("C", q), ("R", sizes["R"])],
        "sums": [("M", p)],
    }
    mapping = built_mapping(problem, machine, loops, {}, "table III")
    cost = nest_cost(problem, machine, mapping)
    found = cost.accesses
    loading = found["DRAM", "Weights"].reads / WEIGHT_BUS
    packed = [min(1.0, (1.0 - zeros) * RUN_LENGTH) for zeros in layer.zeros]
    inputs, outputs = found["DRAM", "Inputs"].reads * packed[0], found["DRAM", "Outputs"].updates * packed[1]
    buffer = sum(sum(found["buffer", name][1:]) for name in ("Inputs", "Outputs"))
    return Row(
        cost=cost,
        units=float(cost.instances["sums"]),
        milliseconds=float((cost.cycles + loading) / machine.clock * 1e3),
        arithmetic=float(cost.cycles / machine.clock * 1e3),
        buffer=float(buffer * WORD / MEGABYTE),
        dram=float((found["DRAM", "Weights"].reads + inputs + outputs) * WORD / MEGABYTE),
    )


def main(words: list[str] | None = None) -> None:
    """Print predictions beside measurements."""
    argparse.ArgumentParser(prog="python -m tests.evidence.eyeriss_nests", description=__doc__).parse_args(words)
    print("layer  units      ms (arithmetic)  measured  error | DRAM MB measured error | buffer MB measured error")
    for name, layer in LAYERS.items():
        row = predicted(layer)
        time, dram, buffer = (
            f"{mine:6.2f} {theirs:6.1f} {mine / theirs - 1.0:+7.1%}"
            for mine, theirs in (
                (row.milliseconds, layer.milliseconds), (row.dram, layer.dram), (row.buffer, layer.buffer)
            )
        )  # fmt: skip
        print(
            f"{name} {row.units:4.0f}/{layer.units} ({row.arithmetic:5.1f}) {time} | {dram} | {buffer}  {row.cost.fits}"
        )


if __name__ == "__main__":
    main()
