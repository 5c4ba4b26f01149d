"""The explorer in a browser: a slider moves the figures, a URL gives them again, at three sizes and in the dark."""

import dataclasses
import re
import statistics
import time

import pytest

from sweeps.ui.state import DEFAULT
from sweeps.ui.url import query_of
from tests import chromium
from tests.ui.browser import SIZES, explorer
from tests.ui.test_own_files import BARE, CHIP

pytest.importorskip("playwright.sync_api", reason="clicks need playwright: pip install playwright")
pytestmark = pytest.mark.skipif(chromium.PROGRAM is None, reason="clicks need chromium on the path")


@pytest.fixture(scope="module")
def browser():
    with chromium.browser() as browser:
        yield browser


@pytest.fixture
def opened(browser, address):
    """A function that opens a query of the explorer; it fails where the page reports an error or asks elsewhere."""
    contexts, wrong, own = [], [], (address, "data:")

    def opened(query: str = "", **size):
        contexts.append(browser.new_context(**(size or SIZES["light"])))
        contexts[-1].grant_permissions(["clipboard-read", "clipboard-write"])
        page = contexts[-1].new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda request: None if request.url.startswith(own) else wrong.append(request.url))
        page.goto(address + query)
        page.wait_for_selector("#figures div, #error:not([hidden])")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not wrong


def shown(page) -> str:
    return page.inner_text("#figures")


def press(page, control: str, key: str, times: int = 1) -> None:
    """Move a slider by the keyboard, and wait until the URL, which changes with the figures, has its number."""
    page.focus(f"input[data-for={control}]")
    for _ in range(times):
        page.keyboard.press(key)
    state = dataclasses.replace(DEFAULT, **{control: float(page.input_value(f"#{control}"))})
    page.wait_for_url(lambda url: url.partition("?")[2] == query_of(state))


def test_a_slider_moves_the_figures_and_the_url_gives_them_again(opened):
    page = opened()
    before = shown(page)
    press(page, "hbm_bandwidth", "ArrowRight", 12)
    after = shown(page)
    assert after != before and page.input_value("#hbm_bandwidth") == "1.52"
    assert page.inner_text("#hbm_bandwidth-figure") == "\u00d7 1.52 = 7.296 TB/s"
    assert page.url.endswith("/?hardware=H200-SXM&hbm_bandwidth=1.52&model=Llama-3.1-70B&tp=4")
    # The link as it is copied, in a window of its own.
    page.click("#share")
    page.wait_for_selector("#share:text('Copied')")
    copied = page.evaluate("navigator.clipboard.readText()")
    again = opened(copied.partition("/?")[2] and "?" + copied.partition("/?")[2])
    assert shown(again) == after and again.input_value("#hbm_bandwidth") == "1.52"
    # And back to where it began.
    again.click("button[type=reset]")
    again.wait_for_url(lambda url: url.endswith("/?hardware=H200-SXM&model=Llama-3.1-70B&tp=4"))
    assert shown(again) == before


def test_all_controls_are_restored_and_the_command_is_copied(opened):
    query = "?hardware=B200-SXM&matrix=2.0&model=DeepSeek-V3&kv=fp8&engine=sglang&tp=1&attention_dp=8&ep=8&devices=16"
    page = opened(f"{query}&batch=100&isl=1000&osl=300")
    for part in query[1:].split("&"):
        name, _, value = part.partition("=")
        assert page.input_value(f"#{name}") == value
    assert page.inner_text("#title").startswith("DeepSeek-V3 on 16 x B200-SXM")
    page.click("[data-copies=command]")
    page.wait_for_selector("[data-copies=command]:text('Copied')")
    command = page.evaluate("navigator.clipboard.readText()")
    assert command == page.inner_text("#command") and "--attention-dp 8 --ep 8 --dp 2" in command


def test_a_bad_url_is_one_line_and_the_controls_go_on(opened):
    page = opened("?hardware=nonsense&tp=3")
    assert page.inner_text("#error") == "hardware = 'nonsense' is not in the list"
    page.select_option("#hardware", "H100-SXM")
    page.wait_for_selector("#error:text('tp')")
    page.select_option("#tp", "8")
    page.wait_for_selector("#figures div")
    assert page.is_hidden("#error") and "H100-SXM" in page.inner_text("#title")


def test_what_does_not_fit_is_marked(opened):
    page = opened("?tp=1")
    page.wait_for_selector("svg .own")
    assert page.inner_text("#memory.fails").startswith("does not fit")
    assert page.locator("svg .point.fails").count() > 0


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_nothing_is_wider_than_the_screen(opened, size):
    page = opened("?model=DeepSeek-V3&tp=1&attention_dp=8&ep=8", **size)
    page.wait_for_selector("svg .own")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    # Light ink on dark paper, or the other way round.
    paper, ink = (
        sum(map(int, re.findall(r"\d+", page.evaluate(f"getComputedStyle(document.body).{one}"))[:3]))
        for one in ("backgroundColor", "color")
    )
    assert (paper < ink) == (size.get("color_scheme") == "dark")
    # Every control has a label that a screen reader says.
    unnamed = "[...document.forms[0].elements].filter((e) => e.name && !e.labels.length).map((e) => e.name).join()"
    assert page.evaluate(unnamed) == ""


def test_an_own_chip_is_shown_and_again_when_its_file_has_changed(browser, tmp_path):
    chip, bare = tmp_path / "mychip.toml", tmp_path / "bare.toml"
    chip.write_text(CHIP)
    bare.write_text(BARE["no link"])
    with explorer("--hardware", f"{chip},{bare}") as address:
        page = browser.new_page(**SIZES["light"])
        page.goto(address)
        page.wait_for_selector("svg .own")
        assert page.inner_text("#title").startswith("Llama-3.1-70B on 4 x MyChip")
        assert page.inner_text("#hardware option:checked") == "mychip.toml"
        assert page.inner_text("#hbm_bandwidth-figure") == "6 TB/s" and page.is_enabled("#link")
        # Edited elsewhere; the person comes back to the page.
        chip.write_text(CHIP.replace("6 TB/s", "8 TB/s"))
        page.evaluate("dispatchEvent(new Event('focus'))")
        page.wait_for_selector("#hbm_bandwidth-figure:text('8 TB/s')")
        chip.write_text(CHIP.replace("6 TB/s", "8 TB"))
        page.evaluate("dispatchEvent(new Event('focus'))")
        page.wait_for_selector("#error:text('mychip.toml: memory: bandwidth')")
        # A chip without a link: what is wrong is said, and the control of the link rests.
        page.select_option("#hardware", str(bare))
        page.wait_for_selector("#error:text('tp = 4')")
        page.select_option("#tp", "1")
        page.wait_for_selector("#link:disabled")
        assert page.is_hidden("#error") and page.inner_text("#link-figure") == "none"
        assert page.inner_text("#command").startswith(f"jaxroof request --hardware {bare} --model")
        page.select_option("#hardware", "H100-SXM")
        page.wait_for_selector("#link:enabled")
        # A page that opens with what cannot be shows the reason alone.
        page.goto(f"{address}?hardware={bare}&tp=4")
        page.wait_for_selector("#error:not([hidden])")
        assert page.is_hidden("#shown")
        page.close()


def test_time_from_a_key_to_its_figures(opened, capsys):
    """Printed, not bounded: it is the machine's."""
    page, spent = opened(), []
    for change in range(50):
        begun = time.perf_counter()
        press(page, "hbm_bandwidth", "ArrowRight" if change % 2 else "ArrowLeft")
        spent.append(time.perf_counter() - begun)
        page.wait_for_timeout(20)
    with capsys.disabled():
        print(f"\nexplorer in the browser: median of {len(spent)} changes {1e3 * statistics.median(spent):.0f} ms")
