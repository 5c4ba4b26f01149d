"""Chromium without a window, driven by playwright: what it is called here, and a browser that tests share."""

import contextlib
import shutil
from collections.abc import Iterator
from typing import Any

PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
"""Path of the browser; None where none is installed."""


@contextlib.contextmanager
def browser() -> Iterator[Any]:
    """A browser that has been started.

    Raises:
      ModuleNotFoundError: playwright or a browser is not installed.
    """
    from playwright.sync_api import sync_playwright

    if PROGRAM is None:
        raise ModuleNotFoundError("no browser", name="chromium")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=PROGRAM, args=["--no-sandbox"])
        try:
            yield started
        finally:
            started.close()
