"""Examples of the README, and links of every page."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text()
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.S)


@pytest.mark.parametrize("block", BLOCKS, ids=["sweep", "gradient"])
def test_python_examples_run(block, capsys):
    exec(compile(block, "README.md", "exec"), {})
    assert capsys.readouterr().out.strip()


def test_the_first_example_is_ten_lines():
    assert len([line for line in BLOCKS[0].splitlines() if line.strip()]) <= 10


def test_the_two_commands_are_make_targets():
    makefile = (ROOT / "Makefile").read_text()
    commands = re.findall(r"```sh\n(.*?)```", TEXT, re.S)[0]
    for target in re.findall(r"^make (\w+)", commands, re.M):
        assert re.search(rf"^{target}:", makefile, re.M)


def anchors(page: pathlib.Path) -> set[str]:
    """Anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)]+)\)", re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)):
        if link.startswith("http"):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_every_page_is_in_the_index():
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    for page in (ROOT / "docs").rglob("*.md"):
        assert page.name == "README.md" or f"({page.relative_to(ROOT / 'docs')})" in index, page
