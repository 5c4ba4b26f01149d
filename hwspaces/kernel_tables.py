"""Tables of an efficiency file that describe kernels: the model that prices each class, and its constants."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from hwspaces.hull import hull
from hwspaces.schema import texts
from hwspaces.units import LARGEST, nearest
from jaxroof.efficiency import Kernels, Spread
from jaxroof.efficiency.kernels import MODELS
from jaxroof.efficiency.timing import Constants
from jaxroof.numerics.struct import Scalar

FORMAT = 1
"""Version of the schema of kernel tables: it counts up whenever a constant changes its meaning."""

CLASSES = tuple(field.name for field in dataclasses.fields(Kernels))

STRUCTS = {struct.__name__.removesuffix("Kernel").lower(): struct for struct in MODELS}
"""Name of a kernel model in a file -> its struct."""


def kernel_table(table: Mapping, where: str) -> tuple[Kernels, dict[str, str]]:
    """The models of one kind's kernels, and the source of every constant by dotted path below the kind.

    Args:
      table: class of kernels -> `model`, its constants, `spread`, `source` and `sources`.
      where: what the message of an error begins with.

    Raises:
      ValueError: one line that names the key, the value and what is allowed.
    """
    for key in table:
        if key not in CLASSES:
            raise ValueError(f"{where}: {key} is not a class of kernels{nearest(key, CLASSES)}")
    if "wide" not in table:
        raise ValueError(f"{where}: table wide is missing; every kind needs it")
    models, sources = {}, {}
    for name, inner in table.items():
        models[name], own = _model(inner, f"{where}.{name}")
        sources |= {f"{name}.{field}": source for field, source in own.items()}
    return Kernels(**models), sources


def constant_sources(table: Mapping, struct: type, where: str, default: str) -> dict[str, str]:
    """Source of every constant of a `struct`: what the `sources` of its table say, its `source`, or `default`."""
    default = table.get("source", default)
    if not isinstance(default, str):
        raise ValueError(f"{where}: source = {default!r} is not text")
    fields = [field.name for field in dataclasses.fields(struct) if field.name != "hull"]
    own = texts(table.get("sources", {}), f"{where}.sources")
    for key, source in own.items():
        if key not in fields:
            raise ValueError(f"{where}.sources: {key} = {source!r}: no such constant{nearest(key, fields)}")
    return {key: own.get(key, default) for key in fields}


def spread(value: Any, where: str) -> Spread:
    """Standard deviations of log errors from a table with `short` and `long`."""
    if not isinstance(value, Mapping) or set(value) != {"short", "long"}:
        raise ValueError(f"{where} = {value!r} must be a table with short and long")
    return Spread(**{key: _number(number, f"{where}.{key}") for key, number in value.items()})


def required_format(tables: Mapping, file: str) -> None:
    """Refuses kernel tables of another version of the schema."""
    version = tables.get("format")
    if version != FORMAT:
        raise ValueError(
            f"{file}: format = {version!r}, and this version of jaxroof reads kernel constants of format {FORMAT}; "
            "refit them with the command that the file's refit names, or install the version that wrote them"
        )


def _model(table: Any, where: str) -> tuple[Any, dict[str, str]]:
    if not isinstance(table, Mapping):
        raise ValueError(f"{where} = {table!r} is not a table")
    name = table.get("model")
    if not isinstance(name, str) or name not in STRUCTS:
        raise ValueError(f"{where}: model = {name!r} is not known{nearest(str(name), STRUCTS)}")
    struct, cited = STRUCTS[name], ("model", "source", "sources")
    model = _struct(struct, {key: value for key, value in table.items() if key not in cited}, where)
    return model, constant_sources(table, struct, where, f"given in {where}")


NUMBERS = (Scalar, Scalar | None)
"""Types of the fields that a class of cores may have a value of its own for."""


def _struct(struct: type, table: Any, where: str) -> Any:
    """A struct of constants from its table; structs inside it from tables inside."""
    if not isinstance(table, Mapping):
        raise ValueError(f"{where} = {table!r} is not a table")
    fields = {field.name: field for field in dataclasses.fields(struct)}
    values: dict[str, Any] = {}
    for key, value in table.items():
        plain = key.removesuffix("_us") if key.endswith("_time_us") else key
        if plain not in fields or (plain.endswith("_time") and plain == key and value != 0):
            known = [f"{field}_us" if field.endswith("_time") else field for field in fields]
            raise ValueError(f"{where}: {key} is not known{nearest(key, known)}")
        if plain == "spread":
            values[plain] = spread(value, f"{where}.spread")
        elif plain == "hull":
            values[plain] = hull(value, f"{where}.hull")
        elif isinstance(kind := fields[plain].type, type) and dataclasses.is_dataclass(kind):
            values[plain] = _struct(kind, value, f"{where}.{plain}")
        elif fields[plain].type == (Constants | None):
            values[plain] = _replaced(fields, value, f"{where}.{plain}")
        else:
            values[plain] = _number(value, f"{where}: {key}") * (1e-6 if plain != key else 1.0)
    for field in fields.values():
        if field.name not in values and field.default is dataclasses.MISSING:
            raise ValueError(f"{where}: {field.name}{'_us' * field.name.endswith('_time')} is missing")
    return struct(**values)


def _replaced(fields: Mapping[str, Any], table: Any, where: str) -> dict[str, float]:
    """Constants of a class of cores: fields of the struct around them that are numbers."""
    if not isinstance(table, Mapping):
        raise ValueError(f"{where} = {table!r} is not a table")
    values = {}
    for key, value in table.items():
        plain = key.removesuffix("_us") if key.endswith("_time_us") else key
        if plain not in fields or fields[plain].type not in NUMBERS:
            known = [name for name, field in fields.items() if field.type in NUMBERS]
            raise ValueError(f"{where}: {key} is not known{nearest(key, known)}")
        values[plain] = _number(value, f"{where}: {key}") * (1e-6 if plain != key else 1.0)
    return values


def _number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= LARGEST:
        raise ValueError(f"{where} = {value!r} is not a number of at most {LARGEST:g}")
    if value < 0:
        raise ValueError(f"{where} = {value!r} must not be negative")
    return float(value)
