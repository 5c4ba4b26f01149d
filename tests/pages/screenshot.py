"""Screenshot of a page by Chromium without a window: `python -m tests.pages.screenshot report.html report.png`."""

import argparse
import pathlib

from tests.chromium import browser

WIDTH, HEIGHT = 1280, 1400

DRAWN = "[...document.querySelectorAll('figure.chart')].every(one => one.dataset.drawn)"
"""Whether all charts of a report are there, in JavaScript."""


def screenshot(
    page: pathlib.Path, picture: pathlib.Path, width: int = WIDTH, height: int | None = HEIGHT, dark: bool = False
) -> None:
    """Draw the top of a page, or all of it.

    Args:
      page: an HTML file.
      picture: the PNG that is written.
      width, height: pixels; no height: the whole page.
      dark: as a system with a dark scheme shows it.

    Raises:
      ModuleNotFoundError: playwright or a browser is not installed.
    """
    with browser() as found:
        size = {"width": width, "height": height or HEIGHT}
        opened = found.new_page(viewport=size, color_scheme="dark" if dark else "light")
        opened.goto(page.resolve().as_uri())
        opened.wait_for_function(DRAWN, timeout=60_000)
        opened.screenshot(path=str(picture), full_page=height is None)


def main() -> None:
    """Draw one page."""
    parser = argparse.ArgumentParser(prog="python -m tests.pages.screenshot", description=__doc__)
    parser.add_argument("page", type=pathlib.Path)
    parser.add_argument("picture", type=pathlib.Path)
    parser.add_argument("--width", type=int, default=WIDTH)
    parser.add_argument("--height", type=int, help="default: the whole page")
    parser.add_argument("--dark", action="store_true")
    options = parser.parse_args()
    screenshot(options.page, options.picture, options.width, options.height, options.dark)


if __name__ == "__main__":
    main()
