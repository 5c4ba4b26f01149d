"""Plain Python values of what NumPy, JAX or a range holds, so that a number may come from any loop or array."""

import functools
from collections.abc import Callable
from types import MappingProxyType
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable)


def plain(value: Any) -> Any:
    """A value whose numbers, texts and lists are Python's own, inside of mappings, lists and tuples too.

    Args:
      value: a range and an array of one dimension or more become lists, an array without dimensions (`np.int64(8)`,
        `jnp.float32(2)`) one number. What is neither is returned as it is.
    """
    if isinstance(value, str | int | float | bool | None):
        return value.item() if hasattr(value, "item") else value  # np.float64 and np.str_ are of Python's types too
    if isinstance(value, dict | MappingProxyType):
        return {plain(key): plain(part) for key, part in value.items()}
    if isinstance(value, list | range):
        return [plain(part) for part in value]
    if type(value) is tuple:
        return tuple(plain(part) for part in value)
    if hasattr(value, "__array__") and isinstance(getattr(value, "ndim", None), int):
        if value.ndim == 0 and hasattr(value, "item"):
            return value.item()
        return value.tolist() if hasattr(value, "tolist") else value.__array__().tolist()
    return value


def plain_arguments(function: Function) -> Function:
    """`function` with every argument made `plain`."""

    @functools.wraps(function)
    def called(*args: Any, **keys: Any) -> Any:
        return function(*map(plain, args), **{name: plain(value) for name, value in keys.items()})

    return called  # type: ignore[return-value]
