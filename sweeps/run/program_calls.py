"""Calls of functions inside a traced program, which whoever reads the program opens in place."""

from collections.abc import Sequence
from typing import Any

CALLS = frozenset(("jit", "pjit", "closed_call", "custom_jvp_call", "custom_vjp_call", "remat", "checkpoint"))
"""Operations that call a function. Rules of derivatives are dropped, since an opened program is only evaluated."""


def called(equation: Any) -> tuple[Any, Sequence[Any]] | None:
    """The program that an operation calls, and its constants; None of an operation that is no call."""
    if equation.primitive.name not in CALLS:
        return None
    inner = equation.params.get("jaxpr", equation.params.get("call_jaxpr"))
    # A closed jaxpr has its constants with it; an open one has none.
    return getattr(inner, "jaxpr", inner), getattr(inner, "consts", ())
