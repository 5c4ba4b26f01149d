"""Colours of the matrix of errors, and names of languages in blocks of code that the highlighter does not know."""

import re
from typing import Any

from docutils import nodes
from pygments.lexers.special import TextLexer

MATRIX = "evidence/matrix"

LIMITS = (5.0, 10.0, 20.0, 40.0)
"""Median errors in % up to which a cell has the first colours; larger ones have the last."""

SQUARES = "🟩🟨🟥"
"""Colours in the Markdown, where cells can have none."""


def setup(app: Any) -> None:
    """Colour the matrix when it has been read."""
    app.connect("doctree-read", lambda app, doctree: colour(doctree) if app.env.docname == MATRIX else None)
    app.add_lexer("csv", TextLexer)


def colour(doctree: nodes.document) -> None:
    """Give cells of errors a class by their size, in place of the squares beside them; the figure is still the text."""
    for table in doctree.findall(nodes.table):
        table["classes"].append("matrix")
        for group in table.findall(nodes.tgroup):
            _without_squares(group)
    for text in list(doctree.findall(nodes.Text)):
        start, square, _ = text.partition(SQUARES[0])
        if square:
            text.parent.replace(text, [nodes.Text(start), *_legend()])


def _without_squares(group: nodes.tgroup) -> None:
    """Colour the cells behind columns of squares, and take these columns away."""
    rows = [list(row.children) for row in group.findall(nodes.row)]
    columns = [place for place in range(len(rows[0])) if any(row[place].astext() in tuple(SQUARES) for row in rows)]
    for row in rows:
        for place in columns:
            median = re.match(r"[\d.]+", row[place + 1].astext())
            if median:
                row[place + 1]["classes"].append(_class(float(median[0])))
    # From the last column on, so that places of the others stay.
    specifications = list(group.findall(nodes.colspec))
    for place in reversed(columns):
        for row in rows:
            row[place].parent.remove(row[place])
        group.remove(specifications[place])
    group["cols"] -= len(columns)


def _class(median: float) -> str:
    return f"error-{sum(median > limit for limit in LIMITS)}"


def _legend() -> list[nodes.Node]:
    words = [*(f"up to {limit:.0f} %" for limit in LIMITS), "more"]
    marks = [nodes.inline("", f" {each} ", classes=[f"error-{place}"]) for place, each in enumerate(words)]
    return [nodes.Text("Median error: "), *(part for mark in marks for part in (mark, nodes.Text(" ")))]
