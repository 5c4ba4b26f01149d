"""JSON Schema of specifications of sweeps and of classes of traffic, from the declarations of keys and numbers."""

import dataclasses
import re
from typing import Any

from hwspaces.quantities.json_schema import (
    Schema,
    document_schema,
    enumerated,
    object_schema,
    one_or_several,
    quantity_schema,
    reference,
)
from jaxroof.jobs import JOBS
from jaxroof.numerics.struct import Declaration
from sweeps.ask.keys import Word
from sweeps.ask.leaves import ROOTS, leaves
from sweeps.ask.names import VARIABLES
from sweeps.ask.spec import KEYS, METHODS, MOST_ALONG_A_RANGE, MOST_SAMPLES, RANGE_KEYS, TABLE_KEYS
from workloads.streams.classes import KEYS as CLASS_KEYS

TEXT: Schema = {"type": "string"}
NUMBER_OR_TEXT: Schema = {"type": ["number", "string"]}
SWITCH: Schema = {"type": "boolean"}
TABLE: Schema = {"type": "object"}
SLO: Schema = {"type": ["string", "object"], "description": "limits: ttft=500ms,tpot=40ms, or a table of them"}

RANGE: Schema = object_schema(
    {
        **dict.fromkeys(("from", "to"), NUMBER_OR_TEXT),
        "n": {"type": "integer", "minimum": 1, "maximum": MOST_ALONG_A_RANGE, "description": "points of a grid"},
        "scale": enumerated(("linear", "log")),
    },
    required=["from", "to"],
    description="a range: {from = .., to = .., n = .., scale = ..}",
)
"""An interval along an axis."""

_SETTING: Schema = {"type": ["number", "string", "boolean", "array", "object"]}
"""A plain number, or a text, list or table of it: distributions, laws, percentages, stages."""

_IF_RANGE: Schema = {"if": {"type": "object", "required": ["from"]}, "then": RANGE}

DEFINITIONS = {"range": RANGE, "setting": _SETTING, "several_settings": _SETTING | _IF_RANGE}
"""What the properties of a specification refer to."""

_MORE = ("efficiency", "model", "prefill", "neighbour")
"""What paths of further numbers begin with, which no declaration lists."""


def sweep_schema() -> Schema:
    """JSON Schema, draft 2020-12, of a specification of `jaxroof sweep`."""
    return document_schema("Specification of a sweep of jaxroof", sweep_properties(), DEFINITIONS, required=["model"])


def sweep_properties() -> dict[str, Schema]:
    """Schemas of a specification's keys."""
    own = {key: _word(word) for key, word in KEYS.items()}
    other: Schema = {"anyOf": [{"type": "array"}, reference("range")]}
    paths = {path: _leaf(declared) for path, declared in leaves().items()}
    tables: dict[str, Schema] = {
        "job": enumerated(list(JOBS)),
        "mode": enumerated(("grid", "sample")),
        "workload": _part(paths, "workload", several=True),
        "deployment": _part(paths, "deployment", several=True),
        "policy": _part(paths, "policy", several=True),
        "axes": _paths({path: _several(one) for path, one in paths.items()}, other),
        "set": _paths(paths, {}),
        "laws": _paths(dict.fromkeys(paths, TEXT), TEXT),
        "deployments": {"type": "array", "items": _part(paths, "deployment", several=False)},
        "prefill": _pool(paths),
        "decode": _pool(paths),
        "neighbour": TABLE,
        "scenario": TABLE,
        "per": {"anyOf": [TEXT, {"type": "array", "items": TEXT}]},
        "slo": SLO,
        "sample": object_schema(
            {
                "points": {"type": "integer", "minimum": 1, "maximum": MOST_SAMPLES},
                "method": enumerated(METHODS),
                "seed": {"type": "integer", "minimum": 0},
            }
        ),
        "output": _output(),
    }
    return own | {key: {**table, "description": KEYS[key].meaning} for key, table in tables.items()}


def traffic_schema() -> Schema:
    """JSON Schema, draft 2020-12, of a file of classes of requests (`--traffic`)."""
    meanings = {
        "share": "of the requests",
        "rate": "requests/s of its own, in place of a share",
        "arrivals": "of its own, in place of a share: gamma:rate=8,cv=3",
        "isl": "prompt tokens: a number or a distribution",
        "osl": "output tokens: a number or a distribution",
        "prefixes": "system prompts that its requests share: groups=10,tokens=1000",
        "slo": "what its requests keep, in place of the question's: ttft=1s,tpot=30ms",
        "priority": "of its requests; lower goes first",
    }
    kinds = {"prefixes": TEXT, "slo": {"type": ["string", "object"]}, "priority": {"type": "integer"}}
    one = {key: {**kinds.get(key, NUMBER_OR_TEXT), "description": meanings[key]} for key in CLASS_KEYS}
    classes = object_schema(one, required=["isl", "osl"])
    return document_schema("Classes of requests of jaxroof: a table each", {}) | {"additionalProperties": classes}


def _word(word: Word) -> Schema:
    """A key that holds a name, or where an axis of them is possible a list of names."""
    schema = {"type": "string", "description": word.meaning}
    return one_or_several(schema) if word.axis else schema


def _leaf(declared: Declaration) -> Schema:
    """One value of a declared number or word."""
    about = f"; {declared.about}" if declared.about else ""
    meaning = f"{declared.meaning.replace('{}', '').strip()}{about}"
    known = declared.codes or declared.choices
    if known:
        # Dashes may stand for underscores, and codes for their words.
        spelled = dict.fromkeys((*known, *(one.replace("_", "-") for one in known)))
        return enumerated([*spelled, *range(len(declared.codes))], meaning)
    if declared.unit in ("1", ""):
        return reference("setting", meaning)
    return quantity_schema(declared.unit, meaning)


def _several(one: Schema) -> Schema:
    """A value, a list of values or a range of them."""
    if one.get("$ref") == "#/$defs/setting":
        return reference("several_settings", one["description"])
    schema = one_or_several(one)
    return {**schema, "anyOf": [*schema["anyOf"], reference("range")]}


def _part(paths: dict[str, Schema], root: str, several: bool) -> Schema:
    """A table of the numbers below `root`."""
    inner = {path.removeprefix(f"{root}."): one for path, one in paths.items() if path.startswith(f"{root}.")}
    # Fields that hold structs are tables or texts, which readers of their own take.
    whole = {field.name for kind in ROOTS[root] for field in dataclasses.fields(kind)} - inner.keys()
    inner |= {name: reference("setting", name.replace("_", " ")) for name in sorted(whole)}
    return _paths({path: _several(one) if several else one for path, one in inner.items()})


def _pool(paths: dict[str, Schema]) -> Schema:
    """A pool of its own: hardware, efficiency, and settings of its deployment."""
    pool = _part(paths, "deployment", several=True)
    pool["properties"] |= {name: one_or_several(TEXT) for name in ("hardware", "efficiency")}
    return pool


def _paths(paths: dict[str, Schema], other: Schema | None = None) -> Schema:
    """A table of dotted paths; `other` is what paths hold that no declaration lists."""
    properties = {path: one for path, one in paths.items() if "*" not in path}
    words = "[A-Za-z0-9_]+"
    patterns = {f"^{words.join(map(re.escape, path.split('*')))}$": one for path, one in paths.items() if "*" in path}
    if other is not None:
        patterns[rf"^({'|'.join(_MORE)})\."] = other
    return object_schema(properties, patternProperties=patterns)


def _output() -> Schema:
    """How results are stored."""
    kinds: dict[str, Any] = {
        "variables": {"type": "array", "items": enumerated(list(VARIABLES))},
        "breakdown": SWITCH,
        "illegal": enumerated(("refuse", "mask")),
        "dtype": enumerated(("float32", "float64")),
        "keep": {"anyOf": [TEXT, {"type": "array", "items": TEXT}]},
        "prune": SWITCH,
        "compression": {"type": "integer", "minimum": 1, "maximum": 9},
        "digits": {"type": "integer", "minimum": 1},
    }
    return object_schema({key: kinds[key] for key in TABLE_KEYS["output"]})


assert set(RANGE["properties"]) == set(RANGE_KEYS)
