"""Text of `jaxroof step`: one engine step in a sentence and its longest ops, or op by op."""

from sweeps.answers import shared, tables
from sweeps.answers.assumptions import mattering
from sweeps.answers.brief import Brief
from sweeps.answers.request import fit_text, question, range_text
from sweeps.ask.cases import Case
from sweeps.data.labels import number
from sweeps.run.answer import Answer


def step_text(case: Case) -> str:
    """Batch of the step in words: "prefill of 1 x 2,048 tokens and decode of 64 sequences at 2,048 tokens"."""
    work, parts = case.scenario.workload, []
    if work.prefill is not None:
        past = f" after {work.past:,.0f} cached" if work.past else ""
        parts.append(f"prefill of {work.prefills:,.0f} x {work.prefill:,.0f} tokens{past}")
    if work.decode is not None:
        sequences = f"{work.decode:,.0f} sequence{'s' * (work.decode > 1.0)}"
        parts.append(f"decode of {sequences} at {work.context:,.0f} tokens")
    return " and ".join(parts)


def brief(case: Case, result: Answer) -> Brief:
    """The step on a screen: its time, what binds it, its longest ops."""
    metrics, notes = result.metrics, tables.notes(case)
    time = tables.metric_text("step_time", metrics["step_time"])
    if "step_time_spread" in metrics:
        time += f" ({range_text(*shared.time_range('step_time', metrics))}, 90 % interval)"
    return Brief(
        *question(case, step_text(case)),
        answer=f"{time}: {rates_text(case, result)}, {use_text(result)}",
        facts=(
            ("limited", f"{bound_text(result)} of the time"),
            ("memory", fit_text(case, metrics)),
            *(("beyond", line) for line in shared.beyond_lines(case, metrics)[:1]),
        ),
        table=tables.longest_ops(result.steps["step"]),
        notes=notes,
        matter=mattering(case, metrics, notes),
        next="of whole requests: jaxroof request",
    )


def bound_text(result: Answer) -> str:
    """Shares of the step's time by the resource that limits its ops."""
    return tables.shares_text(result.bound_shares("step"))


def rates_text(case: Case, result: Answer) -> str:
    """Tokens per second of each part: a mixed step has two rates."""
    work, time, rates = case.scenario.workload, result.metrics["step_time"], []
    if work.prefill is not None:
        rates.append(f"{number(work.prefills * work.prefill / time)} prompt tokens/s")
    if work.decode is not None:
        rates.append(f"{number(work.decode / time)} decoded tokens/s")
    return ", ".join(rates)


def use_text(result: Answer) -> str:
    """Shares of the peaks of arithmetic and memory."""
    mfu, mbu = (tables.percent(float(result.metrics[name])) for name in ("mfu", "mbu"))
    return f"MFU {mfu}, MBU {mbu}"


def show(case: Case, result: Answer, settings: dict[str, str]) -> None:
    """Print the table of ops, and what follows it."""
    out = tables.console()
    if out.short(lambda: brief(case, result)):
        return
    out.print(tables.heading(case, step_text(case), settings), end="\n\n")
    out.print(tables.op_table(result.steps["step"]))
    out.print()
    out.print(f"step    {tables.metric_text('step_time', result.metrics['step_time'])}, {rates_text(case, result)}")
    out.print(f"use     {use_text(result)}")
    out.print(f"bound   {bound_text(result)} of the time")
    shared.show(case, result)
