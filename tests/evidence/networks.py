"""Whole networks against published silicon: `python -m tests.evidence.networks`.

Every row is one published time of a network on a device, and what is predicted of it by the constants of its library
under its fusion policy. Rows that constants were fitted to are told apart from the others.
"""

import argparse
import dataclasses
import functools
import itertools
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.stats import spearmanr

import docs.examples.networks
import hwspaces
from docs.examples.networks import Network, training_step
from jaxroof.efficiency import Efficiency
from jaxroof.hardware import Hardware
from jaxroof.jobs.function import FunctionWork
from jaxroof.jobs.scenario import Scenario
from jaxroof.numerics.arrays import eager
from sweeps.show import style
from sweeps.studies.price.question import answered
from tests.evidence.harness import command, flag
from tests.evidence.network_bench import Bench
from tests.evidence.network_rows import ENGINES, NN_METER, Row, is_fitted, rows
from workloads.traced.function import Traced, traced

DTYPES = {"fp32": "float32", "tf32": "float32", "fp16": "float16", "int8": "int8"}
"""Precision of a row -> type of the network's products."""


@functools.cache
def traced_network(network: str, precision: str, batch: int, policy: str, training: bool, size: int | None) -> Traced:
    """A network at one batch, traced once."""
    found: Network = dataclasses.replace(getattr(docs.examples.networks, network), dtype=DTYPES[precision])
    found = found if size is None else dataclasses.replace(found, size=size)
    asked = jax.default_matmul_precision("default" if precision == "tf32" else "highest")
    with asked, jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):  # JAX as users have it
        weights = found.weights()
        if training or policy == "operators":  # mixed precision converts float32 weights in every pass
            weights = dataclasses.replace(found, dtype="float32").weights()
        if not training:
            return traced(found, weights, found.input(batch), policy=policy, name=network)
        step, classes = functools.partial(training_step, found), jax.ShapeDtypeStruct((batch,), jnp.int32)
        return traced(step, weights, weights, found.input(batch), classes, policy=policy, name=network)


def hardware_of(row: Row) -> Hardware:
    """The device of a row, with as many cores at the clock that it ran with."""
    hardware = hwspaces.hardware(row.device).hardware
    cores = hardware.cores
    count = cores.count if row.cores is None else float(row.cores)
    clock = cores.clock if row.clock is None else row.clock
    faster, share = clock / cores.clock, count / cores.count
    return dataclasses.replace(
        hardware,
        matrix={name: peak * faster * share for name, peak in hardware.matrix.items()},
        cores=dataclasses.replace(cores, count=count, clock=clock, vector_flops=cores.vector_flops * faster),
    )


def network_of(row: Row) -> Traced:
    """The traced network of a row."""
    policy = ENGINES[row.engine][0]
    return traced_network(row.network, row.precision, row.batch, policy, row.training, row.size)


def predicted(row: Row, efficiency: Efficiency | None = None) -> float:
    """Time of a row in s; by its engine's constants where none are given."""
    constants = hwspaces.efficiency(ENGINES[row.engine][1]).efficiency if efficiency is None else efficiency
    work = FunctionWork(sizes={}, function=network_of(row))
    with eager():
        scenario = Scenario(
            hardware=hardware_of(row), model=None, deployment=None, workload=work, efficiency=constants  # type: ignore[arg-type]
        )  # fmt: skip
    return float(answered(scenario).metrics["time"])


def bench_of(chosen: Sequence[Row]) -> Bench:
    """Rows with their kernels on their devices."""

    def ops(row: Row) -> Any:
        hardware = hardware_of(row)
        return network_of(row).ops({}, tuple(hardware.matrix), hardware.memory.on_chip)

    return Bench(chosen, ops, hardware_of)


class Scored(NamedTuple):
    """A measurement and its prediction."""

    row: Row
    predicted: float  # s
    fitted: bool  # its library's constants have seen it

    @property
    def error(self) -> float:
        """Predicted over measured, less one."""
        return self.predicted / self.row.time - 1.0


def scored(chosen: Sequence[Row]) -> list[Scored]:
    """Rows with their predictions."""
    constants = {name: hwspaces.efficiency(name).efficiency for _, name in ENGINES.values()}
    times = bench_of(chosen).times(lambda row: constants[ENGINES[row.engine][1]])
    return [Scored(row, float(time), is_fitted(row)) for row, time in zip(chosen, times, strict=True)]


def class_name(row: Row) -> str:
    """What a row is counted with."""
    return f"{row.engine}, training" if row.training else row.engine


def medians(found: Sequence[Scored], key: Callable[[Row], str]) -> dict[tuple[str, bool], tuple[float, float, int]]:
    """Median absolute error, median error and number of rows, by key and whether they were fitted."""
    groups: dict[tuple[str, bool], list[float]] = {}
    for one in found:
        groups.setdefault((key(one.row), one.fitted), []).append(one.error)
    return {
        name: (float(np.median(np.abs(errors))), float(np.median(errors)), len(errors))
        for name, errors in sorted(groups.items())
    }


def nn_meter_rank() -> tuple[dict[str, float], float]:
    """Predicted ms of nn-Meter's networks on one core of a Cortex-A76, and Spearman's rank correlation with its own."""
    chosen = [
        Row(name, "Cortex-A76", "TFLite", "fp32", 1, 1e-3 * time, "nnmeter", cores=1, clock=2.84e9)
        for name, time in NN_METER.items()
    ]
    found = {one.row.network: 1e3 * one.predicted for one in scored(chosen)}
    return found, float(spearmanr(list(NN_METER.values()), list(found.values())).statistic)


def row_table(found: Sequence[Scored]) -> Table:
    """A line for every row."""
    table = Table(title="published and predicted times")
    for name in ("network", "device", "library", "precision", "batch", "policy", "ms", "predicted", "error", "fitted"):
        table.add_column(name, justify="right" if name in ("batch", "ms", "predicted", "error") else "left")
    for one in found:
        row = one.row
        size = "" if row.size is None else f" ({row.size})"
        device = row.device if row.cores is None else f"{row.device}, {row.cores} core"
        table.add_row(
            f"{row.network}{size}{', training' * row.training}",
            device,
            row.engine,
            row.precision,
            str(row.batch),
            ENGINES[row.engine][0],
            f"{1e3 * row.time:.2f}",
            f"{1e3 * one.predicted:.2f}",
            f"{100 * one.error:+.0f} %",
            "yes" if one.fitted else "no",
        )
    return table


def median_table(found: Sequence[Scored], what: str, key: Callable[[Row], str]) -> Table:
    """Medians by a key, fitted rows and others apart."""
    table = Table(title=f"median error by {what}")
    for name in (what, "fitted", "rows", "absolute", "signed"):
        table.add_column(name)
    for (name, fitted), (absolute, signed, count) in medians(found, key).items():
        table.add_row(name, "yes" if fitted else "no", str(count), f"{100 * absolute:.0f} %", f"{100 * signed:+.0f} %")
    return table


@style.styled
def picture(found: Sequence[Scored]) -> Any:
    """Predicted over measured time against measured time, a panel per library, a colour per device."""
    panels: dict[str, list[Scored]] = {}
    for one in found:
        panels.setdefault(class_name(one.row), []).append(one)
    others = [abs(one.error) for one in found if not one.fitted]
    made, drawn = style.panels(
        len(panels),
        3,
        (11.0 / 3, 2.6),
        (0.0, 0.3),
        f"Whole networks: median error {np.median(others):.0%} of {len(others)} times that nothing was fitted to",
        "Predicted over measured time against measured time. Full dots: not fitted; rings: fitted.",
        "Sources: tests/evidence/network_rows.py",
    )
    for axes, (name, part) in zip(drawn, panels.items(), strict=True):
        devices = list(dict.fromkeys(one.row.device for one in part))
        for colour, device in zip(itertools.cycle(style.SERIES_COLOURS), devices, strict=False):
            for fitted in (True, False):
                own = [one for one in part if one.row.device == device and one.fitted == fitted]
                measured, ratio = [one.row.time for one in own], [one.predicted / one.row.time for one in own]
                face = "none" if fitted else colour
                axes.plot(measured, ratio, "o", ms=4, color=colour, mfc=face, label=None if fitted else device)
        axes.axhline(1.0, color=style.QUIET, lw=0.9)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_ylim(0.25, 4.0)
        axes.set_yticks([0.25, 0.5, 1.0, 2.0, 4.0], ["1/4", "1/2", "1", "2", "4"])
        axes.minorticks_off()
        style.quantity_axis(axes, "x", "measured", "s", np.array([one.row.time for one in part]), True)
        axes.set_title(name, fontsize=9)
        axes.legend(fontsize=5.5, ncols=3, loc="lower center")
    return made


@command(
    flag("--engine", choices=tuple(ENGINES), help="rows of one library alone"),
    flag("--plot", type=Path, metavar="FILE", help="draw predicted over measured times"),
)
def main(options: argparse.Namespace) -> None:
    """Print the tables; returns the exit status."""
    found = scored([row for row in rows() if options.engine in (None, row.engine)])
    console = Console(width=160)
    console.print(row_table(found))
    console.print(median_table(found, "library", class_name))
    console.print(median_table(found, "device", lambda row: row.device))
    if options.engine in (None, "TFLite"):
        times, rank = nn_meter_rank()
        console.print(f"nn-Meter's networks, ms: {', '.join(f'{name} {time:.1f}' for name, time in times.items())}")
        console.print(f"Spearman's rank correlation with nn-Meter's own: {rank:.2f}")
    if options.plot is not None:
        picture(found).savefig(options.plot)


if __name__ == "__main__":
    sys.exit(main())
