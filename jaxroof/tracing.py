"""Functions of ops in JAX's traces: a kind of ops is traced once, and all ops of a kind are one array."""

import contextlib
import contextvars
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from jaxroof.numerics.arrays import is_traced, jax, jitted, jnp
from jaxroof.numerics.struct import Scalar
from jaxroof.op import AnyOp, Ops, unlabelled

Name = TypeVar("Name")


_FOUND: contextvars.ContextVar[dict[Any, Any] | None] = contextvars.ContextVar("found of ops", default=None)


@contextlib.contextmanager
def remembering() -> Iterator[None]:
    """A context in which `remembered` functions are computed once for equal ops, on NumPy: for a single answer."""
    token = _FOUND.set({})
    try:
        yield
    finally:
        _FOUND.reset(token)


def remembered(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which inside of `remembering` returns what it has returned for an op with the same numbers.

    Time, bound and errors of an op all ask for its timing, and layers that do the same have equal ops.

    Args:
      function: of an op, and of structs that are the same objects for all ops.
    """

    @functools.wraps(function)
    def once(op: AnyOp, *where: Any) -> Any:
        found = _FOUND.get()
        if found is None or is_traced():
            return function(op, *where)
        key = function, _first_equal(op, found), *map(id, where)
        if key not in found:
            # The structs are kept beside the result, so that no other object takes their identities.
            found[key] = function(op, *where), where
        return found[key][0]

    return once


def _first_equal(op: AnyOp, found: dict[Any, Any]) -> int:
    """Identity of the first op with the numbers of `op`; of `op` itself where one of them is a column."""
    # Numbers are compared once for every op, whichever functions ask for it.
    if id(op) not in found:
        own = unlabelled(op)
        try:
            first = found.setdefault(own, own)
        except TypeError:  # columns have no hash
            first = op
        found[id(op)] = first, op
    return id(found[id(op)][0])


def traced_once(function: Callable[..., Any]) -> Callable[..., Any]:
    """`jax.jit` of a function whose first argument is an op.

    A step has many ops of few kinds. Some of their numbers are constants, which JAX types weakly, and which ones these
    are differs within a kind; what an op is in its model (its layer, its role) differs too. With one type for all
    numbers, and without these labels, ops of a kind share a trace and a compiled function.
    """
    # The jitted function is made once, here: made at each call, its cache of compiled functions would be lost.
    compiled = jitted(function)

    @functools.wraps(function)
    def of_one_type(op: AnyOp, *where: Any, **named: Any) -> Any:
        # Outside of a trace there is nothing to compile: NumPy and plain floats run the function as it is written.
        if not is_traced():
            return function(op, *where, **named)
        return compiled(_of_one_type(unlabelled(op)), *where, **named)

    return of_one_type


def of_each(function: Callable[..., Any], ops: Mapping[Name, AnyOp], *where: Any) -> dict[Name, Any]:
    """`function(op, *where)` of every op, by name, shapes ().

    In a trace, ops of a kind are one array along which the function is mapped: a step's program is as long as it has
    kinds of ops, not ops. Elsewhere, and inside `apart`, one after the other.

    Args:
      function: of one op and `where`, as `traced_once` makes it; a tree of numbers, shapes ().
      ops: by name.
      where: trees of numbers that are the same for all ops.
    """
    if not is_traced() or _APART.get():
        return {name: function(op, *where) for name, op in ops.items()}
    found: dict[Name, Any] = {}
    for structure, members in _kinds(ops).items():
        if _single(members):
            found |= {name: function(ops[name], *where) for name in members}
        else:
            results = _mapped(function, structure, list(members.values()), where)
            found |= {name: _at(results, place) for place, name in enumerate(members)}
    return {name: found[name] for name in ops}


def over_runs(function: Callable[..., Any], ops: Mapping[Name, AnyOp], *where: Any) -> dict[Name, Any]:
    """`of_each` of numbers of one run, over all runs of every op."""
    return {name: ops[name].count * once for name, once in of_each(function, ops, *where).items()}


def totals(function: Callable[..., Any], steps: Sequence[Ops], *where: Any) -> list[Scalar]:
    """Sum over the ops of each step of `op.count * function(op, *where)`, shapes ().

    In a trace, ops of a kind are one array, whichever step they are of.

    Args:
      function: as in `of_each`, of one number.
    """
    if not is_traced() or _APART.get():
        return [sum((op.count * function(op, *where) for op in ops.values()), start=0.0) for ops in steps]
    together: dict[tuple[int, str], AnyOp] = {
        (number, name): op for number, ops in enumerate(steps) for name, op in ops.items()
    }
    found: list[Scalar] = [0.0] * len(steps)
    for structure, members in _kinds(together).items():
        if _single(members):
            for number, name in members:
                op = together[number, name]
                found[number] += op.count * function(op, *where)
            continue
        counts = [together[name].count for name in members]
        of_step = [number for number, _ in members]
        once = _mapped(function, structure, list(members.values()), where)
        all_runs = _column(counts, once.dtype) * once
        for number in dict.fromkeys(of_step):
            # Ops of one step stand side by side.
            first = of_step.index(number)
            found[number] += jnp.sum(all_runs[first : first + of_step.count(number)])
    return found


def _kinds(ops: Mapping[Name, AnyOp]) -> dict[Any, dict[Name, list[Any]]]:
    """The numbers of every op by its structure, whatever the ops are called and are for, and by its name."""
    kinds: dict[Any, dict[Name, list[Any]]] = {}
    for name, op in ops.items():
        numbers, structure = jax.tree.flatten(unlabelled(op))
        kinds.setdefault(structure, {})[name] = numbers
    return kinds


_APART: contextvars.ContextVar[bool] = contextvars.ContextVar("ops apart", default=False)


@contextlib.contextmanager
def apart() -> Iterator[None]:
    """A context in which `of_each` takes ops one after the other in traces too: each depends on its own numbers alone.

    For programs that map every op over the axes that it depends on.
    """
    token = _APART.set(True)
    try:
        yield
    finally:
        _APART.reset(token)


def _single(members: Mapping[Name, list[Any]]) -> bool:
    """Whether ops of a kind are taken one by one: a single one, and those of which a number is a column."""
    return len(members) == 1 or any(np.ndim(number) for numbers in members.values() for number in numbers)


def _mapped(function: Callable[..., Any], structure: Any, members: list[list[Any]], where: tuple[Any, ...]) -> Any:
    """Results of a function of several ops of one structure, shapes [ops].

    Args:
      members: numbers of each op.
    """
    # All numbers get one type, as `traced_once` gives those of one op.
    typed = [leaf for leaf in jax.tree.leaves((members, where)) if not _weakly_typed(leaf)]
    dtype = jnp.result_type(*typed) if typed else float
    columns = [_column(column, dtype) for column in zip(*members, strict=True)]
    if not any(map(np.ndim, columns)):  # all of them are the same op
        columns[0] = jnp.broadcast_to(columns[0], len(members))
    along = tuple(0 if np.ndim(column) else None for column in columns)
    return _along_ops(function, structure, along)(columns, where)


def _column(numbers: Sequence[Any], dtype: Any) -> Any:
    """Numbers as an array, shape [numbers]; as one number, shape (), where all are the same."""
    if any(isinstance(one, jax.core.Tracer) for one in numbers):
        if all(one is numbers[0] for one in numbers):
            return jnp.asarray(numbers[0], dtype)
        return jnp.stack([jnp.asarray(one, dtype) for one in numbers])
    # Constants are an array at once, without an operation in the trace.
    column = np.asarray(numbers, dtype)
    return column[0] if (column == column[0]).all() else column


@functools.lru_cache(maxsize=1024)
def _along_ops(function: Callable[..., Any], structure: Any, along: tuple[int | None, ...]) -> Callable[..., Any]:
    """The function of columns of numbers, mapped along ops."""

    def of_one(numbers: list[Any], where: tuple[Any, ...]) -> Any:
        return function(jax.tree.unflatten(structure, numbers), *where)

    return jax.jit(jax.vmap(of_one, in_axes=(list(along), None)))


def _at(results: Any, place: int) -> Any:
    """The numbers of one op."""
    return jax.tree.map(lambda column: jax.lax.index_in_dim(column, place, keepdims=False), results)


def _of_one_type(op: AnyOp) -> AnyOp:
    typed = [leaf for leaf in jax.tree.leaves(op) if not _weakly_typed(leaf)]
    if not typed:
        return op
    # Weakly typed leaves take the dtype of the others, as JAX's promotion would give: a constant then shares their
    # trace.
    dtype = jnp.result_type(*typed)
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype) if _weakly_typed(leaf) else leaf, op)


def _weakly_typed(leaf: Any) -> bool:
    return jax.typeof(leaf).weak_type
