"""Structs of the cost model: frozen dataclasses whose fields are leaves of a JAX pytree."""

import dataclasses
import inspect
import sys
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform

import numpy as np

from jaxroof.awaited import with_jax

T = TypeVar("T")

if TYPE_CHECKING:
    Scalar = Any  # sums and products are of either kind, and most of JAX and NumPy takes only one of them
    Array = Any  # likewise
else:
    Scalar = float | np.ndarray
    Array = np.ndarray
"""Scalar: a number of shape (), a Python float, a NumPy scalar, or an array or tracer of JAX of shape (); inside
`jaxroof.arrays.eager` also a column of them.

Array: numbers of shape [n] or more; what is loaded is NumPy's, what is computed is of NumPy or of JAX."""


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
    cls.__init__, cls.__signature__ = _made, _Signature()  # type: ignore[attr-defined, method-assign, misc]
    cls.__setattr__, cls.__delattr__ = _kept, _kept  # type: ignore[assignment, method-assign]
    cls.__eq__, cls.__hash__, cls.__repr__ = _equal, _hash, _text  # type: ignore[assignment, method-assign]
    kind: Any = dataclasses.dataclass(init=False, kw_only=True, eq=False, repr=False)(cls)
    kind._defaults = {
        field.name: field.default for field in dataclasses.fields(kind) if field.default is not dataclasses.MISSING
    }
    with_jax(lambda: sys.modules["jax"].tree_util.register_dataclass(kind))
    return kind


# The same for all structs: those that `dataclasses` writes are compiled for each, in half the time of an import.


def _made(self: Any, **values: Any) -> None:
    own = {**self._defaults, **values}
    if own.keys() != self.__dataclass_fields__.keys():
        wrong = [f"has no {name}" for name in own if name not in self.__dataclass_fields__]
        wrong += [f"needs {name}" for name in self.__dataclass_fields__ if name not in own]
        raise TypeError(f"{type(self).__qualname__} {', '.join(wrong)}")
    for name, value in own.items():
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
