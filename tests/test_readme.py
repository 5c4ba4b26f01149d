"""Examples of the README, and links of every page."""

import dataclasses
import importlib
import pathlib
import re

import pytest

from jaxroof.numerics.arrays import eager

ROOT = pathlib.Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text()
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = re.findall(r"```python\n(.*?)```", TEXT, re.S)
"""Python examples; what they print is compared by tests/pages."""

GRADIENT = EXAMPLES[-1]


def printed(block: str, monkeypatch, capsys) -> tuple[str, dict]:
    """What an example prints with the efficiency that users have, and its names."""
    # tests have another one
    monkeypatch.setattr(importlib.import_module("hwspaces.performance.efficiency"), "DEFAULT", "learned")
    names: dict = {}
    exec(compile(block, "README.md", "exec"), names)
    return capsys.readouterr().out, names


def numbers(text: str) -> list[float]:
    """Numbers of a text, in order; words with digits in them, such as names of accelerators, are none."""
    return [float(word) for word in re.findall(r"(?<![\w.-])-?\d+(?:\.\d+)?(?![\w.-])", text)]


def test_the_gradient_is_the_slope_between_two_answers(monkeypatch, capsys):
    """TPOT at 1 % more and less bandwidth; maxima of resources are smoothed in the gradient alone."""
    found, names = printed(GRADIENT, monkeypatch, capsys)
    point = names["point"]

    def tpot(factor: float) -> float:
        hbm = dataclasses.replace(point.hardware.memory.hbm, bandwidth=factor * names["bandwidth"])
        memory = dataclasses.replace(point.hardware.memory, hbm=hbm)
        with eager():
            return float(names["tpot"](dataclasses.replace(point.hardware, memory=memory)))

    (share,) = numbers(found)[-1:]
    assert share == pytest.approx((tpot(1.01) - tpot(0.99)) / (0.02 * tpot(1.0)), abs=0.02)


def test_it_is_short():
    assert len(TEXT.splitlines()) <= 110


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
