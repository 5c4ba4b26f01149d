"""Text of several optima, one for every value of the conditions of a design problem."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sweeps.answers.answer import say
from sweeps.answers.optimize import printed
from sweeps.answers.to_json import print_json
from sweeps.data.conditions import said
from sweeps.studies.optimize.optimum import Optimum
from sweeps.studies.optimize.result import record
from sweeps.studies.optimize.search import NONE_KEPT


def printed_each(
    asked: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]],
    searched: Callable[[Mapping[str, Any]], tuple[Optimum, float]],
    as_json: bool,
) -> None:
    """Print the optimum of every specification as it is found; of one that has none, the line that says so.

    Args:
      asked: values of the conditions by name, and the specification.
      searched: the optimum of a specification, and the seconds that it took.
      as_json: one array at the end, in place of text.

    Raises:
      ValueError: one line: a specification is wrong.
    """
    records: list[dict[str, Any]] = []
    if not as_json:
        say(said(tuple(asked[0][0])))
    for values, own in asked:
        if not as_json:
            say(f"\n{', '.join(f'{name} {value}' for name, value in values.items())}")
        try:
            result, seconds = searched(own)
        except ValueError as error:
            # Where one of them has no design, the others may have.
            if not str(error).startswith(NONE_KEPT):
                raise
            records.append({"conditions": dict(values), "designs": [], "error": str(error)})
            if not as_json:
                say(str(error))
            continue
        records.append({"conditions": dict(values), **record(result)})
        if not as_json:
            printed(result, seconds)
    if as_json:
        print_json(records)
