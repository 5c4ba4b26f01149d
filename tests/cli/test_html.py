"""Pages of answers: what a verb says, as HTML."""

import ast
import html.parser
from pathlib import Path

import pytest

from jaxroof.version import VERSION
from sweeps.answers.answer import Column, Table, Text
from sweeps.answers.html import Page
from sweeps.cli import main

ROOT = Path(__file__).parents[2]

STEP = "step --hardware H100-SXM --model Llama-3.1-8B --decode 8 --context 1000".split()


class Read(html.parser.HTMLParser):
    """Cells of a page's tables, and whether every tag that is opened is closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.rows, self.cell = [], [], None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        if tag != "meta":
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.cell = ""

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        if tag in ("td", "th"):
            self.rows[-1].append(self.cell)
            self.cell = None

    def handle_data(self, data):
        if self.cell is not None:
            self.cell += data


def test_a_verb_writes_what_it_says_as_a_page(tmp_path, capsys):
    path = tmp_path / "step.html"
    assert main([*STEP, "-v", "--html", str(path)]) == 0
    said, page = capsys.readouterr().out, Read(path.read_text())
    assert page.open == []
    assert page.rows[0][0] == "op" and page.rows[-1][0] == "total"
    assert all(cell in said for row in page.rows[1:] for cell in row)
    text = path.read_text()
    assert "<code>jaxroof step --hardware H100-SXM" in text and f"jaxroof {VERSION}" in text
    assert "<script" not in text and "http" not in text
    assert main([*STEP, "--html", str(path)]) == 0  # a page of jaxroof is replaced


VERBS = ("collective --hardware H100-SXM --devices 8", "models", "scenario list", "space", "hardware")


@pytest.mark.parametrize("words", VERBS)
def test_pages_of_other_verbs(tmp_path, words):
    path = tmp_path / "page.html"
    assert main([*words.split(), "--html", str(path)]) == 0
    page = Read(path.read_text())
    assert page.open == [] and len(page.rows) > 1


def test_what_is_not_a_page_stays(tmp_path, capsys):
    path = tmp_path / "mine.html"
    path.write_text("<p>mine</p>")
    assert main([*STEP, "--html", str(path)]) == 2
    assert "mine.html" in capsys.readouterr().err and path.read_text() == "<p>mine</p>"
    assert main([*STEP, "--json", "--html", str(tmp_path / "other.html")]) == 2
    assert "leave one of them out" in capsys.readouterr().err
    assert not (tmp_path / "other.html").exists()


def test_text_of_others_is_shown_and_not_obeyed():
    page = Page("jaxroof <b>")
    page.show(Text("<script>alert(1)</script>\x1b[0m", "\n\n"))
    table = Table([Column("<i>"), Column("n", number=True)])
    table.add_row("<td>&", "1")
    table.add_section()
    table.add_row("total", "1", style="bold")
    page.show(table)
    assert "<script" not in page.text and "\x1b" not in page.text and "<b>" not in page.text
    assert Read(page.text).rows == [["<i>", "n"], ["<td>&", "1"], ["total", "1"]]
    assert page.text.count("<tbody>") == 2 and '<tr class="bold">' in page.text


def test_nothing_is_printed_beside_an_answer():
    """What goes to standard output by `print` alone is on no page."""
    printing = set()
    for path in [*(ROOT / "sweeps" / "cli").glob("*.py"), *(ROOT / "sweeps" / "answers").glob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            called = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print"
            if called and not any(word.arg == "file" for word in node.keywords):
                printing.add(path.name)
    assert printing == {"answer.py", "to_json.py", "parser.py"}  # texts, JSON, the version
