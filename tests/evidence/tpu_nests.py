"""TPU v1's applications as loop nests: `python -m tests.evidence.tpu_nests`; docs/evidence/nests.md.

Measured: Jouppi et al., ISCA 2017, tables 1 and 3. Published of shapes: weights, layers, batch, and 600 x 600 matrices
of LSTM1. Taken: square matrices, as many as layers; of CNN0, whose 2,888 operations per weight byte are a batch of 8
boards of 19 x 19, matrices of 256 x 256 for each offset of a window.

A product takes whole tiles of 256 x 256 weights in the order that they arrive. Before the next layer begins, its inputs
pass the array, the accumulators and the activation unit: one latency for all layers, which CNN0 gives. CNN1 is left
out: its shallow layers are not published.
"""

import argparse
import math
import sys
from typing import NamedTuple

from jaxroof.nests import nest_cost
from tests.evidence.harness import command
from workloads import nests
from workloads.nests.checks import built_mapping, matmul

UNITS = 256


class Network(NamedTuple):
    """An application: what table 1 says of it, the side of its matrices, and what was measured."""

    weights: float
    rows: int  # that each weight is used for
    side: int  # of its square matrices
    products: float  # that wait for each other: layers with weights, or all matrices where there are more
    vectors: int  # layers of vector operations, which wait too
    measured: float  # TOPS


def _square(weights: float, layers: int) -> int:
    return round(math.sqrt(weights / layers))


NETWORKS = {
    "MLP0": Network(20e6, 200, _square(20e6, 5), 5, 0, 12.3),
    "MLP1": Network(5e6, 168, _square(5e6, 4), 4, 0, 9.7),
    "LSTM0": Network(52e6, 64, _square(52e6, 24), 24, 34, 3.7),
    "LSTM1": Network(34e6, 96, 600, 34e6 / 600**2, 19, 2.8),
    "CNN0": Network(8e6, 8 * 19 * 19, UNITS, 16, 0, 86.0),
}

FITTED = "CNN0"
"""The application that gives the latency; the others judge it."""


def product_cycles(network: Network) -> float:
    """Cycles of all products, in whole tiles, of which the next one is loaded beside."""
    tiles = -(-network.side // UNITS)
    padded = tiles * UNITS
    problem, machine = matmul(network.rows, padded, padded), nests.architecture("tpu_v1").value
    loops = {
        "weight_memory": [("N", tiles), ("K", tiles)],
        "accumulators": [("M", network.rows)],
        "rows": [("K", UNITS)],
        "columns": [("N", UNITS)],
    }
    cost = nest_cost(problem, machine, built_mapping(problem, machine, loops, {}, "TPU v1"))
    assert cost.fits
    return float(cost.cycles) * network.weights / network.side**2


def predicted(network: Network, latency: float | None = None) -> float:
    """TOPS of the operations that are asked for; `latency` in cycles of each layer, default that of `FITTED`."""
    latency = fitted_latency() if latency is None else latency
    cycles = product_cycles(network) + latency * (network.products + network.vectors)
    return 2.0 * network.rows * network.weights / cycles * nests.architecture("tpu_v1").value.clock / 1e12


def fitted_latency() -> float:
    """Cycles between layers by which CNN0 takes as long as measured."""
    network = NETWORKS[FITTED]
    clock = nests.architecture("tpu_v1").value.clock
    cycles = 2.0 * network.rows * network.weights / (network.measured * 1e12) * clock
    return (cycles - product_cycles(network)) / (network.products + network.vectors)


@command()
def main(options: argparse.Namespace) -> None:
    """Print predictions beside measurements."""
    print(f"latency of a layer {fitted_latency():.0f} cycles, from {FITTED}")
    for name, network in NETWORKS.items():
        mine, without = predicted(network), predicted(network, 0.0)
        error = f"{mine / network.measured - 1.0:+.0%} ({without / network.measured - 1.0:+.0%} without latency)"
        print(f"{name:6} {mine:5.1f} TOPS, measured {network.measured}: {error}")


if __name__ == "__main__":
    sys.exit(main())
