"""Page of a report: sections as one HTML file with its style, its script and the plotting library inside."""

import dataclasses
import functools
import html
import json
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from jaxroof.version import VERSION
from sweeps.ask.text import escaped, finite
from sweeps.reports.blocks import Chart, Column, Section, Table, is_number

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:"
"""What a browser lets the page do: nothing is loaded from elsewhere, and no text is run as code."""

LONG = 24
"""Characters of a cell from which its column is wide."""


def page(sections: Sequence[Section], title: str | None = None) -> str:
    """The page of some sections.

    Args:
      sections: in their order.
      title: of the page; None: that of the only section, or how many there are.
    """
    title = title or (sections[0].title if len(sections) == 1 else f"{len(sections)} results")
    contents = ""
    if len(sections) > 1:
        items = "".join(f'<li><a href="#s{i}">{text(one.title)}</a></li>' for i, one in enumerate(sections))
        contents = f'<nav aria-label="Contents"><h2>Contents</h2><ol>{items}</ol></nav>'
    body = "\n".join(
        _section(one, f"s{i}", len(sections) == 1 and one.title == title) for i, one in enumerate(sections)
    )
    return (
        f'<!DOCTYPE html>\n<!-- jaxroof {VERSION} -->\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{text(title)}</title>\n<style>{_file('page.css')}</style></head>\n<body>\n"
        '<a class="skip" href="#main">Skip to the results</a>\n'
        f"<header><h1>{text(title)}</h1></header>\n{contents}\n"
        f'<main id="main">\n{body}\n</main>\n'
        f"<footer>Made by jaxroof {VERSION}. Times, costs and powers are predictions of a model.</footer>\n"
        f"<script>{_library()}</script>\n<script>{_file('page.js')}</script>\n</body></html>\n"
    )


def text(value: Any) -> str:
    """Text that a browser shows as it is; control characters are escapes."""
    return html.escape(escaped(str(value)))


def _section(section: Section, name: str, alone: bool) -> str:
    # The page's own title is not said twice.
    kind = f'<p class="kind">{text(section.kind)}</p>'
    heading = section.kind.capitalize() if alone else section.title
    facts = [("Command", section.command), ("File", section.file), ("Written", section.written)]
    facts = [*section.facts, *facts, ("Version", section.version)]
    listed = "".join(
        f"<div><dt>{text(key)}</dt><dd>{f'<code>{text(value)}</code>' if key == 'Command' else text(value)}</dd></div>"
        for key, value in facts
        if value
    )
    tables = {id(block): f"{name}t{i}" for i, block in enumerate(section.blocks) if isinstance(block, Table)}
    # Charts stand in pairs: one that would stand alone takes the whole width.
    pairs = [block for block in section.blocks if isinstance(block, Chart) and not block.wide]
    last = pairs[-1] if len(pairs) % 2 else None
    blocks = []
    for i, block in enumerate(section.blocks):
        if isinstance(block, Table):
            blocks.append(_table(block, tables[id(block)]))
        else:
            shown = dataclasses.replace(block, wide=block.wide or block is last)
            blocks.append(_chart(shown, f"{name}c{i}", tables.get(id(block.table), "")))
    notes = ""
    if section.notes:
        items = "".join(f"<li>{text(note)}</li>" for note in section.notes)
        notes = f"<details><summary>Assumptions and notes ({len(section.notes)})</summary><ul>{items}</ul></details>"
    question = ""
    if section.question:
        question = (
            f"<details><summary>The whole question</summary><pre tabindex=0>{text(section.question)}</pre></details>"
        )
    return (
        f'<section id="{name}" aria-labelledby="{name}h">\n{"" if alone else kind}'
        f'<h2 id="{name}h">{text(heading)}</h2>\n<p class="answer">{text(section.answer)}</p>\n'
        f'<dl class="facts">{listed}</dl>\n<div class="blocks">\n'
        + "\n".join(blocks)
        + f"\n</div>\n{notes}{question}</section>"
    )


def _chart(chart: Chart, name: str, table: str) -> str:
    linked = ranges = ""
    if table and chart.table is not None and chart.table.axes is not None:
        linked = f' data-table="{table}"'
        ranges = _ranges(chart.table.axes, name)
    wide = " wide" if chart.wide else ""
    return (
        f'<figure class="chart{wide}" id="{name}"{linked} aria-labelledby="{name}h">\n'
        f'<figcaption><h3 id="{name}h">{text(chart.title)}</h3><p>{text(chart.note)}</p></figcaption>\n'
        f'<div class="plot" role="group" aria-label="{text(chart.description)}"></div>\n{ranges}'
        f'<script type="application/json">{_json(chart.spec)}</script></figure>'
    )


def _ranges(axes: tuple[Column, Column], name: str) -> str:
    """Fields that select the same area as a pointer does, for a keyboard."""
    fields = []
    for side, one in zip("xy", axes, strict=True):
        inputs = "".join(
            f'<input type="number" step="any" data-end="{side}{end}" placeholder="{words}"'
            f' aria-label="{text(one.title)}, {words}">'
            for end, words in ((0, "from"), (1, "to"))
        )
        fields.append(f"<span>{text(one.title)} {inputs}</span>")
    return (
        f'<div class="ranges" role="group" aria-label="Selected area">{"".join(fields)}'
        f'<button type="button" data-clear>Clear selection</button></div>\n'
    )


def _table(table: Table, name: str) -> str:
    columns = table.columns
    classes = [_classes(one) for one in columns]
    heads = "".join(
        f'<th scope="col"{own} data-csv="{text(_csv_name(one))}"><button type="button" title="{text(one.meaning)}">'
        f"{text(one.title)}</button></th>"
        for one, own in zip(columns, classes, strict=True)
    )
    count = len(columns[0].values) if columns else 0
    body = []
    for i in range(count):
        place = ""
        if table.axes is not None:
            across, up = (one.scaled(one.values[i]) for one in table.axes)
            place = f' data-x="{_short(across)}" data-y="{_short(up)}"'
        hidden = " hidden" if table.first is not None and i >= table.first else ""
        cells = "".join(
            _cell(one.text(one.values[i]), one.values[i], own, "td" if j else "th")
            for j, (one, own) in enumerate(zip(columns, classes, strict=True))
        )
        body.append(f"<tr{place}{hidden}>{cells}</tr>")
    more = ""
    if any(one.extra for one in columns):
        more = '<button type="button" data-all aria-pressed="false">All columns</button>'
    rest = ""
    if table.first is not None and table.axes is None and count > table.first:
        rest = f'<button type="button" data-rows>All {count:,} rows</button>'
    first = "" if table.first is None else f' data-first="{table.first}"'
    note = f"<p>{text(table.note)}</p>" if table.note else ""
    return (
        f'<div class="table wide" id="{name}"{first}>\n<div class="head"><h3 id="{name}h">{text(table.title)}</h3>'
        f'<div class="tools"><span class="count" role="status"></span>{rest}{more}'
        f'<button type="button" data-save="{text(_file_name(table.title))}">Download CSV</button></div></div>\n{note}'
        f'<div class="scroll" role="region" tabindex="0" aria-labelledby="{name}h"><table aria-labelledby="{name}h">'
        f"<thead><tr>{heads}</tr></thead>\n<tbody>" + "\n".join(body) + "</tbody></table></div></div>"
    )


def _cell(shown: str, value: Any, classes: str, tag: str) -> str:
    # The number in SI units, by which rows are sorted and which files have.
    exact = f' data-v="{_short(value)}"' if is_number(value) else ""
    scope = ' scope="row"' if tag == "th" else ""
    return f"<{tag}{scope}{classes}{exact}>{text(shown)}</{tag}>"


def _classes(column: Column) -> str:
    # Long words take several lines, and need room for them.
    long = not column.numeric and any(len(str(value)) > LONG for value in column.values)
    names = [name for name, holds in (("n", column.numeric), ("long", long), ("extra", column.extra)) if holds]
    return f' class="{" ".join(names)}"' if names else ""


def _short(value: Any) -> str:
    return "" if value is None or value != value else f"{value:.8g}"


def _csv_name(column: Column) -> str:
    return f"{column.name} [{column.unit}]" if column.unit not in ("", "1") else column.name


def _file_name(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", title.lower()).strip("_") + ".csv"


def _json(spec: Mapping[str, Any]) -> str:
    """A value inside of a script element, which no text of it can end."""
    words = json.dumps(_escaped(finite(dict(spec))), separators=(",", ":"), allow_nan=False)
    return words.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _escaped(value: Any) -> Any:
    """A value whose texts have escapes in place of control characters."""
    if isinstance(value, str):
        return escaped(value)
    if isinstance(value, dict):
        return {key: _escaped(each) for key, each in value.items()}
    return [_escaped(each) for each in value] if isinstance(value, list) else value


@functools.cache
def _library() -> str:
    """Vega, Vega-Lite and what embeds them, as one script."""
    import vl_convert

    # Only the end of a script element could be misread inside of one.
    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;").replace("</script", "<\\/script")


def _file(name: str) -> str:
    return resources.files("sweeps.reports").joinpath(name).read_text(encoding="utf-8")
