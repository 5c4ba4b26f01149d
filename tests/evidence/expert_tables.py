"""Measured exchanges of tokens with experts, predicted and fitted: `python -m tests.evidence.expert_tables --data DIR`.

Constants of low-latency kernels (hwspaces/technology/links.toml) and of kernels that forward tokens inside of nodes
(hwspaces/efficiencies/learned-sglang.toml) are fitted to H100 and H200 on one, two and four nodes. B200 and eight nodes
judge them; of B200 only its generation's fixed times are fitted.
"""

import argparse
import dataclasses
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxroof.collectives import collective_time
from jaxroof.efficiency import ExpertExchange, LinkEfficiency
from jaxroof.hardware import Links
from jaxroof.numerics.arrays import jax
from jaxroof.numerics.arrays import jax_numpy as jnp
from jaxroof.op import Collective
from sweeps.measure.validate.collective_rows import MeasuredCollective, collectives
from sweeps.measure.validate.exchange_rows import LOW_LATENCY, NORMAL, shipped
from sweeps.measure.validate.relative_errors import grouped, stack
from sweeps.run.precision import precision
from sweeps.show import style
from tests.evidence.harness import command, data, error_text, flag
from tests.evidence.least_squares import fitted
from tests.evidence.parameters import Parameter

SPREAD = 0.08
"""Standard deviation of the log ratio that a row of a right model would have."""

FITTED = ("H100-SXM", "H200-SXM")
JUDGES = "B200-SXM"
MOST_NODES = 4.0
"""Nodes of the rows that are fitted."""

NEWER = "NVLink5"
"""Table of the link whose fixed times of low-latency kernels are its own."""


@dataclasses.dataclass(frozen=True)
class Part:
    """Rows of one direction and mode."""

    mode: str
    back: bool
    rows: tuple[MeasuredCollective, ...]

    @property
    def direction(self) -> str:
        return "combine" if self.back else "dispatch"


def parts(folder: Any) -> list[Part]:
    """Rows of the two tables of DeepEP's own benchmarks; rows of H200 that repeat H100's are left out."""
    rows, seen = [], set()
    for row in collectives(folder)[0]:
        one = row.exchange
        if one is None or row.mode not in (LOW_LATENCY, NORMAL):
            continue
        # A table that has the same time to the last digit for two devices was measured on one of them.
        key = (row.version, dataclasses.replace(one, notice=0.0), row.seconds)
        if row.device == "H200-SXM" and key in seen:
            continue
        seen.add(key)
        rows.append(row)
    found = grouped(rows, lambda row: (row.exchange.mode, row.exchange.back))
    return [Part(*key, tuple(group)) for key, group in sorted(found.items())]


def seen(row: MeasuredCollective) -> bool:
    """Whether constants are fitted to a row."""
    return row.device in FITTED and row.participants <= 8.0 * MOST_NODES


Values = Mapping[str, Any]
"""Constants by path: "NVLink.dispatch.share", "dispatch.core_rate", "notify_time"."""


def predicted(row: MeasuredCollective) -> float:
    """Time in s of one row with the shipped constants, the notice included."""
    sizes = {"message_bytes": row.message_bytes, "participants": row.participants, "fanout": row.exchange.fanout}
    op = Collective(operation=row.kind, count=1.0, kernels=1.0, **sizes)
    efficiency = LinkEfficiency(losses=1.0, exchange=row.exchange.kernels)
    return float(collective_time(row.links, op, efficiency, row.algorithms))


def predictor(rows: Sequence[MeasuredCollective], notice: bool = False) -> Callable[[Values], Any]:
    """A function from constants to the times in s of all rows, shape [rows], transmission alone or with the notice."""

    def alike(position: int) -> tuple[Any, ...]:
        row = rows[position]
        return row.device, row.kind, row.links.scale_out.bandwidth, jax.tree.structure(row.exchange.fanout)

    groups = grouped(range(len(rows)), alike)
    order = np.argsort(np.concatenate(list(groups.values())))
    cases = [(rows[group[0]], stack([_case(rows[i]) for i in group])) for group in groups.values()]

    def times(values: Values) -> Any:
        kernels = exchange(values)
        if not notice:
            kernels = dataclasses.replace(kernels, notify_time=0.0, peer_time=0.0)
        parts = [_times(row, case, _links(row, values), kernels) for row, case in cases]
        return jnp.concatenate(parts)[order]

    return times


def _case(row: MeasuredCollective) -> dict[str, Any]:
    cores = row.exchange.cores
    return {
        "message_bytes": row.message_bytes,
        "participants": row.participants,
        "cores": float(shipped().cores if cores is None else cores),
        "fanout": row.exchange.fanout,
    }


def _times(row: MeasuredCollective, cases: dict[str, Any], links: Links, kernels: ExpertExchange) -> Any:
    def time(case: dict[str, Any]) -> Any:
        efficiency = LinkEfficiency(losses=1.0, exchange=dataclasses.replace(kernels, cores=case["cores"]))
        sizes = {name: case[name] for name in ("message_bytes", "participants", "fanout")}
        op = Collective(operation=row.kind, count=1.0, kernels=1.0, **sizes)
        return collective_time(links, op, efficiency, row.algorithms)

    return jax.vmap(time)(cases)


def exchange(values: Values) -> ExpertExchange:
    """The kernels' constants with those of `values` in place of the shipped ones."""
    whole = shipped()
    changed = {
        side: dataclasses.replace(
            getattr(whole, side),
            **{path.partition(".")[2]: value for path, value in values.items() if path.startswith(f"{side}.")},
        )
        for side in ("dispatch", "combine")
    }
    plain = {path: value for path, value in values.items() if "." not in path}
    return dataclasses.replace(whole, **changed, **plain)


def _links(row: MeasuredCollective, values: Values) -> Links:
    newer = row.device == JUDGES
    links = row.links
    for tier, tables in (("scale_up", (NEWER, "NVLink") if newer else ("NVLink",)), ("scale_out", ("network",))):
        link = getattr(links, tier)
        protocols = {}
        for side in ("dispatch", "combine"):
            own = {}
            for table in reversed(tables):
                own |= {
                    path.rpartition(".")[2]: value
                    for path, value in values.items()
                    if path.startswith(f"{table}.{side}.")
                }
            protocols[side] = dataclasses.replace(getattr(link.transport, side), **own)
        link = dataclasses.replace(link, transport=dataclasses.replace(link.transport, **protocols))
        links = dataclasses.replace(links, **{tier: link})
    return links


def _times_of(path: str, prior: float) -> Parameter:
    return Parameter(path, prior, 1.5, prior * 1e-2, prior * 1e2, "weak prior")


def _share_of(path: str, prior: float) -> Parameter:
    return Parameter(path, prior, 1.5, 0.05, 1.0, "weak prior")


def low_latency_parameters(side: str) -> list[Parameter]:
    """Constants of low-latency kernels in one direction."""
    return [
        _times_of(f"NVLink.{side}.fixed_time", 1e-5),
        _share_of(f"NVLink.{side}.share", 0.6),
        _times_of(f"network.{side}.fixed_time", 5e-6),
        _share_of(f"network.{side}.share", 0.9),
    ]


def forwarding_parameters(side: str) -> list[Parameter]:
    """Constants of forwarding kernels in one direction."""
    of_both = [
        _times_of(f"{side}.kernel_time", 1.4e-5),
        _share_of(f"{side}.share", 0.7),
        _times_of(f"{side}.token_time", 3e-7),
        _times_of(f"{side}.core_rate", 2.5e10),
        _times_of(f"{side}.node_rows", 2.0),
    ]
    own = {"dispatch": ("row_time", 5e-8), "combine": ("own_rows", 3.0)}[side]
    extra = [] if side == "dispatch" else [_times_of(f"{side}.row_rate", 1e9)]
    return [*of_both, _times_of(f"{side}.{own[0]}", own[1]), *extra]


def fit(part: Part, rows: Sequence[MeasuredCollective], held: Values, parameters: Sequence[Parameter]) -> Values:
    """The constants that minimise log ratios over `rows`, beside those held fixed."""
    measured = [row.seconds - row.exchange.notice for row in rows]
    with precision("float64"):
        times = predictor(rows)
        found = fitted(lambda values: times({**held, **values}), measured, [SPREAD] * len(rows), parameters)
    return {**held, **found}


def fit_all(found: Sequence[Part]) -> dict[str, float]:
    """All constants, from the rows that are fitted; of B200 its fixed times alone."""
    values: dict[str, float] = {}
    for part in found:
        rows = [row for row in part.rows if seen(row)]
        make = low_latency_parameters if part.mode == LOW_LATENCY else forwarding_parameters
        values |= fit(part, rows, values, make(part.direction))
    for part in found:
        newer = [row for row in part.rows if row.device == JUDGES]
        side = part.direction
        if part.mode == LOW_LATENCY:
            values |= fit(part, newer, values, [_times_of(f"{NEWER}.{side}.fixed_time", 1.7e-5)])
    return values | notices(found)


def notices(found: Sequence[Part]) -> dict[str, float]:
    """Time of the notice, fixed and per device: straight line through medians of dispatches on two and four nodes."""
    rows = [row for part in found if part.mode == NORMAL and not part.back for row in part.rows]
    medians = {
        devices: float(np.median([row.exchange.notice for row in group]))
        for (devices,), group in grouped(rows, lambda row: (row.participants,)).items()
    }
    low, high = 16.0, 32.0
    slope = (medians[high] - medians[low]) / (high - low)
    return {"notify_time": medians[low] - slope * low, "peer_time": slope}


def show(found: Sequence[Part], values: Values) -> None:
    """Print errors by mode, direction, device and nodes: median, MAPE and signed median in %, fitted rows apart."""
    for part in found:
        with precision("float64"):
            times = np.asarray(predictor(part.rows)(values))
        measured = np.array([row.seconds - row.exchange.notice for row in part.rows])
        keys = [(seen(row), row.device, row.participants / 8.0) for row in part.rows]
        for (is_fitted, device, nodes), group in sorted(grouped(range(len(keys)), keys.__getitem__).items()):
            print(
                f"{part.mode:12} {part.direction:9} {device:9} {nodes:2g} nodes  "
                f"{'fitted' if is_fitted else 'left out':9}{len(group):5} rows  "
                f"{error_text(times[group], measured[group])}"
            )


@style.styled
def picture(found: Sequence[Part]) -> Any:
    """A figure with a panel per mode and direction: predicted over measured time by tokens, device and nodes."""
    names = {LOW_LATENCY: "Low-latency kernels", NORMAL: "Kernels that forward inside of nodes"}
    fig, drawn = style.panels(
        len(found),
        2,
        (5.2, 2.6),
        (0.0, 0.4),
        "Exchange of tokens with experts: predicted over measured time",
        "By tokens per device: medians, and 5 to 95 % of rows of all shapes and numbers of cores. H100 on one, two and "
        "four nodes was fitted (with H200); eight nodes and B200 were left out, but for B200's fixed times.",
        "measured: DeepEP under SGLang 0.5.6 and 0.5.12, NVIDIA aiconfigurator",
    )
    for axes, part in zip(drawn, found, strict=True):
        times, measured = (np.array(each) for each in zip(*((predicted(r), r.seconds) for r in part.rows), strict=True))
        series = grouped(range(len(part.rows)), lambda i, rows=part.rows: (rows[i].device, rows[i].participants / 8.0))
        for colour, ((device, nodes), rows) in zip(style.SERIES_COLOURS, sorted(series.items()), strict=False):
            by_tokens = sorted(grouped(rows, lambda i, rows=part.rows: rows[i].exchange.tokens).items())
            tokens = np.array([size for size, _ in by_tokens])
            low, middle, high = style.spread_of([times[group] / measured[group] for _, group in by_tokens])
            line = "-" if seen(part.rows[rows[0]]) else "--"
            label = f"{device.removesuffix('-SXM')}, {nodes:g} node{'s' * (nodes > 1.0)}"
            axes.plot(tokens, middle, line, color=colour, lw=1.4, label=label)
            axes.fill_between(tokens, low, high, color=colour, alpha=0.10, lw=0.0)
        style.ratio_axis(axes)
        axes.axhline(1.0, color=style.QUIET, lw=0.8, zorder=1)
        axes.set(xscale="log", xlabel="tokens per device")
        axes.set_title(f"{names[part.mode]}, {part.direction}", fontsize=9)
    drawn[0].legend(ncols=2, fontsize=7)
    return fig


PLOT = flag("--plot", type=Path, metavar="FILE", help="draw predicted over measured times of the shipped constants")


@command(data("folder of the tables: wideep_deepep_ll, wideep_deepep_normal"), PLOT)
def main(options: argparse.Namespace) -> None:
    """Print errors of the shipped constants, then refitted ones and theirs; returns the exit status."""
    found = parts(options.data)
    if not found:
        raise ValueError(f"{options.data}: no table of expert kernels in it")
    if options.plot is not None:
        style.saved(picture(found), options.plot, force=True)
        return
    print("# shipped constants: median, MAPE, signed median, %")
    show(found, {})
    values = fit_all(found)
    print("# refitted")
    show(found, values)
    for path, value in values.items():
        print(f"{path} = {value:.4g}")


if __name__ == "__main__":
    sys.exit(main())
