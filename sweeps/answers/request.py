"""Text of `jaxroof request`: a static batch in a sentence, or every metric and what binds each step."""

from typing import Any

from hwspaces import formatted
from sweeps.answers import shared, tables
from sweeps.answers.assumptions import mattering
from sweeps.answers.brief import Brief
from sweeps.ask.cases import Case
from sweeps.run.answer import Answer

TIMES = {"ttft": "TTFT", "tpot": "TPOT", "e2e": "E2E"}


def batch_text(case: Case) -> str:
    """The batch in words: "32 requests of 1,024 + 256 tokens"."""
    work = case.scenario.workload
    cached = f" ({work.cached:,.0f} cached)" if work.cached else ""
    # A single output token comes from the prefill: there is no decoding to describe.
    output = f" + {work.osl:,.0f}" if work.osl > 1.0 else ""
    what = f"{work.batch:,.0f} request{'s' * (work.batch != 1.0)} of {work.isl:,.0f}{cached}{output} tokens"
    return what + (f", each with {work.encoder_tokens:,.0f} for the encoder" if work.encoder_tokens else "")


def brief(case: Case, result: Answer) -> Brief:
    """The batch on a screen: times with their intervals, rates, what binds each step, memory."""
    metrics, notes = result.metrics, tables.notes(case)
    words = {"tokens_per_second": "tokens/s", "usd_per_million_tokens": "USD per million output tokens"}
    rates = [f"{tables.metric_text(name, metrics[name])} {unit}" for name, unit in words.items() if name in metrics]
    return Brief(
        *question(case, batch_text(case)),
        answer="; ".join(filter(None, (times_text(metrics), ", ".join(rates)))),
        facts=facts(case, result),
        notes=notes,
        matter=mattering(case, metrics, notes),
        next="under load: jaxroof serve with --rate",
    )


def question(case: Case, what: str) -> tuple[str, str]:
    """The question in a line, and its precision and engine."""
    setting = f"weights {case.model.precision}, {engine_text(case.engine.text)}"
    return tables.heading(case, what, {}).split("\n")[0], setting


def engine_text(text: str) -> str:
    """An engine and its release without what is said of them: "vllm 0.24"."""
    return text.partition(" (")[0]


def times_text(metrics: dict[str, Any]) -> str:
    """Times with their 90 % intervals: "TTFT 376 ms (331 to 428 ms)"."""
    parts = []
    for name, label in TIMES.items():
        if name not in metrics:
            continue
        words = f"{label} {formatted(metrics[name], 's')}"
        if f"{name}_spread" in metrics:
            words += f" ({range_text(*shared.time_range(name, metrics))})"
        parts.append(words)
    certain = any(f"{name}_spread" in metrics for name in TIMES)
    return ", ".join(parts) + (" with 90 % intervals" if parts and certain else "")


def range_text(low: float, high: float) -> str:
    """Two times in s, with one unit where it is the same: "331 to 428 ms"."""
    texts = [formatted(value, "s") for value in (low, high)]
    unit = texts[1].rpartition(" ")[2]
    return f"{texts[0].removesuffix(f' {unit}')} to {texts[1]}"


def bound_text(result: Answer, most: int = 3) -> str:
    """What takes the time of every step: "prefill matrix 70 %, link 22 %; decode hbm 70 %"."""
    steps = []
    for step in result.steps:
        shares = [(bound, share) for bound, share in result.bound_shares(step).items() if share >= 0.01][:most]
        steps.append(f"{step} by " + ", ".join(f"{bound} {100 * share:.0f} %" for bound, share in shares))
    return "; ".join(steps)


def fit_text(case: Case, metrics: dict[str, Any]) -> str:
    """Whether the case fits in memory, in a line."""
    return shared.fit_text(case, metrics).replace(" per device,", ",")


def facts(case: Case, result: Answer) -> tuple[tuple[str, str], ...]:
    """What binds, what fits, what lies beyond the evidence, power: a line each."""
    metrics = result.metrics
    found = [("limited", bound_text(result)), ("memory", fit_text(case, metrics))]
    found += [("beyond", line) for line in shared.beyond_lines(case, metrics)[:1]]
    found += [("power", line) for line in shared.power_lines(case, metrics)[:1]]
    return tuple(found)


def show(case: Case, result: Answer, settings: dict[str, str]) -> None:
    """Print the table of metrics, the ops that take most, and what follows them."""
    out = tables.console()
    if out.short(lambda: brief(case, result)):
        return
    out.print(tables.heading(case, batch_text(case), settings), end="\n\n")
    # Metrics on certainty are lines below the table, not rows of it.
    shown = {name: value for name, value in result.metrics.items() if not shared.is_certainty(name)}
    out.print(tables.metric_table(shown))
    out.print()
    out.print(tables.op_summary(result.steps))
    out.print()
    for step in result.steps:
        shares = tables.shares_text(result.bound_shares(step))
        out.print(f"{step:8}bound by {shares} of its time")
    shared.show(case, result)
