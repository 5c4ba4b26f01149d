"""State of the explorer as the query of a URL."""

import math
from typing import Any
from urllib.parse import parse_qsl, urlencode

from hwspaces.quantities.units import nearest
from sweeps.ui.offer import Offer
from sweeps.ui.state import CONTROLS, DEFAULT, FACTOR, MOST, State
from workloads.models.entry import config_path

LONGEST = 120
"""Characters of known names that an error lists."""

ALWAYS = ("hardware", "model", "tp")
"""Fields that a query always has: a page may open with others, and a link means the same on all of them."""


def state_of(query: str, offer: Offer) -> State:
    """The state that the query of a URL says; what it does not name is as the page opens.

    Raises:
      ValueError: one line that names the key, its value and what is allowed: of names, those that are offered.
    """
    values: dict[str, Any] = {}
    for key, text in parse_qsl(query.removeprefix("?"), keep_blank_values=True):
        if key not in CONTROLS:
            raise ValueError(f"{key!r} is not a control{nearest(key, CONTROLS)}")
        if key in values:
            raise ValueError(f"{key} is given twice")
        values[key] = _value(key, text.strip(), offer)
    return State(**{name: getattr(offer.start, name) for name in ALWAYS} | values)


def _value(key: str, text: str, offer: Offer) -> Any:
    """The value that a text gives a field."""
    control, default = CONTROLS[key], getattr(DEFAULT, key)
    if control.kind == "count":
        if not text and default is None:
            return None
        if not (text.isascii() and text.isdigit() and len(text) <= 10 and 1 <= int(text) <= MOST):
            raise ValueError(f"{key} = {text!r} must be a whole number from 1 to {MOST:,}")
        return int(text)
    if control.kind == "factor":
        try:
            factor = float(text)
        except ValueError:
            factor = math.nan
        if not 1 / FACTOR <= factor <= FACTOR:
            raise ValueError(f"{key} = {text!r} must be a number from {1 / FACTOR:g} to {FACTOR:g}")
        return factor
    # Suggestions of a text are not all that is allowed: the case refuses what it does not know.
    if control.kind == "name" and text not in (choices := offer.choices(key)):
        near = nearest(text, choices)
        raise ValueError(f"{key} = {text!r} is not in the list{near if len(near) < LONGEST else ''}")
    # A file in this folder takes the place of a model of its name: it is read where the command line names it too.
    if key == "model" and text not in offer.model and config_path(text) is not None:
        raise ValueError(f"model = {text!r} is a file in this folder: jaxroof ui --model {text} shows it")
    return text


def query_of(state: State) -> str:
    """The query of a URL that gives the state again, on every explorer that offers its names."""
    fields = {name: getattr(state, name) for name in CONTROLS}
    changed = {name: value for name, value in fields.items() if name in ALWAYS or value != getattr(DEFAULT, name)}
    return urlencode(changed)
