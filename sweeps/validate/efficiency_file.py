"""Text of an efficiency TOML file: constants in the units of their keys, and the source of each."""

import dataclasses
import json
from collections.abc import Mapping, Sequence

from hwspaces.efficiency import TABLES
from hwspaces.units import formatted
from jaxroof.efficiency import Efficiency

UNITS = {
    "kernel_time": ("us", 1e6),
    "step_time": ("us", 1e6),
    "sequence_time": ("us", 1e6),
    "request_time": ("ms", 1e3),
}
"""Field of a time -> suffix of its key and how many of the unit are in a second."""


def efficiency_text(
    efficiency: Efficiency, sources: Mapping[str, str], heading: Mapping[str, str], notes: Sequence[str], comment: str
) -> str:
    """A file that `hwspaces.efficiency` reads.

    Args:
      efficiency: constants, times in s.
      sources: of every constant, by dotted path.
      heading: engine, version, date (ISO 8601), refit, errors.
      notes: sentences about all of it.
      comment: first line.
    """
    lines = [f"# {comment}", ""]
    lines += [f"{key} = {text if key == 'date' else json.dumps(text)}" for key, text in heading.items()]
    lines += ["notes = [", *(f"    {json.dumps(note)}," for note in notes), "]"]
    for table, kind in TABLES.items():
        fields = [field.name for field in dataclasses.fields(kind)]
        lines += ["", f"[{table}]"]
        lines += [_constant(field, getattr(getattr(efficiency, table), field)) for field in fields]
        lines += [f"sources.{field} = {json.dumps(sources[f'{table}.{field}'])}" for field in fields]
    return "\n".join(lines) + "\n"


def shown(path: str, value: float) -> str:
    """A constant as people read it: its share, or its time with its unit."""
    return formatted(value, "s" if path.rpartition(".")[2] in UNITS else "1")


def _constant(field: str, value: float) -> str:
    suffix, scale = UNITS.get(field, ("", 1.0))
    return f"{field}{'_' if suffix else ''}{suffix} = {value * scale:.3g}"
