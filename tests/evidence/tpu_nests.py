"""Products of TPU v1 as loop nests: `python -m tests.evidence.tpu_nests`; docs/evidence/nests.md.

Measured: Jouppi et al., ISCA 2017, tables 1 and 3. Shapes are not published but for 600 x 600 of LSTM1; MLP0 and MLP1
are taken as five and four square layers.
"""

import argparse
from typing import NamedTuple

from jaxroof.nests import nest_cost
from workloads import nests
from workloads.nests.checks import built_mapping
from workloads.nests.documents import matmul

UNITS = 256


class Product(NamedTuple):
    """A layer of a network and what was measured of the network."""

    side: int  # of its square matrix of weights
    batch: int
    measured: float  # TOPS


PRODUCTS = {
    "MLP0": Product(2000, 200, 12.3),
    "MLP1": Product(1118, 168, 9.7),
    "LSTM1": Product(600, 96, 2.8),
}


def predicted(product: Product) -> float:
    """TOPS of the operations that are asked for, where whole tiles of 256 x 256 weights are loaded and used."""
    tiles = -(-product.side // UNITS)
    padded = tiles * UNITS
    problem = matmul(product.batch, padded, padded)
    machine = nests.architecture("tpu_v1").value
    loops = {
        "weight_memory": [("N", tiles), ("K", tiles)],
        "accumulators": [("M", product.batch)],
        "rows": [("K", UNITS)],
        "columns": [("N", UNITS)],
    }
    cost = nest_cost(problem, machine, built_mapping(problem, machine, loops, {}, "TPU v1"))
    assert cost.fits
    return float(2.0 * product.batch * product.side**2 / cost.time / 1e12)


def main(words: list[str] | None = None) -> None:
    """Print predictions beside measurements."""
    argparse.ArgumentParser(prog="python -m tests.evidence.tpu_nests", description=__doc__).parse_args(words)
    for name, product in PRODUCTS.items():
        mine = predicted(product)
        print(f"{name:6} {mine:5.1f} TOPS, measured {product.measured}: {mine / product.measured - 1.0:+.0%}")


if __name__ == "__main__":
    main()
