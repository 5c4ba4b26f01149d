"""Board power and joules per token of served models, against published ones: `python -m tests.evidence.mlenergy`.

Every row of ML.ENERGY's is a vLLM engine that decodes a measured number of sequences at once while prompts come as
others end; in InferenceX's few rows with power it is the number of clients. Power is predicted at the measured rate of
tokens, which leaves time out of the error, and at the predicted rate.
"""

import argparse
import dataclasses
import functools
import sys
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console

from jaxroof import batch
from jaxroof.deployment.deployment import SAMPLERS
from jaxroof.energy.energy import Joules, joules_of
from jaxroof.energy.governor import mean_power
from jaxroof.numerics.arrays import eager
from jaxroof.op import Ops
from jaxroof.step.overlap import overlapped_ops
from tests.evidence.engine_constants import engine_efficiencies
from tests.evidence.harness import command, data, flag, score_table
from tests.evidence.saturated_load import Saturated, throughput
from tests.evidence.saturated_rows import STREAMED_SAMPLER, metered, streams

HELD_OUT = 2
"""One deployment in so many is held out of the fit of energies, by a hash of its name."""


@dataclasses.dataclass(frozen=True)
class Steady:
    """One row: an engine, and what its devices drew."""

    row: Saturated
    model: str
    watts: float  # of one device
    joules_per_token: float  # of all devices, per output token
    held_out: bool

    @property
    def seconds(self) -> float:
        """Measured time of one step, in which every sequence gets a token."""
        return self.row.sequences / self.row.tokens_per_second

    @functools.cached_property
    def ops(self) -> Ops:
        """The mean step of one device: a token of every sequence, and the share of prompts that comes meanwhile."""
        lengths, sequences = self.row.lengths, self.row.sequences
        prompts = batch.prefill(sequences / lengths.osl, lengths.isl)
        step = batch.mixed(prompts, batch.decode(sequences, lengths.context))
        return overlapped_ops(self.row.model, self.row.deployment, step)

    @property
    def joules(self) -> Joules:
        """Energy of that step on one device beside static power."""
        return joules_of(self.ops, self.row.hardware)

    def power(self, seconds: float) -> float:
        """Predicted W of one device whose steps take `seconds`."""
        return float(mean_power(seconds, self.joules, self.row.hardware))


@dataclasses.dataclass(frozen=True)
class Found:
    """A row with its predictions."""

    steady: Steady
    seconds: float  # of a step
    power: float  # W, at the predicted time
    power_at_measured: float  # W, at the measured time

    @property
    def joules_per_token(self) -> float:
        """Of all devices, per output token."""
        devices = self.steady.joules_per_token * self.steady.row.tokens_per_second / self.steady.watts
        return devices * self.power * self.seconds / self.steady.row.sequences


def steady_rows(folder: Path, sampler: str = STREAMED_SAMPLER) -> list[Steady]:
    """Rows of serving2/mlenergy_llm.csv in a folder that nothing flags, with a sampler."""
    found = []
    for row, one in streams(folder, sampler):
        values = row.numbers(("power_per_gpu_w", "energy_per_output_token_j"))
        watts, joules = values["power_per_gpu_w"], values["energy_per_output_token_j"]
        held_out = zlib.crc32(row["config_id"].encode()) % HELD_OUT == 0
        found.append(Steady(one, row["model_id"].rpartition("/")[2], watts, joules, held_out))
    return found


def metered_rows(folder: Path) -> list[Steady]:
    """Runs of serving2/inferencex_agg.csv in a folder with the boards' mean power; no constant is fitted to them."""
    found = []
    for run, one in metered(folder, engine_efficiencies(None)):
        devices = run.point.layout.tp * run.point.layout.groups
        joules = run.watts * devices / one.tokens_per_second
        found.append(Steady(one, run.point.model_name, run.watts, joules, held_out=True))
    return found


def predicted(folder: Path, sampler: str = STREAMED_SAMPLER) -> list[Found]:
    """Every row of ML.ENERGY's that fits its device, with a sampler."""
    return priced(steady_rows(folder, sampler))


def priced(steady: Sequence[Steady]) -> list[Found]:
    """Those of the rows that fit their devices, under the learned constants of their engines."""
    efficiencies, found = engine_efficiencies(None), []
    with eager():
        for one in steady:
            rate = throughput(one.row, efficiencies[one.row.engine])
            if rate > 0.0:
                seconds = one.row.sequences / rate
                found.append(Found(one, seconds, one.power(seconds), one.power(one.seconds)))
    return found


FIGURES: dict[str, tuple[Callable[[Found], float], Callable[[Found], float]]] = {
    "time per token": (lambda one: one.seconds, lambda one: one.steady.seconds),
    "board power at the measured time": (lambda one: one.power_at_measured, lambda one: one.steady.watts),
    "board power": (lambda one: one.power, lambda one: one.steady.watts),
    "J per output token": (lambda one: one.joules_per_token, lambda one: one.steady.joules_per_token),
}
"""What is scored -> the prediction and the measured value."""


@command(
    data("folder with serving2/"),
    flag(
        "--sampler",
        choices=SAMPLERS,
        default=STREAMED_SAMPLER,
        help=f"how tokens are drawn; {STREAMED_SAMPLER} (the default) is what these runs did",
    ),
)
def main(options: argparse.Namespace) -> None:
    """Score, print; returns the exit status."""
    found = predicted(options.data, options.sampler) + priced(metered_rows(options.data))
    split = "held out", lambda one: one.steady.held_out, "yes", "no"
    table = score_table(found, FIGURES, lambda one: one.steady.row.gpu, lambda one: one.steady.model, split)
    Console(width=160).print(table)


if __name__ == "__main__":
    sys.exit(main())
