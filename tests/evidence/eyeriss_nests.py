"""Eyeriss's silicon on AlexNet and VGG-16: `python -m tests.evidence.eyeriss_nests`; docs/evidence/nests.md.

Measured: Chen et al., JSSC 52(1) 2017, AlexNet in batches of 4 and VGG-16 in batches of 3, 1 V, 200 MHz. Mappings of
AlexNet: its table III. Those of VGG-16 are not published: `VGG` has one for each size of layers, with the published
active units, tiles of sums that fit the buffer, and the published traffic of the buffer within 11 %; CONV1 and CONV4
also have the DRAM traffic of CONV1_2 and CONV4_2. Time, power and the other DRAM traffic are judged.
"""

import argparse
import functools
import sys
from typing import NamedTuple

import numpy as np

from jaxroof.nests import Mapping, NestCost, nest_cost
from tests.evidence.harness import command
from workloads import nests
from workloads.nests.checks import TENSORS, convolution

MEGABYTE = 1e6
WORD = 2.0
"""B."""

WEIGHT_BUS = 4.0
"""Words per cycle of the bus of weights, 64 bits; a pass begins when its weights are there (assumed)."""

POOLED = 0.5
"""Power of the share of zeros after pooling that gives the share before it: of the DRAM traffic of CONV1 of AlexNet."""


class Parts(NamedTuple):
    """A row-stationary mapping, as table III: filters, images and rows of a pass; then filters and channels of a unit,
    and channels and filters side by side."""

    m: int
    n: int
    e: float
    p: int
    q: int
    r: int
    t: int


class Measured(NamedTuple):
    """What the paper's tables say of a layer."""

    watts: float
    milliseconds: float  # of processing
    units: int  # active
    buffer: float  # MB
    dram: float  # MB


class Layer(NamedTuple):
    """A layer in its mapping."""

    sizes: dict[str, int]
    stride: int
    parts: Parts
    zeros: tuple[float, float]  # share in inputs, and in the next layer's inputs
    pooled: bool  # before they are the next layer's inputs
    measured: Measured


def _sizes(groups: int, filters: int, channels: int, outputs: int, rows: int, window: int, images: int = 4) -> dict:
    return {"G": groups, "N": images, "M": filters, "C": channels, "P": outputs, "Q": rows, "R": window, "S": window}


CONV4 = Parts(64, 4, 13, 16, 3, 2, 2)
PUBLISHED_CONV3 = Parts(64, 4, 13, 16, 4, 1, 4)
"""Of table III: its buffer traffic is 42 % more than measured. CONV3 is mapped as CONV4, whose traffic is right."""

# Rows of CONV1 are 56 in place of 55: 8 strips of 7. Zeros in the outputs of CONV5 are not stated: those of its inputs.
ALEXNET = {
    "CONV1": Layer(_sizes(1, 96, 3, 55, 56, 11), 4, Parts(96, 1, 7, 16, 1, 1, 2), (0.0001, 0.387), True,
                   Measured(0.332, 16.5, 154, 18.5, 5.0)),
    "CONV2": Layer(_sizes(2, 128, 48, 27, 27, 5), 1, Parts(64, 1, 27, 16, 2, 1, 1), (0.387, 0.725), True,
                   Measured(0.288, 39.2, 135, 77.6, 4.0)),
    "CONV3": Layer(_sizes(1, 384, 256, 13, 13, 3), 1, CONV4, (0.725, 0.793), False,
                   Measured(0.266, 21.8, 156, 50.2, 3.0)),
    "CONV4": Layer(_sizes(2, 192, 192, 13, 13, 3), 1, CONV4, (0.793, 0.776), False,
                   Measured(0.235, 16.0, 156, 37.4, 2.1)),
    "CONV5": Layer(_sizes(2, 128, 192, 13, 13, 3), 1, CONV4, (0.776, 0.776), True,
                   Measured(0.236, 10.0, 156, 24.9, 1.3)),
}  # fmt: skip


def _vgg(filters: int, channels: int, outputs: int, zeros: tuple[float, float], pooled: bool, *figures: float) -> Layer:
    parts = {
        224: Parts(32, 1, 6.5, 4, 1, 1, 8),  # strips of 6 and 7 rows
        112: Parts(32, 1, 13, 8, 1, 1, 4),
        56: Parts(64, 1, 13, 16, 2, 1, 4),
        28: Parts(32, 1, 28, 16, 4, 1, 2),
        14: Parts(64, 3, 14, 16, 4, 2, 2),
    }[outputs]
    milliwatts, milliseconds, units, buffer, dram = figures
    sizes = _sizes(1, filters, channels, outputs, outputs, 3, images=3)
    return Layer(sizes, 1, parts, zeros, pooled, Measured(milliwatts / 1e3, milliseconds, int(units), buffer, dram))


VGG = {
    "CONV1_1": _vgg(64, 3, 224, (0.016, 0.477), False, 247, 38.0, 156, 112.6, 15.4),
    "CONV1_2": _vgg(64, 64, 224, (0.477, 0.248), True, 218, 810.6, 156, 2402.8, 54.0),
    "CONV2_1": _vgg(128, 64, 112, (0.248, 0.387), False, 242, 405.3, 156, 1201.4, 33.4),
    "CONV2_2": _vgg(128, 128, 112, (0.387, 0.397), True, 231, 810.8, 156, 2402.8, 48.5),
    "CONV3_1": _vgg(256, 128, 56, (0.397, 0.581), False, 254, 204.0, 156, 607.4, 20.2),
    "CONV3_2": _vgg(256, 256, 56, (0.581, 0.587), False, 235, 408.1, 156, 1214.8, 32.2),
    "CONV3_3": _vgg(256, 256, 56, (0.587, 0.643), True, 233, 408.1, 156, 1214.8, 30.8),
    "CONV4_1": _vgg(512, 256, 28, (0.643, 0.747), False, 278, 105.1, 168, 321.8, 17.8),
    "CONV4_2": _vgg(512, 512, 28, (0.747, 0.854), False, 261, 210.0, 168, 643.7, 28.6),
    "CONV4_3": _vgg(512, 512, 28, (0.854, 0.794), True, 240, 210.0, 168, 643.7, 22.8),
    "CONV5_1": _vgg(512, 512, 14, (0.794, 0.874), False, 258, 48.3, 168, 90.0, 6.3),
    "CONV5_2": _vgg(512, 512, 14, (0.874, 0.885), False, 236, 48.5, 168, 90.0, 5.7),
    "CONV5_3": _vgg(512, 512, 14, (0.885, 0.885), True, 230, 48.5, 168, 90.0, 5.6),
}

LAYERS = ALEXNET | VGG


class Row(NamedTuple):
    """Predictions of one layer."""

    cost: NestCost
    units: float
    milliseconds: float
    buffer: float  # MB
    dram: float  # MB
    joules: float  # of accesses and MACs on the chip


@functools.cache
def predicted(name: str, parts: Parts | None = None) -> Row:
    """Units, processing time, traffic and relative energy of a layer, in its mapping or another one."""
    layer = LAYERS[name]
    m, n, e, p, q, r, t = parts or layer.parts
    sizes = layer.sizes
    packed = layer.zeros[1] ** POOLED if layer.pooled else layer.zeros[1]
    densities = {"Inputs": 1.0 - layer.zeros[0], "Outputs": 1.0 - packed}
    problem, machine = convolution(sizes, layer.stride, 1, densities), nests.architecture("eyeriss").value
    # Passes need not divide a layer: strips of 13 rows of 224, or 6 channels of 256, are counted as fractions.
    loops: dict[str, dict[str, float]] = {
        "DRAM": {
            "G": sizes["G"],
            "M": sizes["M"] / m,
            "N": sizes["N"] / n,
            "Q": sizes["Q"] / e,
            "C": sizes["C"] / q / r,
        },
        "buffer": {"M": m / p / t, "N": n, "P": sizes["P"]},
        "units": {"Q": e, "M": t, "S": sizes["S"], "C": r},
        "weights": {"C": q, "R": sizes["R"]},
        "sums": {"M": p},
    }
    factors = tuple({key: float(x) for key, x in loops.get(node.name, {}).items() if x != 1} for node in machine.nodes)
    kept = {"DRAM": TENSORS, "buffer": ("Inputs", "Outputs"), "inputs": ("Inputs",), "weights": ("Weights",)}
    kept |= {"sums": ("Outputs",)}
    mapping = Mapping(
        factors=factors,
        orders=tuple(map(tuple, factors)),
        kept=tuple(kept.get(node.name, ()) for node in machine.nodes),
    )
    cost = nest_cost(problem, machine, mapping)
    found = cost.accesses
    loading = found["DRAM", "Weights"].reads / WEIGHT_BUS
    buffer = sum(sum(found["buffer", each][1:]) for each in ("Inputs", "Outputs"))
    dram = sum(sum(found["DRAM", each][1:]) for each in TENSORS)
    return Row(
        cost=cost,
        units=float(cost.instances["sums"]),
        milliseconds=float((cost.cycles + loading) / machine.clock * 1e3),
        buffer=float(buffer * WORD / MEGABYTE),
        dram=float(dram * WORD / MEGABYTE),
        joules=float(cost.energies["mac"] + sum(cost.access_energies.values()) - cost.energies["DRAM"]),
    )


@functools.cache
def power_constants() -> tuple[float, float]:
    """W of the chip beside its accesses, and J per J of the shipped architecture, by relative errors of AlexNet."""
    rows = [
        (predicted(name).joules / predicted(name).milliseconds * 1e3, ALEXNET[name].measured.watts) for name in ALEXNET
    ]
    rate, watts = np.array(rows).T
    return tuple(np.linalg.lstsq(np.stack([1.0 / watts, rate / watts], axis=1), np.ones(len(rows)), rcond=None)[0])


def power(name: str) -> float:
    """W of the chip while it processes a layer."""
    base, scale = power_constants()
    row = predicted(name)
    return float(base + scale * row.joules / row.milliseconds * 1e3)


@command()
def main(options: argparse.Namespace) -> None:
    """Print predictions beside measurements."""
    base, scale = power_constants()
    mac = nests.architecture("eyeriss").value.mac_energy
    print(f"power: {base * 1e3:.1f} mW and {scale * mac * 1e12:.3f} pJ of a MAC, of AlexNet")
    print("layer   units | ms measured error | mW measured error | buffer MB measured error | DRAM MB measured error")
    for network in (ALEXNET, VGG):
        for name, layer in network.items():
            row, seen = predicted(name), layer.measured
            pairs = (row.milliseconds, seen.milliseconds), (power(name) * 1e3, seen.watts * 1e3)
            pairs += (row.buffer, seen.buffer), (row.dram, seen.dram)
            shown = " | ".join(f"{mine:7.1f} {theirs:7.1f} {mine / theirs - 1.0:+6.1%}" for mine, theirs in pairs)
            print(f"{name:7} {row.units:3.0f}/{seen.units} | {shown} {'' if row.cost.fits else 'does not fit'}")
        time, dram = (sum(predicted(name)[place] for name in network) for place in (2, 4))
        seen = [sum(layer.measured[place] for layer in network.values()) for place in (1, 4)]
        print(f"total   {time:.1f} ms ({time / seen[0] - 1:+.1%}), DRAM {dram:.1f} MB ({dram / seen[1] - 1:+.1%})")
    other, seen_one = predicted("CONV3", PUBLISHED_CONV3).buffer, ALEXNET["CONV3"].measured.buffer
    print(f"CONV3 in the mapping of table III: buffer {other:.1f} MB ({other / seen_one - 1:+.0%})")


if __name__ == "__main__":
    sys.exit(main())
