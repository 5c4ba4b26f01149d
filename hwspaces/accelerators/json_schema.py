"""JSON Schema of files of hardware, from the declarations: chips in a few lines, accelerators, technologies."""

from typing import Any

from hwspaces.accelerators.described import KEYS, KINDS, OTHERS, SINGLE, TABLES_OF
from hwspaces.accelerators.schema import NAME, STATUSES, TABLES, TEXTS
from hwspaces.accelerators.technology_tables import KINDS as SHARED_KINDS
from hwspaces.quantities.json_schema import (
    Schema,
    document_schema,
    enumerated,
    keys_schema,
    object_schema,
    quantity_schema,
    text_pattern,
    texts_of,
)
from jaxroof.hardware import Hardware
from jaxroof.numerics.struct import declaration

_SOURCES = {"type": "object", "description": "figure -> where it is from, a text or a name in [source]"}
_TEXT = {"type": "string"}
_FREE: Schema = {"type": "object", "additionalProperties": {"type": "object"}}


def schema() -> Schema:
    """JSON Schema, draft 2020-12, of every TOML file of hardware, for editors that complete and check TOML."""
    accelerator = _accelerator()
    # Architectures, links and energies are read by rules of their own, which declare no keys.
    files: dict[str, Any] = dict.fromkeys(("architecture", "link", "energy"), _FREE)
    files |= {kind: {"type": "object", "additionalProperties": _shared(kind)} for kind in SHARED_KINDS}
    files["accelerator"] = {"type": "object", "additionalProperties": accelerator}
    files["source"] = {"type": "object", "additionalProperties": _TEXT}
    properties = _described(accelerator["properties"])
    # Some keys are one thing of a chip in a few lines, and tables by name in a file of accelerators.
    for key, part in files.items():
        own = properties.get(key)
        properties[key] = part if own is None else {"anyOf": [own, part]}
    return document_schema(
        "Hardware of jaxroof: a chip in a few lines, or tables [accelerator.NAME]",
        properties,
        dependentRequired={"peak": ["memory"], "matrix": ["memory"]},
        dependentSchemas={"memory": {"anyOf": [{"required": ["peak"]}, {"required": ["matrix"]}]}},
    )


def _described(whole: Schema) -> Schema:
    """Keys of a chip in a few lines, where numbers may stand in SI units."""
    properties: dict[str, Any] = {
        "class": enumerated(list(KINDS)),
        "year": {"type": "integer", "minimum": 1970, "maximum": 2100},
        "memory": _memory(),
        **{key: quantity_schema(unit) for key, unit in SINGLE.items()},
    }
    for key, (path, needed) in TABLES_OF.items():
        table = _table(path, bare=True)
        if needed:
            table |= _needing(*needed)
        if key in SINGLE:
            table |= {"type": ["object", "string", "number"], "pattern": text_pattern(SINGLE[key])}
        properties[key] = table
    known = {key: properties.get(key, _TEXT) | {"description": meaning} for key, meaning in KEYS.items()}
    return known | {key: properties.get(key, whole.get(key, {})) for key in OTHERS}


def _memory() -> Schema:
    """Device memory, with or without a level of its own, and the levels beside it."""
    device, levels = _table("memory.hbm", bare=True), _table("memory", bare=True)
    table = {key: {**device[key], **levels[key]} for key in ("properties", "patternProperties")}
    needed = _needing("capacity", "bandwidth")
    needed["if"]["not"] = {"required": ["hbm"]}
    return {"type": "object", **table, "additionalProperties": False, **needed}


def _needing(*names: str) -> Schema:
    """Keys that have to be there; where units stand in keys, their reader says so instead."""
    return {"if": {"propertyNames": {"not": {"pattern": f"^({'|'.join(names)})_"}}}, "then": {"required": list(names)}}


def _accelerator() -> Schema:
    """One accelerator as the catalogue has it."""
    whole = _table("", bare=False)
    whole["properties"] |= {
        "aliases": {"type": "array", "items": _TEXT},
        "date": {"description": "on which the figures were looked up: 2026-11-20"},
        "notes": {"type": "array", "items": _TEXT},
        "sources": _SOURCES,
        "status": enumerated(STATUSES),
    }
    return whole


def _table(path: str, bare: bool) -> Schema:
    """The table of an accelerator at `path`, with the tables inside of it."""
    found = {key: declaration(Hardware, f"{path}.{key}" if path else key) for key in TABLES[path]}
    meanings = {key: leaf.meaning.replace("{}", "").strip() for key, leaf in found.items() if leaf is not None}
    properties, patterns = keys_schema(TABLES[path], meanings, bare)
    properties |= texts_of(TEXTS.get(path, ()))
    topology = declaration(Hardware, f"{path}.topology")
    if topology is not None:
        properties["topology"] = enumerated(topology.choices, topology.meaning)
    for inner in TABLES:
        around, _, name = inner.rpartition(".")
        if around != path or not inner:
            continue
        if name == "*":
            patterns[f"^{NAME}$"] = _table(inner, bare)
        else:
            properties[name] = _table(inner, bare)
    return object_schema(properties, patternProperties=patterns)


def _shared(kind: str) -> Schema:
    """A table of a technology."""
    properties, patterns = keys_schema(SHARED_KINDS[kind], {}, bare=False)
    properties |= {"source": _TEXT, "sources": _SOURCES, "names": {"type": "array", "items": _TEXT}}
    return object_schema(properties | {"alone": {"type": "boolean"}}, patternProperties=patterns)
