"""Records for programs: what JSON has, a number that does not exist as None."""

from typing import Any


def finite(value: Any) -> Any:
    """A record whose NaN and infinities are None and whose tuples are lists, wherever they are: as JSON has it."""
    if isinstance(value, dict):
        return {key: finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [finite(each) for each in value]
    return None if isinstance(value, float) and value - value != 0.0 else value
