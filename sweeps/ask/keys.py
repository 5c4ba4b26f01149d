"""Keys of a specification with their types, and signatures of functions that show which keys they take."""

import dataclasses
import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypedDict, TypeVar, get_type_hints

from sweeps.ask.spec import AxisRange

Function = TypeVar("Function", bound=Callable[..., Any])
Table = Mapping[str, Any]


class Keys(TypedDict, total=False):
    """Keys of a sweep's specification, and what each may be; `sweeps.ask.spec.KEYS` says what they mean."""

    job: str
    mode: str
    hardware: str | list[str]
    space: str
    model: str | list[str]
    draft: str
    weights: str | list[str]
    kv: str | list[str]
    efficiency: str | list[str]
    prices: str
    prefill: Table
    decode: Table
    neighbour: Table
    workload: Table
    communication: str
    deployment: Table
    deployments: list[Table]
    engine: str
    policy: Table
    slo: str | Table
    axes: Mapping[str, list[Any] | AxisRange | Table]
    set: Table
    laws: Mapping[str, str]
    sample: Table
    scenario: Table
    output: Table


class _NotGiven:
    """Default that is shown of a key which may be left out and has no default value."""

    def __repr__(self) -> str:
        return "..."


NOT_GIVEN = _NotGiven()


def takes(keys: type, names: Collection[str] | None = None) -> Callable[[Function], Function]:
    """A decorator of functions that pass `**keys` on: `help` and editors show the keys by name, type and default.

    Only the signature changes: an unknown key reaches the function, which refuses it in one line.

    Args:
      keys: a dataclass or a TypedDict with one field for each key. Those that the function names itself are not shown
        twice.
      names: of the fields that the function takes; None: of all.
    """
    fields = dataclasses.fields(keys) if dataclasses.is_dataclass(keys) else ()
    defaults = {field.name: field.default for field in fields}

    def shown(function: Function) -> Function:
        own = inspect.signature(function)
        named = [one for one in own.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
        more = []
        for name, kind in get_type_hints(keys).items():
            default = defaults.get(name, dataclasses.MISSING)
            if default is dataclasses.MISSING:
                default = NOT_GIVEN
            if name not in own.parameters and (names is None or name in names):
                more.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default))
        function.__signature__ = own.replace(parameters=[*named, *more])  # type: ignore[attr-defined]  # read by inspect
        return function

    return shown
