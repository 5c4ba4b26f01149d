"""Pairs of a name and a value in texts such as token_budget=2048, of which a flag may be given several."""

from collections.abc import Iterable, Iterator


def pairs(where: str, texts: Iterable[str], form: str, example: str) -> Iterator[tuple[str, str, str]]:
    """Name and value of every text, and the text itself.

    Args:
      where: what the message of an error begins with: the flag, or the argument.
      form: of a text, NAME=VALUE or PATH=VALUE, and an `example` of it; for errors.

    Raises:
      ValueError: one line, for a text of another form, or a name that is given twice.
    """
    values: dict[str, str] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals and value):
            raise ValueError(f"{where} {text!r} must be {form}, such as {example}")
        if name in values:
            raise ValueError(f"{where} {name} is given twice: {values[name]} and {value}")
        values[name] = value
        yield name, value, text
