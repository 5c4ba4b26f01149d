"""`jaxroof ui`: a local explorer in the browser, on this machine alone."""

import argparse
import os
import sys
import threading
import webbrowser

from sweeps.answers.answer import say
from sweeps.cli import common, stopping

PORT = "8350"

NAMES = {
    "hardware": "accelerators to begin with: TOML files or names (jaxroof hardware)",
    "model": "models to begin with: config.json, TOML files or names (jaxroof models)",
}
"""Flag of names with commas between -> its help."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the verb."""
    for name, what in NAMES.items():
        parser.add_argument(f"--{name}", metavar="NAME,..", help=what)
    parser.add_argument("--port", metavar="N", help=f"of this machine (default {PORT}); 0: any that is free")
    parser.add_argument("--no-open", action="store_true", help="leave the browser to you: print the address alone")


def run(options: argparse.Namespace) -> None:
    """Serve the explorer until Ctrl-C."""
    port = int(common.whole_number("--port", options.port or PORT, zero=True))
    if port > 65535:
        raise ValueError(f"--port {port} must be at most 65535")
    named = {name: _names(name, getattr(options, name)) for name in NAMES}
    from sweeps.ui import app
    from sweeps.ui.offer import offer

    # Files are read before the port is taken, so that what is wrong with them is said at once.
    offered = offer(**named)
    listening = app.listening(port)
    address = f"http://{app.ADDRESS}:{listening.getsockname()[1]}/"
    stopping.say(lambda title, signal: f"{title}: stopped by {signal}")
    say(f"jaxroof explorer at {address} (Ctrl-C ends it)")
    sys.stdout.flush()
    if not options.no_open and _has_screen():
        # The socket listens already: the browser's first request waits until the server runs.
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
    app.serve(listening, offered)


def _names(flag: str, text: str | None) -> list[str]:
    """The names that a flag has."""
    names = common.listed(text)
    if names is not None and not names:
        raise ValueError(f"--{flag} {text!r} names nothing")
    return names or []


def _has_screen() -> bool:
    """Whether a browser has a screen to open on: without one, a browser of the terminal would take its place."""
    return sys.platform in ("win32", "darwin") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
