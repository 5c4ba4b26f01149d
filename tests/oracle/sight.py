"""Number of tokens that a query sees: under windows, chunks and selections, one way or both."""

from typing import NamedTuple

import numpy as np


class View(NamedTuple):
    """What limits a query: `limit` tokens of a window ("sliding", "chunked") or of a selection ("selected")."""

    limit: float | None = None
    kind: str | None = None
    causal: bool = True


def view(mixer) -> View:
    """What limits the queries of a layer."""
    if getattr(mixer, "selection", None) is not None:
        return View(mixer.selection.tokens, "selected")
    if not hasattr(mixer, "window_kind"):
        return View()
    return View(mixer.window, mixer.window_kind, mixer.causal)


def per_sequence(total, sequences):
    return total / np.where(np.asarray(sequences) > 0.0, sequences, 1.0)


def up_to(n):
    """1 + 2 + ... + n."""
    return n * (n + 1.0) / 2.0


def seen_pairs(new, past, seen: View):
    """Query-key pairs when `new` tokens follow `past` ones: the sum over new tokens of the tokens that each sees."""
    if not seen.causal:
        if seen.kind is None:
            return new * new
        return new * np.minimum(new, 2.0 * seen.limit + 1.0 if seen.kind == "sliding" else seen.limit)
    if seen.kind is None:
        return new * past + up_to(new)
    if seen.kind == "chunked":
        offset = past % seen.limit
        first = np.minimum(new, seen.limit - offset)  # tokens that complete the chunk that is open
        whole, last = np.divmod(new - first, seen.limit)
        return first * offset + up_to(first) + whole * up_to(seen.limit) + up_to(last)
    growing = np.clip(seen.limit - past, 0.0, new)  # tokens that do not yet have more before them than they see
    return growing * past + up_to(growing) + (new - growing) * seen.limit


def in_reach(position, seen: View):
    """Tokens before `position` (counted from 0) that the token there may see or choose from."""
    if seen.kind == "sliding":
        return np.minimum(position, seen.limit - 1.0)
    return position % seen.limit if seen.kind == "chunked" else position


def seen_by_newest(context, sequences, seen: View):
    """Tokens that the newest tokens of `sequences` sequences see, together."""
    if seen.kind is None:
        return context
    length = np.maximum(per_sequence(context, sequences), 1.0)
    if seen.kind == "selected":
        return sequences * np.minimum(length, seen.limit)
    return sequences * (in_reach(length - 1.0, seen) + 1.0)
