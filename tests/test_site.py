"""The site of docs/: it builds without a warning and without a network, and says something of every name and verb."""

import html.parser
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sweeps.cli.parser import parser_of
from sweeps.cli.verbs import VERBS
from tests import chromium

for package in ("sphinx", "myst_nb", "furo"):
    pytest.importorskip(package, reason="the site needs Sphinx: pip install '.[docs]'")

from docs.site import api, docstrings, doctrees, pages, sections  # noqa: E402

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The site, notebooks not executed."""
    place = tmp_path_factory.mktemp("built") / "site"
    words = [sys.executable, "-m", "docs.site", "--without-notebooks", "--to", str(place)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert ", 0 warnings: " in done.stdout
    return place


class Loaded(html.parser.HTMLParser):
    """Addresses that a browser loads with a page, and the targets of its links."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.names: set[str] = set()

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.names |= {given[name] for name in ("id", "name") if given.get(name)}
        if tag == "a":
            self.links.append(given.get("href") or "")
        elif tag == "link":
            self.loaded += [given["href"]] * (given.get("rel") in ("stylesheet", "icon", "preload", "preconnect"))
        elif tag in ("script", "img", "iframe", "source", "video", "audio", "embed", "object"):
            self.loaded += [given[name] for name in ("src", "srcset", "data") if given.get(name)]


@pytest.fixture(scope="module")
def parsed(site) -> dict[Path, Loaded]:
    found = {}
    for path in site.rglob("*.html"):
        found[path] = Loaded()
        found[path].feed(path.read_text(encoding="utf-8"))
    return found


def test_pages_load_nothing_from_elsewhere(site, parsed):
    for path, page in parsed.items():
        for address in page.loaded:
            place = (path.parent / address.partition("?")[0].partition("#")[0]).resolve()
            assert address.startswith("data:") or place.exists(), f"{path}: {address}"
    for path in [*site.rglob("*.css"), *site.rglob("*.js")]:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"url\(\s*['\"]?(https?:)?//|@import\s+['\"]?(https?:)?//", text), path
        assert not re.search(r"(\.src\s*=|fetch\(|import\()\s*['\"](https?:)?//", text), path


def test_links_lead_somewhere(site, parsed):
    for path, page in parsed.items():
        for link in page.links:
            if re.match(r"[a-z]+:", link) or not link:
                continue
            target, _, anchor = link.partition("#")
            place = (path.parent / target).resolve() if target else path
            assert place.exists(), f"{path}: {link}"
            assert not anchor or place.suffix != ".html" or anchor in parsed[place].names, f"{path}: {link}"


def test_every_page_of_markdown_is_there(site):
    for path in (ROOT / "docs").rglob("*.md"):
        if path.name == "README.md" and path.parent.name != "docs":
            path = path.with_name("index")  # the page of its section
        assert (site / path.relative_to(ROOT / "docs").with_suffix(".html")).exists(), path


@pytest.mark.parametrize("package", api.PACKAGES)
def test_every_public_name_has_an_entry_with_its_docstring(package, site, parsed):
    names = api.public_homes(package)
    page = parsed[site / "reference" / "api" / f"{package}.html"]
    assert names
    for name in names:
        anchors = {f"{package}.{name}", f"module-{package}.{name}"}
        assert anchors & page.names or f"{package}.{name}" in api.PACKAGES, name
        assert api.summary(package, name), f"{package}.{name} has no docstring"


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_a_page_with_its_flags(verb, site):
    text = (site / "reference" / "cli" / f"{verb}.html").read_text(encoding="utf-8")
    for flag in parser_of(verb).flags():
        assert flag in ("-h", "--help", "--help-all") or f">{flag}</span>" in text, flag


def test_comments_are_invisible(site):
    """Comments of Markdown say which command made a block: docs/guide has dozens."""
    for path in (site / "guide").glob("*.html"):
        assert "&lt;!--" not in path.read_text(encoding="utf-8"), path


def test_cells_of_the_matrix_have_colours_by_their_figures(site):
    """Median 11.4 % is above 10 and below 20: the third colour."""
    text = (site / "evidence" / "matrix.html").read_text(encoding="utf-8")
    assert not set(doctrees.SQUARES) & set(text)
    cells = re.findall(r'<td class="error-(\d)"><p>([\d.]+), ', text)
    assert len(cells) > 100
    for colour, median in cells:
        assert int(colour) == sum(float(median) > limit for limit in (5, 10, 20, 40))


def test_search_works_from_files(site):
    pytest.importorskip("playwright.sync_api", reason="clicks need Playwright: pip install playwright")
    if chromium.PROGRAM is None:
        pytest.skip("clicks need Chromium: apt-get install chromium")
    with chromium.browser() as browser:
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        asked = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto((site / "index.html").as_uri())
        page.fill("input[name=q]", "roofline")
        page.press("input[name=q]", "Enter")
        page.click("#search-results li a")
        page.wait_for_load_state()
        assert "search.html" not in page.url and "roofline" in page.inner_text("body").lower()
        # Wide tables scroll inside the page, on a phone too.
        page.set_viewport_size({"width": 390, "height": 844})
        for name in ("index", "evidence/matrix", "reference/numbers", "reference/api/jaxroof", "guide/serving"):
            page.goto((site / f"{name}.html").as_uri())
            assert page.evaluate("document.documentElement.scrollWidth") <= 390, name
    assert all(url.startswith(("file:", "data:")) for url in asked)


SMALL = """
import sys
sys.path.insert(0, {root!r})
from docs.site.conf import myst_dmath_allow_digits, myst_dmath_allow_space, myst_enable_extensions
from docs.site.math import setup
extensions, html_theme, html_math_renderer = ["myst_parser"], "basic", "mathml"
"""


def test_equations_need_no_script_and_prices_are_none(tmp_path):
    (tmp_path / "conf.py").write_text(SMALL.format(root=str(ROOT)))
    text = "It costs $2.10 an hour, or $3 to $4 at night, and $ 5 on demand.\n"
    (tmp_path / "index.md").write_text(f"# Page\n\n{text}\nThe time $t = w / r$ of an op:\n\n$$\\frac{{a}}{{b}}$$\n")
    words = [sys.executable, "-m", "sphinx", "-q", "-W", "-b", "html", str(tmp_path), str(tmp_path / "out")]
    subprocess.run(words, check=True)
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert text.strip() in page
    assert page.count("<math") == 2 and "mathjax.js" not in page.lower()


def test_docstrings_become_fields():
    text = "Time in s of `op`, shape ().\n\ntime = a * b_c\n\nArgs:\n  a, b: of `op`;\n    more.\n\nSource: ours."
    assert docstrings.described(text) == (
        "Time in s of ``op``, shape ().\n\n"
        ".. code-block:: text\n\n   time = a * b_c\n\n"
        ":Arguments:\n   * ``a``, ``b``: of ``op``; more.\n\n"
        ":Source:\n   ours."
    )


def test_plain_text_means_nothing_else():
    assert pages.plain("a_b * |c| `d_e`s") == r"a\_b \* \|c\| ``d_e``\ s"


def test_sections_have_the_pages_of_the_tables_in_their_order(tmp_path):
    (tmp_path / "guide").mkdir()
    for name in ("a", "b", "c"):
        (tmp_path / "guide" / f"{name}.md").write_text(f"# {name}\n")
    listed = "| page | task |\n|---|---|\n| [B](guide/b.md) | do b |\n| [A](guide/a.md) | do a |\n"
    text = sections.index(tmp_path, "guide", "Guide", listed)
    assert text.index("   c\n") < text.index(":doc:`B </guide/b>`") < text.index(":doc:`A </guide/a>`")
    assert re.search(r":hidden:\n\n   b\n   a\n", text)


def test_the_page_of_a_section_is_its_readme(tmp_path):
    (tmp_path / "notebooks").mkdir()
    for name in ("a", "b", "README"):
        (tmp_path / "notebooks" / f"{name}.md").write_text("# Notebooks\n\n[B](b.md), [guide](../guide/c.md)\n")
    text = sections.index(tmp_path, "notebooks", "Notebooks", "")
    assert ".. include:: README.md" in text and text.index("   a\n") < text.index("   b\n")
    assert "README\n" not in text.replace("README.md", "")
    assert sections.linked("[n](../notebooks/README.md)") == "[n](../notebooks/index.rst)"
