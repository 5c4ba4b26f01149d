"""Text of an efficiency TOML file: constants in the units of their keys, and the source of each."""

import dataclasses
import json
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from hwspaces.performance.efficiency import DECODING, TABLES
from hwspaces.performance.kernel_tables import CLASSES, FORMAT, STRUCTS, at, hull_lines, shipped_tables, written_unit
from jaxroof.efficiency import Efficiency, Hull, Kernels, Spread
from jaxroof.numerics.struct import declaration


def efficiency_text(
    efficiency: Efficiency,
    sources: Mapping[str, str],
    heading: Mapping[str, str | Sequence[str]],
    notes: Sequence[str],
    comment: str,
    base: str | None = None,
    like: Mapping[str, str] = {},
) -> str:
    """A file that `hwspaces.performance.efficiency` reads.

    Args:
      efficiency: constants, times in s.
      sources: of every constant, by dotted path; of kernels of a class, one for all of it: "linear.wide".
      heading: engine, version, date (ISO 8601), refit, errors, and the devices that it was fitted to or judged on.
      notes: sentences about all of it.
      comment: first line.
      base: a shipped file whose tables these stand over; what is equal there is left out.
      like: table, such as "experts" or "convolution.wide" -> the table of this file that it stands over, likewise.
    """
    lines = [f"# {comment}", "", *([] if base is None else [f"base = {json.dumps(base)}"]), f"format = {FORMAT}"]
    lines += [f"{key} = {text if key == 'date' else json.dumps(text)}" for key, text in heading.items()]
    lines += ["notes = [", *(f"    {json.dumps(note)}," for note in notes), "]"]
    tables: list[str] = []
    # One table per kind of kernel, without constants that have their default.
    for table, kind in TABLES.items():
        entry = getattr(efficiency, table)
        if entry is None:
            continue
        fields = [
            field.name
            for field in dataclasses.fields(kind)
            if field.name not in ("spread", "hull", "exchange") and getattr(entry, field.name, None) != field.default
        ]
        # Models of kernels have a table per class in place of one per kind.
        if isinstance(entry, Kernels):
            tables += _kernel_lines(table, entry, sources)
            continue
        tables += ["", f"[{table}]"]
        tables += [_constant(kind, field, getattr(entry, field)) for field in fields]
        tables += _source_lines({field: sources[f"{table}.{field}"] for field in fields}, shared=base is None)
        if getattr(entry, "spread", None) is not None:
            tables.append(spread_line(entry.spread))
        if getattr(entry, "hull", None) is not None:
            tables += hull_lines(entry.hull)
        if getattr(entry, "exchange", None) is not None:
            tables.append(f"sources.exchange = {json.dumps(sources[f'{table}.exchange'])}")
            tables += _field_lines(entry.exchange, "exchange.")
    # Shares in decode, where they are not those in prefill.
    if efficiency.decoding is not None:
        for table in DECODING:
            entry, path = getattr(efficiency.decoding, table), f"decoding.{table}"
            fields = [field.name for field in dataclasses.fields(entry) if getattr(entry, field.name) != field.default]
            tables += ["", f"[{path}]", *(_constant(type(entry), field, getattr(entry, field)) for field in fields)]
            tables += _source_lines({field: sources[f"{path}.{field}"] for field in fields}, shared=base is None)
    # Over a base, only what is different is written: a reader sees what this file changes.
    lines += _beyond(tables, {} if base is None else shipped_tables(base), like)
    return "\n".join(lines) + "\n"


def _source_lines(sources: Mapping[str, str], shared: bool) -> list[str]:
    """Sources of a table's constants; `shared`: one line for all that have the commonest."""
    # The commonest source is written once for the whole table, if more than one constant has it.
    most, count = Counter(sources.values()).most_common(1)[0]
    common = most if shared and count > 1 else None
    lines = [] if common is None else [f"source = {json.dumps(common)}"]
    return lines + [f"sources.{name} = {json.dumps(text)}" for name, text in sources.items() if text != common]


def _beyond(lines: Sequence[str], base: Mapping[str, Any], like: Mapping[str, str]) -> list[str]:
    """Those lines of tables that what is below does not hold, and false for what is there and not in the lines.

    below: the table of `base` at the same path, or the table of these lines that `like` names for it
    """
    own_tables, written = tomllib.loads("\n".join(lines)), list[str]()
    below: Mapping[str, Any] = {}
    pending: list[str] = []  # the head of a table, until a line of it is kept
    for line in lines:
        if line.startswith("["):
            path = line.strip("[]")
            # What the lines of this table stand over, until the next head.
            below = at(own_tables, like[path]) if path in like else at(base, path)
            pending, more = ["", line], _gone(below, at(own_tables, path))
            if path in like:
                more = [f"like = {json.dumps(like[path])}", *more]
        else:
            # Each line is TOML by itself: values are compared, not the way in which they are written.
            more = [line] if line and not _holds(below, tomllib.loads(line)) else []
        if more:
            written, pending = written + pending + more, []
    for table in own_tables:
        # Classes of kernels that the base has, and this efficiency has no model for.
        lost = [name for name in base.get(table, {}) if name in CLASSES and name not in own_tables[table]]
        if lost:
            written += ["", f"[{table}]", *(f"{name} = false" for name in lost)]
    return written


def _gone(below: Mapping[str, Any], own: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Lines that leave out what is below and not in the own table; sources stay where their constant does."""
    lines = []
    for key, value in below.items():
        if key == "sources":
            # A source stays as long as its constant is there, whose key may end in a unit.
            needed = [name for name in value if any(each == name or each.startswith(f"{name}_") for each in own)]
            lines += [f"sources.{name} = false" for name in value if name not in needed]
        elif key not in own:
            lines.append(f"{prefix}{json.dumps(key) if ' ' in key else key} = false")
        elif isinstance(value, Mapping) and isinstance(own[key], Mapping):
            lines += _gone(value, own[key], f"{prefix}{key}.")
    return lines


def _holds(below: Mapping[str, Any], own: Mapping[str, Any]) -> bool:
    """Whether every key of a table has the same value below."""
    return all(
        key in below and (_holds(below[key], value) if isinstance(value, Mapping) else below[key] == value)
        for key, value in own.items()
    )


def _kernel_lines(table: str, kernels: Kernels, sources: Mapping[str, str]) -> list[str]:
    lines = []
    for name in CLASSES:
        model = getattr(kernels, name)
        if model is None:
            continue
        lines += ["", *class_lines(f"{table}.{name}", model, sources)]
    return lines


def class_lines(path: str, model: Any, sources: Mapping[str, str]) -> list[str]:
    """The table of one class of kernels, "linear.wide": its head, its constants and their sources."""
    # The model's word in files, from its type.
    word = next(word for word, struct in STRUCTS.items() if struct is type(model))
    lines = [f"[{path}]", f"model = {json.dumps(word)}", *_field_lines(model)]
    lines += [f"source = {json.dumps(sources[path])}"]
    own = {key.removeprefix(f"{path}."): text for key, text in sources.items() if key.startswith(f"{path}.")}
    return lines + [f"sources.{key} = {json.dumps(text)}" for key, text in own.items()]


def _field_lines(struct: Any, prefix: str = "") -> list[str]:
    """One line per constant; those of a struct inside have its name and a dot before theirs."""
    lines = []
    for field in dataclasses.fields(struct):
        value = getattr(struct, field.name)
        if isinstance(value, Spread):
            lines.append(spread_line(value))
        elif isinstance(value, Hull):
            lines += hull_lines(value)
        elif dataclasses.is_dataclass(value):
            lines += _field_lines(value, f"{prefix}{field.name}.")
        elif isinstance(value, dict):
            inner = f"{prefix}{field.name}."
            lines += [inner + _constant(type(struct), name, number) for name, number in value.items()]
        elif value is not None:
            lines.append(prefix + _constant(type(struct), field.name, value))
    return lines


def spread_line(spread: Spread) -> str:
    """The line of a spread."""
    return f"spread = {{ short = {spread.short:.3g}, long = {spread.long:.3g} }}"


def _constant(kind: type, field: str, value: float) -> str:
    """The line of one constant, in the unit that its key ends in."""
    suffix, scale = written_unit(declaration(kind, field))
    return f"{field}{suffix} = {float(value) * scale:.4g}"
