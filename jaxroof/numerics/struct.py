"""Structs of the cost model: frozen dataclasses whose fields are leaves of a JAX pytree."""

import dataclasses
import functools
import inspect
import math
import sys
import types
import typing
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform

import numpy as np

from jaxroof.numerics.arrays import import_jax, with_jax

T = TypeVar("T")

if TYPE_CHECKING:
    # Any, not a union: sums and products are of either kind, and most of JAX and NumPy takes only one of them. So a
    # checker sees where a number may be absent (`Scalar | None`), and not of which kind or shape it is.
    Scalar = Any
    Array = Any
else:
    Scalar = float | np.ndarray
    Array = np.ndarray
"""Scalar: a number of shape (), a Python float, a NumPy scalar, or an array or tracer of JAX of shape (); inside
`jaxroof.numerics.arrays.eager` also a column of them.

Array: numbers of shape [n] or more; what is loaded is NumPy's, what is computed is of NumPy or of JAX."""


def given(part: T | None, what: str) -> T:
    """`part`, which is there by the structure of what surrounds it.

    Raises:
      ValueError: where it is None; names `what`.
    """
    if part is None:
        raise ValueError(f"there is no {what}, and what is computed needs one")
    return part


def static(**keywords: Any) -> Any:
    """A field that is structure rather than data: two structs that differ in it cannot be stacked."""
    return dataclasses.field(metadata={"static": True}, **keywords)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(dataclasses.field, static))
def struct(cls: type[T]) -> type[T]:
    """Make `cls` a frozen, keyword-only dataclass that `jax.tree`, `jit`, `vmap` and `grad` see through.

    Every field is a leaf or a subtree, unless it is declared with `static()`. Nothing is checked on
    construction: it runs under every transform. Loaders check. JAX learns of it as soon as it is imported,
    by whomever.
    """
    # Methods that all structs share, in place of those that `dataclasses` would compile for each.
    cls.__init__, cls.__signature__ = _made, _Signature()  # type: ignore[attr-defined, method-assign]
    cls.__setattr__, cls.__delattr__ = _kept, _kept  # type: ignore[method-assign]
    cls.__eq__, cls.__hash__, cls.__repr__ = _equal, _hash, _text  # type: ignore[assignment, method-assign]
    kind: Any = dataclasses.dataclass(init=False, kw_only=True, eq=False, repr=False)(cls)
    kind._defaults = {
        field.name: field.default for field in dataclasses.fields(kind) if field.default is not dataclasses.MISSING
    }
    # A pytree for JAX, as soon as JAX is there.
    with_jax(lambda: sys.modules["jax"].tree_util.register_dataclass(kind))
    return kind


# The same for all structs: those that `dataclasses` writes are compiled for each, in half the time of an import.


def _made(self: Any, **values: Any) -> None:
    if "jax" in sys.modules:
        import_jax()
    own = {**self._defaults, **values}
    if own.keys() != self.__dataclass_fields__.keys():
        wrong = [f"has no {name}" for name in own if name not in self.__dataclass_fields__]
        wrong += [f"needs {name}" for name in self.__dataclass_fields__ if name not in own]
        raise TypeError(f"{type(self).__qualname__} {', '.join(wrong)}")
    for name, value in own.items():
        # Frozen: `object.__setattr__` is the way around its own guard.
        object.__setattr__(self, name, value)


class _Signature:
    """The signature of a struct, for whoever asks."""

    def __get__(self, one: Any, kind: type) -> inspect.Signature:
        parameters = [
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                annotation=field.type,
                default=inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default,
            )
            for field in dataclasses.fields(kind)
        ]
        return inspect.Signature(parameters)


def _kept(self: Any, name: str, *value: Any) -> None:
    raise dataclasses.FrozenInstanceError(f"{type(self).__qualname__}.{name} stays as it is: use dataclasses.replace")


def _values(one: Any) -> tuple[Any, ...]:
    return tuple(getattr(one, name) for name in one.__dataclass_fields__)


def _equal(one: Any, other: Any) -> bool:
    return _values(one) == _values(other) if type(other) is type(one) else NotImplemented


def _hash(one: Any) -> int:
    return hash(_values(one))


def _text(one: Any) -> str:
    fields = (f"{name}={value!r}" for name, value in zip(one.__dataclass_fields__, _values(one), strict=True))
    return f"{type(one).__qualname__}({', '.join(fields)})"


# Declarations of the numbers that structs hold: unit, meaning, range and default, stated once in the field itself.


NO_DEFAULT = object()
"""In place of a default where there is none."""


@dataclasses.dataclass(frozen=True)
class Declaration:
    """What one leaf of a struct is."""

    unit: str  # SI unit, as `hwspaces.quantities.units` writes it; "" for words
    meaning: str  # long name; `{}` stands for the titles of the structs around it, or for the key of a dict
    about: str = ""  # what a reader should know besides
    zero: bool = False  # zero is a sensible number; every other one is above zero
    least: float = 0.0
    most: float = math.inf
    open: bool = False  # `most` itself is not allowed
    words: str = ""  # the range in words, where they say more than its ends
    whole: bool = False  # counts something
    count: bool = False  # counts something; a search for a design varies it continuously on its way
    few: bool = False  # a count that nobody changes by a tenth
    discrete: bool = False  # a switch or a stage: nothing lies between its values
    codes: tuple[str, ...] = ()  # words whose places are the leaf's values
    choices: tuple[str, ...] = ()  # of a leaf that is structure: what it may be
    structure: bool = False  # no number: two structs that differ in it cannot be stacked
    condition: bool = False  # of what is asked, not of what is designed: a best point is one per value of it
    given: bool = True  # files may give it; else it follows from other figures
    flag: str = ""  # placeholder of its value behind a flag of the command line; "": no flag
    source: str = ""  # where the default is from
    default: Any = NO_DEFAULT
    optional: bool = False  # None where it is unknown or absent

    @property
    def counts(self) -> bool:
        """Whether it counts something: users give whole numbers only."""
        return self.whole or self.count or self.few

    @property
    def continuous(self) -> bool:
        """Whether numbers between its values make sense."""
        return not (self.discrete or self.codes)

    @property
    def required(self) -> bool:
        """Whether a struct cannot be made without it."""
        return self.default is NO_DEFAULT and not self.optional

    @property
    def range(self) -> str:
        """What a number may be beside positive, in words."""
        if self.words or (math.isinf(self.most) and not self.least):
            return self.words
        if self.zero:
            return f"from 0 to below {self.most:g}" if self.open else f"at most {self.most:g}"
        return f"above 0 and {'below' if self.open else 'at most'} {self.most:g}"

    def allows(self, number: float) -> bool:
        """Whether a number that is not 0 is in the range."""
        return self.least <= number <= self.most and not (self.open and number == self.most)


@dataclasses.dataclass(frozen=True)
class _Part:
    title: str
    names: Mapping[str, str]
    given: bool


def number(unit: str, meaning: str, about: str = "", **facts: Any) -> Any:
    """A field that holds a number of the SI unit `unit`, or a dict or tuple of such; `facts` as in `Declaration`."""
    return _field(Declaration(unit, meaning, about, **facts))


def count(meaning: str, about: str = "", **facts: Any) -> Any:
    """A field that holds a whole number of things."""
    return _field(Declaration("1", meaning, about, whole=True, **facts))


def share(meaning: str, about: str = "", **facts: Any) -> Any:
    """A field that holds a number of at most 1."""
    return _field(Declaration("1", meaning, about, **({"most": 1.0} | facts)))


def switch(meaning: str, about: str = "", **facts: Any) -> Any:
    """A field that holds 0 or 1."""
    own: dict[str, Any] = {"zero": True, "least": 1.0, "most": 1.0, "words": "0 or 1"} | facts
    return _field(Declaration("1", meaning, about, discrete=True, **own))


def word(meaning: str, choices: tuple[str, ...], about: str = "", **facts: Any) -> Any:
    """A field that holds one of `choices` and is structure."""
    return _field(Declaration("", meaning, about, choices=choices, structure=True, **facts))


def text(meaning: str, about: str = "", **facts: Any) -> Any:
    """A field that holds a name or other text and is structure."""
    return _field(Declaration("", meaning, about, structure=True, **facts))


def option(meaning: str, about: str = "", **facts: Any) -> Any:
    """A field that holds True or False and is structure."""
    return _field(Declaration("", meaning, about, structure=True, **facts))


def part(title: str = "", default: Any = dataclasses.MISSING, given: bool = True, **names: str) -> Any:
    """A field that holds a struct: its leaves' `{}` is `title`, or a leaf is what `names` says of it."""
    return dataclasses.field(metadata={_DECLARED: _Part(title, names, given)}, default=default)


_DECLARED = "declared"


def _field(declared: Declaration) -> Any:
    metadata = {_DECLARED: declared} | ({"static": True} if declared.structure else {})
    default = dataclasses.MISSING if declared.default is NO_DEFAULT else declared.default
    return dataclasses.field(metadata=metadata, default=default)


@functools.cache
def declarations(kind: type) -> Mapping[str, Declaration]:
    """Every declared leaf of a struct and of the structs in it, by dotted path; `*` stands for a key or a position."""
    return types.MappingProxyType(dict(_walk(kind, "", (), _Part("", {}, True))))


def declaration(kind: type, path: str) -> Declaration | None:
    """What the leaf at the dotted `path` of a struct is, its key said; None where it is not declared."""
    known = declarations(kind)
    if path in known:
        return known[path]
    # A key of a dict stands where the declaration has `*`: at the end, or before the leaf of a struct.
    words = path.split(".")
    for place, key in enumerate(words):
        found = known.get(".".join([*words[:place], "*", *words[place + 1 :]]))
        if found is not None:
            return dataclasses.replace(found, meaning=found.meaning.format(key))
    return None


def declared(kind: type, path: str) -> Declaration:
    """`declaration` of a leaf that is declared.

    Raises:
      ValueError: where it is not.
    """
    return given(declaration(kind, path), f"declared number {path} of {kind.__name__}")


@functools.cache
def kinds(kind: type) -> Mapping[str, type]:
    """Types of the structs that a struct holds, by field, whether they are optional or not."""
    hints = typing.get_type_hints(kind)
    found = {field.name: _struct(hints[field.name]) for field in dataclasses.fields(kind)}
    return types.MappingProxyType({name: inner for name, inner in found.items() if inner is not None})


@functools.cache
def several_parts(kind: type) -> Mapping[str, type]:
    """Structs that a struct holds any number of, in a dict by name, by field."""
    hints = typing.get_type_hints(kind)
    found = {field.name: _struct_of_dict(hints[field.name]) for field in dataclasses.fields(kind)}
    return types.MappingProxyType({name: inner for name, inner in found.items() if inner is not None})


@functools.cache
def required(kind: type) -> tuple[str, ...]:
    """Dotted paths of the numbers that a struct cannot be made without, those of structs that it must hold too.

    Dicts are left out: which keys they need is for others to say.
    """
    inner, missable = kinds(kind), optional_parts(kind)
    found: list[str] = []
    for field in dataclasses.fields(kind):
        leaf = declarations(kind).get(field.name)
        if leaf is not None:
            found += [field.name] * leaf.required
        elif field.name in inner and field.name not in missable:
            found += [f"{field.name}.{path}" for path in required(inner[field.name])]
    return tuple(found)


@functools.cache
def optional_parts(kind: type) -> Mapping[str, type]:
    """Structs that a struct may hold or not, by field."""
    hints = typing.get_type_hints(kind)
    return types.MappingProxyType({name: inner for name, inner in kinds(kind).items() if _optional(hints[name])})


def _walk(kind: type, prefix: str, titles: tuple[str, ...], around: _Part) -> Iterator[tuple[str, Declaration]]:
    hints, inner = typing.get_type_hints(kind), kinds(kind)
    for field in dataclasses.fields(kind):
        declared = field.metadata.get(_DECLARED)
        if isinstance(declared, Declaration):
            hint = hints[field.name]
            # A dict or tuple of numbers is one declaration for all of its entries.
            known = [part for part in _alternatives(hint) if part is not type(None)]
            several = all(typing.get_origin(part) in (dict, tuple) for part in known)
            path = f"{prefix}{field.name}{'.*' * several}"
            meaning = around.names.get(field.name, declared.meaning)
            # Titles of the structs around it fill the placeholder: "scale-up link bandwidth".
            if titles and not several:
                meaning = meaning.replace("{}", " ".join(titles))
            given = declared.given and around.given
            yield path, dataclasses.replace(declared, meaning=meaning, optional=_optional(hint), given=given)
        elif field.name in inner:
            below = declared or _Part("", {}, True)
            below = dataclasses.replace(below, given=below.given and around.given)
            yield from _walk(
                inner[field.name], f"{prefix}{field.name}.", (*titles, below.title) if below.title else titles, below
            )
        elif field.name in several_parts(kind):
            # The name of each takes the place of a title: `declaration` fills it in.
            yield from _walk(several_parts(kind)[field.name], f"{prefix}{field.name}.*.", ("{}",), _Part("", {}, True))


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return typing.get_args(hint) if typing.get_origin(hint) in (types.UnionType, typing.Union) else (hint,)


def _optional(hint: Any) -> bool:
    return type(None) in _alternatives(hint)


def _struct_of_dict(hint: Any) -> type | None:
    """The struct that a dict by name holds, among the alternatives of a type."""
    dicts = [part for part in _alternatives(hint) if typing.get_origin(part) is dict]
    return _struct(typing.get_args(dicts[0])[1]) if len(dicts) == 1 else None


def _struct(hint: Any) -> type | None:
    """The one struct among the alternatives of a type."""
    found = [part for part in _alternatives(hint) if isinstance(part, type) and dataclasses.is_dataclass(part)]
    return found[0] if len(found) == 1 else None
