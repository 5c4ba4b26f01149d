"""Structs of the cost model: frozen dataclasses whose fields are leaves of a JAX pytree."""

import dataclasses
import importlib.abc
import importlib.util
import sys
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform

import numpy as np

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
    cls.__eq__, cls.__hash__, cls.__repr__ = _equal, _hash, _text  # type: ignore[method-assign, assignment]
    made: Any = dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)(cls)
    if "jax" in sys.modules:
        _register(made)
    else:
        _UNKNOWN.append(made)
    return made


# The same for all structs: those that `dataclasses` writes are compiled for each, in half the time of an import.


def _values(one: Any) -> tuple[Any, ...]:
    return tuple(getattr(one, name) for name in one.__dataclass_fields__)


def _equal(one: Any, other: Any) -> bool:
    return _values(one) == _values(other) if type(other) is type(one) else NotImplemented


def _hash(one: Any) -> int:
    return hash(_values(one))


def _text(one: Any) -> str:
    fields = (f"{name}={value!r}" for name, value in zip(one.__dataclass_fields__, _values(one), strict=True))
    return f"{type(one).__qualname__}({', '.join(fields)})"


_UNKNOWN: list[type] = []
"""Structs that were made before JAX was imported."""


def _register(kind: type) -> None:
    sys.modules["jax"].tree_util.register_dataclass(kind)


class _Registration(importlib.abc.MetaPathFinder):
    """Finds JAX as Python does, and has it learn of all structs when its import is over."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        """The specification of `jax`; None for every other module."""
        if name != "jax":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def executed(module: Any) -> None:
            execute(module)
            while _UNKNOWN:
                _register(_UNKNOWN.pop())

        spec.loader.exec_module = executed  # type: ignore[method-assign]
        return spec


if "jax" not in sys.modules:
    sys.meta_path.insert(0, _Registration())
