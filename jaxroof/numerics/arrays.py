"""The array namespace `jnp` of the cost model: JAX's where JAX is tracing, NumPy's elsewhere.

A formula is written once. Inside `jax.jit`, `jax.vmap` and `jax.grad` it is traced; called with numbers, or with
columns of them that broadcast against each other, it runs on NumPy at once, and JAX need not even be imported. Inside
`eager` it runs on NumPy whatever JAX is doing.
"""

import contextlib
import contextvars
import functools
import importlib
import sys
import threading
import types
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxroof.numerics.tree import mapped

if TYPE_CHECKING:
    import jax as jax
    import jax.numpy

    jax_numpy = jax.numpy
    jnp = jax.numpy

_AWAITING_JAX: list[Callable[[], Any]] = []
_IMPORTED_ONCE, _importing = threading.RLock(), False


def with_jax(action: Callable[[], Any]) -> None:
    """Do something with JAX: at once where it is imported, else in `import_jax`."""
    if "jax" in sys.modules:
        action()
    else:
        _AWAITING_JAX.append(action)


def import_jax() -> None:
    """Import JAX, and do what waits for it: structs become pytrees. Nothing where that is done.

    It is called by the public names of the packages, by `jax` and `jax_numpy` of this module, and by structs that are
    made when JAX is there: all code of the packages takes JAX from here.
    """
    global _importing
    if not _AWAITING_JAX and "jax" in sys.modules:
        return
    with _IMPORTED_ONCE:
        # An action that uses JAX itself comes by here again; other threads wait at the lock.
        if _importing:
            return
        _importing = True
        try:
            importlib.import_module("jax")
            for action in _AWAITING_JAX:
                action()
            _AWAITING_JAX.clear()
        finally:
            _importing = False


_NEVER_TRACED: contextvars.ContextVar[bool] = contextvars.ContextVar("never_traced", default=False)


@contextlib.contextmanager
def eager() -> Iterator[None]:
    """A context in which `jnp` is NumPy's, even while JAX is tracing; divisions by zero are infinite and silent.

    Other threads are not affected.
    """
    token = _NEVER_TRACED.set(True)
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        _NEVER_TRACED.reset(token)


def jax_setting(name: str) -> Any:
    """Value of one of JAX's settings, "jax_enable_x64": its releases differ in whether type checkers know these."""
    import_jax()
    return getattr(sys.modules["jax"].config, name)


def is_traced() -> bool:
    """Whether JAX is tracing here, so that numbers may stand for many."""
    # Asking whether JAX traces must not import it.
    if _NEVER_TRACED.get() or "jax" not in sys.modules:
        return False
    state, outside = _trace_states()
    return state() != outside


@functools.cache
def _trace_states() -> tuple[Callable[[], Any], Any]:
    """What says in which trace of JAX a thread is, and its answer where there is none."""
    import_jax()
    state = importlib.import_module("jax.extend.core").get_opaque_trace_state
    # The first question may be asked inside a trace: JAX's own context for computing at once leaves it.
    with importlib.import_module("jax.core").eval_context():
        return state, state()


def _where(condition: Any, one: Any, other: Any) -> Any:
    """`numpy.where`, without arrays where the condition is one truth value of plain numbers."""
    # Plain numbers stay plain: Python computes with them faster than with arrays of shape ().
    if type(condition) in _TRUTH and type(one) in _PLAIN and type(other) in _PLAIN:
        return one if condition else other
    return np.where(condition, one, other)


_TRUTH, _PLAIN = (bool, np.bool_), (float, int, np.float64)
_NUMBERS = (float, int, bool)


def _asarray(value: Any, dtype: Any = None) -> Any:
    """`numpy.asarray`, but for what stands for an array: marked numbers."""
    return (
        value
        if hasattr(value, "__array_ufunc__") and not isinstance(value, np.ndarray | np.generic)
        else np.asarray(value, dtype)
    )


_NUMPY = types.SimpleNamespace(**{key: value for key, value in vars(np).items() if not key.startswith("_")})
_NUMPY.where, _NUMPY.asarray = _where, _asarray


class Carrying(np.lib.mixins.NDArrayOperatorsMixin):
    """A number that carries something through every formula on NumPy: `value`, and what a subclass adds."""

    value: Any

    def __bool__(self) -> bool:
        raise TypeError("a formula may not ask for the value of a number: use jnp.where")

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the number."""
        return np.shape(self.value)

    @property
    def ndim(self) -> int:
        """Of the number."""
        return np.ndim(self.value)

    @property
    def dtype(self) -> np.dtype:
        """Of the number."""
        return np.asarray(self.value).dtype

    def entries(self, table: Any) -> Any:
        """Entries of `table` at these positions, which are whole numbers."""
        return np.take(table, self.value)


class _Module:
    """JAX or a part of it, imported when one of its names is used."""

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, name: str) -> Any:
        import_jax()
        value = getattr(importlib.import_module(self._name), name)
        # The attribute replaces this lookup from then on.
        setattr(self, name, value)
        return value


_FOLDED = frozenset(
    ("maximum", "minimum", "where", "ceil", "floor", "sqrt", "exp", "log", "log2", "log1p", "expm1", "clip", "abs")
)
"""Functions that are worked out at once in a trace, too, where all their arguments are plain numbers."""


@functools.cache
def _folding(name: str) -> Callable[..., Any]:
    """The function of JAX, but for plain numbers, of which it makes a plain number and no part of the program."""
    traced, at_once = getattr(jax_numpy, name), getattr(_NUMPY, name)

    def function(*arguments: Any) -> Any:
        if all(type(one) in _NUMBERS for one in arguments):
            with np.errstate(all="ignore"):
                return np.asarray(at_once(*arguments)).item()
        return traced(*arguments)

    return function


class _Namespace:
    """Names of `jax.numpy` or of NumPy, whichever the caller is in."""

    def __getattr__(self, name: str) -> Any:
        if not is_traced():
            return getattr(_NUMPY, name)
        return _folding(name) if name in _FOLDED else getattr(jax_numpy, name)


if not TYPE_CHECKING:
    jax, jax_numpy = _Module("jax"), _Module("jax.numpy")
    jnp = _Namespace()


_STRAIGHT: contextvars.ContextVar[Collection[Any]] = contextvars.ContextVar("straight", default=())


@contextlib.contextmanager
def straight(functions: Collection[Any]) -> Iterator[None]:
    """A context in which some `sloped` functions are straight lines when NumPy calls them with columns.

    Each then has the value that its rule predicts from the first entries of its arguments.
    """
    token = _STRAIGHT.set(functions)
    try:
        yield
    finally:
        _STRAIGHT.reset(token)


def sloped(function: Callable[..., Any]) -> Any:
    """`jax.custom_jvp` of a function whose first argument is a constant; outside of traces the function itself.

    The rule is given as to `jax.custom_jvp`: `@function.defjvp`.
    """
    return _Sloped(function)


class _Sloped:
    def __init__(self, function: Callable[..., Any]):
        self._function = function

    # A custom rule instead of JAX's own derivative: kinks get the slope of a smooth function while values stay exact.
    def defjvp(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Give the rule."""
        self._rule = rule
        return rule

    @functools.cached_property
    def _traced(self) -> Callable[..., Any]:
        traced = jax.custom_jvp(self._function, nondiff_argnums=(0,))
        traced.defjvp(self._rule)
        return traced

    def __call__(self, *arguments: Any) -> Any:
        if is_traced():
            return self._traced(*arguments)
        constant, *others = arguments
        for one in others[0] if isinstance(others[0], tuple) else others:
            # Dual numbers bring their tangents along: the same rule gives their derivatives.
            if hasattr(type(one), "follow"):  # `jaxroof.numerics.derivatives.Dual`, whose derivatives follow the rule
                return one.follow(self._rule, constant, tuple(others))
        return self._straight(*arguments) if self in _STRAIGHT.get() else self._function(*arguments)

    def _straight(self, constant: Any, *arguments: Any) -> Any:
        # A line through the first entry: value and slope at one point, applied to all differences.
        first = mapped(lambda column: column[0] if np.ndim(column) else column, arguments)
        with straight(()):  # the rule takes the value from the function itself
            value, change = self._rule(constant, first, mapped(np.subtract, arguments, first))
        return value + change


def jitted(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """`jax.jit` of a function with these options, made when it is first called."""
    # Decorating must not import JAX: the jitted function is made at its first call.
    compiled = functools.cache(lambda: jax.jit(function, **options))
    return functools.wraps(function)(lambda *arguments, **named: compiled()(*arguments, **named))


def rsqrt(number: Any) -> Any:
    """1 / the square root of `number`."""
    return jax.lax.rsqrt(number) if is_traced() else 1.0 / np.sqrt(number)


def stacked(numbers: Sequence[Any], axis: int = -1) -> Any:
    """Numbers, or columns of them, along a new axis: the last or the first."""
    return jnp.stack(jnp.broadcast_arrays(*map(jnp.asarray, numbers)), axis=axis)


def taken(table: Any, index: Any) -> Any:
    """Entries of `table`, shape [entries], at positions that are in it."""
    # Positions are known to be inside, so that XLA need not clamp or fill.
    if is_traced():
        return table.at[index].get(mode="promise_in_bounds")
    # NumPy does not ask an index how it is used.
    return index.entries(table) if isinstance(index, Carrying) else np.take(table, index)


def entry(values: Any, *index: Any) -> Any:
    """The entry of an array at an index that is in it; whether it counts from the end need not be asked."""
    if not is_traced():
        return values[index]
    return jax_numpy.asarray(values).at[index].get(mode="promise_in_bounds", wrap_negative_indices=False)


def at_hand(tree: Any) -> Any:
    """A tree with arrays of NumPy where `jnp` is NumPy's; inside a trace the tree itself."""
    return tree if is_traced() else mapped(np.asarray, tree)


def constant(tree: Any) -> Any:
    """The same numbers without a derivative: `jax.lax.stop_gradient` of every leaf."""
    return mapped(jax.lax.stop_gradient, tree) if is_traced() else tree


def largest_so_far(values: Any) -> Any:
    """At every place the largest of the values up to there, shape [n]."""
    return jax.lax.cummax(values) if is_traced() else np.maximum.accumulate(values)


def smallest_from_here(values: Any) -> Any:
    """At every place the smallest of the values from there on, shape [n]."""
    return jax.lax.cummin(values, reverse=True) if is_traced() else np.minimum.accumulate(values[::-1])[::-1]


def scattered(how: str, start: Any, index: Any, values: Any) -> Any:
    """`start` with the values that belong to a place combined with what is there: "add", "min" or "max".

    Args:
      start: shape [n].
      index: places of the values, not below 0; those from n on are dropped.
      values: of the shape of `index`.
    """
    if is_traced():
        return getattr(start.at[index], how)(values, mode="drop")
    found, inside = start.copy(), index < len(start)
    {"add": np.add, "min": np.minimum, "max": np.maximum}[how].at(found, index[inside], values[inside])
    return found


def bits(values: Any, dtype: Any) -> Any:
    """The same bits as numbers of another type of their size: `jax.lax.bitcast_convert_type`."""
    return jax.lax.bitcast_convert_type(values, dtype) if is_traced() else np.asarray(values).view(dtype)


def repeated(step: Callable[[int, Any], Any], number: int, start: Any) -> Any:
    """`jax.lax.fori_loop` from 0 on; outside of traces a loop of Python."""
    if is_traced():
        return jax.lax.fori_loop(0, number, step, start)
    for place in range(number):
        start = step(place, start)
    return start


def scanned(step: Callable[[Any, Any], tuple[Any, Any]], start: Any, each: Any) -> tuple[Any, Any]:
    """`jax.lax.scan` over an array; outside of traces each of its results is a list, whose entries may be columns."""
    # The same step on NumPy, where a loop of Python is fast enough.
    if is_traced():
        return jax.lax.scan(step, start, each)
    state, found = start, []
    for one in each:
        state, result = step(state, one)
        found.append(result)
    return state, tuple(map(list, zip(*found, strict=True)))
