"""Facts beside an answer: what was asked, with what, at which price, and what is assumed."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from jaxroof.efficiency.timing import NINETY_PERCENT
from sweeps.reports.blocks import said

DEGREES = ("tp", "pp", "cp", "attention_dp", "ep", "dp")
"""Of a deployment, in the order in which they are said."""

QUESTION = ("command", "question", "deployment", "workload", "policy", "load", "slo", "spec")
"""Keys of a record that say what was asked."""


def about(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What was asked of a single case, name by name."""
    facts = [
        ("Model", _text(record.get("model"))),
        ("Hardware", _text(record.get("hardware"))),
        ("Layout", layout(record.get("deployment"))),
        ("Weights", _text(record.get("precision"))),
        ("KV cache", _text(record.get("kv_precision"))),
        ("Workload", settings(record.get("workload"))),
        ("Engine", _text(record.get("engine_text") or record.get("engine"))),
        ("Efficiency", _text(record.get("efficiency"))),
        ("Price", price(record)),
    ]
    return [(name, text) for name, text in facts if text]


def beside(record: Mapping[str, Any]) -> dict[str, Any]:
    """What follows a section: notes, the whole question, the command and the version."""
    question = {name: record[name] for name in QUESTION[1:] if record.get(name)}
    return {
        "notes": [str(note) for note in record.get("notes") or ()],
        "question": json.dumps(question, indent=2, default=str) if question else "",
        "command": _text(record.get("command")),
        "version": _text(record.get("jaxroof_version")),
    }


def of_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The same of a dataset's attributes."""
    question = attributes.get("spec") or attributes.get("question") or ""
    try:
        question = json.dumps(json.loads(question), indent=2) if question else ""
    except ValueError:
        question = str(question)
    # Sweeps and optimisations are asked by a specification, which stands in their files.
    of = {"mode": "sweep", "objectives": "optimize"}
    asked = [verb for name, verb in of.items() if name in attributes]
    command = attributes.get("command") or (f"jaxroof {asked[0]}, of the specification below" if asked else "")
    source = str(attributes.get("source", ""))
    stated = source.removeprefix("jaxroof ").partition(",")[0] if source.startswith("jaxroof ") else ""
    return {
        "notes": [note for note in str(attributes.get("notes", "")).split(" | ") if note],
        "question": question,
        "command": _text(command),
        "version": str(attributes.get("jaxroof_version", stated)),
    }


def layout(deployment: Any) -> str:
    """Degrees of parallelism that are more than 1: "attention_dp 8, ep 8"."""
    if not isinstance(deployment, Mapping):
        return ""
    degrees = {name: deployment.get(name) for name in DEGREES}
    shown = [f"{name} {value:g}" for name, value in degrees.items() if isinstance(value, int | float) and value > 1]
    return ", ".join(shown) or "one device"


def settings(values: Any) -> str:
    """Numbers of a workload that are not absent: "batch 256, isl 2,048"."""
    if not isinstance(values, Mapping):
        return ""
    shown = [
        (name.replace("_", " "), value) for name, value in values.items() if value not in (None, 0, 0.0, False, "")
    ]
    return ", ".join(f"{name} {value:,.10g}" if _is_number(value) else f"{name} {value}" for name, value in shown)


def price(record: Mapping[str, Any]) -> str:
    """What a device costs to rent, of which kind and date the price is."""
    rate = record.get("price_usd_per_hour")
    if rate is None:
        return ""
    return f"{rate:g} USD/h ({record.get('price_kind', 'unknown kind')}, {record.get('price_date', 'no date')})"


def interval_text(name: str, metrics: Mapping[str, Any]) -> str:
    """90 % interval of a time, in brackets; "" where its error is not known."""
    spread, value = metrics.get(f"{name}_spread"), metrics.get(name)
    if spread is None or value is None:
        return ""
    # The error is log-normal: a factor to both sides, and none below what the datasheet's rates allow.
    factor = math.exp(NINETY_PERCENT * spread)
    low = max(value / factor, min(value, metrics.get(f"{name}_least") or 0.0))
    return f" (90 %: {said(name, low)} to {said(name, value * factor)})"


def listed(values: Sequence[str]) -> str:
    """Names in a sentence: "a, b and c"."""
    return " and ".join([", ".join(values[:-1]), values[-1]] if len(values) > 1 else values)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(value: Any) -> str:
    return "" if value is None else str(value)
