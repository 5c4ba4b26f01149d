"""Names that the explorer offers: those of the command line, the catalogues, and what its page opens with."""

import dataclasses
from collections.abc import Iterable
from typing import Any

import hwspaces
import workloads
from sweeps.ui.state import CONTROLS, DEFAULT, State, case_of, figures, words
from workloads.models.catalogue import matched

NAMED = ("hardware", "model")
"""Controls whose names the command line may give."""


@dataclasses.dataclass(frozen=True)
class Offer:
    """What one run of the explorer may show. A page asks for nothing else, so that it reads no other file."""

    hardware: tuple[str, ...] = ()  # named on the command line, as they are written there
    model: tuple[str, ...] = ()
    start: State = DEFAULT  # of the page without a query

    def named(self, control: str) -> tuple[str, ...]:
        """Names of a control that the command line has; of most controls none."""
        return getattr(self, control) if control in NAMED else ()

    def choices(self, control: str) -> tuple[str, ...]:
        """All names or suggestions of a control, those of the command line first."""
        return tuple(dict.fromkeys((*self.named(control), *CONTROLS[control].choices())))


def offer(hardware: Iterable[str] = (), model: Iterable[str] = ()) -> Offer:
    """The offer of accelerators and models that are named, files among them, beside all of the catalogues.

    The page opens with the first of each, and with fewer devices than usual where they cannot be connected.

    Raises:
      ValueError: as `hwspaces.hardware` and `workloads.model`, for a name that there is not or a file that is wrong.
    """
    named = Offer(tuple(map(_hardware, hardware)), tuple(map(_model, model)))
    first: dict[str, Any] = {name: named.named(name)[0] for name in NAMED if named.named(name)}
    return dataclasses.replace(named, start=_possible(dataclasses.replace(DEFAULT, **first)))


def _hardware(name: str) -> str:
    """The name, checked; that of the list for another spelling of it."""
    found = hwspaces.hardware(_printable(name))
    listed = found.name in hwspaces.names() and hwspaces.hardware(found.name) is found
    return found.name if listed else name


def _model(name: str) -> str:
    """The name, checked; that of the list for another spelling of it."""
    found = workloads.model(_printable(name)).name
    listed = found in workloads.names() and "/" not in name and matched(name) == matched(found)
    return found if listed else name


def _printable(name: str) -> str:
    """The name; bytes that are no text have no place in a URL, and control characters none on a page."""
    if not name.isprintable():
        raise ValueError(f"{name!r} has characters that cannot be printed")
    return name


def _possible(state: State) -> State:
    """The state, or one of fewer devices where it is no deployment that could be and that one is."""
    for tp in (state.tp, state.tp // 2, 1):
        fewer = dataclasses.replace(state, tp=tp)
        try:
            case_of(words(fewer, figures(fewer)))
        except ValueError:
            continue
        return fewer
    # Why no number of devices helps is said on the page, whose controls may mend it.
    return state
