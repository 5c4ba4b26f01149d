"""Served comparisons as text and CSV."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import hwspaces
from sweeps.answers.brief import Brief, clipped
from sweeps.answers.request import engine_text
from sweeps.answers.tables import console, finite_text, print_lines, rows_by_reason, short_table, table, write_csv
from sweeps.ask.names import variable
from sweeps.data.labels import number
from sweeps.studies.compare.comparison import Comparison
from sweeps.studies.compare.ranking import ascending
from sweeps.studies.compare.rows import Row

COLUMNS = {
    "load": "requests/s\n/replica",
    "ttft_mean": "TTFT\nmean",
    "tpot_mean": "TPOT\nmean",
    "tokens_per_second_per_device": "tokens/s\n/device",
    "usd_per_million_tokens": "USD/M\ntokens",
}
OF_PROMPTS = {
    "usd_per_million_prompt_tokens": "USD/M\nprompt tokens",
    "usd_per_thousand_requests": "USD/1,000\nrequests",
}
"""Metrics of the table; the one that rows are sorted by comes to them."""


def show(comparison: Comparison, shown: Sequence[Row], top: int, every: bool) -> None:
    """Print the ranking, its reasons, and what the numbers are of."""
    out, question = console(), comparison.question
    if out.short(lambda: brief(comparison, shown[:top])):
        return
    out.print(_heading(comparison))
    for one in question.requests.classes:
        out.print(f"{one.text}: {question.target.classes[one.name].text}")
    weights = (
        ", ".join(filter(None, comparison.questions))
        or f"{question.model.precision} ({question.model.precision_source})"
    )
    out.print(
        f"weights {weights}, engine {hwspaces.engine(question.engine).text}, efficiency {question.efficiency.name}"
    )
    direction = "highest" if variable(comparison.metric).higher_is_better else "lowest"
    out.print(f"sorted by {comparison.metric}, {direction} first ({comparison.chosen})", end="\n\n")
    if shown:
        _print_rows(out, comparison, shown[:top], direction)
        if len(shown) > top:
            out.print(f"... and {len(shown) - top} more; --top {len(shown)} shows them")
        _print_marks(out, comparison, shown[:top])
        _print_details(out, comparison, shown[:top])
    else:
        out.print("nothing serves the requests within the limits")
    _print_reasons(out, comparison, every)
    out.print()
    _print_summary(out, comparison, shown)


def brief(comparison: Comparison, rows: Sequence[Row]) -> Brief:
    """The ranking on a screen: the best row in a sentence, the first rows, what stops a larger load."""
    question = comparison.question
    asked, engine = _heading(comparison, short=True), engine_text(hwspaces.engine(question.engine).text)
    if not rows:
        misses = [f"{row.hardware}: {row.reason}" for row in comparison.nearest_misses]
        facts = tuple(("", miss) for miss in misses)
        return Brief(asked, engine, "Nothing serves the requests within the limits.", facts, notes=question.notes)
    first = rows[0]
    facts = [("limited", f"a larger load of row 1 by {first.binds}")]
    facts += [("helps", advice) for advice in comparison.advice(rows[:1]) if advice]
    known = next((row for row in rows if not comparison.trust(row).extrapolated), None)
    if known is None:
        facts.insert(0, ("evidence", "every row is beyond it (?): intervals are wider"))
    elif known is not first:
        rank = rows.index(known) + 1
        facts.insert(0, ("evidence", f"row 1 is beyond it (?): wider interval; the first row inside is {rank}"))
    return Brief(
        asked=asked,
        setting=engine,
        answer=_best_text(comparison, first),
        facts=tuple(facts),
        table=_short_rows(comparison, rows),
        notes=question.notes,
        next="its launch flags: --emit vllm; a page: -o f.json, jaxroof report f.json",
    )


def _best_text(comparison: Comparison, row: Row) -> str:
    """The best row in a sentence, with the interval of the metric that decides."""
    metrics, metric = row.metrics, comparison.metric
    many = f"{row.replicas} replica{'s' * (row.replicas > 1)} of " if comparison.rate is not None else ""
    low, high = (number(end, 2) for end in comparison.trust(row).interval(metrics[metric]))
    unit = UNITS.get(metric, metric)
    times = [
        f"{SHORT[name]} {finite_text(name, metrics[name])}" for name in ("ttft_mean", "tpot_mean") if name in metrics
    ]
    hourly = f", {metrics['usd_per_hour']:.4g} USD/h" if math.isfinite(metrics["usd_per_hour"]) else ""
    return (
        f"{many}{row.devices} x {row.hardware} as {clipped(row.layout, 36)}: {finite_text(metric, metrics[metric])} "
        f"{unit} ({low} to {high}, 90 %), {number(metrics['load'])} requests/s each, {', '.join(times)}{hourly}"
    )


UNITS = {
    "usd_per_million_tokens": "USD per million output tokens",
    "usd_per_million_prompt_tokens": "USD per million prompt tokens",
    "usd_per_hour": "USD/h",
}
"""Metrics of a ranking in words."""


def _short_rows(comparison: Comparison, rows: Sequence[Row]) -> Any:
    """The ranking without settings of the engine, in heads of one line."""
    columns = {name: head.replace("\n", "") for name, head in (COLUMNS | OF_PROMPTS).items() if name in rows[0].metrics}
    columns |= {name: head for name, head in SHORT.items() if name in columns}
    columns.setdefault(comparison.metric, comparison.metric)
    columns.pop("devices", None)
    names = ("#", "accelerator", "devices", "layout", *columns.values(), "90 %", "by")
    texts = ("accelerator", "layout", "by")
    listing = short_table(*names, texts=texts, last=("by", SHORT["tokens_per_second_per_device"], "90 %"))
    for rank, row in enumerate(rows, 1):
        count = str(row.devices) if comparison.rate is None else f"{row.replicas} x {row.devices}"
        cells = [finite_text(metric, row.metrics[metric]) for metric in columns]
        low, high = comparison.trust(row).interval(row.metrics[comparison.metric])
        name = f"{row.hardware} {_marks(comparison, row)}".strip()
        how = "simulation" if row.simulated else "estimate"
        between = f"{number(low, 2)} - {number(high, 2)}"
        listing.add_row(str(rank), name, count, clipped(row.layout, LAYOUT), *cells, between, how)
    return listing


LAYOUT = 32
"""Characters of a layout in a short answer."""

SHORT = {
    "load": "req/s",
    "ttft_mean": "TTFT",
    "tpot_mean": "TPOT",
    "tokens_per_second_per_device": "tok/s/dev",
    "usd_per_million_tokens": "USD/M",
}
"""Heads of metrics in a short answer."""


def _heading(comparison: Comparison, short: bool = False) -> str:
    """The question in a line.

    Args:
      short: with the rate before the lengths, and less said of headroom and shares.
    """
    question = comparison.question
    # Mean lengths in tokens; where all requests are equal, "on average" is left out.
    stream = question.requests.sample
    lengths = " + ".join(number(float(np.mean(tokens)), 4) for tokens in (stream.isl, stream.osl))
    even = np.ptp(stream.isl) == 0.0 and np.ptp(stream.osl) == 0.0
    rate = f"{number(comparison.rate)} requests/s" if short and comparison.rate is not None else "requests"
    words = f"{question.model.name}: {rate} of {lengths} tokens{'' if even else ' on average'}"
    words += "" if question.requests.images is None else f" with {question.requests.images.text}"
    if not question.target.classes:
        words += f", {question.target.text.replace(' of the requests', ' of them') if short else question.target.text}"
    if comparison.rate is not None and not short:
        words += f"; {number(comparison.rate)} requests/s and {100 * comparison.headroom:g} % headroom"
    return words


def _print_rows(out: Any, comparison: Comparison, rows: Sequence[Row], direction: str) -> None:
    columns = {name: head for name, head in (COLUMNS | OF_PROMPTS).items() if name in rows[0].metrics}
    # The metric that rows are sorted by always has a column; the number of devices has one anyway.
    columns.setdefault(comparison.metric, comparison.metric)
    columns.pop("devices", None)
    heads = {name: f"{head}\n({direction})" if name == comparison.metric else head for name, head in columns.items()}
    devices = "devices" if comparison.rate is None else "replicas\nx devices"
    names = (
        "#",
        "accelerator",
        devices,
        "layout",
        "token\nbudget",
        "max\nseqs",
        *heads.values(),
        "90 %\ninterval",
        "by",
    )
    ranking = table(*names, numbers=[name for name in names if name not in ("accelerator", "layout", "by")])
    for rank, row in enumerate(rows, 1):
        count = str(row.devices) if comparison.rate is None else f"{row.replicas} x {row.devices}"
        setting = row.spec["policy"].get("token_budget")
        budget = "-" if setting is None else f"{float(setting):,.0f}"
        cells = [finite_text(metric, row.metrics[metric]) for metric in columns]
        # Interval at 90 % of the metric that decides the order, by the evidence for this row's constants.
        low, high = comparison.trust(row).interval(row.metrics[comparison.metric])
        between = f"{number(low, 2)} - {number(high, 2)}"
        how = "simulation" if row.simulated else "estimate"
        layout = f"{row.layout} {_settings(row)}".strip()
        name = f"{row.hardware} {_marks(comparison, row)}".strip()
        ranking.add_row(str(rank), name, count, layout, budget, f"{row.max_sequences:,}", *cells, between, how)
    out.print(ranking)


def _settings(row: Row) -> str:
    """Settings beside layout and token budget that differ between rows."""
    # The token budget is left out here: it has a column of its own.
    parts = [part for part in row.setting.split(", ") if part and not part.startswith("token_budget")]
    return ", ".join(parts)


def _marks(comparison: Comparison, row: Row) -> str:
    device = comparison.device_of(row)
    # Each mark qualifies another input: the device, its price, the constants of its efficiency.
    marks = "*" if device.status == "announced" else ""
    marks += "~" if device.price is not None and device.price.estimate else ""
    return marks + ("?" if comparison.trust(row).extrapolated else "")


def _print_marks(out: Any, comparison: Comparison, rows: Sequence[Row]) -> None:
    marks = "".join(_marks(comparison, row) for row in rows)
    for mark, words in (
        ("*", "announced"),
        ("~", "at an estimated price: nobody sells it, as far as is known"),
        ("?", "beyond what the constants were fitted to or served runs confirm: the interval is wider; see `beyond`"),
    ):
        if mark in marks:
            out.print(f"{mark} {words}")


def _print_details(out: Any, comparison: Comparison, rows: Sequence[Row]) -> None:
    """What binds every row and what would help, prices, and whether the first row is an extrapolation."""
    details = table("#", "a larger load is stopped by", "a change that helps", numbers=("#",))
    for rank, (row, change) in enumerate(zip(rows, comparison.advice(rows), strict=True), 1):
        details.add_row(str(rank), row.binds, change)
    out.print()
    out.print(details)
    out.print()
    devices = {row.hardware: comparison.device_of(row) for row in rows}
    print_lines(out, "price", [f"{name}: {one.price.text}" for name, one in devices.items() if one.price is not None])
    print_lines(out, "beyond", _beyond(comparison, rows))
    # Reversed, as later entries replace earlier ones: the best-ranked row of an accelerator gives its line.
    slow = {row.hardware: said for row in reversed(rows) if (said := comparison.slower_cache(row))}
    print_lines(out, "cache", [f"{name}: {said}" for name, said in slow.items()])


def _beyond(comparison: Comparison, rows: Sequence[Row]) -> list[str]:
    """How far accelerators are beyond the evidence, by their first rows; and rows with what no served run confirms."""
    accelerators: dict[str, str] = {}
    unconfirmed: dict[str, list[str]] = {}
    for rank, row in enumerate(rows, 1):
        judged = comparison.trust(row)
        # Words on the distance from the evidence alone; what no served run confirms is listed by row below.
        octaves = judged.words.removesuffix(judged.unconfirmed).removesuffix("; ")
        if judged.extrapolated and octaves:
            accelerators.setdefault(row.hardware, octaves)
        if judged.unconfirmed:
            unconfirmed.setdefault(judged.unconfirmed, []).append(str(rank))
    said = [f"{name}: {words}" for name, words in accelerators.items()]
    return said + [f"row{'s' * (len(r) > 1)} {', '.join(r)}: {words}" for words, r in unconfirmed.items()]


def _print_reasons(out: Any, comparison: Comparison, every: bool) -> None:
    """Why accelerators have no row above: those of one reason together where it is the same for all."""
    own, same = rows_by_reason(
        comparison.infeasible if every else comparison.nearest_misses, comparison.question.lacking
    )
    if own:
        out.print()
        misses = table("does not serve", "devices", "layout", "because", numbers=("devices",))
        for row in own:
            misses.add_row(row.hardware, str(row.devices), row.layout, row.reason or "")
        out.print(misses)
    for reason, names in same.items():
        out.print(f"{reason}: {', '.join(dict.fromkeys(names))}")
    if every:
        for layout, rule in comparison.question.refused.items():
            out.print(f"not possible for the model: {layout} ({rule})")


def _print_summary(out: Any, comparison: Comparison, shown: Sequence[Row]) -> None:
    # The floor keeps an estimate that takes no measurable time from a division by zero.
    rate = comparison.places / max(comparison.estimate_seconds, 1e-9)
    count, seconds = comparison.places, comparison.estimate_seconds
    words = f"estimate of {count:,} candidates in {seconds:.1f} s ({rate:,.0f} per second)"
    if comparison.simulations:
        # Seconds of simulations alone: those of the estimate before them are stated above.
        more = comparison.seconds - comparison.estimate_seconds
        least, most = (f"{requests:,}" for requests in comparison.requests)
        each = most if least == most else f"{least} to {most}"
        words += f", {comparison.simulations:,} simulations of {each} requests in {more:.1f} s"
    if comparison.simulations and comparison.question.every_accelerator:
        words += ", of accelerators near the best estimate (all of those that --hardware names are simulated)"
    print_lines(out, "tried", [words])
    if not shown:
        return
    first = shown[0]
    print_lines(out, "best", [row_text(comparison, first), *_class_lines(first)])
    # The best row whose interval rests on the evidence rather than on an extrapolation.
    known = next((row for row in shown if not comparison.trust(row).extrapolated), None)
    if known is not first:
        said = "no row is" if known is None else row_text(comparison, known)
        print_lines(out, "sure", [f"the first row is an extrapolation; best inside of the evidence: {said}"])
    print_lines(out, "below", _better_estimates(comparison, shown))
    print_lines(out, "note", comparison.question.notes)


def _better_estimates(comparison: Comparison, shown: Sequence[Row]) -> list[str]:
    """The best row that is estimated, where its figure is better than that of the best simulated one."""
    simulated, estimated = ([row for row in shown if row.simulated is kind] for kind in (True, False))
    if not simulated or not estimated:
        return []
    # Both figures turned so that lower is better, whatever the metric's own direction.
    value, other = (
        float(ascending(np.array(rows[0].metrics[comparison.metric]), comparison.metric))
        for rows in (simulated, estimated)
    )
    if other >= value:
        return []
    pools = estimated[0].prefill is not None
    why = "its pools kept the limits at no load that was simulated" if pools else "it was not simulated"
    rank = shown.index(estimated[0]) + 1
    figure = finite_text(comparison.metric, estimated[0].metrics[comparison.metric])
    return [
        f"row {rank}, an estimate, has a better {comparison.metric}, {figure}; {why}, so it stands below those that are"
    ]


def _class_lines(row: Row) -> list[str]:
    """Figures of every class of requests at the load of a simulated row."""
    lines = []
    for name, of in row.classes.items():
        p95, p99 = ([finite_text(one, of[f"{one}_{end}"]) for one in ("ttft", "tpot")] for end in ("p95", "p99"))
        latencies = f"TTFT p95 {p95[0]}, p99 {p99[0]}, TPOT p95 {p95[1]}, p99 {p99[1]}"
        lines.append(f"{name}: {latencies}, {100.0 * of['good_share']:.1f} % good")
    return lines


def row_text(comparison: Comparison, row: Row) -> str:
    """A row in words."""
    metrics = row.metrics
    many = f"{row.replicas} replica{'s' * (row.replicas > 1)} of " if comparison.rate is not None else ""
    words = f"{many}{row.devices} x {row.hardware} as {row.layout}: {number(metrics['load'])} requests/s each, "
    words += f"TTFT {finite_text('ttft', metrics['ttft_mean'])}"
    words += f", TPOT {finite_text('tpot', metrics['tpot_mean'])}" if "tpot_mean" in metrics else ""
    kind = "output" if "usd_per_million_tokens" in metrics else "prompt"
    cost = metrics["usd_per_million_tokens" if kind == "output" else "usd_per_million_prompt_tokens"]
    words += " on average" + (f", {cost:.3g} USD per million {kind} tokens" if math.isfinite(cost) else "")
    hourly, server = metrics["usd_per_hour"], comparison.question_of(row).options.servers[row.place[1]]
    words += f", {hourly:.4g} USD/h" if math.isfinite(hourly) else ""
    if server == 1 or comparison.rate is None:
        return words
    # Whole servers that are paid for, of `server` devices each.
    count = round(metrics["rented_devices"] / server)
    return f"{words} on {count} server{'s' * (count > 1)} of {server}"


def write_rows(path: str, comparison: Comparison, rows: Sequence[Row], force: bool = False) -> None:
    """Rows, then those that do not serve and their reasons, as a CSV file that appears when it is whole."""
    if not rows:
        raise ValueError(f"{path}: there are no rows to write")
    # A CSV file has one header: columns are the metrics that all rows have.
    names = sorted(set.intersection(*(set(row.metrics) for row in rows)) - {"devices"})
    plain = ("hardware", "devices", "layout", "replicas", "setting", "max_sequences", "simulated", "binds", "reason")
    records = []
    for rank, row in enumerate((*rows, *comparison.infeasible), 1):
        values = {name: row.metrics.get(name, math.nan) for name in names}
        # CSV has neither NaN nor infinity: a figure that does not exist is an empty cell.
        numbers = {name: value if math.isfinite(value) else "" for name, value in values.items()}
        about = {name: getattr(row, name) for name in plain}
        records.append({"rank": rank if row.reason is None else "", **about, **numbers})
    write_csv(path, records, force)
