"""Structs of the cost model: frozen dataclasses whose fields are leaves of a JAX pytree."""

import dataclasses
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform

import jax

T = TypeVar("T")

if TYPE_CHECKING:
    Scalar = Any  # sums and products are of either kind, and most of JAX and NumPy takes only one of them
    Array = Any  # likewise
else:
    Scalar = float | jax.Array
    Array = jax.typing.ArrayLike
"""Scalar: a number of shape (), a Python float, a NumPy scalar, or an array or tracer of shape ().

Array: numbers of shape [n] or more; what is loaded is NumPy's, what is computed is JAX's."""


def static(**keywords: Any) -> Any:
    """A field that is structure rather than data: two structs that differ in it cannot be stacked."""
    return dataclasses.field(metadata={"static": True}, **keywords)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(dataclasses.field, static))
def struct(cls: type[T]) -> type[T]:
    """Make `cls` a frozen, keyword-only dataclass that `jax.tree`, `jit`, `vmap` and `grad` see through.

    Every field is a leaf or a subtree, unless it is declared with `static()`. Nothing is checked on
    construction: it runs under every transform. Loaders check.
    """
    return jax.tree_util.register_dataclass(dataclasses.dataclass(frozen=True, kw_only=True)(cls))
