"""JSON Schema of specifications of an optimisation: a sweep's, with goals, limits and members."""

from hwspaces.quantities.json_schema import Schema, document_schema, object_schema
from sweeps.ask.json_schema import DEFINITIONS, NUMBER_OR_TEXT, SLO, TABLE, TEXT, sweep_properties
from sweeps.studies.optimize.members import OBJECTS, TABLES
from sweeps.studies.optimize.spec import FOREIGN, MOST


def optimum_schema() -> Schema:
    """JSON Schema, draft 2020-12, of a specification of `jaxroof optimize`."""
    rest = {key: one for key, one in sweep_properties().items() if key not in FOREIGN}
    metrics: Schema = {"anyOf": [TEXT, {"type": "array", "items": TEXT}]}
    counts = {name: {"type": "integer", "minimum": int(name != "seed"), "maximum": most} for name, most in MOST.items()}
    limit = object_schema(dict.fromkeys(("min", "max"), NUMBER_OR_TEXT), minProperties=1)
    own = {
        "optimize": object_schema(dict.fromkeys(("minimize", "maximize"), metrics) | counts),
        "constraints": {"type": "object", "additionalProperties": limit},
        "mix": _members({"weight": {"type": "number"}}),
        "scenarios": _members({}),
    }
    return document_schema("Specification of an optimisation of jaxroof", rest | own, DEFINITIONS, required=["model"])


def _members(more: dict[str, Schema]) -> Schema:
    """Workloads of a mix, or scenarios: what each says in place of the specification."""
    names = dict.fromkeys(OBJECTS, TEXT) | {"weights": {"anyOf": [TEXT, {"type": "array", "items": TEXT}]}}
    tables = dict.fromkeys(TABLES, TABLE) | {"slo": SLO}
    one = object_schema({"name": TEXT, **more, **names, **tables}, required=["name"])
    return {"type": "array", "items": one, "minItems": 1}
