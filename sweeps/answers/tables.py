"""Tables and lines that answers share, and numbers with their units."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hwspaces import formatted
from sweeps.answers.answer import Answer, Column, Table, Text
from sweeps.answers.screen import Screen
from sweeps.ask.text import escaped
from sweeps.data.labels import amount, number

if TYPE_CHECKING:
    from jaxroof.deployment import Deployment
    from sweeps.ask.cases import Case
    from sweeps.run.answer import OpAnswer


def console() -> Answer:
    """An answer that the screen shows as it comes."""
    return Answer(Screen())


def table(*columns: str, numbers: Iterable[str] = ()) -> Table:
    """An empty table; the columns in `numbers` are right-aligned and never broken."""
    return Table([Column(column, number=column in numbers) for column in columns])


def short_table(*columns: str, texts: Iterable[str] = (), last: Sequence[str] = ()) -> Table:
    """An empty table of numbers for a short answer; columns in `texts` are words.

    Args:
      last: columns that are left out first where the table is too wide, the first of them before the others.
    """
    ranks = {name: len(last) - place for place, name in enumerate(last)}
    return Table([Column(name, number=name not in texts, rank=ranks.get(name, 0)) for name in columns])


def print_lines(out: Answer, label: str, texts: Iterable[str]) -> None:
    """Print texts one below the other, each after what it is: "note", "file", "power"."""
    for text in texts:
        out.print(Text(text, label=label))


def metric_table(metrics: Mapping[str, Any], shares: Iterable[str] = ()) -> Table:
    """Every metric with its unit, or in percent if in `shares`, and what it means."""
    from sweeps.ask.names import variable

    listing = table("metric", "value", "meaning", numbers=("value",))
    for name, value in metrics.items():
        text = percent(value) if name in shares else metric_text(name, value)
        listing.add_row(name, text, variable(name).long_name)
    return listing


def op_table(ops: "tuple[OpAnswer, ...]") -> Table:
    """Every op of a step in the order of running, on one device at full clock, with totals.

    Collectives move messages, not memory. Power is what the device draws while the op runs.
    """
    from sweeps.run.answer import OpAnswer

    # Columns that would be empty for every op are left out.
    sends = any(op.message_bytes for op in ops)
    draws = any(op.power is not None for op in ops)
    each = ["FLOP\n/device", "bytes\n/device", "FLOP/B", *(["message\n/device"] if sends else [])]
    each += ["power\n/device"] if draws else []
    columns = ["runs", "time", "share", *each]
    listing = table("op", *columns, "bound", numbers=columns)
    total = sum(op.time for op in ops)
    for op in ops:
        bound = op.bound if op.algorithm is None else f"{op.bound} ({op.algorithm})"
        listing.add_row(op.name, number(op.count), *_op_cells(op, total, sends, draws), bound)
    listing.add_section()
    # Amounts add up over ops; precision, bound and algorithm belong to single ops.
    everything = OpAnswer(
        name="total",
        count=1.0,
        precision=None,
        time=total,
        flops=sum(op.flops for op in ops),
        bytes=sum(op.bytes for op in ops),
        message_bytes=sum(op.message_bytes for op in ops),
        bound="",
        algorithm=None,
    )
    listing.add_row("total", "", *_op_cells(everything, total, sends, draws), "", style="bold")
    return listing


def longest_ops(ops: "Sequence[OpAnswer]") -> Table:
    """Ops of a step by time, the longest first, for a short answer."""
    total = sum(op.time for op in ops)
    columns = ("op", "runs", "time", "share", "bytes", "FLOP", "bound")
    listing = short_table(*columns, texts=("op", "bound"), last=("FLOP", "bytes", "runs"))
    for op in sorted(ops, key=lambda op: -op.time):
        cells = (number(op.count), formatted(op.time, "s"), percent(op.time / total))
        listing.add_row(op.name, *cells, size(op.bytes), flop(op.flops), op.bound)
    return listing


def op_summary(steps: "Mapping[str, tuple[OpAnswer, ...]]", rows: int = 5) -> Table:
    """The ops that take most of every step, side by side."""
    parts = (Column("share", number=True), Column("bound", whole=True))
    listing = Table([column for step in steps for column in (Column(f"{step} step"), *parts)])
    for row in range(rows):
        cells = []
        for ops in steps.values():
            total = sum(op.time for op in ops)
            # Row r of a step is its op of rank r by time; a step may have fewer ops than there are rows.
            largest = sorted(ops, key=lambda op: -op.time)[row : row + 1]
            cells += [largest[0].name, percent(largest[0].time / total), largest[0].bound] if largest else [""] * 3
        listing.add_row(*cells)
    return listing


def heading(case: "Case", what: str, settings: Mapping[str, str]) -> str:
    """Question in one line: model, hardware, devices and workload; precisions and their source; settings."""
    from jaxroof.deployment import devices

    deployment = case.scenario.deployment
    spread = degrees_text(deployment)
    lines = [
        f"{_name(case.model)} on {number(devices(deployment))} x {_name(case.hardware)}{spread}: {what}",
        f"weights {case.model.precision} ({case.model.precision_source}), "
        f"KV cache {case.kv}, efficiency {case.efficiency.name}, engine {case.engine.text}",
    ]
    if settings:
        lines.append(escaped(f"with {', '.join(f'{path} = {value}' for path, value in settings.items())}", breaks=True))
    return "\n".join(lines)


def _name(entry: Any) -> str:
    """The name of hardware or of a model, which a file may have given."""
    return escaped(entry.name, breaks=True)


def degrees_text(deployment: "Deployment") -> str:
    """Use of devices, where it is not by tensor parallelism alone: " (tp 4, pp 2)"."""
    from jaxroof.deployment import DEGREES

    given = {name: getattr(deployment, name) for name in DEGREES}
    # By tensor parallelism alone the degree is the number of devices, which the heading states.
    if all(value in (None, 1.0) for name, value in given.items() if name != "tp"):
        return ""
    return f" ({', '.join(f'{name} {value:g}' for name, value in given.items() if value not in (None, 1.0))})"


def notes(case: "Case") -> tuple[str, ...]:
    """Notes for the reader but for the precision, which `heading` states; where the weights are."""
    from sweeps.ask.precisions import placement_notes

    # The first note is that of the precision.
    return tuple(escaped(note, breaks=True) for note in (*case.notes[1:], *placement_notes(case.scenario)))


def metric_text(name: str, value: Any) -> str:
    """One metric for people: with its unit, shares in percent."""
    from sweeps.ask.names import variable

    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    # Utilizations of compute (MFU) and of bandwidth (MBU) are shares of a peak.
    if name.endswith(("mfu", "mbu")):
        return percent(value)
    return amount(value, variable(name).unit)


def finite_text(name: str, value: float) -> str:
    """`metric_text` of a number; "-" where there is none."""
    return metric_text(name, value) if math.isfinite(value) else "-"


def rows_by_reason(
    rows: Iterable[Any], lacking: Mapping[str, str] | None = None
) -> tuple[list[Any], dict[str, list[str]]]:
    """Rows with a reason of their own, and hardware by the reason that is the same for all of its rows.

    Args:
      rows: of a comparison, without a rank.
      lacking: reasons of hardware without any row, which come first.
    """
    own, same = list[Any](), dict[str, list[str]]()
    for name, reason in (lacking or {}).items():
        same.setdefault(reason, []).append(name)
    for row in rows:
        # Reasons that begin so are about what the hardware lacks, and hold for all of its rows.
        if (row.reason or "").startswith("no "):
            same.setdefault(row.reason, []).append(row.hardware)
        else:
            own.append(row)
    return own, same


def write_csv(path: str, records: Sequence[Mapping[str, Any]], force: bool = False) -> None:
    """Rows as a CSV file, which appears when it is whole; ValueError of one line where there are none."""
    import csv

    from hwspaces.files.output import replacing

    if not records:
        raise ValueError(f"{path}: there are no rows to write")
    # Written under another name first: the file appears only when it is whole.
    with replacing(path, ("rows",), force=force) as name, open(name, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(records[0]))
        writer.writeheader()
        writer.writerows(records)


def error_cells(errors: Mapping[str, float], *names: str) -> list[str]:
    """Relative errors of `names` as "12.3%"; with their sign where they are signed."""
    return [f"{errors[name]:+.1%}" if "signed" in name else f"{errors[name]:.1%}" for name in names]


def milliseconds(seconds: float | None) -> str:
    """A time as a number of milliseconds."""
    return "-" if seconds is None else f"{seconds * 1e3:.4g}"


def percent(share: float) -> str:
    """A share as "12.3 %"."""
    return f"{100 * share:.1f} %"


def shares_text(shares: Mapping[str, float]) -> str:
    """Shares by name: "hbm 66.5 %, link 21.8 %"."""
    return ", ".join(f"{name} {percent(share)}" for name, share in shares.items())


def flop(count: float) -> str:
    """A count of operations as "34.4 TFLOP"."""
    # The formatter knows FLOP/s, whose prefixes are those of a count.
    return formatted(count, "FLOP/s").removesuffix("/s") if count else "-"


def size(count: float) -> str:
    """A number of bytes as "141 GB"."""
    return formatted(count, "B") if count else "-"


def _op_cells(op: "OpAnswer", total: float, sends: bool, draws: bool) -> list[str]:
    # Intensity, FLOP/B, says nothing of an op without arithmetic.
    intensity = "-" if op.intensity is None or not op.flops else number(op.intensity)
    cells = [formatted(op.time, "s"), percent(op.time / total), flop(op.flops), size(op.bytes), intensity]
    cells += [size(op.message_bytes)] if sends else []
    return [*cells, *(["" if op.power is None else f"{op.power:,.0f} W"] if draws else [])]
