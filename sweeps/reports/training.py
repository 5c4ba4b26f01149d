"""Sections of training: time and memory of an iteration, and layouts of a search."""

from collections.abc import Mapping
from typing import Any

from sweeps.reports import charts
from sweeps.reports.blocks import Chart, Section, Table, column, is_number, metric_table, row_columns, said, words
from sweeps.reports.facts import about, beside

MEMORY = ("weights", "gradients", "optimizer", "activations", "buffers")

LAYOUT = ("rank", "tp", "pp", "cp", "ep", "dp", "micro_batch", "zero", "recompute", "schedule")

FIGURES = ("iteration_time", "mfu", "training_memory", "bubble_share", "training_tokens_per_second_per_device")


def training_section(record: Mapping[str, Any]) -> Section:
    """The section of a record of `train`."""
    metrics = record["metrics"]
    total = metrics["iteration_time"]
    answer = (
        f"One iteration takes {said('iteration_time', total)} on {metrics['devices']:,.0f} devices, with an MFU of "
        f"{said('mfu', metrics['mfu'])}: {said('training_tokens_per_second', metrics['training_tokens_per_second'])} "
        f"tokens per second."
    )
    if is_number(metrics.get("usd_per_billion_tokens")):
        answer += f" A billion tokens cost {metrics['usd_per_billion_tokens']:,.0f} USD."
    if not metrics.get("fits", True):
        answer += " It does not fit in memory."
    blocks: list[Table | Chart] = [_times(metrics), _memory(metrics), metric_table(metrics)]
    title = f"Training of {record['model']} on {record['hardware']}"
    return Section("training", title, answer, about(record), blocks, **beside(record))


def _times(metrics: Mapping[str, Any]) -> Chart:
    """Time of an iteration by part: kernels, messages they wait for, the bubble, the update, the power limit."""
    total = metrics["iteration_time"]
    waits = {name: metrics.get(f"{name}_exposed") or 0.0 for name in ("tp", "pp", "dp", "ep", "cp")}
    again = metrics.get("recompute_time") or 0.0
    passes = metrics["micro_batches"] * (metrics["micro_batch_forward_time"] + metrics["micro_batch_backward_time"])
    parts = {
        # Passes include the messages that they wait for, except those of data parallelism, and recomputation.
        "kernels of the passes": passes - sum(waits.values()) + waits["dp"] - again,
        "recomputation": again,
        **{f"messages of {name}": time for name, time in waits.items()},
        "pipeline bubble": metrics.get("bubble_time") or 0.0,
        "update of the weights": metrics.get("optimizer_time") or 0.0,
    }
    # What is left is the time by which the limit of power stretches all others.
    parts["limit of electrical power"] = max(total - sum(parts.values()), 0.0)
    parts = {name: value for name, value in parts.items() if value > 1e-6 * total}
    return charts.parts("Time of an iteration", "time", parts, "s")


def _memory(metrics: Mapping[str, Any]) -> Chart:
    parts = {name: metrics[f"{name}_memory"] for name in MEMORY if metrics.get(f"{name}_memory")}
    use = metrics.get("memory_use")
    note = f"Together {said('memory_use', use)} of a device's memory." if is_number(use) else ""
    return charts.parts("Memory of a device", "memory", parts, "B", note)


def layouts_section(record: Mapping[str, Any]) -> Section:
    """The section of a record of `train --search`."""
    rows = record["rows"]
    title = f"Layouts of {record['devices']:,} x {record['hardware']} for training {record['model']}"
    facts = [
        ("Model", str(record["model"])),
        ("Hardware", f"{record['devices']:,} x {record['hardware']}"),
        ("Weights", str(record.get("precision", ""))),
        ("Efficiency", str(record.get("efficiency", ""))),
        ("Tried", f"{record['tried']:,} layouts, of which {record['feasible']:,} are feasible"),
    ]
    if not rows:
        return Section("layouts", title, "No layout is feasible.", facts, **beside(record))
    best = rows[0]
    degrees = ", ".join(f"{name} {best[name]}" for name in LAYOUT[1:6] if best.get(name, 1) != 1)
    answer = (
        f"The best of {record['tried']:,} layouts is {degrees or 'one device'}: an iteration takes "
        f"{said('iteration_time', best['iteration_time'])} at an MFU of {said('mfu', best['mfu'])}."
    )
    columns = row_columns(rows, (*LAYOUT, *FIGURES))
    across, up = (next(one for one in columns if one.name == name) for name in ("training_memory", "iteration_time"))
    table = Table("Layouts", columns, "The best first.", (across, up))
    kind = words("recompute", "recomputed", [str(row.get("recompute")) for row in rows])
    tips = [column(name, [row.get(name) for row in rows]) for name in LAYOUT[:7]]
    description = f"{up.title} of {len(rows)} layouts against {across.title}. The table below has the same rows."
    spec = charts.points(across, up, kind, tips, None, description)
    note = "Drag over an area to keep only its rows in the table."
    return Section(
        "layouts",
        title,
        answer,
        facts,
        [Chart(f"{up.title} against {across.title}", spec, description, note, table), table],
        **beside(record),
    )
