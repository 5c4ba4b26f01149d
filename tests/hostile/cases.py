"""All hostile files."""

from collections.abc import Iterator

from tests.hostile import results, texts
from tests.hostile.case import Case


def cases() -> Iterator[Case]:
    """One after the other."""
    yield from texts.cases()
    yield from results.cases()
