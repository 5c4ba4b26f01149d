"""Electrical power of measured kernels: what the board's meter read, and what the energy of their work says."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import hwspaces
from jaxroof.energy.energy import op_energy, power_known
from jaxroof.hardware import Hardware
from jaxroof.numerics.arrays import jax
from jaxroof.numerics.struct import given
from sweeps.measure.kernel_data.attention import LABELS, decode_call, prefill_call
from sweeps.measure.kernel_data.gemm import COPIES, gemm_call
from sweeps.measure.kernel_data.group import Call, Columns, KernelGroup, groups, predicted, table
from sweeps.measure.validate.kernel_errors import learned_name
from sweeps.measure.validate.relative_errors import errors

FILE = "aic_power.parquet"

SHORT_KERNEL, SHORT_RUN, LONG_RUN, MOST_RUNS = 1e-4, 0.3, 1.0, 3000.0
"""s of a kernel below which it is repeated for `SHORT_RUN` instead of `LONG_RUN` s, and most repetitions of a graph.

Source: ai-dynamo/aiconfigurator, collector/helper.py, benchmark_with_power.
"""

LEAST_RUN = 0.3
"""s that a kernel has to run for its reading to count: the meter's value is a mean over about 1 s, so that shorter runs
read what ran before. Source: nvmlDeviceGetPowerUsage, NVML API reference, 1 s from Ampere on, GA100 apart; the
threshold is ours: below it readings of equal work differ by a factor of 3."""

EAGER, HOST_TIME = ("fp8_block",), 3e-4
"""dtypes of vLLM's products that the host launches one by one, and s below which their times may be the host's: it
takes 60 to 160 us, twice that now and then. The readings follow the kernels' own times instead."""

BEFORE = 0.5
"""Share of a reading that is of the second before the kernel: a meter of means over the last second, read at equal
times while a kernel runs for one. Sources: as of `LEAST_RUN` and `SHORT_KERNEL`."""

IDLE_BEFORE = {("vllm", "generation_attention"), ("trtllm", "generation_attention")}
IDLE_BEFORE |= {("trtllm", "gemm fp8_block"), ("trtllm", "gemm nvfp4")}
"""Engine and table, or table and precision, of cases that are set up for longer than the meter remembers: caches of
decode attention are filled, weights are quantised in blocks. The device was idle before them. Elsewhere cases follow
each other, and what ran before is taken to be as the row itself. Ours, from readings of H200 and B200: with one number
per table for what was drawn before, these tables alone have less than 0.5 of TDP on all devices."""

IDLE_SHARE = 0.4
"""Power of an idle device at full clock over its static power: least readings of H200 and B200 are 0.35 and 0.46."""

HELD_OUT = 5
"""One shape in so many is held out of the fit, by a hash of its numbers."""


class KernelKind(NamedTuple):
    """Rows of one kind of kernel in the table."""

    shape: tuple[str, ...]  # columns that become numbers of a call
    labels: Mapping[str, str]  # columns that decide structure, as `groups` takes them
    call: Callable[..., Call | None]
    repeats: float = 1.0  # kernels in a graph. Source: the same; products repeat theirs five times


KINDS = {
    "gemm": KernelKind(("m", "n", "k"), {"dtype": "{}"}, gemm_call, repeats=5.0),
    "context_attention": KernelKind(
        ("batch", "seq_q", "kv_past", "n_heads", "n_kv_heads", "head_dim", "window"), LABELS, prefill_call
    ),
    "generation_attention": KernelKind(
        ("batch", "kv_len", "n_heads", "n_kv_heads", "head_dim", "window"), LABELS, decode_call
    ),
}
"""Value of `table` -> its rows."""


@dataclasses.dataclass(frozen=True)
class PowerScore:
    """Rows of one table, dtype and device. Arrays of shape [rows]; power in W."""

    group: KernelGroup
    measured: np.ndarray
    energy: np.ndarray  # J of each row's work beside static power
    power: np.ndarray  # reading, from energy and the measured time
    own: np.ndarray  # reading, from energy and the predicted time
    unlimited: np.ndarray  # power from energy and the measured time, without the limit
    filled: np.ndarray  # whether the kernel ran long enough for the meter, at a time that is its own
    held_out: np.ndarray  # whether the shape was held out of the fit
    limit: float  # TDP

    @property
    def label(self) -> str:
        """Table and precision: "gemm bfloat16"."""
        return f"{self.group.family} {self.group.precision}"


def power_scores(folder: str | Path, efficiency: str | None = None) -> tuple[list[PowerScore], dict[str, int]]:
    """Every group of the folder's table of power with its predictions, and rows left out by reason.

    Args:
      folder: with `aic_power.parquet`.
      efficiency: a name or a file for the second prediction's times; None: learned, of each row's engine.

    Raises:
      ValueError: one line, when the file is missing or lacks a column, or the efficiency is unknown.
    """
    chosen = None if efficiency is None else hwspaces.efficiency(efficiency).efficiency
    scores, left_out = [], dict[str, int]()
    for group in power_groups(folder):
        try:
            hardware = hwspaces.hardware(group.device).hardware
            # Power needs J of all operations, static power and TDP.
            if not power_known(hardware):
                raise ValueError(f"{group.device}: energy, static power or TDP unknown")
            # The second prediction of power divides by predicted times, which every engine's constants give.
            constants = chosen or hwspaces.efficiency(learned_name(group.engine)).efficiency
            scores.append(_scored(group, hardware, predicted(group, hardware, constants)[0]))
        except ValueError as error:
            left_out[str(error)] = left_out.get(str(error), 0) + len(group)
    return scores, left_out


def power_errors(scores: Sequence[PowerScore], held_out: bool) -> list[dict[str, Any]]:
    """Errors by kernels and device, then of all; of held-out shapes only where the meter was filled.

    over_tdp: share of rows whose energy at the measured time would take more than 5 % above the limit.
    """
    error_rows = []
    # A second set of rows counts runs too short for the meter as well, but none of held-out shapes.
    for short in (False,) if held_out else (False, True):
        # Rows that count, shape [rows] per group.
        masks = [(s.filled | short) & (s.held_out | (not held_out)) for s in scores]
        members: dict[tuple[str, str], list[int]] = {}
        for i, score in enumerate(scores):
            members.setdefault((score.label, score.group.device), []).append(i)
        for key, chosen in [*members.items(), (("all", "all"), list(range(len(scores))))]:
            # Defaults bind the loop's values: the function is called within the same turn alone.
            def column(name: str, chosen: list[int] = chosen, masks: list[np.ndarray] = masks) -> np.ndarray:
                return np.concatenate([getattr(scores[i], name)[masks[i]] for i in chosen] or [np.zeros(0)])

            measured = column("measured")
            if not len(measured):
                continue
            error, own = errors(column("power"), measured), errors(column("own"), measured)
            # TDP in W of every row, to compare unlimited power with.
            limits = np.concatenate([np.full(masks[i].sum(), scores[i].limit) for i in chosen])
            error_rows.append(
                {
                    "kernels": key[0],
                    "device": key[1],
                    "held_out": held_out,
                    "short_runs": short,
                    "rows": len(measured),
                    "median_ape": error.median,
                    "mape": error.mape,
                    "signed_median": error.signed,
                    "own_time_median_ape": own.median,
                    "own_time_mape": own.mape,
                    "over_tdp": float(np.mean(column("unlimited") > 1.05 * limits)),
                }
            )
    return error_rows


def power_groups(folder: str | Path) -> list[KernelGroup]:
    """Rows of the table of power; their columns hold what was read, `power_w`, beside the shape."""
    columns = ("gpu", "backend", "version", "table", "kernel_source", "dtype", "latency_us", "power_w", "m", "n", "k")
    frame = table(Path(folder) / FILE, (*columns, "kv_past", "window"))
    # Columns that other tables of the same kernels have: keys of decode attention are those cached and the new one.
    frame = frame.assign(kv_len=frame.kv_past + 1, windowed=frame.window > 0, copies=COPIES)
    kernel_groups = []
    for name, kind in KINDS.items():
        rows = frame[frame.table == name]
        if len(rows):
            kernel_groups += groups(rows, name, kind.labels, (*kind.shape, "copies", "power_w"), kind.call)
    return kernel_groups


def run_time(group: KernelGroup) -> np.ndarray:
    """s for which the kernel of each row was repeated while its power was read, shape [rows]."""
    # The collector captures repetitions of a kernel in graphs, of which it takes no more than `MOST_RUNS`.
    wanted = np.where(group.seconds < SHORT_KERNEL, SHORT_RUN, LONG_RUN)
    return np.minimum(wanted, MOST_RUNS * KINDS[group.family].repeats * group.seconds)


def filled(group: KernelGroup) -> np.ndarray:
    """Whether each row's reading is of its kernel, shape [rows]: it ran `LEAST_RUN` s, and not for the host."""
    # The slack lets a run of exactly the least time count.
    long = run_time(group) >= LEAST_RUN * (1.0 - 1e-9)
    return long & (group.seconds >= HOST_TIME) if group.precision in EAGER and group.engine == "vllm" else long


def idle_share(group: KernelGroup) -> float:
    """Share of the group's readings that is of an idle device."""
    table = group.engine, group.family
    return BEFORE if {table, (group.engine, f"{group.family} {group.precision}")} & IDLE_BEFORE else 0.0


def reading(power: np.ndarray, static: float, idle: float) -> np.ndarray:
    """W that the meter shows of kernels that draw `power` W, shape [rows]; `idle` as `idle_share` gives it."""
    return (1.0 - idle) * power + idle * IDLE_SHARE * static


def held_out(group: KernelGroup) -> np.ndarray:
    """Whether each row's shape is kept out of the fit, shape [rows]; the same for the same shape everywhere."""
    key = np.zeros(len(group), np.uint64)
    for name in KINDS[group.family].shape:
        # A multiplicative hash, by 2^64 over the golden ratio, of the shape's numbers one after another.
        key = (key ^ group.columns[name].astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        key ^= key >> np.uint64(29)
    return key % np.uint64(HELD_OUT) == 0


@functools.partial(jax.jit, static_argnums=0)
def _energies(call: Call, columns: Columns, hardware: Hardware) -> jax.Array:
    # J of all ops of one call, for every row.
    return jax.vmap(lambda row: sum(op.count * op_energy(op, hardware) for op in call(row)))(columns)


def _scored(group: KernelGroup, hardware: Hardware, seconds: np.ndarray) -> PowerScore:
    energy = np.asarray(_energies(group.call, group.columns, hardware), float)
    power = hardware.power
    static, tdp = float(given(power.static, "static power")), float(given(power.tdp, "TDP"))
    # Power = static power + energy / time; the device lowers its clock where that would exceed TDP.
    unlimited, idle = static + energy / group.seconds, idle_share(group)
    return PowerScore(
        group=group,
        measured=group.columns["power_w"],
        energy=energy,
        power=reading(np.minimum(unlimited, tdp), static, idle),
        own=reading(np.minimum(static + energy / seconds, tdp), static, idle),
        unlimited=unlimited,
        filled=filled(group),
        held_out=held_out(group),
        limit=tdp,
    )
