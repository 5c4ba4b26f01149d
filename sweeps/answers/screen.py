"""Answers on the screen: text and tables as wide as the terminal, or plain lines where there is none."""

import io
import sys
from collections.abc import Iterable
from typing import Any

from rich import box
from rich.console import Console
from rich.segment import Segment
from rich.table import Table as Drawn

from sweeps.answers.answer import Block, Table
from sweeps.answers.brief import narrowed
from sweeps.ask.text import escaped

PIPE_WIDTH = 1000
"""Columns where stdout is no terminal: every row stays one line, for grep and cut."""


class _Console(Console):
    """A console that shows control characters of texts as escapes; the styles of its own are no text."""

    def render(self, *words: Any, **names: Any) -> Iterable[Segment]:
        for segment in super().render(*words, **names):
            # Segments of control are rich's own, such as movements of the cursor; they are no text.
            yield segment if segment.control else segment._replace(text=escaped(segment.text))


def console(error: bool = False) -> Console:
    """Console of text: as wide as the terminal; without one, plain text as wide as it needs.

    Texts are printed as they are: brackets are no markup, and control characters are escapes.

    Args:
      error: for bars and notes, on the stream of errors.
    """
    stream = sys.stderr if error else sys.stdout
    # With None rich asks the terminal for its width, which a pipe does not have.
    width = None if stream.isatty() else PIPE_WIDTH
    # The command's stream escapes control characters, rich's styles among them; its `styled` form does not.
    stream = getattr(stream, "styled", stream)
    return _Console(file=stream, width=width, markup=False, highlight=False, emoji=False)


class Screen:
    """Prints every block as it comes.

    Args:
      most: columns at most; cells that are longer are cut. None: as wide as the terminal, and nothing is cut.
      of: the console; None: that of the terminal.
    """

    def __init__(self, most: int | None = None, of: Console | None = None) -> None:
        self._console, self._cut = of or console(), most is not None
        if most is not None:
            self._console.width = min(self._console.width, most)

    @property
    def width(self) -> int:
        """Columns."""
        return self._console.width

    def show(self, block: Block) -> None:
        """Print one block; of a table the columns that find room."""
        if isinstance(block, Table):
            shown = narrowed(block, self._console.width, self._cut)
            self._console.print(_drawn(shown))
            lost = [column.title.replace("\n", " ") for column in block.columns if column not in shown.columns]
            if lost and not self._cut:
                self._console.print(f"columns for which the terminal is too narrow: {', '.join(lost)}")
        else:
            self._console.print(block.line, end=block.end)


def text(blocks: Iterable[Block], most: int | None = None) -> str:
    """Blocks as plain lines.

    Args:
      most: as of `Screen`.
    """
    stream = io.StringIO()
    plain: dict[str, Any] = {"force_terminal": False, "force_jupyter": False, "color_system": None}
    names: dict[str, Any] = {"markup": False, "highlight": False, "emoji": False}
    screen = Screen(most, _Console(file=stream, width=PIPE_WIDTH, **names, **plain))
    for block in blocks:
        screen.show(block)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()).strip("\n")


def _drawn(table: Table) -> Drawn:
    """A table as it is drawn: numbers right-aligned and never broken, a cell one line whatever its value says."""
    drawn = Drawn(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for column in table.columns:
        right = column.number
        # Half a number reads as another number, so that columns of numbers are never broken.
        drawn.add_column(
            column.title, justify="right" if right else "left", no_wrap=right or column.whole, overflow="fold"
        )
    for number, section in enumerate(table.sections):
        # A line stands between sections, not before the first one.
        if number:
            drawn.add_section()
        for row in section:
            drawn.add_row(*(escaped(cell, breaks=True) for cell in row.cells), style="bold" if row.bold else None)
    return drawn
