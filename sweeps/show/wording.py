"""Words of a picture: the best design as a sentence, the reduced axes, and the source of the numbers."""

import xarray as xr

from sweeps.data import labels
from sweeps.data.best import Best, best, coordinates, feasible_points


def best_sentence(dataset: xr.Dataset, metric: str) -> tuple[str, str]:
    """The best feasible design by `metric`: (the answer as a sentence, where it is)."""
    point = best(dataset, metric)
    feasible, points = feasible_points(dataset)
    if point is None:
        return f"None of {points:,} designs is feasible", _obstacles(dataset)
    counted = f"{points:,}" if feasible == points else f"{feasible:,} feasible"
    swept = "" if feasible == points else f" ({points:,} were swept.)"
    return f"Best of {counted} designs: {said(dataset, metric, point.value)}", f"At {place(dataset, point)}.{swept}"


def heading(dataset: xr.Dataset, metric: str, shown: tuple[str | None, ...], reduce: str) -> tuple[str, str]:
    """Title and details of a picture of `metric` over the axes `shown`, reduced over all others."""
    rest = [labels.short(dataset, name) for name in labels.axes(dataset) if name not in shown]
    which = "the best feasible design" if reduce == "best" else "the median of the feasible designs"
    note = "" if not rest or labels.is_sample(dataset) else f"At every place, {which} over {', '.join(rest)}."
    if reduce == "median" and note:
        words = [labels.short(dataset, name) for name in shown if name is not None]
        return f"Median {labels.title(dataset, metric)} by {' and '.join(words)}", note
    title, details = best_sentence(dataset, metric)
    return title, f"{details}\n{note}"


def said(dataset: xr.Dataset, metric: str, value: float) -> str:
    """A value with what it is: "359 tokens per second and device", "time to first token 643 ms"."""
    words, number = labels.title(dataset, metric), labels.text(dataset, metric, value)
    if metric.endswith(("mfu", "mbu")):
        number = f"{100 * value:.1f} %"
    number = number.replace(" ", "\u00a0")  # a line breaks before a number, not before its unit
    if words.startswith(("tokens per", "US dollars")):
        return f"{number} {words}"
    return f"{words} {number}"


def place(dataset: xr.Dataset, point: Best) -> str:
    """Place of a point in words: "tp 8, HBM bandwidth 3.35 TB/s"."""
    shown = coordinates(dataset, point)
    parts = [
        value if labels.is_text(dataset[name]) else f"{labels.short(dataset, name)} {value}".replace(" ", "\u00a0")
        for name, value in shown.items()
    ]
    return ", ".join(parts) or "the only point"


def _obstacles(dataset: xr.Dataset) -> str:
    """Why nothing is feasible: how many designs are legal splits, and how many fit."""
    words = {"legal": "are splits that the model and the links allow", "fits": "fit in memory"}
    shares = [
        f"{100 * float(dataset[name].mean()):.0f} % {meaning}" for name, meaning in words.items() if name in dataset
    ]
    return f"{'; '.join(shares)}." if shares else ""


def source_note(dataset: xr.Dataset) -> str:
    """Note on the sweep and its source, with the notes that the dataset carries."""
    attributes = dataset.attrs
    entries = attributes.get("entries", "").partition(", ")[0]
    notes = attributes.get("notes", "").split(" | ")
    parts = [attributes.get("title", ""), entries, *notes, attributes.get("source", "")]
    return "; ".join(part for part in parts if part)
