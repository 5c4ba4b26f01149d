"""Difference of two outputs: words exactly, numbers within a tolerance."""

import re

NUMBER = re.compile(r"(?<![\w.])[+-]?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?(?![\w])")
RULED = re.compile(r"[─━═┄-]{4,}")


def difference(shown: str, made: str, within: float | None) -> str | None:
    """The first line that differs, as both have it; None where none does.

    Args:
      within: share by which numbers may differ; None: by one in the last digit that the page shows.
    """
    pages, todays = ([line for line in map(_plain, text.splitlines()) if line] for text in (shown, made))
    for page, today in zip(pages, todays, strict=False):
        if NUMBER.sub("#", page) != NUMBER.sub("#", today):
            return f"{page!r} is now {today!r}"
        pairs = zip(NUMBER.findall(page), NUMBER.findall(today), strict=True)
        if not all(_near(one, other, within) for one, other in pairs):
            return f"{page!r} is now {today!r}"
    if len(pages) != len(todays):
        return f"{len(pages)} lines are now {len(todays)}"
    return None


def _plain(line: str) -> str:
    """A line without rules and the widths of its columns."""
    return " ".join(RULED.sub("", line).split())


def _near(shown: str, made: str, within: float | None) -> bool:
    one, other = (float(text.replace(",", "")) for text in (shown, made))
    digits = re.sub(r"e.*", "", shown).partition(".")[2]
    exponent = re.search(r"e([+-]?\d+)", shown)
    last = 10.0 ** (int(exponent[1] if exponent else 0) - len(digits))
    allowed = max(1.01 * last, (within or 0.0) * max(abs(one), abs(other)))
    return abs(one - other) <= allowed
