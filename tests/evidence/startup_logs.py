"""Room for the KV cache as engines' start-up logs state it, against jaxroof's: `python -m tests.evidence.startup_logs`.

The rows of `startup_logs.toml` are figures of public logs with their flags and sources. Constants of
`jaxroof/memory/reserve.py` and of engines' files were chosen with the rows that say `fitted`; the others judge them.
"""

import argparse
import dataclasses
import sys
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import hwspaces
import workloads
from jaxroof.deployment import Deployment
from jaxroof.memory.capacity import MemoryParts, kv_capacity_bytes, kv_capacity_tokens, memory_parts
from sweeps.ask.cases import model_deployment
from sweeps.show import style
from tests.evidence.harness import command, flag

FILE = Path(__file__).with_suffix(".toml")
GIB = 2.0**30

RULES = {
    "vllm": {},
    "sglang": {"memory_static": 1.0},
    "trtllm": {"memory_of_free": 1.0, "sampled_rows": 1.0},
}
"""Engine -> its rule for the share of memory, as `hwspaces/engines` has it."""

MARKS = {"vllm": ("o", "vLLM"), "sglang": ("s", "SGLang"), "trtllm": ("^", "TensorRT-LLM")}
"""Engine -> mark and name in the picture."""


@dataclasses.dataclass(frozen=True)
class Start:
    """One start of an engine: what ran, what its log says, and what jaxroof says. GiB are per device."""

    engine: str
    release: str
    source: str
    hardware: str
    model: str
    tp: float
    fitted: bool
    outside: str | None  # why it is not scored
    logged: dict[str, float]  # figures of the log by name
    parts: MemoryParts
    room: float  # B of KV cache
    tokens: float

    @property
    def starts(self) -> bool:
        """Whether the log has room for a cache."""
        return self.logged.get("kv_GiB", 1.0) > 0.0

    @property
    def stated(self) -> bool:
        """Whether its flags and its release's rules are all of what decides the room."""
        return self.outside is None

    @property
    def pair(self) -> tuple[float, float]:
        """Predicted and logged: tokens where the log has them, else GiB of cache."""
        if "tokens" in self.logged:
            return self.tokens, self.logged["tokens"]
        return self.room / GIB, self.logged["kv_GiB"]

    @property
    def error(self) -> float:
        """Predicted over logged, less 1."""
        predicted, logged = self.pair
        return predicted / logged - 1.0


def starts(path: Path = FILE) -> list[Start]:
    """Every row of the file with its prediction."""
    with open(path, "rb") as file:
        return [_start(row) for row in tomllib.load(file)["start"]]


def _start(row: dict[str, Any]) -> Start:
    hardware = hwspaces.hardware(row["hardware"]).hardware
    entry = workloads.model(row["model"], weights=row.get("weights"))
    given = {name: float(value) for name, value in (RULES[row["engine"]] | row["deployment"]).items()}
    deployment = dataclasses.replace(Deployment(), **_precisions(entry), **given)
    place = hardware, entry.model, deployment
    return Start(
        engine=row["engine"],
        release=row["release"],
        source=row["source"],
        hardware=row["hardware"],
        model=row["model"],
        tp=float(deployment.tp),
        fitted=row.get("fitted", False),
        outside=row.get("outside"),
        logged={name: row[name] for name in (*_PARTS, "kv_GiB", "tokens") if name in row},
        parts=memory_parts(*place),
        room=float(kv_capacity_bytes(*place)),
        tokens=float(kv_capacity_tokens(*place)),
    )


def _precisions(entry: workloads.ModelEntry) -> dict[str, Any]:
    """What the checkpoint decides of a deployment."""
    made = model_deployment(entry, None)
    return {name: getattr(made, name) for name in ("kv_bytes", "dispatch_bytes", "attention_compute")}


_PARTS = ("weights_GiB", "activations_GiB", "other_GiB")


def table(found: Iterable[Start]) -> Table:
    """Every row: parts and cache, predicted over logged."""
    made = Table(title="predicted / logged, GiB per device")
    for head in ("engine", "release", "where", "weights", "peak", "other", "room: tokens or GiB", "error", "role"):
        made.add_column(head, overflow="fold")
    for one in found:
        parts = (one.parts.weights, one.parts.peak, one.parts.other)
        texts = [
            f"{float(part) / GIB:.2f} / {one.logged.get(name, float('nan')):.2f}".replace("nan", "-")
            for part, name in zip(parts, _PARTS, strict=True)
        ]
        predicted, logged = one.pair
        made.add_row(
            one.engine,
            one.release,
            f"{one.model} on {one.tp:.0f} x {one.hardware}",
            *texts,
            f"{predicted:,.6g} / {logged:,.6g}",
            f"{one.error:+.1%}" if one.starts else "does not start" if one.room == 0.0 else "starts",
            "fitted" if one.fitted else "judged" if one.stated else "shown",
        )
    return made


def score(found: Sequence[Start]) -> dict[str, tuple[int, float, float]]:
    """Rows, median and largest absolute error of starts that have room, by what they are."""
    kept = [one for one in found if one.starts and one.stated]
    groups = {"fitted": [one for one in kept if one.fitted], "judged": [one for one in kept if not one.fitted]}
    for engine, (_, title) in MARKS.items():
        groups[title] = [one for one in kept if one.engine == engine]
    absolute = {name: np.abs([one.error for one in group]) for name, group in groups.items() if group}
    return {name: (len(each), float(np.median(each)), float(each.max())) for name, each in absolute.items()}


@style.styled
def picture(found: Sequence[Start]) -> Any:
    """Errors of the room for the cache, start by start."""
    made = style.figure(
        7.2,
        4.6,
        "Room for the KV cache against engines' start-up logs",
        "predicted over logged; filled: constants were chosen with it; band: 10 %",
    )
    axes = made.add_subplot()
    kept = sorted((one for one in found if one.starts and one.stated), key=lambda one: one.error)
    axes.axvspan(-10.0, 10.0, color="#dddddd", zorder=0)
    axes.axvline(0.0, color="#555555", linewidth=0.8)
    for place, one in enumerate(kept):
        mark, _ = MARKS[one.engine]
        colour = style.SERIES_COLOURS[list(MARKS).index(one.engine)]
        fill = colour if one.fitted else "white"
        axes.plot(100.0 * one.error, place, mark, color=colour, markerfacecolor=fill, markersize=5)
    names = [f"{one.model}, {one.tp:.0f} x {one.hardware}" for one in kept]
    axes.set_yticks(range(len(kept)), names, fontsize=6)
    axes.set_xlabel("error of the room for the KV cache, %")
    for engine, (mark, title) in MARKS.items():
        axes.plot([], [], mark, color=style.SERIES_COLOURS[list(MARKS).index(engine)], label=title, markersize=5)
    axes.legend(loc="lower right", fontsize=7)
    return made


@command(flag("--plot", metavar="FILE", help="draw the errors"))
def main(options: argparse.Namespace) -> None:
    """Print the table and the scores; draw the picture where a path is given; returns the exit status."""
    found, out = starts(), Console(width=180)
    out.print(table(found))
    for name, (rows, median, largest) in score(found).items():
        out.print(f"{name:14} {rows:3} starts, error median {median:.1%}, largest {largest:.1%}")
    if options.plot:
        style.saved(picture(found), options.plot, force=True)


if __name__ == "__main__":
    sys.exit(main())
