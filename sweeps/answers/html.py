"""The short form of an answer as HTML, a part of another page such as a notebook."""

import html

from sweeps.answers.answer import Table
from sweeps.answers.brief import Brief, narrowed
from sweeps.ask.text import escaped

LEFT = ' style="text-align: left"'
"""Of cells of text: notebooks have all cells at the right."""


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
