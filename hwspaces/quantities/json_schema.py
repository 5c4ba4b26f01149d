"""JSON Schema of quantities: texts with a unit, and keys that end in one."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from hwspaces.quantities.units import KEY_UNITS, PLAIN, TEXT_UNITS

DRAFT = "https://json-schema.org/draft/2020-12/schema"

_NUMBER = r"[+-]?([0-9][0-9_]*\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"

Schema = dict[str, Any]


def document_schema(
    title: str, properties: Mapping[str, Any], definitions: Mapping[str, Schema] | None = None, **more: Any
) -> Schema:
    """The schema of a whole file: an object of these keys and no others, and what they refer to.

    Args:
      title: of the schema.
      properties: key -> schema.
      definitions: what they refer to beside quantities.
      more: of the object.
    """
    whole = object_schema(properties, **more)
    names = {name for part in (whole, definitions) for name in _references(part)} - {*(definitions or {})}
    found = {name: _QUANTITIES[name] for name in sorted(names)} | dict(definitions or {})
    return {"$schema": DRAFT, "title": title, **whole, "$defs": found}


def reference(name: str, meaning: str = "") -> Schema:
    """A schema that `document_schema` has among its definitions."""
    return {"$ref": f"#/$defs/{name}", **({"description": meaning} if meaning else {})}


def object_schema(properties: Mapping[str, Any], **more: Any) -> Schema:
    """The schema of a table of these keys and no others."""
    return {"type": "object", "properties": dict(properties), "additionalProperties": False, **more}


def text_pattern(unit: str) -> str:
    """Regular expression, of the kind that JSON Schema has, of texts of a unit: `"8 TB/s"`."""
    symbols = sorted((symbol for symbol in TEXT_UNITS[unit] if symbol), key=lambda symbol: (-len(symbol), symbol))
    # The micro sign and the Greek letter may stand for u.
    words = "|".join(f"[uµμ]{re.escape(one[1:])}" if one[0] == "u" else re.escape(one) for one in symbols)
    return rf"^\s*{_NUMBER}\s*({words}){'?' if unit in PLAIN else ''}\s*$"


def quantity_schema(unit: str, meaning: str = "", bare: bool = True) -> Schema:
    """A quantity as text with its unit.

    Args:
      unit: SI unit; "1" is a plain number.
      meaning: its description.
      bare: a number, which is in the SI unit, may stand in place of the text.
    """
    if unit in ("1", ""):
        return {"type": "number", **({"description": meaning} if meaning else {})}
    return reference(_named(unit, bare), f"{meaning}, in {unit}" if meaning else "")


def _named(unit: str, bare: bool) -> str:
    """What the definition of a quantity is called."""
    return f"{re.sub(r'[^A-Za-z0-9]+', '_', unit.replace('/', '_per_')).strip('_')}{'_or_number' if bare else ''}"


def _references(schema: Any) -> Iterator[str]:
    """Names of definitions that a schema refers to."""
    if isinstance(schema, Mapping):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"].rpartition("/")[2]
        for part in schema.values():
            yield from _references(part)
    elif isinstance(schema, list | tuple):
        for part in schema:
            yield from _references(part)


_QUANTITIES = {
    _named(unit, bare): {"type": ["string", "number"] if bare else "string", "pattern": text_pattern(unit)}
    for unit in TEXT_UNITS
    if unit != "1"
    for bare in (True, False)
}
"""Definitions of quantities, by name."""


def keys_schema(units: Mapping[str, str], meanings: Mapping[str, str], bare: bool) -> tuple[Schema, Schema]:
    """Properties and patternProperties of a table of quantities, with their units in the text or in the key.

    Args:
      units: plain key -> SI unit.
      meanings: of some keys.
      bare: plain keys may hold numbers in SI units.
    """
    properties = {key: quantity_schema(unit, meanings.get(key, ""), bare) for key, unit in units.items()}
    endings = {unit: _endings(unit) for unit in units.values() if unit != "1"}
    patterns = {
        f"^{re.escape(key)}_({endings[unit]})$": {"type": "number", "description": meanings.get(key, key)}
        for key, unit in units.items()
        if unit != "1" and endings[unit]
    }
    return properties, patterns


def one_or_several(schema: Schema) -> Schema:
    """What a schema says, or a list of such values along an axis."""
    meaning = {key: schema[key] for key in ("description",) if key in schema}
    inner = {key: part for key, part in schema.items() if key not in meaning}
    return {"anyOf": [inner, {"type": "array", "items": inner, "minItems": 1}], **meaning}


def enumerated(words: Collection[str], meaning: str = "") -> Schema:
    """One of these words."""
    return {"enum": list(words), **({"description": meaning} if meaning else {})}


def texts_of(keys: Iterable[str]) -> Schema:
    """Properties of these keys, which hold text."""
    return {key: {"type": "string"} for key in keys}


def _endings(unit: str) -> str:
    return "|".join(re.escape(ending) for ending, sizes in KEY_UNITS.items() if ending and unit in sizes)
