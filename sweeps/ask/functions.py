"""Functions and their arguments from text: `module:function`, `x=bf16[b,s,4096]`, `params=module:tree`."""

import importlib
import inspect
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

from hwspaces.units import nearest

DTYPES = {
    **{"bf16": "bfloat16", "f16": "float16", "fp16": "float16", "f32": "float32", "fp32": "float32", "f64": "float64"},
    **{"f8": "float8_e4m3fn", "fp8": "float8_e4m3fn", "i4": "int4", "i8": "int8", "i16": "int16", "i32": "int32"},
    **{"i64": "int64", "u4": "uint4", "u8": "uint8", "u16": "uint16", "u32": "uint32", "bool": "bool"},
}
"""Short names of dtypes; the long ones that JAX writes are known too."""

_ARRAY = re.compile(r"(\w+)\[([^\[\]]*)\]")
_REFERENCE = re.compile(r"[\w.]+:[\w.]+")
_NAMED = re.compile(r"\s*(?:([A-Za-z_]\w*)\s*=\s*)?(\S.*)", re.DOTALL)


def named_object(reference: str, flag: str) -> Any:
    """What `module:name` names; modules are looked up in the working directory first.

    Raises:
      ValueError: one line, where there is no such module or name, or it fails while it is imported.
    """
    if not _REFERENCE.fullmatch(reference):
        raise ValueError(f"{flag} {reference!r} must be module:name, such as mymodule:forward")
    module, _, path = reference.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found: Any = importlib.import_module(module)
    except Exception as error:
        words = " ".join(str(error).split())
        raise ValueError(f"{flag} {reference}: importing {module} fails: {type(error).__name__}: {words}") from error
    for name in path.split("."):
        if not hasattr(found, name):
            raise ValueError(f"{flag} {reference}: {module} has no {name}{nearest(name, dir(found))}")
        found = getattr(found, name)
    return found


def arguments_of(function: Callable[..., Any], texts: Sequence[str], flag: str = "--args") -> tuple[tuple, dict]:
    """Positional and named arguments from texts "name=value" or "value".

    A value is an array, "bf16[b,s,4096]", whose sizes are numbers, symbols and sums and products of them; or
    "module:name", a tree of arrays or of `jax.ShapeDtypeStruct`s, or a function without arguments that returns one.

    Raises:
      ValueError: one line that names the text and what is allowed.
    """
    from jax import export

    scope = export.SymbolicScope()
    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    parameters = _parameters(function)
    for text in texts:
        match = _NAMED.fullmatch(text)
        if match is None:
            raise ValueError(f"{flag} {text!r} must be NAME=DTYPE[SIZES] or NAME=module:tree")
        name, value = match.groups()
        if name is not None and parameters is not None and name not in parameters:
            raise ValueError(f"{flag} {text!r}: the function has no argument {name}{nearest(name, parameters)}")
        if name is not None and name in keywords:
            raise ValueError(f"{flag} {text!r}: {name} is given twice")
        found = _value(value.strip(), text, scope, flag)
        if name is None:
            positional.append(found)
        else:
            keywords[name] = found
    return tuple(positional), keywords


def _parameters(function: Callable[..., Any]) -> list[str] | None:
    """Names of a function's arguments; None where it takes any."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(one.kind is one.VAR_KEYWORD for one in parameters):
        return None
    return [one.name for one in parameters]


def _value(text: str, where: str, scope: Any, flag: str) -> Any:
    match = _ARRAY.fullmatch(text)
    if match is None:
        if not _REFERENCE.fullmatch(text):
            raise ValueError(f"{flag} {where!r} must be DTYPE[SIZES], such as bf16[b,s,4096], or module:tree")
        return _tree(named_object(text, flag), where, flag)
    import jax
    import numpy as np
    from jax import export

    dtype, sizes = match.groups()
    name = DTYPES.get(dtype, dtype)
    try:
        kind = np.dtype(jax.numpy.dtype(name))
    except TypeError:
        raise ValueError(f"{flag} {where!r}: {dtype} is no dtype{nearest(dtype, DTYPES)}") from None
    try:
        shape = export.symbolic_shape(sizes.replace(" ", ""), scope=scope) if sizes.strip() else ()
    except Exception as error:
        words = " ".join(str(error).split())[:120]
        raise ValueError(f"{flag} {where!r}: {sizes!r} are no sizes: {words}") from None
    if any(isinstance(size, int) and size < 1 for size in shape):
        raise ValueError(f"{flag} {where!r}: every size must be at least 1")
    return jax.ShapeDtypeStruct(tuple(shape), kind)


def _tree(found: Any, where: str, flag: str) -> Any:
    """A tree of arrays, or what a function without arguments returns; ValueError in one line for anything else."""
    import jax

    if callable(found):
        try:
            found = found()
        except Exception as error:
            words = " ".join(str(error).split())
            raise ValueError(f"{flag} {where!r}: calling it fails: {type(error).__name__}: {words}") from error
    for leaf in jax.tree.leaves(found):
        if not isinstance(leaf, int | float | complex) and not (hasattr(leaf, "shape") and hasattr(leaf, "dtype")):
            raise ValueError(f"{flag} {where!r}: a {type(leaf).__name__} in it is no array and no number")
    return found
