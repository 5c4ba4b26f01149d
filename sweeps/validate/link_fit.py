"""Refits the latency per hop of each link technology: `python -m sweeps.validate.link_fit --data FILE`.

FILE is a CSV of measured collectives in the form of aiconfigurator's public tables (columns in `COLUMNS`). The result
is printed, to be copied into hwspaces/catalogue/links.toml with the date.
"""

import argparse
import dataclasses
import sys

import numpy as np
from scipy.optimize import least_squares

import hwspaces
from jaxroof.collectives import all_reduce_time
from sweeps.api import precision
from sweeps.paths import replaced
from sweeps.validate.least_squares import Errors, errors
from sweeps.validate.table import Row, numbers, rows

COLUMNS = ("gpu", "backend", "op_name", "dtype", "num_gpus", "message_bytes", "latency_us", "mode")
START = (3e-6, 2e-7, 0.7)
"""Fixed time in s, latency in s and bandwidth share that the search starts from."""

OUTLIER = 0.1
"""Log ratios beyond this count linearly, not squared: kernels change algorithm with the message size."""


@dataclasses.dataclass(frozen=True)
class LinkFit:
    """What one technology's all-reduces follow: fixed + ring(latency, share of bandwidth)."""

    rows: int
    fixed: float  # s per collective
    latency: float  # s per hop
    share: float  # of the link's bandwidth
    errors: Errors


def engine_all_reduces(table: list[Row]) -> list[Row]:
    """All-reduces as engines run them for small messages: their own 16-bit kernels inside CUDA graphs."""
    return [
        row
        for row in table
        if row["op_name"] == "all_reduce"
        and row["mode"] == "cudagraph"
        and "custom" in row["backend"]
        and row["dtype"] in ("half", "bfloat16")
    ]


def fitted(table: list[Row], where: str) -> LinkFit:
    """Least squares of log ratios over rows of one link technology."""
    values = [numbers(row, ("num_gpus", "message_bytes", "latency_us"), where) for row in table]
    devices, message, measured = np.array([[*row.values()] for row in values]).T
    measured = 1e-6 * measured
    links = hwspaces.hardware(table[0]["gpu"]).hardware.links
    bandwidth = np.array([hwspaces.hardware(row["gpu"]).hardware.links.scale_up.bandwidth for row in table])

    def predicted(logarithms: np.ndarray) -> np.ndarray:
        fixed, latency, share = np.exp(logarithms)
        ring = replaced(replaced(links, "scale_up.bandwidth", bandwidth), "scale_up.latency", latency)
        return fixed + np.asarray(all_reduce_time(ring, message, devices, share))

    with precision("float64"):
        solution = least_squares(
            lambda x: np.log(predicted(x) / measured), np.log(START), loss="soft_l1", f_scale=OUTLIER
        )
        fixed, latency, share = np.exp(solution.x)
        return LinkFit(len(table), fixed, latency, share, errors(predicted(solution.x), measured))


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m sweeps.validate.link_fit", description=__doc__.partition(":")[0])
    parser.add_argument("--data", required=True, metavar="FILE", help="CSV of measured collectives")
    options = parser.parse_args(words)
    try:
        table = engine_all_reduces(rows(options.data, COLUMNS))
        nvlink = [row for row in table if hwspaces.hardware(row["gpu"]).hardware.links.scale_up.bandwidth >= 1e11]
        pcie = [row for row in table if row not in nvlink]
        for technology, part in (("NVLink", nvlink), ("PCIe", pcie)):
            if not part:
                print(f"{technology}: no rows")
                continue
            fit = fitted(part, options.data)
            print(
                f"{technology}: {fit.rows} rows of {', '.join(sorted({row['gpu'] for row in part}))}: "
                f"latency {1e6 * fit.latency:.2f} us per hop, fixed {1e6 * fit.fixed:.1f} us, "
                f"bandwidth share {fit.share:.2f}; median error {fit.errors.median:.0%}, MAPE {fit.errors.mape:.0%}"
            )
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
