"""Parts to keep of a sweep, from words such as "top=100:tpot"."""

from collections.abc import Iterable
from typing import Any

from hwspaces.quantities.units import nearest
from jaxroof.jobs import JOBS
from sweeps.ask.names import VARIABLES, variable
from sweeps.ask.spec import integer
from sweeps.data.best import KEY_METRICS, PAIRS
from sweeps.data.keep.best import Front, Top
from sweeps.data.keep.spread import TOLD, Spread

FORMS = {
    "top": "top=N or top=N:METRIC, the N best feasible points",
    "pareto": "pareto or pareto=METRIC:METRIC, the feasible points that no other beats in both",
    "histogram": "histogram, counts of every variable in fixed bins",
    "quantiles": "quantiles, of every variable",
}
"""What can be kept, and how it is written."""


def keepers(words: Iterable[str], plan: Any, job: str) -> list[Any]:
    """Parts of a sweep to keep.

    Args:
      words: as in `FORMS`.
      plan: the sweep; its outputs say what there is.
      job: by which the usual metrics are chosen.

    Raises:
      ValueError: one line, for a word that is not one of the forms, or a metric that there is not.
    """
    found: dict[str, str] = {}
    words = tuple(words)
    if words and JOBS[job].simulated:
        raise ValueError(f"output.keep = {words[0]}: a {job} keeps every point; leave it out")
    for word in words:
        kind, _, rest = word.partition("=")
        if kind not in FORMS:
            raise ValueError(f"output.keep: {word!r} is not known{nearest(kind, FORMS)}")
        if kind in found:
            raise ValueError(f"output.keep: {kind} is given twice")
        if rest and kind in TOLD:
            raise ValueError(f"output.keep: {word!r} must be {FORMS[kind]}")
        found[kind] = rest
    told = tuple(kind for kind in TOLD if kind in found)
    kept = [make(found[kind], plan, job) for kind, make in (("top", _top), ("pareto", _front)) if kind in found]
    return kept + ([Spread(told, plan)] if told else [])


def _top(rest: str, plan: Any, job: str) -> Top:
    count, _, metric = rest.partition(":")
    if not count.isdigit():
        raise ValueError(f"output.keep: 'top={rest}' must be {FORMS['top']}")
    number = integer(int(count), "output.keep: top", 1)
    if metric:
        return Top(number, _metric(metric, plan), plan)
    usual = [name for name in KEY_METRICS.get(job, ()) if name in plan.outputs]
    if not usual:
        raise ValueError(f"output.keep: 'top={rest}' needs a metric: top={rest}:METRIC")
    return Top(number, usual[0], plan)


def _front(rest: str, plan: Any, job: str) -> Front:
    if rest:
        pair = rest.split(":")
        if len(pair) != 2 or pair[0] == pair[1]:
            raise ValueError(f"output.keep: 'pareto={rest}' must be {FORMS['pareto']}")
        return Front((_metric(pair[0], plan), _metric(pair[1], plan)), plan)
    for first, second in PAIRS:
        if first in plan.outputs and second in plan.outputs:
            return Front((first, second), plan)
    raise ValueError("output.keep: 'pareto' needs its metrics here: pareto=METRIC:METRIC")


def _metric(name: str, plan: Any) -> str:
    if name not in plan.outputs:
        raise ValueError(f"output.keep: there is no variable {name} here{nearest(name, plan.outputs)}")
    if name not in VARIABLES or variable(name).higher_is_better is None:
        better = [name for name in plan.outputs if name in VARIABLES and variable(name).higher_is_better is not None]
        raise ValueError(f"output.keep: {name} is neither better high nor low{nearest(name, better)}")
    return name
