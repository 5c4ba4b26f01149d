"""Priced functions from text: MODULE:FUNCTION with its arguments, or a file of StableHLO."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sweeps.ask.functions import arguments_of, named_object, users_code
from sweeps.studies.price.question import USUAL_POLICY, PricedFunction, from_stablehlo

MODULES = (".mlir", ".mlirbc", ".stablehlo")
"""Endings of files of StableHLO."""


def from_text(
    function: str,
    arguments: Sequence[str] = (),
    fusion: str = USUAL_POLICY,
    sizes: Mapping[str, float] | None = None,
    trips: float | None = None,
    fused_loops: bool = False,
) -> PricedFunction:
    """The question that texts describe.

    Args:
      function: "module:name", or a file that ends as `MODULES` has it, whose arguments have sizes.
      arguments: of the function, as `sweeps.ask.functions.arguments_of` takes them.
      fusion, trips, fused_loops: as of `sweeps.studies.price.question.from_function`.
      sizes: of symbols, at which fusion is decided.

    Raises:
      ValueError: one line, also for what the user's code raises.
    """
    if function.endswith(MODULES):
        if arguments:
            raise ValueError(f"--args {arguments[0]}: a module of StableHLO has the sizes of its arguments")
        return from_stablehlo(function, fusion, trips, fused_loops)
    # Imported late, since it imports JAX, which the error above does not need.
    from workloads.traced.function import traced

    if ":" not in function:
        files = f"a file that ends in {' or '.join(MODULES)}"
        raise ValueError(f"{function!r} must be module:name, such as mymodule:forward, or {files}")
    code = named_object(function, "MODULE:FUNCTION")
    if not callable(code):
        raise ValueError(f"{function} is no function")
    positional, named = arguments_of(code, arguments)

    def called(values: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        # What the user's code raises while it is traced becomes one line that names the function.
        with users_code(f"{function} cannot be traced"):
            return code(*values, **keywords)

    how: dict[str, Any] = {"policy": fusion, "trips": trips, "fused_loops": fused_loops}
    try:
        return PricedFunction(traced(called, positional, named, sizes=sizes, name=function.partition(":")[2], **how))
    except TypeError as error:
        # JAX's messages have many lines; one line of at most 300 characters is told.
        words = " ".join(str(error).split())[:300]
        raise ValueError(f"--args: {words}") from error


def require_sizes(asked: PricedFunction, given: Iterable[str]) -> None:
    """ValueError where a size has no value, or a value no size."""
    # A value that nothing takes is as wrong as a size without a value: it would be ignored silently.
    symbols, named = asked.traced.symbols, list(given)
    for name in named:
        if name not in symbols:
            known = ", ".join(symbols) or "none"
            raise ValueError(f"--over {name}: the arguments have no size {name}; they have {known}")
    missing = [symbol for symbol in symbols if symbol not in named]
    if missing:
        raise ValueError(f"the size {missing[0]} has no value: give --over {missing[0]}=N")
