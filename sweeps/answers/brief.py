"""The short form of an answer, which fits a screen: a sentence, what binds, the first rows, assumptions."""

import dataclasses
import re
import textwrap
from collections.abc import Iterable, Sequence

from sweeps.answers.answer import Block, Column, Row, Table, Text
from sweeps.ask.text import escaped

LINES = 12
"""Lines of a short answer at most."""

WIDTH = 100
"""Columns of a short answer at most, however wide the terminal is."""

LABEL = 12
"""Columns of a fact's label."""

PYTHON = ".text(), .table(), .dataset, .plot(), .report(path)"
"""What an answer has in Python, beside its short form."""

LEAST_TEXT = 20
"""Columns of the screen that a text of a table has at least."""

LEAST_ROWS = 3
"""Rows of a table that come before facts."""

NO_BREAK = "\u00a0"
"""A blank at which no line ends."""


@dataclasses.dataclass(frozen=True)
class Brief:
    """The short form of an answer.

    `asked` is the question in a line, `answer` a sentence or two. Facts are pairs of a label and a line, those that say
    most first. Of the table the first rows are shown. `notes` are whole; `matter` says what those are about that
    change the figures shown. `next` is a command that goes on from here.
    """

    asked: str
    setting: str = ""  # of the question, where it finds room in that line
    answer: str = ""
    facts: tuple[tuple[str, str], ...] = ()
    table: Table | None = None
    notes: tuple[str, ...] = ()
    matter: tuple[str, ...] = ()
    next: str = ""

    def blocks(self, width: int = WIDTH, most: int = LINES, python: bool = False) -> list[Block]:
        """At most `most` lines of `width` columns; rows and facts that find no room are left to `-v`.

        Args:
          python: the last lines name what an answer has in Python, in place of flags and of the next command.
        """
        width = min(width, WIDTH)
        whole = f"{self.asked}; {self.setting}"
        asked = whole if self.setting and len(whole) <= width else self.asked
        head = [*_wrapped(asked, width, 1), *_wrapped(self.answer, width, 2)]
        tail = self._tail(width, python)
        room = most - len(head) - len(tail)
        # A few rows come first, then facts, then more rows.
        least = 0 if self.table is None else _head(self.table) + min(len(self.table.rows), LEAST_ROWS)
        facts = [_fact(*fact, width) for fact in self.facts][: max(room - least, 0)]
        table, said = None, list[str]()
        if self.table is not None:
            table, said = _cut(narrowed(self.table, width, cut=True), room - len(facts))
        rows = 0 if table is None else _head(table) + len(table.rows)
        # Empty lines stand between the parts where there is room for them.
        spare = most - len(head) - rows - len(said) - len(facts) - len(tail)
        blocks: list[Block] = []
        for part in (head, table, [*said, *facts], tail):
            if not part:
                continue
            if blocks and spare > 0:
                blocks.append(Text(""))
                spare -= 1
            blocks.append(part if isinstance(part, Table) else Text("\n".join(part)))
        return blocks

    def _tail(self, width: int, python: bool) -> list[str]:
        """Assumptions in one line, and the next command."""
        tail = []
        if self.notes:
            words = f"{len(self.notes)} assumption{'s' * (len(self.notes) > 1)}"
            if self.matter:
                words += f", of which {len(self.matter)} matter{'s' * (len(self.matter) == 1)} here"
            tail.append(_fact("notes", f"{words}: {'.record()' if python else '--notes'}", width))
        if python:
            return [*tail, _fact("more", PYTHON, width)]
        tail.append(_fact("more", f"{self.next}; all of it: -v" if self.next else "all of it: -v", width))
        return tail


def narrowed(table: Table, width: int, cut: bool = False) -> Table:
    """The table without the columns, of the highest rank first, that make it wider than `width`.

    Args:
      cut: of what still is too wide, the longest texts are cut, so that every row is one line.
    """
    columns = list(range(len(table.columns)))
    while len(columns) > 2 and _width(table, columns) > width:
        # Of those with the highest rank the last one goes.
        columns.remove(max(columns, key=lambda each: (table.columns[each].rank, each)))
    sections = [[Row(tuple(_cell(row, each) for each in columns), row.bold) for row in rows] for rows in table.sections]
    shown = Table([table.columns[each] for each in columns], sections)
    return _with_cut_texts(shown, width) if cut else shown


def _with_cut_texts(table: Table, width: int) -> Table:
    """The table whose texts are as short as `width` asks for, the longest first; names and numbers stay whole."""
    places = range(len(table.columns))
    widths = [max(_title_width(table.columns[each]), _longest(table, each)) for each in places]
    excess = sum(widths) + 2 * (len(widths) - 1) - width
    texts = [each for each in places if each and not (table.columns[each].number or table.columns[each].whole)]
    while excess > 0 and any(widths[each] > LEAST_TEXT for each in texts):
        longest = max(texts, key=lambda each: widths[each])
        widths[longest] -= 1
        excess -= 1
    sections = [
        [Row(tuple(clipped(_cell(row, each), widths[each]) for each in places), row.bold) for row in rows]
        for rows in table.sections
    ]
    return Table(table.columns, sections)


def clipped(text: str, most: int) -> str:
    """A text of at most `most` characters, which ends in ... where it is cut."""
    return text if len(text) <= most else f"{text[: most - 4].rstrip()} ..."


def _title_width(column: Column) -> int:
    return max(len(line) for line in column.title.split("\n"))


def _longest(table: Table, column: int) -> int:
    return max((len(_cell(row, column)) for row in table.rows), default=0)


def _cell(row: Row, column: int) -> str:
    return row.cells[column] if column < len(row.cells) else ""


def _width(table: Table, columns: Sequence[int]) -> int:
    """Columns of the screen that the table needs: texts may be broken or cut, but for names in the first column."""
    total = 2 * (len(columns) - 1)  # blanks between columns
    for each in columns:
        column, longest = table.columns[each], _longest(table, each)
        fixed = column.number or column.whole or each == 0
        total += max(_title_width(column), longest if fixed else min(longest, LEAST_TEXT))
    return total


def _head(table: Table) -> int:
    """Lines of a table's head: of its titles, and the rule below them."""
    return 1 + max(column.title.count("\n") + 1 for column in table.columns)


def _cut(table: Table, room: int) -> tuple[Table | None, list[str]]:
    """The first rows of a table that fit into `room` lines, without sections; and a line on those that do not."""
    rows = room - _head(table)
    if len(table.rows) <= rows:
        return Table(table.columns, [table.rows]), []
    shown = table.rows[: rows - 1]
    if not shown:
        return None, []
    return Table(table.columns, [shown]), [f"... {len(table.rows) - len(shown)} more"]


def _wrapped(text: str, width: int, most: int) -> list[str]:
    """A text in lines of `width` columns; the last one ends in ... where there would be more than `most`.

    No line ends between a number and its unit.
    """
    joined = re.sub(r"(?<=\d) (?=\S)", NO_BREAK, escaped(text, breaks=True))
    lines = textwrap.wrap(joined, width, max_lines=most, placeholder=" ...") if text else []
    return [line.replace(NO_BREAK, " ") for line in lines]


def packed(texts: Iterable[str], width: int = WIDTH - LABEL) -> list[str]:
    """Texts with commas between them, in lines of `width` columns, as many as find room in each."""
    lines = [""]
    for text in texts:
        longer = f"{lines[-1]}, {text}" if lines[-1] else text
        if len(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(text)
    return lines


def _fact(label: str, text: str, width: int) -> str:
    start = f"{label:<{LABEL}}" if label else ""
    return start + "".join(_wrapped(text, width - len(start), 1))
