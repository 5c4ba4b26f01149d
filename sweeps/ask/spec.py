"""Specification of a sweep as plain data: a TOML file or the same dictionary, checked key by key."""

import dataclasses
import difflib
import json
import math
import os
import pathlib
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np

from hwspaces.files import document
from hwspaces.quantities.units import plain
from jaxroof.jobs import JOBS
from jaxroof.jobs.serve import SERVE
from sweeps.ask.keys import words
from sweeps.ask.names import VARIABLES
from sweeps.ask.spaces import spaced, specification
from sweeps.ask.words import NAMED, CaseWords, SweepWords
from sweeps.ask.words import AxisRange as AxisRange

KEYS = words(SweepWords)
"""Keys of a specification, and what each says."""

TABLE_KEYS = {
    "sample": ("points", "method", "seed"),
    "output": ("variables", "breakdown", "illegal", "dtype", "keep", "prune", "compression", "digits"),
}
RANGE_KEYS = ("from", "to", "n", "scale")
LARGEST_INTEGER = 2**63 - 1
"""What a whole number is at most: a seed."""

MOST_ALONG_A_RANGE = 10**7
"""Points of a grid along one range: they are in memory, as are their labels."""

MOST_SAMPLES = 5 * 10**7
"""Points of a sample."""

METHODS = ("sobol", "latin_hypercube", "random")


@dataclasses.dataclass(frozen=True)
class Spec:
    """A checked specification. Lists are axes, single values are fixed; names are not resolved yet."""

    job: str
    mode: str
    objects: dict[str, tuple[str, ...]]  # hardware, model, weights, kv, efficiency: one entry, or the axis' positions
    fixed: dict[str, Any]  # path -> value
    axes: dict[str, tuple[Any, ...] | AxisRange]  # path -> values along the axis
    deployments: tuple[Mapping[str, Any], ...]  # settings of every deployment of an axis over them; empty without one
    points: int
    method: str
    seed: int
    variables: tuple[str, ...] | None
    breakdown: bool
    illegal: str  # "refuse" or "mask"
    dtype: str
    keep: tuple[str, ...]  # what is kept of every point; empty: everything
    prune: bool  # whether points that cannot be kept need not be computed
    output: Mapping[str, Any]  # the table as it was given, for how results are stored
    source: Mapping[str, Any]  # what was given, for the dataset's record
    words: CaseWords  # what axes start from, but for the numbers
    prefill: Mapping[str, Any]  # settings of the prefill pool of a disaggregated job
    neighbour: Mapping[str, Any]  # the other model of a colocated job, by name
    laws: Mapping[str, str]  # path -> the expression that the leaf there follows from
    per: tuple[str, ...] | None  # axes that best points are per; None: those that are conditions by declaration

    def text(self) -> str:
        """The specification as JSON with sorted keys: the same text for the same question."""
        return json.dumps(as_tables(self.source), sort_keys=True, default=str)


def read(path: str | os.PathLike[str]) -> Spec:
    """The specification in a TOML file; ValueError in one line names file, key, value and what is allowed."""
    path = pathlib.Path(path)
    source = content(path)
    try:
        return spec(source)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def content(path: pathlib.Path) -> dict[str, Any]:
    """Content of a TOML file, checked for its size, its keys and units of limits; ValueError of one line.

    Args:
      path: the file, or the name of a specification of the distribution.
    """
    source = document.toml(specification(path))
    # Numbers are SI units, so that a bare 20 would be 20 s where 20 ms was meant.
    for where, value in _limits_of_times(source):
        if isinstance(value, int | float):
            raise ValueError(f'{path}: {where} = {value!r} has no unit; write one, such as "20ms"')
    return source


def _limits_of_times(source: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Every limit on a time that a file sets, with where it stands: a bare number of them is mistaken for ms."""
    tables = {key: source.get(key) for key in ("slo", "constraints")}
    tables = {key: table for key, table in tables.items() if isinstance(table, Mapping)}
    yield from ((f"slo.{name}", value) for name, value in tables.get("slo", {}).items())
    for name, limits in tables.get("constraints", {}).items():
        if name in VARIABLES and VARIABLES[name].unit == "s" and isinstance(limits, Mapping):
            yield from ((f"constraints.{name}.{key}", value) for key, value in limits.items())


def spec(source: Mapping[str, Any]) -> Spec:
    """Check a specification given as a dictionary.

    Raises:
      ValueError: one line that names the key, its value and what is allowed.
    """
    require_known(source, KEYS, "")
    # The record keeps what was given, before pools and design spaces are put in their places.
    source, given = spaced(pooled(source)), source
    job = _one_of(source.get("job", "request"), "job", tuple(JOBS))
    mode = _one_of(source.get("mode", "grid"), "mode", ("grid", "sample"))
    # Some keys are of a simulated engine only, which checks their values itself.
    for key, word in KEYS.items():
        if word.served and key in source and not JOBS[job].simulated:
            raise ValueError(f'{key} = {source[key]!r} is only read with job = "{SERVE.name}"')
    # Names, numbers and tables, each checked for its form; what they name is looked up later.
    objects = _objects(source)
    fixed, axes = _numbers(source, mode)
    sample = _table(source, "sample")
    output = _table(source, "output")
    if mode == "grid" and sample:
        raise ValueError('[sample] is only read with mode = "sample"')
    deployments = _deployments(source, [*fixed, *axes])
    # Each of these is one name: lists of them were taken as objects.
    named: dict[str, Any] = {name: source[name] for name in NAMED if name in source}
    named = {name: value if KEYS[name].served else _names(value, name)[0] for name, value in named.items()}
    single = all(len(names) == 1 for names in objects.values()) and len(deployments) < 2
    if mode == "sample" and not axes and single:
        raise ValueError("a sample needs at least one axis: a list or a range of something")
    variables = output.get("variables")
    if variables is not None:
        variables = _names(variables, "output.variables")
    return Spec(
        job=job,
        mode=mode,
        objects=objects,
        fixed=fixed,
        axes=axes,
        deployments=deployments,
        points=integer(sample.get("points", 1024), "sample.points", 1, MOST_SAMPLES),
        method=_one_of(sample.get("method", "sobol"), "sample.method", METHODS),
        seed=integer(sample.get("seed", 0), "sample.seed", 0),
        variables=variables,
        breakdown=_boolean(output.get("breakdown", False), "output.breakdown"),
        illegal=_one_of(output.get("illegal", "refuse"), "output.illegal", ("refuse", "mask")),
        dtype=_one_of(output.get("dtype", "float32"), "output.dtype", ("float32", "float64")),
        keep=_names(output["keep"], "output.keep") if "keep" in output else (),
        prune=_boolean(output.get("prune", True), "output.prune"),
        output=output,
        source=given,
        words=CaseWords(**named),
        prefill=_table(source, "prefill"),
        neighbour=_table(source, "neighbour"),
        laws=_laws(source, (*fixed, *axes)),
        per=_names(source["per"], "per") if "per" in source else None,
    )


def _objects(source: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Names of hardware, models, precisions and constants by key; only some keys may have several."""
    for key in ("hardware", "model"):
        if key not in source:
            raise ValueError(f"{key} is missing: give {KEYS[key].meaning}, or a list of them")
    objects = {}
    for key, word in KEYS.items():
        # Keys that may be lists, and those whose error says why they may not.
        if key in source and (word.axis or word.one):
            objects[key] = _names(source[key], key)
            if word.one and len(objects[key]) > 1:
                raise ValueError(word.one)
    if len(objects.get("weights", ())) > 1 and len(objects["model"]) > 1:
        raise ValueError("a list of weights needs a single model; or list models whose names carry their precision")
    return objects


def pooled(source: Mapping[str, Any]) -> Mapping[str, Any]:
    """The specification with the decode pool's settings where every job has its own: [decode] is then gone.

    Raises:
      ValueError: one line, for pools of another job, and for what is given in two places.
    """
    if "neighbour" in source and source.get("job") != "colocated":
        raise ValueError('neighbour is only read with job = "colocated"')
    if source.get("job") != "disaggregated":
        for key in ("prefill", "decode"):
            if key in source:
                raise ValueError(f'{key} is only read with job = "disaggregated"')
        return source
    # The decode pool is the plain hardware, efficiency and deployment of the job.
    merged = {key: value for key, value in source.items() if key != "decode"}
    for key, value in _table(source, "decode").items():
        if key in ("hardware", "efficiency"):
            if key in source:
                raise ValueError(f"decode.{key} = {value!r}, and {key} = {source[key]!r} besides: give one")
            merged[key] = value
            continue
        if key in merged.get("deployment", {}):
            raise ValueError(f"decode.{key} and deployment.{key} are the same: give one")
        merged["deployment"] = {**merged.get("deployment", {}), key: value}
    # Lists belong in [axes], but for settings that are lists themselves.
    for key, value in _table(source, "prefill").items():
        if isinstance(value, list | tuple | Mapping) and key not in ("stages", "tree"):
            raise ValueError(f'prefill.{key} = {value!r} must be one value; [axes] has "prefill.deployment.{key}"')
    return merged


def as_tables(value: Any) -> Any:
    """A specification, or a part of one, as JSON and TOML have it: ranges as tables, arrays and tuples as lists."""
    if isinstance(value, AxisRange):
        table = {"from": value.low, "to": value.high, "n": value.n, "scale": "log" if value.log else "linear"}
        return {key: as_tables(part) for key, part in table.items() if part is not None}
    if isinstance(value, Mapping):
        return {str(key): as_tables(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [as_tables(part) for part in value]
    return plain(value)


def range_values(interval: AxisRange, low: float, high: float, shares: np.ndarray) -> np.ndarray:
    """Numbers at `shares` (in [0, 1]) of the way from `low` to `high` in SI units, on the interval's scale."""
    if interval.log:
        # Equal steps of the share are equal ratios, as on a logarithmic scale.
        return low * (high / low) ** shares
    return low + (high - low) * shares


def _numbers(source: Mapping[str, Any], mode: str) -> tuple[dict[str, Any], dict[str, tuple[Any, ...] | AxisRange]]:
    """Every number of the tables workload, deployment, set and axes, by full dotted path."""
    fixed: dict[str, Any] = {}
    axes: dict[str, tuple[Any, ...] | AxisRange] = {}
    for table in ("workload", "deployment", "policy", "axes", "set"):
        # Paths are full in axes and set; in the other tables the table's name is their first part.
        prefix = f"{table}." if table not in ("axes", "set") else ""
        for key, value in _table(source, table).items():
            path, where = prefix + key, f"{table}.{key}" if prefix else f'{table}."{key}"'
            # One leaf may be written in two tables, such as workload.batch and set."workload.batch".
            if path in fixed or path in axes:
                raise ValueError(f"{where}: {path} is given twice")
            parsed = _axis_values(value, where, mode)
            if isinstance(parsed, tuple | AxisRange):
                if table == "set":
                    raise ValueError(f"{where} = {value!r} must be one value; lists and ranges belong in [axes]")
                axes[path] = parsed
            elif table == "axes":
                raise ValueError(f"{where} = {value!r} must be a list or a range; one value belongs in [set]")
            else:
                fixed[path] = parsed
    return fixed, axes


def _laws(source: Mapping[str, Any], given: Collection[str]) -> dict[str, str]:
    """Expressions by the path of the leaf that follows from them, which nothing else may set."""
    laws = _table(source, "laws")
    for path, text in laws.items():
        if not isinstance(text, str):
            raise ValueError(f'laws."{path}" = {text!r} must be an expression, such as "cores.count * cores.clock"')
        if path in given:
            raise ValueError(f'laws."{path}": {path} is given besides; it cannot be set and follow from a law')
    return dict(laws)


def _deployments(source: Mapping[str, Any], paths: list[str]) -> tuple[Mapping[str, Any], ...]:
    """The list of whole deployments; none of their settings may be an axis or a fixed value besides."""
    tables = source.get("deployments", [])
    if not isinstance(tables, list | tuple) or not all(isinstance(table, Mapping) and table for table in tables):
        raise ValueError("deployments must be a list of tables, such as [{tp = 8}, {tp = 4, pp = 2}]")
    for table in tables:
        for name in table:
            if f"deployment.{name}" in paths:
                raise ValueError(f"deployment.{name} is set beside deployments, which sets it too")
    return tuple(tables)


def _axis_values(value: Any, where: str, mode: str) -> Any:
    """A tuple of values, an `AxisRange`, or the single value itself."""
    if isinstance(value, list | tuple | np.ndarray):
        values = tuple(value.tolist() if isinstance(value, np.ndarray) else value)
        if not values:
            raise ValueError(f"{where} is an empty axis; give at least one value")
        for single in values:
            if not isinstance(single, str | int | float | np.generic):
                raise ValueError(f"{where} has {single!r}; along an axis are numbers, or texts with a unit")
        if len(set(values)) < len(values):
            raise ValueError(f"{where} = {list(values)!r} has a value twice")
        return values
    if isinstance(value, AxisRange):
        value = as_tables(value)
    if isinstance(value, Mapping):
        require_known(value, RANGE_KEYS, f"{where}.")
        for key in ("from", "to"):
            if key not in value:
                raise ValueError(f"{where}.{key} is missing: a range is {{from = .., to = .., n = .., scale = ..}}")
        if "n" not in value and mode == "grid":
            raise ValueError(f"{where}.n is missing: how many points the grid has along it")
        n = integer(value["n"], f"{where}.n", 1, MOST_ALONG_A_RANGE) if "n" in value else None
        scale = _one_of(value.get("scale", "linear"), f"{where}.scale", ("linear", "log"))
        return AxisRange(value["from"], value["to"], n, scale == "log")
    return value


def _table(source: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    table = source.get(key, {})
    if not isinstance(table, Mapping):
        raise ValueError(f"{key} = {table!r} must be a table: {KEYS[key].meaning}")
    if key in TABLE_KEYS:
        require_known(table, TABLE_KEYS[key], f"{key}.")
    return table


def _names(value: Any, key: str) -> tuple[str, ...]:
    names = tuple(value) if isinstance(value, list | tuple) else (value,)
    if not names:
        raise ValueError(f"{key} is an empty axis; give at least one name")
    for name in names:
        if not isinstance(name, str) or not name or not name.isprintable():
            raise ValueError(f"{key} = {name!r} must be a name")
    if len(set(names)) < len(names):
        raise ValueError(f"{key} = {list(names)!r} has a name twice")
    return names


def require_known(table: Mapping[str, Any], known: Collection[str], prefix: str) -> None:
    """Refuse a key that there is not; ValueError names the nearest one."""
    for key in table:
        if key not in known:
            near = difflib.get_close_matches(key, list(known), n=1, cutoff=0.5)
            hint = f"did you mean {prefix}{near[0]}?" if near else f"known: {', '.join(known)}"
            raise ValueError(f"there is no key {prefix}{key}; {hint}")


def _one_of(value: Any, key: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise ValueError(f"{key} = {value!r} must be {' or '.join(allowed)}")
    return value


def integer(value: Any, key: str, least: int, most: int = LARGEST_INTEGER) -> int:
    """A whole number of at least `least` and at most `most`."""
    # TOML writes 1e6 as a float: it counts where it is whole.
    is_whole = isinstance(value, int) or (isinstance(value, float) and math.isfinite(value) and value == int(value))
    # True and False are integers in Python, but no numbers of a specification.
    if isinstance(value, bool) or not is_whole:
        raise ValueError(f"{key} = {value!r} must be a whole number")
    if value < least:
        raise ValueError(f"{key} = {value!r} must be at least {least}")
    if value > most:
        raise ValueError(f"{key} = {_amount(value)} must be at most {most:,}")
    return int(value)


def _amount(value: float) -> str:
    return f"{value:,}" if abs(value) < 1 << 64 else "a number beyond 64 bits"


def _boolean(value: Any, key: str) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{key} = {value!r} must be true or false")
    return value
