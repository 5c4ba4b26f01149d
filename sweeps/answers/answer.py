"""An answer as blocks, lines of text and tables in their order, which a renderer shows."""

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple, Protocol, runtime_checkable


class Column(NamedTuple):
    """One column of a table."""

    title: str
    number: bool = False  # right-aligned, on one line
    whole: bool = False  # on one line
    rank: int = 0  # where the table is too wide, columns of the highest rank are left out first


class Row(NamedTuple):
    """One row of a table: a cell for every column."""

    cells: tuple[str, ...]
    bold: bool = False


@dataclasses.dataclass
class Table:
    """A table: sections of rows, with a line between them."""

    columns: list[Column]
    sections: list[list[Row]] = dataclasses.field(default_factory=lambda: [[]])

    @property
    def rows(self) -> list[Row]:
        """All rows, of every section."""
        return [row for section in self.sections for row in section]

    def add_row(self, *cells: str, style: str = "") -> None:
        """One row more, in bold where `style` says so."""
        self.sections[-1].append(Row(cells, style == "bold"))

    def add_section(self) -> None:
        """A line below the rows so far."""
        self.sections.append([])


class Text(NamedTuple):
    """Lines of text, and what ends them; a line may say before its text what it is, such as "note"."""

    text: str
    end: str = "\n"
    label: str = ""

    @property
    def line(self) -> str:
        """The text as it is shown; labels have one width, so that the texts of an answer align."""
        return f"{self.label:7} {self.text}" if self.label else self.text


Block = Text | Table


class Renderer(Protocol):
    """Shows the blocks of an answer as they come."""

    def show(self, block: Block) -> None:
        """Show one block more."""


@runtime_checkable
class ShortRenderer(Renderer, Protocol):
    """Shows the short form of an answer in place of its blocks, where the answer has one."""

    def take(self, brief: Any) -> None:
        """Take the short form, a `Brief`."""


# A context variable: answers that other threads or tasks print do not reach the renderer of this one.
_SCREEN: ContextVar[Renderer | None] = ContextVar("screen", default=None)


@contextmanager
def instead(screen: Renderer) -> Iterator[None]:
    """A context in which answers are shown by this renderer in place of the screen."""
    token = _SCREEN.set(screen)
    try:
        yield
    finally:
        _SCREEN.reset(token)


class Answer:
    """What a question returns, block by block.

    Args:
      screen: shows every block at once, unless another renderer stands in its place.
    """

    def __init__(self, screen: Renderer):
        # Taken at construction: a context that opens later does not see an answer that has begun.
        self._screen = _SCREEN.get() or screen

    def print(self, value: Any = "", end: str = "\n") -> None:
        """A table, or lines of text."""
        block = value if isinstance(value, Text | Table) else Text(str(value), end)
        self._screen.show(block)

    def short(self, make: Callable[[], Any]) -> bool:
        """Hand the short form to a screen that shows it, and say whether it does.

        Args:
          make: makes the short form, a `Brief`; it is called only where a screen shows it.
        """
        if not isinstance(self._screen, ShortRenderer):
            return False
        self._screen.take(make())
        return True


def say(text: Any = "", end: str = "\n") -> None:
    """Print lines of text as they are."""
    # Not through the screen's renderer, which wraps lines at the terminal's width and escapes characters.
    print(text, end=end)
