"""Fit of the learned efficiency of one engine: `python -m tests.evidence.learned_fit --data DIR --engine vllm`."""

import argparse
import dataclasses
import datetime
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

import hwspaces
from hwspaces.performance.efficiency_file import efficiency_text
from jaxroof.efficiency import Efficiency, Hull, Kernels, LinkEfficiency, Spread
from jaxroof.efficiency.hull import FittedRange
from jaxroof.efficiency.stream import StreamKernel
from sweeps.measure.kernel_data.group import KernelGroup
from sweeps.measure.validate.kernel_errors import measured_groups
from tests.evidence import saturated, silicon, step_cycles
from tests.evidence.block_fit import sections, with_sections
from tests.evidence.class_tables import carried
from tests.evidence.derated_fit import CONCURRENCY
from tests.evidence.harness import data, fitting, flag
from tests.evidence.hulls import hulls, measured, with_hulls
from tests.evidence.learned_kernels.decode import fit_decode
from tests.evidence.learned_kernels.experts import fit_experts
from tests.evidence.learned_kernels.gemm import fit_gemm
from tests.evidence.learned_kernels.prefill import fit_prefill
from tests.evidence.learned_kernels.result import FOLDERS, KernelFit
from tests.evidence.observation import Observation
from tests.evidence.parameters import Parameter
from tests.evidence.spreads import with_spreads
from tests.evidence.step_fit import ENGINE, group_errors, serving_fit

ENGINES = {"vllm": "vLLM", "trtllm": "TensorRT-LLM", "sglang": "SGLang"}
"""Engine in the tables -> its name."""

FITS: tuple[Callable[[Path, str], list[KernelFit]], ...] = (fit_gemm, fit_prefill, fit_decode, fit_experts)

LARGE_SHARE = 0.8
"""Of HBM bandwidth, that a streaming kernel reaches on large arrays: between weight streaming (69 to 83 %) and
decode attention (78 to 87 %) in the tables."""

SMALL_KERNELS = StreamKernel(launch_cycles=4500.0, launch_time=0.0, bandwidth=LARGE_SHARE, vector=0.5, matrix=0.3)
"""Element-wise kernels before the serving data: 2.5 us at 1.8 GHz each, a small kernel inside a CUDA graph."""

RECURRENT = dataclasses.replace(SMALL_KERNELS, launch_cycles=9000.0)
"""Kernels of attention kinds without a shape: index scores and recurrent states."""

COLLECTIVE_SPREAD = Spread(short=0.13, long=0.13)
"""90 % of the 5,094 measured collectives are within 1.645 times this: `jaxroof validate collectives`."""

COLLECTIVE_HULL = Hull(
    ranges=(
        FittedRange("link_bandwidth", 32e9, 900e9),
        FittedRange("participants", 2.0, 8.0),
        FittedRange("message_bytes", 256.0, 2.0**30),
    ),
    growth=0.41,
)
"""Of those that the links' losses were fitted to: A100, L40S, RTX PRO 6000, H100, H200 and B200, 849 each. With B200's
left out, at twice the bandwidth of the others, its rows deviated by 0.32 and theirs by 0.13: hence the growth, of which
one octave has 0.71, with which the interval covered 90 % of them."""

SERVED = (
    Parameter("elementwise.wide.launch_cycles", 4500.0, 0.3, 900.0, 18000.0, "small kernel in a CUDA graph: 2.5 us"),
    Parameter("host.step_time", 0.3e-3, 0.7, 0.01e-3, 5e-3, "weak prior, of the order of what engines report"),
    Parameter("host.sequence_time", 15e-6, 0.7, 1e-6, 100e-6, "weak prior, of the order of what engines report"),
)
"""Constants that only serving data determine."""


DEVICES = ("A100-SXM-80GB", "H100-SXM", "H200-SXM", "L40S", "RTX-PRO-6000-Server", "B200-SXM")
"""Accelerators whose kernels are fitted; served models were judged on the last one without a fit."""


KERNELS = flag("--engine", required=True, choices=ENGINES, help="whose kernels")


@fitting(data("folder with e2e/ and kernels/"), KERNELS, width=160)
def main(options: argparse.Namespace, console: Console) -> str:
    """Fit and print."""
    folder, engine = options.data, options.engine
    fits = [found for each in FITS for found in each(folder, engine)]
    console.print(fit_table(fits))
    efficiency = with_spreads(assembled(fits), fits, measured(all_groups(folder), engine, assembled(fits)))
    sources = {one.path: fit_source(one) for one in fits}
    small = f"ours: streaming kernels reach {LARGE_SHARE:.0%} of HBM; launch"
    for kind in ("prefill_attention", "decode_attention"):
        sources[f"{kind}.plain"] = f"{small} twice that of a small kernel"
    sources["elementwise.wide"] = f"{small} fitted to serving data, see host"
    sources["collective.losses"] = "the links' measured losses apply in full: hwspaces/technology/links.toml"
    # Kernels that exchange tokens have a fit of their own, `expert_tables`: they stay as they are.
    shipped = hwspaces.efficiency(f"learned-{engine}")
    if shipped.efficiency.collective.exchange is not None:
        kept = dataclasses.replace(efficiency.collective, exchange=shipped.efficiency.collective.exchange)
        efficiency = dataclasses.replace(efficiency, collective=kept)
        sources["collective.exchange"] = shipped.sources["collective.exchange"]

    observations = _observations(folder / "e2e", engine)
    served = serving_fit(observations, efficiency, SERVED)
    groups = group_errors(observations, served.predicted)
    console.print(_serving_table(groups))
    for name in ("step_time", "sequence_time"):
        sources[f"host.{name}"] = f"fitted to {len(observations)} public rows of dense models at the kernels above"
    loaded = saturated.loaded(folder / "e2e" / "tam_ground_truth.csv")
    host = dataclasses.replace(served.efficiency.host, request_time=saturated.request_time(loaded))
    sources["host.request_time"] = (
        "ours: median over 6 public saturated vLLM 0.15.1 rows with cached prompts of TTFT - "
        f"{saturated.STEPS_TO_FIRST_TOKEN:g} steps"
    )
    versions = sorted({version for found in fits for version in found.versions})
    mean = sum(error.mape for _, error in groups.values()) / len(groups)
    heading = {
        "engine": ENGINES[engine],
        "version": ", ".join(versions),
        "date": datetime.date.today().isoformat(),
        "refit": f"python -m tests.evidence.learned_fit --data DIR --engine {engine}",
        "errors": f"serving: {len(observations)} rows in {len(groups)} groups, MAPE {mean:.1%} over groups; "
        "kernels: docs/evidence/kernels.md",
        "devices": DEVICES,
    }
    notes = (
        "Kernels are fitted alone, to public tables of one call each (aiconfigurator), pooled over all their GPUs.",
        "spread: standard deviation of log errors of the fitted kernels on the measured GPUs, 90 % of whose rows are "
        "within 1.645 of it.",
        "Rows of synchronous requests (set sync_guidellm) were not fitted: `jaxroof validate requests` scores them.",
        "hull: ranges of what was fitted; growth: standard deviation far outside, of a time that is all lost against "
        "the datasheet's bound.",
    )
    found = hulls(fits, all_groups(folder), engine, assembled, console)
    efficiency = with_hulls(dataclasses.replace(served.efficiency, host=host), found)
    comment = f"Models of {ENGINES[engine]}'s kernels, fitted across GPUs."
    shipped = Path(hwspaces.__file__).parents[1] / hwspaces.efficiency(f"learned-{engine}").file
    before = shipped.read_text(encoding="utf-8")
    # Tables that `linear_fit` and `block_fit` write stay as they are.
    text = carried(efficiency_text(efficiency, sources, heading, notes, comment), before)
    return with_sections(text, sections(before))


def assembled(fits: Sequence[KernelFit]) -> Efficiency:
    """The efficiency that the fits make up, with host times of the default constants."""
    classes: dict[str, dict[str, object]] = {
        "elementwise": {"wide": SMALL_KERNELS},
        "prefill_attention": {"plain": RECURRENT},
        "decode_attention": {"plain": RECURRENT},
    }
    for fit in fits:
        kind, _, name = fit.path.partition(".")
        classes.setdefault(kind, {})[name] = fit.kernel
    return Efficiency(
        **{kind: Kernels(**kernels) for kind, kernels in classes.items()},
        collective=LinkEfficiency(losses=1.0, spread=COLLECTIVE_SPREAD, hull=COLLECTIVE_HULL),
        host=hwspaces.efficiency("derated").efficiency.host,
    )


def _observations(folder: Path, engine: str) -> list[Observation]:
    """Serving rows of the engine; those of an engine without dense rows are vLLM's."""
    if engine == "trtllm":
        found = silicon.observations(folder / "silicon_sample.csv", CONCURRENCY, (engine,))
        return [dataclasses.replace(observation, engine=ENGINE) for observation in found]
    found = silicon.observations(folder / "silicon_sample.csv", CONCURRENCY, ("vllm",))
    found += [row.observation for row in saturated.loaded(folder / "tam_ground_truth.csv")]
    steps = step_cycles.observations(folder / "blis_step_cycles.csv")
    # Steps of one deployment err together, however many sequences they hold: one group, not one per size.
    return found + [dataclasses.replace(step, group=step.group.partition(" steps")[0] + " steps") for step in steps]


def all_groups(folder: Path) -> Iterator[KernelGroup]:
    """Rows of all tables of kernels."""
    for name in FOLDERS:
        if (folder / name).is_dir():
            yield from measured_groups(folder / name)


def fit_source(fit: KernelFit) -> str:
    """Where the constants of a class are from, in words."""
    held_out = "; ".join(
        f"{device} {every.median:.0%}/{every.mape:.0%}" for device, (every, _) in sorted(fit.held_out.items())
    )
    unseen = f"; median/mean error with its architecture left out: {held_out}" if held_out else ""
    moved = f"{', '.join(fit.moved)}: " if fit.like else ""
    rows = "sites left out" if fit.moved else "in sample"
    return (
        f"{moved}fitted to {fit.rows:,} public rows of {fit.engine} {', '.join(fit.versions)} "
        f"({', '.join(fit.kernels)}) on {', '.join(fit.devices)} (aiconfigurator tables), {rows} "
        f"{fit.errors.median:.0%}/{fit.errors.mape:.0%}{unseen}"
    )


def fit_table(fits: Sequence[KernelFit]) -> Table:
    table = Table(title="Kernels alone: median / MAPE with the architecture left out, from 30 us", title_justify="left")
    for name in ("class", "rows", "in sample", "device", "all rows", "from 30 us", "spread"):
        table.add_column(name)
    for fit in fits:
        spread = fit.kernel.spread
        words = (fit.path, f"{fit.rows:,}", f"{fit.errors.median:.1%} / {fit.errors.mape:.1%}")
        for device, (every, long) in sorted(fit.held_out.items()):
            shares = (f"{error.median:.1%} / {error.mape:.1%}" for error in (every, long))
            table.add_row(*words, device, *shares, spread and f"{float(spread.short):.2f}, {float(spread.long):.2f}")
            words, spread = ("", "", ""), None
    return table


def _serving_table(groups: dict) -> Table:
    table = Table("deployment", "rows", "MAPE", "signed median", title="Serving, in sample", title_justify="left")
    for name, (n, error) in groups.items():
        table.add_row(name, str(n), f"{error.mape:.1%}", f"{error.signed:+.1%}")
    return table


if __name__ == "__main__":
    sys.exit(main())
