"""Answers as a page that a browser shows: one file, without scripts and without anything from elsewhere."""

import html

from jaxroof.version import VERSION
from sweeps.answers.answer import Block, Table
from sweeps.answers.brief import Brief, narrowed
from sweeps.ask.text import escaped

STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
pre { font: inherit; white-space: pre-wrap; margin: 0 0 .4rem; }
code { font: 13px/1.5 ui-monospace, monospace; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .15rem .8rem .15rem 0; text-align: left; vertical-align: bottom; }
th { border-bottom: 1px solid; white-space: pre-line; }
.number { text-align: right; white-space: nowrap; }
th.number { white-space: pre; }
tbody + tbody tr:first-child td { border-top: 1px solid; }
.bold { font-weight: 600; }
footer { margin-top: 2rem; opacity: .7; }
"""


LEFT = ' style="text-align: left"'
"""Of cells of text in pages of others: notebooks have all cells at the right."""


class Page:
    """Collects the blocks of an answer; `text` is the page.

    Args:
      command: the words that were asked, which the page repeats.
    """

    def __init__(self, command: str):
        self.command, self._parts, self._line = command, list[str](), ""

    def show(self, block: Block) -> None:
        """One block more."""
        if isinstance(block, Table):
            # Text may come in parts of a line: it is collected until a table or the page's end closes it.
            self._end_line()
            self._parts.append(_table(block))
        else:
            self._line += block.line + block.end

    @property
    def text(self) -> str:
        """The page so far, as HTML."""
        self._end_line()
        command = _shown(self.command)
        return (
            f'<!DOCTYPE html>\n<!-- jaxroof {VERSION} -->\n<html lang="en"><head><meta charset="utf-8">\n'
            f"<title>{command}</title>\n<style>{STYLE}</style></head>\n<body>\n<p><code>{command}</code></p>\n"
            + "\n".join(self._parts)
            + f"\n<footer>jaxroof {VERSION}</footer>\n</body></html>\n"
        )

    def write(self, path: str, force: bool = False) -> None:
        """Write the page to a file, which replaces one of jaxroof's; any other only with `force`."""
        from hwspaces.files.output import saved_text

        saved_text(path, "page", self.text, force)

    def _end_line(self) -> None:
        # Empty lines separate blocks on the screen; on the page its margins do.
        if self._line.strip():
            self._parts.append(f"<pre>{_shown(self._line.strip(chr(10)))}</pre>")
        self._line = ""


def fragment(brief: Brief, width: int, rows: int) -> str:
    """The short form of an answer as a part of another page, such as a notebook, in that page's style.

    Args:
      width: columns that a table may take.
      rows: of its table and of facts at most.
    """
    asked = "; ".join(filter(None, (brief.asked, brief.setting)))
    parts = [f"<p>{_shown(asked)}<br><b>{_shown(brief.answer)}</b></p>"]
    if brief.table is not None:
        table = narrowed(brief.table, width)
        parts.append(_table(Table(table.columns, [table.rows[:rows]]), LEFT))
        left = len(table.rows) - rows
        parts += [f"<p>... {left:,} more rows: .table()</p>"] if left > 0 else []
        rows = max(-left, 0)
    facts = [
        f"<tr><th{LEFT}>{_shown(label)}</th><td{LEFT}>{_shown(text)}</td></tr>" for label, text in brief.facts[:rows]
    ]
    if facts:
        parts.append(f"<table><tbody>{''.join(facts)}</tbody></table>")
    return f"<div>{''.join(parts)}</div>"


def _table(table: Table, text: str = "") -> str:
    """A table, whose cells of text have the attributes `text`."""
    kinds = [' class="number"' if column.number else text for column in table.columns]
    head = "".join(f"<th{kind}>{_shown(column.title)}</th>" for kind, column in zip(kinds, table.columns, strict=True))
    bodies = []
    for section in table.sections:
        rows = []
        for row in section:
            # A row may have fewer cells than there are columns: the last ones stay empty.
            cells = "".join(f"<td{kind}>{_shown(cell)}</td>" for kind, cell in zip(kinds, row.cells, strict=False))
            rows.append(f'<tr class="bold">{cells}</tr>' if row.bold else f"<tr>{cells}</tr>")
        if rows:
            bodies.append("<tbody>" + "\n".join(rows) + "</tbody>")
    return f"<table><thead><tr>{head}</tr></thead>\n" + "\n".join(bodies) + "</table>"


def _shown(text: str) -> str:
    """Text that a browser shows as it is; control characters are escapes."""
    # Control characters first, then those that have a meaning in HTML.
    return html.escape(escaped(text))
