"""Published token rates of many machines beside predictions: `python -m tests.evidence.published_rates`.

The rows of `published_rates.toml` are asked as a user would ask `jaxroof request`: names, a deployment and a static
batch, under the default constants. Nothing is fitted to a row that does not say so. A star marks what does not fit.
"""

import argparse
import dataclasses
import math
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from sweeps.answers.shared import time_range
from sweeps.ask.cases import case
from sweeps.run.answer import answer
from tests.evidence.harness import command, flag

FILE = Path(__file__).with_suffix(".toml")

NEAR = 1.5
"""Factor up to which a prediction counts as near."""

TIMES = {"user": "tpot", "decode": "tpot", "total": "e2e"}
"""Meaning of a rate -> the time that it is made of."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rate:
    """One published rate: what ran, and how fast."""

    source: str  # name of its table
    hardware: str
    model: str
    rate: float  # output tokens/s
    of: str  # one of `TIMES`
    batch: float
    isl: float
    osl: float
    speculation: str  # none, unknown, stated or implied
    weights: str | None = None
    engine: str | None = None
    deployment: dict[str, float] = dataclasses.field(default_factory=dict)
    guessed: tuple[str, ...] = ()
    fitted: bool = False
    claim: bool = False
    remark: str = ""

    @property
    def devices(self) -> int:
        """Devices of the deployment."""
        return int(math.prod(self.deployment.get(name, 1) for name in ("tp", "pp", "cp", "attention_dp", "dp")))

    @property
    def kind(self) -> str:
        """How the row counts: judged, or why it does not."""
        if self.speculation in ("stated", "implied"):
            return "drafts"
        if self.fitted:
            return "fitted"
        return "claim" if self.claim else "judged"


@dataclasses.dataclass(frozen=True)
class Predicted:
    """One rate and its prediction, in tokens/s."""

    row: Rate
    rate: float
    low: float
    high: float
    fits: bool

    @property
    def factor(self) -> float:
        """Predicted over published rate."""
        return self.rate / self.row.rate

    @property
    def near(self) -> bool:
        """Whether it is within the factor `NEAR`."""
        return abs(math.log(self.factor)) <= math.log(NEAR)

    @property
    def inside(self) -> bool:
        """Whether the published rate is in the 90 % interval."""
        return self.low <= self.row.rate <= self.high


def sources() -> dict[str, dict[str, Any]]:
    """Sources of the rates by name: text, url, and the date where one is stated."""
    found: dict[str, dict[str, Any]] = tomllib.loads(FILE.read_text(encoding="utf-8"))["source"]
    return found


def rates() -> list[Rate]:
    """The published rates, in the order of the file."""
    tables = tomllib.loads(FILE.read_text(encoding="utf-8"))["rate"]
    return [Rate(**table | {"guessed": tuple(table.get("guessed", ()))}) for table in tables]


def predicted(row: Rate, efficiency: str | None = None) -> Predicted:
    """What `jaxroof request` says of a row, under the default constants or those named.

    A rate is tokens over a time: 1 / TPOT of one request, batch / TPOT of decoding, batch x osl / E2E over all.

    Raises:
      ValueError: one line of the product, where it refuses the row.
    """
    asked = case(
        "request",
        row.hardware,
        row.model,
        workload={"batch": row.batch, "isl": row.isl, "osl": row.osl},
        weights=row.weights,
        engine=row.engine,
        efficiency=efficiency,
        deployment=row.deployment,
    )
    metrics = answer(asked).metrics
    name = TIMES[row.of]
    tokens = {"user": 1.0, "decode": row.batch, "total": row.batch * row.osl}[row.of]
    low, high = time_range(name, metrics)
    return Predicted(row, tokens / float(metrics[name]), tokens / high, tokens / low, bool(metrics["fits"]))


def scores(found: Sequence[Predicted]) -> dict[str, tuple[int, float, float, float]]:
    """Maker or all -> rows, share within `NEAR`, share inside the interval, geometric mean of the factors."""
    by: dict[str, list[Predicted]] = {"all": list(found)}
    for one in found:
        by.setdefault(family(one.row.hardware), []).append(one)
    return {
        name: (
            len(group),
            sum(one.near for one in group) / len(group),
            sum(one.inside for one in group) / len(group),
            math.exp(sum(math.log(one.factor) for one in group) / len(group)),
        )
        for name, group in by.items()
        if group
    }


FAMILIES = {
    **dict.fromkeys(("WSE-2", "WSE-3"), "Cerebras"),
    **dict.fromkeys(("H100-SXM", "H200-SXM", "A100-SXM-80GB", "B200-SXM", "MI300X"), "data-centre GPUs"),
    **dict.fromkeys(("GB10", "Jetson-AGX-Thor", "Jetson-AGX-Orin"), "GPUs with LPDDR"),
    **dict.fromkeys(("Wormhole-n150", "Wormhole-n300-chip", "Blackhole-p150"), "Tenstorrent"),
    **dict.fromkeys(("Trainium1", "Gaudi3", "Ascend-910C"), "other accelerators with HBM"),
    "Arc-Pro-B60": "Intel Arc",
    "GroqChip1": "Groq",
    "SN40L": "SambaNova",
    "Corsair": "d-Matrix",
}
"""Device -> kind of machine that it is scored with."""


def family(hardware: str) -> str:
    """Kind of machine."""
    return "Apple M series" if hardware.startswith("Apple") else FAMILIES[hardware]


def _number(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 100.0 else f"{rate:.3g}"


def _cells(one: Predicted) -> Iterator[str]:
    row = one.row
    guesses = f" ({', '.join(row.guessed)} guessed)" if row.guessed else ""
    yield f"{row.devices} x {row.hardware}" if row.devices > 1 else row.hardware
    yield f"{row.model} {row.weights or ''}".strip()
    yield f"{row.batch:,.0f} x {row.isl:,.0f} + {row.osl:,.0f}{guesses}"
    yield row.of
    yield _number(row.rate)
    yield _number(one.rate) + ("" if one.fits else " *")
    yield f"{one.factor:.2f}"
    yield f"{_number(one.low)} - {_number(one.high)}"
    yield "yes" if one.inside else "no"
    yield row.source


HEADS = ("device", "model", "requests x prompt + output", "rate of", "published", "predicted", "factor")
HEADS += ("90 % interval", "inside", "source")
TITLES = {
    "judged": "Rates that are judged",
    "drafts": "Rates with drafts (speculative decoding), not judged",
    "fitted": "Rates that a constant was fitted to, not judged",
    "claim": "A maker's projections, not judged",
}
"""Kind of a row -> heading of its table."""


def _tables(found: Sequence[Predicted]) -> Iterator[tuple[str, tuple[str, ...], list[list[str]]]]:
    """Title, heads and rows of every table."""
    for kind, title in TITLES.items():
        group = [one for one in found if one.row.kind == kind]
        if group:
            yield title, HEADS, [list(_cells(one)) for one in group]
    lines = [
        [name, str(rows), f"{near:.0%}", f"{inside:.0%}", f"{mean:.2f}"]
        for name, (rows, near, inside, mean) in scores([one for one in found if one.row.kind == "judged"]).items()
    ]
    heads = ("machines", "rows", f"within a factor of {NEAR}", "inside the interval", "mean factor")
    yield "Judged rates by kind of machine", heads, lines


def _markdown(title: str, heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rule = "|".join("---" for _ in heads)
    rows = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"## {title}\n\n| {' | '.join(heads)} |\n|{rule}|\n{rows}\n"


@command(flag("--markdown", action="store_true", help="print the tables of docs/evidence/published_rates.md"))
def main(options: argparse.Namespace) -> None:
    found, refused = [], []
    for row in rates():
        try:
            found.append(predicted(row))
        except ValueError as error:
            refused.append(f"{row.hardware}, {row.model}: {error}")
    console = Console(width=190)
    for title, heads, lines in _tables(found):
        if options.markdown:
            print(_markdown(title, heads, lines))
            continue
        table = Table(*heads, title=title)
        for line in lines:
            table.add_row(*line)
        console.print(table)
    for line in refused:
        console.print(f"refused: {line}")
    if options.markdown:
        print("## Sources\n")
        for name, source in sources().items():
            print(
                f"- `{name}`: [{source['text']}]({source['url']})" + (f", {source['date']}" if "date" in source else "")
            )


if __name__ == "__main__":
    raise SystemExit(main())
