"""`jaxroof validate plausibility`: predicted shares of every accelerator's peaks on large kernels."""

import argparse
import dataclasses
import json


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("--efficiency", metavar="NAME", help="a name or a TOML file (default learned)")
    parser.add_argument("--hardware", metavar="NAME", help="this accelerator only, or a TOML file's")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")


def run(options: argparse.Namespace) -> None:
    """Print the shares; what is outside of the range of measured GPUs is named."""
    import hwspaces
    from sweeps.measure.validate.plausibility import catalogue_shares, implausible, shares

    constants = hwspaces.efficiency(options.efficiency).efficiency
    if options.hardware is None:
        found = catalogue_shares(constants)
    else:
        entry = hwspaces.hardware(options.hardware)
        found = {entry.name: shares(entry.hardware, constants)}
        if found[entry.name] is None:
            raise ValueError(f"{entry.name} has no 16-bit matrix peak")
    if options.json:
        rows = {name: dataclasses.asdict(share) | {"remarks": implausible(share)} for name, share in found.items()}
        print(json.dumps(rows, indent=2))
        return
    from sweeps.cli.tables import console, percent, table

    columns = ("GEMM of peak", "weights of HBM", "prefill attention of peak", "decode attention of HBM")
    shown = table("accelerator", *columns, "remarks", numbers=columns)
    for name, share in found.items():
        cells = (percent(value) for value in dataclasses.asdict(share).values())
        shown.add_row(name, *cells, "; ".join(implausible(share)))
    console().print(shown)
