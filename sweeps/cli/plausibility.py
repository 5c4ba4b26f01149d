"""`jaxroof validate plausibility`: predicted shares of every accelerator's peaks on large kernels."""

import argparse
import dataclasses
from typing import Any


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("--efficiency", metavar="NAME", help="a name or a TOML file (default learned)")
    parser.add_argument("--hardware", metavar="NAME", help="this accelerator only, or a TOML file's")


def scored(options: argparse.Namespace) -> dict[str, Any]:
    """Shares of peaks by accelerator."""
    import hwspaces
    from sweeps.measure.validate.plausibility import catalogue_shares, shares_of

    # Constants alone decide: no measured rows enter.
    constants = hwspaces.efficiency(options.efficiency).efficiency
    return catalogue_shares(constants) if options.hardware is None else shares_of(options.hardware, constants)


def record(options: argparse.Namespace, found: dict[str, Any]) -> dict[str, Any]:
    """The shares for machines."""
    from sweeps.measure.validate.plausibility import implausible

    return {name: dataclasses.asdict(share) | {"remarks": implausible(share)} for name, share in found.items()}


def show(out: Any, options: argparse.Namespace, found: dict[str, Any]) -> None:
    """Print the shares; what is outside of the range of measured GPUs is named."""
    from sweeps.answers.tables import percent, table
    from sweeps.measure.validate.plausibility import implausible

    columns = ("GEMM of peak", "weights of HBM", "prefill attention of peak", "decode attention of HBM")
    shown = table("accelerator", *columns, "remarks", numbers=columns)
    for name, share in found.items():
        cells = (percent(value) for value in dataclasses.asdict(share).values())
        shown.add_row(name, *cells, "; ".join(implausible(share)))
    out.print(shown)
