"""Commands and Python of the pages end well, and print what the pages show; slow ones: `make docs-check`."""

import os
import re
import subprocess
import sys

import pytest

from tests.pages.difference import difference
from tests.pages.made import Made
from tests.pages.page import PAGES, ROOT, Shown, blocks, unmarked

RUN = [page for page in PAGES if any(block.kind in ("output", "run") and not block.slow for block in blocks(page))]
EVIDENCE = sorted((ROOT / "docs" / "evidence").glob("*.md"))
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_every_output_and_picture_says_what_makes_it(page):
    assert not unmarked(page)


@pytest.mark.parametrize("page", EVIDENCE, ids=[page.name for page in EVIDENCE])
def test_evidence_says_the_commit_and_day_it_was_made_at(page):
    top = page.read_text(encoding="utf-8").partition("\n## ")[0]
    assert re.search(r"^Made at commit `[0-9a-f]{7,}`, \d{4}-\d\d-\d\d\b", top, re.M)


@pytest.fixture(scope="module")
def said() -> list[str]:
    """What a run of all pages says: a line for every block that differs, that fails, or that needs a library.

    In a process of its own, in which everything is as users have it: efficiency, compilation, kept programs.
    """
    plain = {name: value for name, value in os.environ.items() if name not in ("XLA_FLAGS", "COLUMNS")}
    command = [sys.executable, "-m", "tests.pages", "--check", "--quick"]
    done = subprocess.run(command, cwd=ROOT, env=plain, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr[-2000:]
    return done.stdout.splitlines()


@pytest.fixture
def made(tmp_path) -> Made:
    """What a page's blocks make, in a folder beside the page."""
    folder = tmp_path / "run"
    folder.mkdir()
    return Made(folder)


@pytest.mark.parametrize("page", RUN, ids=[page.name for page in RUN])
def test_commands_run_and_outputs_are_those_of_today(page, said):
    about = [line for line in said if line.startswith(f"{page.relative_to(ROOT)}:")]
    missing = [line for line in about if line.endswith("is not installed")]
    assert about == missing, "run `make docs-figures`"
    if missing:
        pytest.skip(f"the other examples ran; {missing[0]}")


def test_numbers_differ_by_their_last_digit_or_by_a_share():
    assert difference("ttft  187 ms", "ttft 188 ms", None) is None
    assert difference("ttft  187 ms", "ttft 189 ms", None) == "'ttft 187 ms' is now 'ttft 189 ms'"
    assert difference("ttft  187 ms", "ttft 189 ms", 0.02) is None
    assert difference("1,234 of 2", "1,239 of 2", None) is not None
    assert difference("1.2e-05 s", "1.3e-05 s", None) is None
    assert difference("H100-SXM  8", "H200-SXM  8", 0.5) is not None
    assert difference("a\n\nb", "a\nb\nc", None) == "2 lines are now 3"


def test_lines_are_chosen_by_patterns():
    output = "head\nnote x\n\n\nttft 1\ntpot 2\nmemory 3\nend\n"
    assert Shown(first="ttft", last="memory").of(output) == "ttft 1\ntpot 2\nmemory 3\n"
    assert Shown(drop="^note", lines=3).of(output) == "head\n\n\n".replace("\n\n\n", "\n")
    assert Shown(keep="^(head|tpot)").of(output) == "head\n\ntpot 2\n"
    assert Shown(cuts=(("note", "tpot"),)).of(output) == "head\n...\ntpot 2\nmemory 3\nend\n"
    assert Shown(width=10).of("a long line, cut\nshort one\n") == "a long ...\nshort one\n"
    table = "one line of text\n a     b\n────────\n 1     2\n"
    assert Shown(narrow=True).of(table) == "one line of text\n a  b\n─────\n 1  2\n"
    with pytest.raises(ValueError, match="no line of the output has 'nothing'"):
        Shown(first="nothing").of(output)


def test_a_word_of_a_comment_that_is_none_is_refused(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```sh\njaxroof models\n```\n\n<!-- output slwo, lines 3 -->\n```text\na\n```\n", encoding="utf-8")
    with pytest.raises(ValueError, match="'slwo' of <!-- output slwo, lines 3 --> is not known"):
        list(blocks(page))


def test_commands_are_run_but_for_those_that_say_why_not(tmp_path, made):
    page = tmp_path / "page.md"
    page.write_text(
        "```sh\njaxroof models --template > own.toml\njaxroof models \\\n  own.toml\n```\n\n"
        "<!-- not run: it needs a cluster -->\n```python\nraise SystemError\n```\n\n"
        "```python\nimport pathlib\nprint(len(pathlib.Path('own.toml').read_text()) > 100)\n```\n\n"
        "<!-- output slow -->\n```text\nTrue\n```\n",
        encoding="utf-8",
    )
    commands, python, output = blocks(page)
    assert commands.commands == ("jaxroof models --template > own.toml", "jaxroof models own.toml")
    assert [made.of(block) for block in (commands, python)] == [commands.text, python.text]
    assert made.of(output) == "True\n" and python.slow and not commands.slow
    assert not unmarked(page)


def test_an_output_is_that_of_its_command_or_its_error(tmp_path, made):
    page = tmp_path / "page.md"
    page.write_text(
        '<!-- output keep "^H100-SXM " of jaxroof hardware -v -->\n```\n```\n\n'
        "<!-- output refused of jaxroof step --hardware no-such -->\n```\n```\n"
        "<!-- output of jaxroof step --hardware no-such -->\n```\n```\n",
        encoding="utf-8",
    )
    listed, refused, failed = blocks(page)
    assert str(made.of(listed)).startswith("H100-SXM ") and str(made.of(refused)).startswith("jaxroof step: ")
    with pytest.raises(ValueError, match="status 2 of jaxroof step --hardware no-such: jaxroof step: "):
        made.of(failed)
