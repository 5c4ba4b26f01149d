"""Functions and their arguments from text: `module:function`, `x=bf16[b,s,4096]`, `params=module:tree`, `heads=8`."""

import ast
import contextlib
import importlib
import inspect
import pathlib
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from hwspaces.quantities.units import nearest

DTYPES = {
    **{"bf16": "bfloat16", "f16": "float16", "fp16": "float16", "f32": "float32", "fp32": "float32", "f64": "float64"},
    **{"f8": "float8_e4m3fn", "fp8": "float8_e4m3fn", "i4": "int4", "i8": "int8", "i16": "int16", "i32": "int32"},
    **{"c64": "complex64", "c128": "complex128"},
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
    # A command that is installed does not search the working directory by itself.
    if "" not in sys.path:
        sys.path.insert(0, "")
    # The pattern of references also fits a file name, which is no module.
    if module.endswith(".py"):
        raise ValueError(f"{flag} {reference}: give the module's name, {module.removesuffix('.py')}:{path}")
    with users_code(f"{flag} {reference}: importing {module} fails"):
        target: Any = importlib.import_module(module)
    for name in path.split("."):
        if not hasattr(target, name):
            raise ValueError(f"{flag} {reference}: {module} has no {name}{nearest(name, dir(target))}")
        target = getattr(target, name)
    return target


@contextlib.contextmanager
def users_code(what: str) -> Iterator[None]:
    """Code of the user: what it prints goes to stderr, and what it raises is a ValueError of one line, `what` first."""
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except (Exception, SystemExit) as error:
        # JAX appends paragraphs of advice: only the error itself is kept, on one line.
        words = " ".join(_JAX_REMARKS.split(str(error))[0].split())[:300]
        raise ValueError(f"{what}: {type(error).__name__}: {words}{_place(error)}") from error


_JAX_REMARKS = re.compile(r"\n-{10}|The error occurred while tracing|This concrete value was not available")
"""Begin what JAX says after the error itself."""

_OWN = [pathlib.Path(__file__).parents[2] / name for name in ("sweeps", "workloads", "jaxroof")]


def _place(error: BaseException) -> str:
    """File and line of the user's code that an error comes from: " (mymodule.py:12)"; nothing where that is unknown."""
    # The last part of each path is the line's number, its parent the file.
    frames = [pathlib.Path(frame.filename) / str(frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    # Frames of this package, of installed ones and of the import system say nothing about the user's code.
    others = [
        path for path in frames if not {"site-packages", "importlib"} & set(path.parts)
        and not any(path.is_relative_to(own) for own in _OWN) and path.parent.is_file()
    ]  # fmt: skip
    return f" ({others[-1].parent.name}:{others[-1].name})" if others else ""


def arguments_of(
    function: Callable[..., Any], texts: Sequence[str], flag: str = "--args"
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and named arguments from texts "name=value" or "value".

    A value is an array, "bf16[b,s,4096]", whose sizes are numbers, symbols and sums and products of them;
    "module:name", a tree of arrays or of `jax.ShapeDtypeStruct`s, a model that is one, or a function without arguments
    that returns one; or a number, text or tuple as Python writes it, which is static.

    Raises:
      ValueError: one line that names the text and what is allowed.
    """
    from jax import export

    # One scope for all texts: a symbol is the same size in every argument.
    scope = export.SymbolicScope()
    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    parameters = _parameters(function)
    for text in texts:
        match = _NAMED.fullmatch(text)
        if match is None:
            raise ValueError(f"{flag} {text!r} must be NAME=DTYPE[SIZES], NAME=module:tree or NAME=number")
        name, value = match.groups()
        if name is not None and parameters is not None and name not in parameters:
            raise ValueError(f"{flag} {text!r}: the function has no argument {name}{nearest(name, parameters)}")
        if name is not None and name in keywords:
            raise ValueError(f"{flag} {text!r}: {name} is given twice")
        argument = _value(value.strip(), text, scope, flag)
        if name is None:
            positional.append(argument)
        else:
            keywords[name] = argument
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
        if _REFERENCE.fullmatch(text):
            return _tree(named_object(text, flag), where, flag)
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError):
            expected = "DTYPE[SIZES], such as bf16[b,s,4096], module:tree, or a value such as 8, True or 'same'"
            raise ValueError(f"{flag} {where!r} must be {expected}") from None
    # JAX takes long to import: only arrays need it.
    import numpy as np
    from jax import export

    from jaxroof.numerics.arrays import jax

    dtype, sizes = match.groups()
    # An unknown dtype becomes `object`, which the check below refuses with the known names.
    try:
        kind = np.dtype(jax.numpy.dtype(DTYPES.get(dtype, dtype)))
    except TypeError:
        kind = np.dtype(object)
    if kind.name != "bool" and not jax.numpy.issubdtype(kind, np.number):
        known = f"{', '.join(DTYPES)}, and the names that JAX writes, such as bfloat16"
        raise ValueError(f"{flag} {where!r}: {dtype} is no dtype; known: {known}")
    # Without x64 JAX narrows 64-bit types silently, and the answer would be for other bytes.
    if jax.dtypes.canonicalize_dtype(kind) != kind:
        raise ValueError(f"{flag} {where!r}: JAX has no {kind.name} unless JAX_ENABLE_X64=1 is set")
    try:
        # Empty brackets are a scalar, shape ().
        shape = export.symbolic_shape(sizes, scope=scope) if sizes.strip() else ()
    except Exception as error:
        words = " ".join(str(error).split())[:120]
        raise ValueError(f"{flag} {where!r}: {sizes!r} are no sizes: {words}") from None
    if any(isinstance(size, int) and size < 1 for size in shape):
        raise ValueError(f"{flag} {where!r}: every size must be at least 1")
    return jax.ShapeDtypeStruct(tuple(shape), kind)


def _tree(found: Any, where: str, flag: str) -> Any:
    """A tree with arrays or numbers, a model that is one, or what a function without arguments returns."""
    from jaxroof.numerics.arrays import jax
    from workloads.traced.function import is_array

    # A model may be callable and hold arrays itself; a function that holds none is called for its tree.
    if callable(found) and not any(map(is_array, jax.tree.leaves(found))):
        with users_code(f"{flag} {where!r}: calling it fails"):
            found = found()
    leaves = jax.tree.leaves(found)
    if leaves and not any(is_array(leaf) or isinstance(leaf, int | float | complex) for leaf in leaves):
        raise ValueError(f"{flag} {where!r}: a {type(leaves[0]).__name__} is no array, no number and no tree of these")
    return found
