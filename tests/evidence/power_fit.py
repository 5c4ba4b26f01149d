"""Joules per operation and byte of a GPU, fitted to measured power: `python -m tests.evidence.power_fit`."""

import argparse
import functools
import sys
from collections.abc import Sequence

import jax
import numpy as np

import hwspaces
from jaxroof.energy import op_work
from jaxroof.hardware import Hardware
from sweeps.measure.kernel_data.group import Call, Columns
from sweeps.measure.validate.kernel_power import filled, held_out, power_groups

PRIORS = {
    "static": (250.0, 0.003),
    "matrix.bf16": (0.55e-12, 0.7),
    "matrix.fp8": (0.3e-12, 0.7),
    "hbm": (50e-12, 0.7),
    "vector": (1e-12, 0.7),
    "exp": (5e-12, 0.7),
    "l2": (5e-12, 0.7),
}
"""What is fitted -> where it starts, W or J, and the standard deviation of its logarithm that is believed.

Scratchpad traffic of products is in proportion to their FLOP, so no table tells the two apart: it is not fitted.
Static power is believed to be 250 W. Left free, rows at the limit, where the device lowers its voltage and so takes
less per operation, pull it up to 297 W and all else down, and short kernels, whose cores wait, are missed by more.
"""

OVERSHOOT = 0.5
"""Weight of what predictions without a limit have above TDP, where no reading can be."""

OUTLIER = 0.15
"""Log errors beyond this count linearly."""


def fitted(folder: str, device: str) -> dict[str, float]:
    """Values of `PRIORS`, in W and J, that fit the readings of `device` in the folder's table best.

    Only rows that fill the meter and whose shapes are not held out. Tables count alike, whatever their rows.

    Raises:
      ValueError: one line, when the device is unknown, has no TDP or no rows.
    """
    from scipy.optimize import least_squares

    entry = hwspaces.hardware(device)
    hardware, names = entry.hardware, list(PRIORS)[1:]
    if hardware.power.tdp is None:
        raise ValueError(f"{entry.name}: TDP is unknown")
    features, readings, weights = [], [], []
    for group in power_groups(folder):
        if hwspaces.hardware(group.device).name != entry.name:
            continue
        rows = group.chosen(filled(group) & ~held_out(group))
        if not len(rows):
            continue
        done = {name: np.asarray(value) for name, value in work(rows.call, rows.columns, hardware).items()}
        features.append(np.stack([done.get(n, np.zeros(len(rows))) / rows.seconds for n in names], axis=1))
        readings.append(rows.columns["power_w"])
        weights.append(np.full(len(rows), len(rows) ** -0.5))
    if not features:
        raise ValueError(f"{folder}: no row of {entry.name} fills the meter")
    rates, measured, weight = np.concatenate(features), np.concatenate(readings), np.concatenate(weights)
    weight = weight / weight.mean()
    start = np.array([value for value, _ in PRIORS.values()])
    spread = np.array([deviation for _, deviation in PRIORS.values()])
    tdp = float(hardware.power.tdp)

    def residuals(logarithms: np.ndarray) -> np.ndarray:
        values = start * np.exp(logarithms)
        power = values[0] + rates @ values[1:]
        below, above = np.log(np.minimum(power, tdp) / measured), np.log(np.maximum(power / tdp, 1.0))
        return np.concatenate([weight * below, weight * OVERSHOOT * above, logarithms / spread])

    solution = least_squares(residuals, np.zeros(len(start)), loss="soft_l1", f_scale=OUTLIER)
    return dict(zip(PRIORS, (start * np.exp(solution.x)).tolist(), strict=True))


@functools.partial(jax.jit, static_argnums=0)
def work(call: Call, columns: Columns, hardware: Hardware) -> dict[str, jax.Array]:
    """What every row does, by the paths of `Energy`, shapes [rows]."""

    def one(row: Columns) -> dict[str, jax.Array]:
        done: dict[str, jax.Array] = {}
        for op in call(row):
            for name, amount in op_work(op, hardware).items():
                path = f"matrix.{op.precision}" if name == "matrix" else name
                done[path] = done.get(path, 0.0) + op.count * amount
        return done

    return jax.vmap(one)(columns)


def toml(values: dict[str, float], device: str) -> str:
    """The fitted figures as keys of a process in `hwspaces/technology/processes.toml`."""
    tdp = float(hwspaces.hardware(device).hardware.power.tdp)
    lines = [f"static_share = {values['static'] / tdp:.3g}  # {values['static']:.4g} W of {tdp:g} W"]
    for name, value in values.items():
        if name != "static":
            unit = "pJ_per_FLOP" if name.startswith("matrix") or name == "vector" else "pJ_per_B"
            lines.append(f"{name}_{'pJ' if name == 'exp' else unit} = {value * 1e12:.3g}")
    return "\n".join(lines)


def main(words: Sequence[str] | None = None) -> None:
    """Fit one device and print TOML."""
    parser = argparse.ArgumentParser(prog="python -m tests.evidence.power_fit", description=__doc__)
    parser.add_argument("--data", required=True, metavar="FOLDER", help="folder with aic_power.parquet")
    parser.add_argument("--hardware", default="H200-SXM", metavar="NAME", help="device (default H200-SXM)")
    options = parser.parse_args(words)
    try:
        print(toml(fitted(options.data, options.hardware), options.hardware))
    except ValueError as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from None


if __name__ == "__main__":
    main()
