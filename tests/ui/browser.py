"""The explorer as a process of its own, and its page as a picture."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.chromium import browser

ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}

SIZES: dict[str, dict[str, Any]] = {
    "light": {"viewport": {"width": 1280, "height": 900}},
    "dark": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}, "has_touch": True},
}


def begun(*words: str) -> subprocess.Popen:
    """A process of `jaxroof ui`; the fourth word that it prints is its address."""
    script = "import sys; from sweeps.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", script, "ui", "--no-open", *words]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env=ENVIRONMENT, **pipes)


@contextlib.contextmanager
def explorer(*words: str) -> Iterator[str]:
    """Address of an explorer that runs with further words: "http://127.0.0.1:PORT/"."""
    with begun("--port", "0", *words) as running:
        line = running.stdout.readline()
        assert line.startswith("jaxroof explorer at http://127.0.0.1:"), line + running.stderr.read()
        try:
            yield line.split()[3]
        finally:
            running.kill()


def screenshot(query: str, path: Path, size: str = "light") -> None:
    """Save the explorer's page for the query of a URL as a PNG, as long as it is."""
    with explorer() as address, browser() as found:
        page = found.new_page(**SIZES[size])
        page.goto(address + query)
        page.wait_for_selector("svg .own")
        # How long it took is this machine's.
        page.evaluate("document.getElementById('time').hidden = true")
        page.screenshot(path=path, full_page=True)
