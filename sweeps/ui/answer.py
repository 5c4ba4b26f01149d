"""Answer to a state of the explorer: figures with intervals, fit, bounds, ops and a curve, as records for the page."""

from typing import Any

import numpy as np

from hwspaces import HardwareEntry, quantity
from hwspaces.accelerators.load import CATALOGUE_PLACE
from jaxroof.jobs import job_of
from sweeps.answers import shared, tables
from sweeps.answers.request import batch_text
from sweeps.ask.cases import Case
from sweeps.run.answer import Answer, OpAnswer, answer
from sweeps.run.evaluate import evaluate
from sweeps.run.evidence import extrapolated
from sweeps.run.points import Points, answers
from sweeps.show.style import BOUND_COLOURS
from sweeps.ui.state import State, case_of, command, figures, snippet, words
from sweeps.ui.url import query_of

SHOWN = 8
"""Ops of a step that are shown, those of most time."""

LEAST = 5e-4
"""Share of a step's time from which what binds it is named."""

LARGEST = 1024
"""Requests at once up to which the curve goes at least."""

FIGURES = {
    "ttft": ("TTFT", "time to first token", "ttft", 1),
    "tpot": ("TPOT", "time per output token", "tpot", 1),
    "tokens_per_second_per_device": ("Tokens/s per device", "output tokens", "e2e", -1),
    "usd_per_million_tokens": ("USD per million tokens", "output tokens, at the rental price", "e2e", 1),
}
"""Metric -> its name and meaning on the page, the time that it follows from, and the power of that time."""


def record(state: State) -> dict[str, Any]:
    """Everything that the page shows of a state, but the curve.

    Raises:
      ValueError: one line, where the state is no deployment that could be.
    """
    scaled = figures(state)
    asked = words(state, scaled)
    case = case_of(asked)
    result = answer(case)
    metrics: dict[str, Any] = result.metrics
    work = case.scenario.workload
    title, setting = tables.heading(case, batch_text(case), {}).split("\n")
    # One output token comes from the prefill: there is no decoding to show.
    steps = {name: ops for name, ops in result.steps.items() if name == "prefill" or work.osl > 1.0}
    return {
        "query": query_of(state),
        "title": title,
        "setting": setting,
        "figures": [_figure(name, metrics, case.hardware) for name in FIGURES if name != "tpot" or work.osl > 1.0],
        "beyond": extrapolated(metrics),
        "fits": metrics["fits"],
        "memory": shared.fit_text(case, metrics),
        "steps": {name: _step(result, name, ops) for name, ops in steps.items()},
        "scaled": {name: _scaled(paths) for name, paths in scaled.items()},
        "notes": list(tables.notes(case)),
        "command": command(asked),
        "python": snippet(asked),
        "metrics": metrics,
    }


def _figure(name: str, metrics: dict[str, Any], device: HardwareEntry) -> dict[str, Any]:
    """One figure with its 90 % interval; without a value where the accelerator has no price."""
    label, meaning, time, power = FIGURES[name]
    value = metrics.get(name)
    if value is None:
        help = "" if device.file.startswith(CATALOGUE_PLACE) else "state one in its file"
        return {"name": name, "label": label, "meaning": meaning, "text": "no price", "interval": help}
    shown = {"name": name, "label": label, "meaning": meaning, "value": value, "text": tables.metric_text(name, value)}
    if f"{time}_spread" not in metrics:
        return shown | {"interval": ""}
    # Rates and costs follow from the end-to-end latency, and so do their errors.
    ends = sorted(value * (end / metrics[time]) ** power for end in shared.time_range(time, metrics))
    low, high = (tables.metric_text(name, end) for end in ends)
    # A unit that both ends have stands once.
    unit = high.rpartition(" ")[2]
    return shown | {"ends": ends, "interval": f"90 %: {low.removesuffix(f' {unit}')} to {high}"}


def _step(result: Answer, name: str, ops: tuple[OpAnswer, ...]) -> dict[str, Any]:
    """What binds a step, and its largest ops; the others are one row."""
    total = sum(op.time for op in ops)
    largest = sorted(ops, key=lambda op: -op.time)
    rows = [(op.name, op.bound, op.time) for op in largest[:SHOWN]]
    rest = sum(op.time for op in largest[SHOWN:])
    rows += [(f"{len(largest) - SHOWN} others", "", rest)] if rest > 0.0 else []
    shares = result.bound_shares(name)
    return {
        "time": tables.metric_text("ttft", total),
        "binds": result.metrics[f"{name}_bound"],
        "bounds": [
            {"text": f"{bound} {tables.percent(share)}", "colour": BOUND_COLOURS[bound]}
            for bound, share in shares.items()
            if share >= LEAST
        ],
        "ops": [
            {
                "name": op,
                "bound": bound,
                "colour": BOUND_COLOURS.get(bound),
                "share": time / total,
                "text": tables.metric_text("ttft", time),
            }
            for op, bound, time in rows
        ],
    }


def _scaled(paths: dict[str, str]) -> str:
    """Figures that a factor makes, in a few words: of a peak those of two precisions, the first one and the fastest.

    Nothing where the accelerator does not have what the factor is of.
    """
    if len(paths) <= 1:
        return "".join(paths.values())
    texts = {path.rpartition(".")[2]: text for path, text in paths.items()}
    shown = list(dict.fromkeys((next(iter(texts)), max(texts, key=lambda name: quantity(texts[name], "FLOP/s", name)))))
    return ", ".join(f"{name} {texts[name]}" for name in shown)


def curve(state: State) -> dict[str, Any]:
    """Latency against throughput over the number of requests at once: powers of two, and the state's own.

    Returns:
      Columns over the batches: `batch`, `tpot` in s, `rate` in tokens/s per device, `fits`; and the place `own`.
    """
    case = case_of(words(state, figures(state)))
    last = max(LARGEST, state.batch).bit_length()
    batches = np.array(sorted({state.batch, *(1 << n for n in range(last))}), float)
    found = _over(case, batches)
    return {
        "batch": batches.tolist(),
        "tpot": found["tpot"].tolist(),
        "rate": found["tokens_per_second_per_device"].tolist(),
        "fits": found["fits"].tolist(),
        "own": int(np.searchsorted(batches, state.batch)),
    }


def _over(case: Case, batches: np.ndarray) -> dict[str, np.ndarray]:
    names = ("tpot", "tokens_per_second_per_device", "fits")
    points = Points(np.arange(batches.size), ({"workload.batch": batches},))
    ((_, columns),) = evaluate(answers(job_of(case.scenario), names), case.scenario, [points])
    return columns
