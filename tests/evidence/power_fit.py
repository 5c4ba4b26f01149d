"""Static power and joules per operation and byte, fitted to measured power: `python -m tests.evidence.power_fit`.

The constants are those of one process and one memory for all devices together: of other processes they are multiples
(hwspaces/technology/processes.toml), so that a device that is left out is predicted from the others.
"""

import argparse
import functools
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

import hwspaces
from hwspaces.accelerators.energy import process_energies
from hwspaces.accelerators.technology_tables import common
from jaxroof.energy.energy import op_work
from jaxroof.hardware import Hardware
from jaxroof.numerics.arrays import eager
from jaxroof.op import Ops
from sweeps.measure.kernel_data.group import Call, Columns
from sweeps.measure.validate.kernel_power import (
    BEFORE,
    LONG_RUN,
    filled,
    held_out,
    idle_share,
    power_groups,
    reading,
    run_time,
)
from sweeps.measure.validate.relative_errors import errors, grouped
from tests.evidence.harness import command, data, flag
from tests.evidence.mlenergy import steady_rows

PROCESS, MEMORY = "4N", "HBM3e"
"""Technologies whose constants are fitted."""

PRIORS = {
    "static_share": (0.4, 0.7),
    "matrix.bf16": (0.5e-12, 0.2),
    "matrix.fp8": (0.4e-12, 0.2),
    "hbm": (69e-12, 0.2),
    "vector": (0.9e-12, 0.2),
    "exp": (4.3e-12, 0.2),
    "l2": (2.85e-12, 0.2),
}
"""What is fitted -> where it starts, and the standard deviation of its logarithm that is believed.

Energies start at an earlier fit to the tables of H200 alone. Scratchpad traffic of products is in proportion to their
FLOP, so no table tells the two apart: it is not fitted. Nor are products of fewer than 8 bits: where their readings are
of a full run they are at the limit.
"""

OVERSHOOT = 0.25
"""Weight of what predictions without a limit have above TDP, where no reading can be."""

OUTLIER = 0.15
"""Log errors beyond this count linearly."""

EARLIER = (0.6, 0.4)
"""What was drawn in the second before a kernel, of which its reading has `BEFORE`, over TDP: a number of its own for
each table, fitted and then dropped; where it starts, and the standard deviation of its logarithm."""

SERVED = 2.0
"""Weight of the served rows of a device over that of one table of its kernels: they are means over minutes."""


class Readings(NamedTuple):
    """Measured power of one device, and what it did meanwhile."""

    device: str
    case: str
    weight: float  # of all rows together
    tdp: float
    idle: float  # share of the readings that is of the idle device
    rates: np.ndarray  # [rows, constants]: W per unit of each of `PRIORS`
    watts: np.ndarray  # [rows]


def readings(folder: str | Path) -> list[Readings]:
    """What the fit may see: kernels that ran a second and whose shapes are not held out, and half of the served rows.

    Args:
      folder: with `aic_power.parquet`; the served rows are in `serving2/mlenergy_llm.csv` beside it, if at all.
    """
    return [*_kernels(folder, wanted_held_out=False), *_served(Path(folder).parent, wanted_held_out=False)]


def left_out(folder: str | Path) -> list[Readings]:
    """What it does not see: other shapes, whose kernels filled the meter, and the other half."""
    return [*_kernels(folder, wanted_held_out=True), *_served(Path(folder).parent, wanted_held_out=True)]


def _kernels(folder: str | Path, wanted_held_out: bool) -> Iterator[Readings]:
    for group in power_groups(folder):
        chosen = filled(group) & (held_out(group) == wanted_held_out)
        if not wanted_held_out:
            chosen &= run_time(group) >= LONG_RUN * (1.0 - 1e-9)
        rows, entry = group.chosen(chosen), hwspaces.hardware(group.device)
        if len(rows):
            done = {name: np.asarray(value) / rows.seconds for name, value in _done(rows, entry.hardware).items()}
            case = f"{group.engine} {group.family} {group.precision}"
            yield _readings(entry, case, 1.0, done, rows.columns["power_w"], idle_share(group))


def _served(folder: Path, wanted_held_out: bool) -> Iterator[Readings]:
    if not (folder / "serving2" / "mlenergy_llm.csv").exists():
        return
    with eager():
        for device, rows in grouped(steady_rows(folder), lambda one: one.row.gpu).items():
            chosen = [one for one in rows if one.held_out == wanted_held_out]
            each = [_ops_work(one.ops, one.row.hardware) for one in chosen]
            seconds = np.array([one.seconds for one in chosen])
            names = {name for done in each for name in done}
            done = {name: np.array([float(one.get(name, 0.0)) for one in each]) / seconds for name in names}
            watts = np.array([one.watts for one in chosen])
            if chosen:
                yield _readings(hwspaces.hardware(device), "served", SERVED, done, watts)


def _done(rows, hardware: Hardware) -> dict[str, jax.Array]:
    return work(rows.call, rows.columns, hardware)


@functools.partial(jax.jit, static_argnums=0)
def work(call: Call, columns: Columns, hardware: Hardware) -> dict[str, jax.Array]:
    """What every row does, by the paths of `Energy`, shapes [rows]."""
    return jax.vmap(lambda row: _ops_work({str(i): op for i, op in enumerate(call(row))}, hardware))(columns)


def _ops_work(ops: Ops, hardware: Hardware) -> dict[str, jax.Array]:
    done: dict[str, jax.Array] = {}
    for op in ops.values():
        for name, amount in op_work(op, hardware).items():
            path = f"matrix.{op.precision}" if name == "matrix" else name
            done[path] = done.get(path, 0.0) + op.count * amount
    return done


def _readings(
    entry, case: str, weight: float, done: Mapping[str, np.ndarray], watts: np.ndarray, idle: float = 0.0
) -> Readings:
    """Of rows that do `done` per s: what the catalogue says they draw, over its constants."""
    reference = constants()
    drawn = {"static_share": np.full(len(watts), entry.figures["power.static"])}
    other = np.zeros(len(watts))
    for path, rate in done.items():
        name = path if path in PRIORS else "other"
        each = entry.figures[f"energy.{path}"] * rate
        if name == "other":
            other = other + each
        else:
            drawn[name] = each
    columns = [drawn.get(name, np.zeros(len(watts))) / reference[name] for name in PRIORS]
    rates = np.stack([*columns, other], axis=1)
    return Readings(entry.name, case, weight, entry.figures["power.tdp"], idle, rates, watts)


def constants() -> dict[str, float]:
    """Those of the catalogue, by the names of `PRIORS`, SI units."""
    values, _ = process_energies(PROCESS, common().energy.process, "processes.toml")
    moved = common().energy.memory[MEMORY]["moved_pJ_per_B"] * 1e-12
    return {name: moved if name == "hbm" else values[name] for name in PRIORS}


def fitted(seen: Sequence[Readings]) -> dict[str, float]:
    """Values of `PRIORS`, SI units, that fit the readings best.

    Tables count alike, whatever their rows. What is not fitted draws what the catalogue says.

    Raises:
      ValueError: one line, without readings.
    """
    from scipy.optimize import least_squares

    if not seen:
        raise ValueError("no row fills the meter")
    rates, watts = (np.concatenate([getattr(one, name) for one in seen]) for name in ("rates", "watts"))
    sizes = [len(one.watts) for one in seen]
    table = np.repeat(np.arange(len(seen)), sizes)
    before = np.repeat([0.0 if one.case == "served" else BEFORE for one in seen], sizes)
    weight = np.repeat([one.weight * n**-0.5 for one, n in zip(seen, sizes, strict=True)], sizes)
    tdp, weight = np.repeat([one.tdp for one in seen], sizes), weight / weight.mean()
    start = np.array([value for value, _ in PRIORS.values()])
    spread = np.array([deviation for _, deviation in PRIORS.values()])

    start = np.append(start, np.full(len(seen), EARLIER[0]))
    spread = np.append(spread, np.full(len(seen), EARLIER[1]))

    def residuals(logarithms: np.ndarray) -> np.ndarray:
        values = start * np.exp(logarithms)
        power = rates @ np.append(values[: len(PRIORS)], 1.0)
        earlier = np.minimum(values[len(PRIORS) :], 1.0)[table] * tdp
        read = before * earlier + (1.0 - before) * np.minimum(power, tdp)
        below, above = np.log(read / watts), np.log(np.maximum(power / tdp, 1.0))
        return np.concatenate([weight * below, weight * OVERSHOOT * above, logarithms / spread])

    solution = least_squares(residuals, np.zeros(len(start)), loss="soft_l1", f_scale=OUTLIER)
    return dict(zip(PRIORS, (start * np.exp(solution.x)).tolist()[: len(PRIORS)], strict=True))


def predicted(values: Mapping[str, float], one: Readings) -> np.ndarray:
    """W that the meter shows of every row."""
    drawn = np.minimum(one.rates @ np.append([values[name] for name in PRIORS], 1.0), one.tdp)
    return reading(drawn, one.rates[0, 0] * values["static_share"], one.idle)


def toml(values: Mapping[str, float]) -> str:
    """The fitted figures as keys of a process in `hwspaces/technology/processes.toml`, and of a memory."""
    lines = [f"[energy.process.{PROCESS}]", f"static_share = {values['static_share']:.3g}"]
    for name, value in values.items():
        if name not in ("static_share", "hbm"):
            unit = "pJ_per_FLOP" if name.startswith("matrix") or name == "vector" else "pJ_per_B"
            lines.append(f"{name}_{'pJ' if name == 'exp' else unit} = {value * 1e12:.3g}")
    lines += [f"[energy.memory.{MEMORY}]", f"moved_pJ_per_B = {values['hbm'] * 1e12:.3g}"]
    return "\n".join(lines)


def _table(values: Mapping[str, float], rows: Iterable[Readings]) -> Iterator[str]:
    """Lines of errors by device and case: median, mean, signed, in %."""
    for (device, case), members in sorted(grouped(rows, lambda one: (one.device, one.case)).items()):
        guess = np.concatenate([predicted(values, one) for one in members])
        each = errors(guess, np.concatenate([one.watts for one in members]))
        text = f"{100 * each.median:5.1f} {100 * each.mape:5.1f} {100 * each.signed:+6.1f}"
        yield f"# {device:10} {case:48} {len(guess):5} {text}"


@command(
    data("folder with aic_power.parquet", "FOLDER"),
    flag("--without", action="append", default=[], metavar="NAME", help="device that is left out"),
)
def main(options: argparse.Namespace) -> None:
    """Fit all devices and print TOML; with a device left out, what the others say of it too."""
    out = {hwspaces.hardware(name).name for name in options.without}
    seen = readings(options.data)
    values = fitted([one for one in seen if one.device not in out])
    print(toml(values))
    others = [one for one in left_out(options.data) if not out or one.device in out]
    print("\n".join(_table(values, others)))


if __name__ == "__main__":
    sys.exit(main())
