"""Text of `jaxroof train`: tables of memory, time and communication of one iteration, and one JSON object."""

import dataclasses
from typing import Any

from hwspaces import formatted
from jaxroof.deployment import devices
from jaxroof.jobs.train import PARTNERS
from jaxroof.training.schedules import SCHEDULES
from jaxroof.training.training import RECOMPUTES
from sweeps.answers import tables
from sweeps.answers.assumptions import mattering
from sweeps.answers.brief import Brief
from sweeps.answers.shared import case_record, throttled_lines
from sweeps.ask.cases import Case
from sweeps.ask.names import units, variable
from sweeps.data.labels import amount, number
from sweeps.run.answer import Answer
from sweeps.studies.train import MEMORY, time_parts

DAY = 86400.0

INFERENCE = ("precision_source", "kv_precision")
"""Of a case's record, what a training does not have."""


def record(case: Case, answer: Answer) -> dict[str, Any]:
    """The answer for machines: SI numbers; codes as words."""
    work = dataclasses.asdict(case.scenario.workload)
    # The schedule and what is recomputed are codes in the workload, and words for readers.
    work |= {"schedule": SCHEDULES[int(work["schedule"])], "recompute": RECOMPUTES[int(work["recompute"])]}
    about = {name: value for name, value in case_record(case).items() if name not in INFERENCE}
    return {
        **about,
        "workload": work,
        "notes": list(case.notes),
        "metrics": answer.metrics,
        "units": units(answer.metrics),
    }


def show(case: Case, metrics: dict[str, Any], settings: dict[str, str]) -> None:
    """Print the tables."""
    out, work = tables.console(), case.scenario.workload
    if out.short(lambda: brief(case, metrics)):
        return
    out.print(heading(case), end="\n")
    if settings:
        out.print(f"with {', '.join(f'{path} = {value}' for path, value in settings.items())}")
    out.print()
    out.print(_memory_table(case, metrics))
    out.print()
    out.print(_time_table(metrics))
    out.print()
    out.print(_communication_table(metrics))
    out.print()
    rate = number(metrics["training_tokens_per_second"])
    each = number(metrics["training_tokens_per_second_per_device"])
    flops = formatted(metrics["model_flops_per_second"], "FLOP/s")
    out.print(f"speed   {rate} tokens/s, {each} per device, {flops} per device")
    # HFU counts recomputed FLOPs, which MFU leaves out.
    out.print(f"use     MFU {tables.percent(metrics['mfu'])}, HFU {tables.percent(metrics['hfu'])}")
    state = "fits" if metrics["fits"] else "does not fit"
    capacity = case.scenario.hardware.memory.hbm.capacity
    out.print(f"memory  {state}: {tables.size(metrics['training_memory'])} of {tables.size(capacity)} per device")
    for name, words in (("power", "per device"), ("joules_per_billion_tokens", "per billion tokens")):
        if name in metrics:
            out.print(
                f"{'power' if name == 'power' else 'energy':8}{amount(metrics[name], variable(name).unit)} {words}"
            )
    tables.print_lines(out, "power", throttled_lines(case, metrics))
    if _priced(metrics):
        price = "" if case.hardware.price is None else f" at {case.hardware.price.text}"
        out.print(f"money   {number(metrics['usd_per_billion_tokens'])} USD per billion tokens{price}")
    if "training_time" in metrics:
        cost = f", {number(metrics['training_usd'])} USD" if "training_usd" in metrics else ""
        # A run has a length only where its number of tokens is given.
        out.print(f"run     {number(work.tokens)} tokens: {number(metrics['training_time'] / DAY)} days{cost}")
    tables.print_lines(out, "note", tables.notes(case))


def brief(case: Case, metrics: dict[str, Any]) -> Brief:
    """The iteration on a screen: its time and speed, where the time goes, memory, money."""
    notes, capacity = tables.notes(case), case.scenario.hardware.memory.hbm.capacity
    cost = f", {number(metrics['usd_per_billion_tokens'])} USD per billion tokens" if _priced(metrics) else ""
    speed = f"{number(metrics['training_tokens_per_second'])} tokens/s, MFU {tables.percent(metrics['mfu'])}"
    asked, setting = heading(case).split("\n")
    parts = [row for row in _time_table(metrics).rows if not row.bold]
    shares = ", ".join(f"{name} {share}" for name, _, share in (row.cells for row in parts))
    fits = "fits" if metrics["fits"] else "does not fit"
    held = f"{fits}: {tables.size(metrics['training_memory'])} of {tables.size(capacity)} per device"
    kinds = [(kind, metrics[f"{kind}_memory"]) for kind in MEMORY]
    largest = sorted(kinds, key=lambda one: -one[1])[:3]
    run = []
    if "training_time" in metrics:
        usd = f", {number(metrics['training_usd'])} USD" if "training_usd" in metrics else ""
        words = f"{number(case.scenario.workload.tokens)} tokens: {number(metrics['training_time'] / DAY)} days{usd}"
        run = [("run", words)]
    return Brief(
        asked=asked,
        setting=setting,
        answer=f"{formatted(metrics['iteration_time'], 's')} per iteration: {speed}{cost}",
        facts=(
            *run,
            ("time", shares),
            ("memory", f"{held}: {', '.join(f'{kind} {tables.size(held)}' for kind, held in largest)}"),
            *(("power", line) for line in throttled_lines(case, metrics)),
        ),
        notes=notes,
        matter=mattering(case, metrics, notes),
        next="the best layout: --search --devices N",
    )


def _priced(metrics: dict[str, Any]) -> bool:
    return "usd_per_billion_tokens" in metrics


def heading(case: Case) -> str:
    """Question in words."""
    work, deployment = case.scenario.workload, case.scenario.deployment
    words = [f"ZeRO-{work.zero:g}" if work.zero else "", SCHEDULES[int(work.schedule)] if deployment.pp else ""]
    words += [f"{work.virtual_stages:g} chunks" if work.virtual_stages > 1 else ""]
    words += [f"recompute {RECOMPUTES[int(work.recompute)]}" if work.recompute else ""]
    words += [f"LoRA rank {work.lora.rank:g} on {', '.join(work.lora.targets)}" if work.lora else ""]
    given = ", ".join(word for word in words if word)
    size = f"{work.global_batch:,.0f} sequences of {work.seq:,.0f} tokens in micro-batches of {work.micro_batch:,.0f}"
    return (
        f"{case.model.name} on {number(devices(deployment))} x {case.hardware.name}{tables.degrees_text(deployment)}: "
        f"{size}\nweights {case.model.precision}{f', {given}' if given else ''}, efficiency {case.efficiency.name}"
    )


def _memory_table(case: Case, metrics: dict[str, Any]) -> Any:
    listing = tables.table("memory per device", "size", "share", numbers=("size", "share"))
    capacity = case.scenario.hardware.memory.hbm.capacity
    for kind in MEMORY:
        held = metrics[f"{kind}_memory"]
        listing.add_row(kind, tables.size(held), tables.percent(held / capacity))
    listing.add_section()
    listing.add_row(
        "total", tables.size(metrics["training_memory"]), tables.percent(metrics["memory_use"]), style="bold"
    )
    return listing


def _time_table(metrics: dict[str, Any]) -> Any:
    """Parts of the iteration's time; passes without the messages that they wait for."""
    listing = tables.table("time of an iteration", "time", "share", numbers=("time", "share"))
    rows, total = time_parts(metrics), metrics["iteration_time"]
    for name, time in rows.items():
        # Differences as small as rounding are no parts.
        if abs(time) > 1e-6 * total:
            listing.add_row(name, formatted(time, "s"), tables.percent(time / total))
    listing.add_section()
    listing.add_row("total", formatted(total, "s"), tables.percent(1.0), style="bold")
    return listing


def _communication_table(metrics: dict[str, Any]) -> Any:
    listing = tables.table("messages between", "exposed", "hidden", numbers=("exposed", "hidden"))
    for kind, words in PARTNERS.items():
        exposed, hidden = metrics[f"{kind}_exposed"], metrics[f"{kind}_hidden"]
        if exposed or hidden:
            cells = [formatted(time, "s") if time else "-" for time in (exposed, hidden)]
            listing.add_row(f"{words} ({kind})", *cells)
    if not listing.rows:
        listing.add_row("none", "-", "-")
    return listing
