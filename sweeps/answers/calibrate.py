"""A calibration as text and JSON."""

import argparse
import dataclasses
from collections.abc import Mapping
from typing import Any

from sweeps.answers.answer import say


def record(options: argparse.Namespace, found: Any, engine: str, seconds: float) -> dict[str, Any]:
    """The calibration for machines."""
    # Constants of the host in s; `told` marks those that the measured run determines.
    constants = {
        f"host.{name}": {
            "before_s": before,
            "after_s": found.after[name],
            "spread": found.spread[name],
            "told": name in found.told,
        }
        for name, before in found.before.items()
    }
    errors = {
        part: {when: {**dataclasses.asdict(each), "error": each.error} for when, each in both.items()}
        for part, both in found.errors.items()
    }
    about = {"measured": options.measured, "engine": engine, "version": options.engine_version}
    about |= {"requests": len(found.run.stream), "held_out": int(found.run.held_out.sum())}
    about |= {"clients": found.run.clients, "constants": constants, "errors": errors, "output": options.output}
    return about | {"simulations": found.evaluations, "seconds": seconds, "notes": list(found.run.notes)}


def show(options: argparse.Namespace, case: Any, found: Any, engine: str, seconds: float, paths: list[str]) -> None:
    """Print the constants before and after, and the errors that are left."""
    from hwspaces import formatted
    from sweeps.answers.tables import console, print_lines, table

    out, stream = console(), found.run.stream
    loop = "an open loop" if found.run.clients is None else f"a closed loop of {found.run.clients:,} clients"
    out.print(
        f"{case.model.name} on {case.hardware.name}, {engine}: {len(stream):,} requests of {options.measured}, {loop}"
    )
    out.print(f"{found.evaluations} simulations with derivatives in {seconds:.1f} s", end="\n\n")
    # A constant that the run cannot determine keeps its value and has no interval.
    columns = (case.efficiency.name, "calibrated", "+-")
    summary = table("overhead", *columns, "this run", numbers=columns)
    for name, before in found.before.items():
        told = name in found.told
        spread = f"{100 * found.spread[name]:.0f} %" if told else "-"
        says = "tells it" if told else "cannot tell it: kept as it was"
        summary.add_row(f"host.{name}", formatted(before, "s"), formatted(found.after[name], "s"), spread, says)
    out.print(summary)
    out.print()
    # Mean absolute percentage errors of the requests that were fitted to and of those that were held out.
    columns = ("TTFT", "TPOT", "E2E", "TTFT and E2E")
    summary = table("MAPE", "", *columns, numbers=columns)
    for part, both in found.errors.items():
        requests = int(found.run.held_out.sum()) if part == "validation" else int((~found.run.held_out).sum())
        for when, each in both.items():
            cells = (f"{value:.1%}" for value in (each.ttft, each.tpot, each.e2e, each.error))
            name = f"{'held out' if part == 'validation' else part}, {requests:,}" if when == "before" else ""
            summary.add_row(name, when, *cells)
    out.print(summary)
    out.print()
    print_lines(out, "note", found.run.notes)
    print_lines(out, "file", paths)
    if options.output:
        out.print(f"`--efficiency {options.output}` predicts with it.")


def check_record(run: Any, found: Any) -> dict[str, Any]:
    """A check for machines: the errors on a run, and whether they are too large."""
    from sweeps.serving.calibration.residual import STALE

    errors = {"ttft": found.ttft, "tpot": found.tpot, "e2e": found.e2e, "error": found.error}
    return {"requests": len(run.stream), **errors, "limit": STALE, "stale": found.error > STALE}


def show_check(about: Mapping[str, Any], run: Any, found: Any) -> None:
    """Print a check: errors of a file's constants on a run, and whether they hold; `about` says where both are from."""
    from sweeps.serving.calibration.residual import STALE

    source = f"{about['file']} ({', '.join(word for word in (about['engine'], about['date']) if word)})"
    say(f"{source} on {len(run.stream):,} requests of {about['measured']}")
    say(f"MAPE    TTFT {found.ttft:.1%}, TPOT {found.tpot:.1%}, E2E {found.e2e:.1%}; TTFT and E2E: {found.error:.1%}")
    if found.error > STALE:
        say(f"stale   the error is over {STALE:.0%}: calibrate again")
    else:
        say(f"holds   the error is at most {STALE:.0%}")
    for note in run.notes:
        say(f"note    {note}")
