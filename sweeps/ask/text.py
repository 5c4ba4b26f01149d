"""Text and records that leave the program: control characters as escapes, and numbers that JSON lacks as None."""

TYPE_CHECKING = False  # of `typing`, whose import would take longer than this one

if TYPE_CHECKING:
    from typing import Any

_NAMES = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}

_RANGES = (
    (0x00, 0x1F),  # C0, with ESC
    (0x7F, 0x9F),  # DEL and C1
    (0x061C, 0x061C),  # marks and overrides of the direction of writing, and characters without width
    (0x200B, 0x200F),
    (0x2028, 0x202E),  # with the separators of lines and paragraphs
    (0x2060, 0x206F),
    (0xFEFF, 0xFEFF),
    (0xE0000, 0xE007F),  # tags
)


def _escape(code: int) -> str:
    if chr(code) in _NAMES:
        return _NAMES[chr(code)]
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


# Translation tables from code points to escapes: of single values, and of text that keeps its line breaks.
_VALUE = {code: _escape(code) for low, high in _RANGES for code in range(low, high + 1)}
_TEXT = {code: words for code, words in _VALUE.items() if code != ord("\n")}


def escaped(text: str, breaks: bool = False) -> str:
    r"""Text in which control characters are escapes such as \x1b, that a terminal shows and does not obey.

    Args:
      text: of any origin.
      breaks: escape line breaks too: for one value, which is no place for them.
    """
    return text if text.isascii() and text.isprintable() else text.translate(_VALUE if breaks else _TEXT)


def finite(value: "Any") -> "Any":
    """A record whose NaN and infinities are None and whose tuples are lists, wherever they are: as JSON has it."""
    if isinstance(value, dict):
        return {key: finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [finite(each) for each in value]
    # NaN and infinities are the floats whose difference from themselves is not 0.
    return None if isinstance(value, float) and value - value != 0.0 else value


def rate_text(rate: float) -> str:
    """A rate of points as "2.6 million"."""
    return f"{rate / 1e6:.3g} million" if rate >= 1e6 else f"{rate:,.0f}"
