"""Words of questions: how one is declared, and the signatures, structs and errors that follow from declarations.

A class stands for a question and a field for one of its words, as in `sweeps.ask.words`.
"""

import dataclasses
import functools
import inspect
import operator
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar, get_args, get_type_hints

from hwspaces.quantities.units import require_keys
from jaxroof.numerics.struct import Declaration

Function = TypeVar("Function", bound=Callable[..., Any])
Question = TypeVar("Question")
Table = Mapping[str, Any]

NUMBER, COUNT, COUNTS, NAMES, TABLE, SWITCH = "number", "count", "counts", "names", "table", "switch"
"""Ways to read what a user writes that is no plain text; counts and names are one or several, which are tried."""

WRITTEN: Mapping[str, Any] = {
    NUMBER: float | str | None,
    COUNT: int | str | None,
    COUNTS: int | str | Iterable[int] | None,
    NAMES: str | Iterable[str] | None,
    TABLE: str | Iterable[str] | Table | None,
}
"""Types of what a user writes, where they are wider than those of what a question holds."""


@dataclasses.dataclass(frozen=True)
class Word(Declaration):
    """One word: its declaration as a number where it is one, and how users say it."""

    help: str = ""  # of its flag, whose placeholder is `flag`
    key: str = ""  # what users call it, where it is not called as its field
    field: str = ""  # that holds it
    reads: str = ""  # "": text
    axis: bool = False  # a list of it is an axis of a sweep
    one: str = ""  # why a sweep takes no list of it: the error
    leaf: str = ""  # of the deployment that it sets; its flag stands beside those of the leaves
    apart: bool = False  # only some verbs have its flag, and add it themselves
    served: bool = False  # specifications have it for a simulated engine, which checks it


def word(
    flag: str = "", help: str = "", meaning: str = "", *, default: Any = None, unit: str = "1", **facts: Any
) -> Any:
    """A field that is a word.

    Args:
      flag: placeholder of its flag; "": it has none.
      help: of its flag.
      meaning: what errors say of it; "": as `help`.
      default: `dict` stands for an empty table.
      facts: as in `Word`.
    """
    metadata = {"word": Word(unit, meaning or help, flag=flag, help=help, **facts)}
    if default is dict:
        return dataclasses.field(default_factory=dict, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def like(kind: type, name: str, **changes: Any) -> Any:
    """A field that is the word of another question, with other facts."""
    # A dataclass keeps metadata of its fields here; the default of the copy is "not given".
    own = kind.__dataclass_fields__[name].metadata["word"]  # type: ignore[attr-defined]  # a dataclass
    return dataclasses.field(default=None, metadata={"word": dataclasses.replace(own, **changes)})


def words(kind: type) -> dict[str, Word]:
    """Words of a question by what users call them."""
    fields = [field for field in dataclasses.fields(kind) if "word" in field.metadata]
    return {_key(field): dataclasses.replace(field.metadata["word"], field=field.name) for field in fields}


def values(question: Any, kind: type) -> dict[str, Any]:
    """What a question holds of the words of another one, by field."""
    return {word.field: getattr(question, word.field) for word in words(kind).values()}


def question_of(kind: type[Question], **given: Any) -> Question:
    """A question of these words; what is None was not given.

    Raises:
      ValueError: one line, for a word that there is not, with the nearest, or one that is needed and missing.
    """
    fields = {_key(field): field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]  # all are dataclasses
    require_keys(given, fields)
    # A field without a default value or factory is a word that has to be given.
    for key, field in fields.items():
        needed = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if needed and not given.get(key):
            raise ValueError(f"{key} is missing; `jaxroof {key}{'s' * (key == 'model')}` lists the known names")
    return kind(**{fields[key].name: value for key, value in given.items() if value is not None})


def _key(field: dataclasses.Field[Any]) -> str:
    """What users call the word of a field."""
    return getattr(field.metadata.get("word"), "key", "") or field.name


class _NotGiven:
    """Default that is shown of a word which may be left out and has no default value."""

    def __repr__(self) -> str:
        return "..."


NOT_GIVEN = _NotGiven()


def takes(kind: type, names: Collection[str] | None = None, keys: bool = False) -> Callable[[Function], Function]:
    """A decorator of functions that pass `**words` on: `help` and editors show the words by name, type and default.

    Only the signature changes: an unknown word reaches the function, which refuses it in one line.

    Args:
      kind: a dataclass with one field for each word. Those that the function names itself are not shown twice.
      names: of the fields that the function takes; None: of all.
      keys: of a specification: each has a value, for an axis several, or is left out.
    """

    def shown(function: Function) -> Function:
        own = inspect.signature(function)
        named = [one for one in own.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
        hints, more = get_type_hints(kind), []
        for field in dataclasses.fields(kind):
            declared: Word | None = field.metadata.get("word")
            # What users may write is wider than what a question holds, such as text with a unit for a number.
            written, default = hints[field.name], field.default
            if declared is not None:
                written = WRITTEN.get(declared.reads, written)
                written = written if default is None else _without_none(written)
            # Keys of a specification are never None: each has a value, several along an axis, or is left out.
            if declared is not None and keys:
                written, default = _without_none(written), dataclasses.MISSING
                written = written | list[str] if declared.axis else written
            default = NOT_GIVEN if default is dataclasses.MISSING else default
            more.append(
                inspect.Parameter(_key(field), inspect.Parameter.KEYWORD_ONLY, annotation=written, default=default)
            )
        wanted = [one for one in more if one.name not in own.parameters and (names is None or one.name in names)]
        # `inspect.signature` and editors read this attribute (PEP 362).
        function.__signature__ = own.replace(parameters=[*named, *wanted])  # type: ignore[attr-defined]  # for inspect
        return function

    return shown


def _without_none(hint: Any) -> Any:
    """The type without None."""
    parts = [part for part in get_args(hint) if part is not type(None)]
    return functools.reduce(operator.or_, parts) if type(None) in get_args(hint) else hint
