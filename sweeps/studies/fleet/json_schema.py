"""JSON Schema of a fleet's traffic file: classes of traffic over a day, and accelerators."""

from hwspaces.quantities.json_schema import Schema, document_schema, object_schema, quantity_schema
from sweeps.ask.json_schema import NUMBER_OR_TEXT, TEXT
from sweeps.studies.fleet.question import CLASS_KEYS, CURVE_KEYS, HOURS, KEYS, MOST_CLASSES, MOST_DEVICES, SUPPLY_KEYS


def fleet_schema() -> Schema:
    """JSON Schema, draft 2020-12, of a file of `jaxroof fleet`."""
    count: Schema = {"type": "integer", "minimum": 0, "maximum": MOST_DEVICES}
    supply = _told(SUPPLY_KEYS, {"price": quantity_schema("USD/s")}, count)
    curve = object_schema(dict.fromkeys(CURVE_KEYS, NUMBER_OR_TEXT), required=list(CURVE_KEYS))
    hours = {"type": "array", "items": NUMBER_OR_TEXT, "minItems": HOURS, "maxItems": HOURS}
    kinds = dict.fromkeys(("isl", "osl", "rate", "value"), NUMBER_OR_TEXT) | {"day": {"anyOf": [curve, hours]}}
    traffic = _told(CLASS_KEYS, kinds, TEXT)
    traffic |= {"required": ["model", "isl", "osl", "slo"], "oneOf": [{"required": ["rate"]}, {"required": ["day"]}]}
    supplies: Schema = {"type": "object", "additionalProperties": supply}
    classes: Schema = {"type": "object", "additionalProperties": traffic}
    tables: dict[str, Schema] = {
        "accelerators": {"anyOf": [{"type": "array", "items": TEXT}, supplies]},
        "classes": {**classes, "minProperties": 1, "maxProperties": MOST_CLASSES},
        "headroom": NUMBER_OR_TEXT,
        "budget": quantity_schema("USD/s"),
        "power_limit": quantity_schema("W"),
        "max_devices": {"type": "integer", "minimum": 1, "maximum": 4096},
    }
    properties = _told(KEYS, tables, TEXT)["properties"]
    return document_schema("Traffic of a fleet of jaxroof", properties, required=["classes"])


def _told(keys: dict[str, str], kinds: dict[str, Schema], usual: Schema) -> Schema:
    """A table of these keys, each with its meaning; those without a kind are of the usual one."""
    return object_schema({key: {**kinds.get(key, usual), "description": meaning} for key, meaning in keys.items()})
