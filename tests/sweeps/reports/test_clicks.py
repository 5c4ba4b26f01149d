"""Reports in a browser: selecting on the front, sorting, saving CSV, hovering, dark scheme and a phone's width."""

import csv
import itertools
import json

import pytest

import sweeps
from hwspaces.files.extras import installing
from tests import chromium
from tests.pages.screenshot import DRAWN

pytest.importorskip("altair", reason=installing("report"))
pytest.importorskip("playwright.sync_api", reason="playwright drives a browser: pip install playwright")
pytestmark = pytest.mark.skipif(chromium.PROGRAM is None, reason="chromium is not installed")


@pytest.fixture(scope="module")
def browser():
    with chromium.browser() as started:
        yield started


@pytest.fixture(scope="module")
def page_of(results, tmp_path_factory):
    """Path of a page of all kinds of results."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    kinds = ("sweep", "compare", "request", "run", "train", "sensitivity", "area", "fleet", "split", "collective")
    sweeps.report(*(results[kind] for kind in kinds), output=path)
    return path


@pytest.fixture
def opened(browser, page_of):
    """Opens the page; no request leaves it and no script fails."""
    contexts, wrong = [], []

    def open_page(**words):
        context = browser.new_context(viewport={"width": 1280, "height": 900}, accept_downloads=True, **words)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda said: said.type == "error" and wrong.append(said.text))
        page.on(
            "request", lambda request: request.url.startswith(("file:", "data:", "blob:")) or wrong.append(request.url)
        )
        page.goto(page_of.as_uri())
        page.wait_for_function(DRAWN, timeout=60_000)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert wrong == []


def shown(table):
    """Texts of the rows of a table that are not hidden."""
    return table.locator("tbody tr:not([hidden])").evaluate_all("rows => rows.map(row => row.cells[1].textContent)")


def test_an_area_of_the_front_chooses_the_rows_of_the_table(opened):
    page = opened()
    figure, table = page.locator("#s0 figure.chart").first, page.locator("#s0 .table").first
    before, every = shown(table), table.locator("tbody tr").count()
    assert 0 < len(before) < every and f"{len(before)} of {every} rows shown" in table.inner_text()
    plot = figure.locator("svg")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    # The left half of the chart, across its whole height.
    page.mouse.move(box["x"] + 60, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 400, steps=8)
    page.mouse.up()
    page.wait_for_function("document.querySelector('#s0 .table .count').textContent.includes('selected')")
    inside = shown(table)
    end = float(figure.locator("[data-end=x1]").input_value())
    assert 0 < len(inside) < every and all(float(text) <= 1.01 * end for text in inside)
    # A keyboard does the same by the fields, and takes the selection back.
    figure.locator("[data-clear]").press("Enter")
    assert shown(table) == before
    page.wait_for_function("document.querySelector('#s0 .brush_brush path').getBoundingClientRect().width == 0")
    figure.locator("[data-end=x1]").fill(str(end))
    assert set(inside) <= set(shown(table)) and all(float(text) <= 1.01 * end for text in shown(table))
    # The chart shows the area that was typed.
    page.wait_for_function("document.querySelector('#s0 .brush_brush path')?.getBoundingClientRect().width > 50")


def test_tables_sort_by_click_and_by_keyboard(opened):
    page = opened()
    table = page.locator("#s1 .table").first
    head = table.locator("thead th").filter(has_text="requests/s").first
    place = head.evaluate("head => head.cellIndex")

    def numbers():
        return table.locator("tbody tr").evaluate_all(f"rows => rows.map(row => Number(row.cells[{place}].dataset.v))")

    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "ascending" and numbers() == sorted(numbers())
    head.locator("button").focus()
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "descending" and numbers() == sorted(numbers(), reverse=True)
    assert table.locator("th[aria-sort]").count() == 1
    # All columns on demand.
    extra = table.locator("thead th.extra").first
    assert not extra.is_visible()
    table.locator("[data-all]").press("Space")
    assert extra.is_visible() and table.locator("[data-all]").get_attribute("aria-pressed") == "true"


def test_a_table_is_saved_as_csv(opened, results, tmp_path):
    page = opened()
    with page.expect_download() as download:
        page.locator("#s2 .table").first.locator("[data-save]").click()
    path = tmp_path / download.value.suggested_filename
    download.value.save_as(path)
    assert path.name == "ops_of_the_prefill_step.csv"
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    ops = [op for op in json.loads(results["request"].read_text())["ops"] if op["step"] == "prefill"]
    assert [row["op"] for row in rows] == [op["name"] for op in ops]
    assert [float(row["time_s [s]"]) for row in rows] == pytest.approx([op["time_s"] for op in ops])


def tooltip(page, mark) -> str:
    """What a page says of a mark of a chart, with the pointer over it."""
    mark.scroll_into_view_if_needed()
    mark.hover(force=True)
    shown = page.locator("#vg-tooltip-element.visible")
    shown.wait_for()
    return shown.inner_text()


def test_a_pointer_over_a_mark_shows_what_it_is(opened):
    page = opened()
    said = tooltip(page, page.locator("#s1 figure.chart").first.locator(".mark-symbol.role-mark path").last)
    assert "accelerator" in said and "layout" in said


def test_a_bar_of_a_tornado_says_what_a_real_change_does(opened):
    page = opened()
    said = tooltip(page, page.locator("#s5 figure.chart").first.locator(".mark-rect.role-mark path").first)
    assert "number" in said and "elasticity of" in said and "-10% of it" in said and "+10% of it" in said
    # All numbers on demand, and sorted by an elasticity.
    table = page.locator("#s5 .table").first
    assert len(shown(table)) < table.locator("tbody tr").count()
    table.locator("[data-rows]").click()
    assert len(shown(table)) == table.locator("tbody tr").count()
    head = table.locator("thead th").filter(has_text="TPOT").first
    head.locator("button").click()
    place = head.evaluate("head => head.cellIndex")
    cells = table.locator("tbody tr").evaluate_all(f"rows => rows.map(row => row.cells[{place}].dataset.v)")
    slopes = [float(cell) for cell in cells if cell]
    assert slopes == sorted(slopes) and slopes[0] < 0 < slopes[-1]


def test_an_area_of_measured_points_chooses_their_rows(opened):
    page = opened()
    figure, table = page.locator("#s6 figure.chart").first, page.locator("#s6 .table").first
    every = table.locator("tbody tr").count()
    plot = figure.locator("svg")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.9 * box["width"], box["y"] + 200, steps=8)
    page.mouse.up()
    page.wait_for_function("document.querySelector('#s6 .table .count').textContent.includes('selected')")
    low = float(figure.locator("[data-end=x0]").input_value())
    chosen = table.locator("tbody tr:not([hidden])").evaluate_all("rows => rows.map(row => Number(row.dataset.x))")
    assert 0 < len(chosen) < every and min(chosen) >= 0.99 * low
    figure.locator("[data-clear]").click()
    page.wait_for_function("document.querySelector('#s6 .brush_brush path').getBoundingClientRect().width == 0")
    mark = figure.locator(".mark-symbol.role-mark path").last
    mark.hover(force=True)
    tooltip = page.locator("#vg-tooltip-element.visible")
    tooltip.wait_for()
    assert "measured" in tooltip.inner_text().lower() and "error (%)" in tooltip.inner_text()


def colour(page, selector, name):
    return page.locator(selector).first.evaluate(f"one => getComputedStyle(one).{name}")


def luminance(text):
    """Relative luminance of "rgb(r, g, b)", WCAG 2."""
    parts = [int(part) / 255 for part in text[text.index("(") + 1 : -1].split(",")[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_and_marks_have_contrast_in_both_schemes(opened, scheme):
    page = opened(color_scheme=scheme)
    behind = luminance(colour(page, "body", "backgroundColor"))
    assert behind > 0.9 if scheme == "light" else behind < 0.05

    def contrast(text):
        low, high = sorted([luminance(text), behind])
        return (high + 0.05) / (low + 0.05)

    # WCAG 2: 4.5 for text, 3 for graphics.
    for selector in ("body", ".kind", "dt", "a", ".chart p"):
        assert contrast(colour(page, selector, "color")) >= 4.5, selector
    assert contrast(colour(page, "svg .mark-text text", "fill")) >= 4.5
    for number in range(8):
        page.evaluate(f"document.querySelector('h1').style.color = 'var(--c{number})'")
        assert contrast(colour(page, "h1", "color")) >= 3, number


@pytest.mark.parametrize("width", [390, 820])
def test_a_phone_scrolls_no_page_sideways(browser, page_of, width):
    page = browser.new_page(viewport={"width": width, "height": 844})
    page.goto(page_of.as_uri())
    page.wait_for_function(DRAWN, timeout=60_000)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("svg").first.bounding_box()["width"] <= width
    page.close()


def test_landmarks_and_headings(opened):
    page = opened()
    for landmark in ("header", "main", "nav", "footer"):
        assert page.locator(landmark).count() == 1
    levels = page.locator("h1, h2, h3").evaluate_all("all => all.map(one => Number(one.tagName[1]))")
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    assert page.locator("details[open]").count() == 0 and page.locator("details").count() >= 5
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
