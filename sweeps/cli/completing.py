"""Answers to a shell that completes a line: verbs, flags, names of the catalogues, engines and files."""

import argparse
import os
import re
from collections.abc import Callable, Iterable
from typing import Any

from sweeps.cli.completion import SHELLS, library


def words() -> list[str]:
    """Whole words behind `jaxroof` in the line that is completed."""
    from argcomplete.lexers import split_line

    found: list[str] = split_line(os.environ["COMP_LINE"], int(os.environ["COMP_POINT"]))[3]
    return found[1:]


def answer(parser: argparse.ArgumentParser) -> None:
    """Write what may follow in the line for the script that asks, and end the process.

    Args:
      parser: of the command, with the flags of the verb that the line names.
    """
    _attach(parser, "")
    library().autocomplete(parser, always_complete_options="long")


def _attach(parser: argparse.ArgumentParser, verb: str) -> None:
    """Give every argument what completes its value."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, below in action.choices.items():
                _attach(below, verb or word)
        elif action.choices is None:
            known = CATALOGUES.get(action.dest if action.option_strings else f"{verb} {action.dest}")
            action.completer = _names(known, FILES.search(str(action.metavar)) is not None)  # type: ignore[attr-defined]


def _names(known: Callable[[], Iterable[str]] | None, file: bool) -> Callable[..., list[str]]:
    """What completes a value: names of a catalogue, else files where it may be one."""

    def completed(prefix: str, **_: Any) -> list[str]:
        # Of a list with commas the last name is completed.
        before, comma, last = prefix.rpartition(",")
        found = [name for name in known() if name.startswith(last)] if known else []
        if found or not file:
            return [f"{before}{comma}{name}" for name in found]
        import glob

        return [f"{path}/" if os.path.isdir(path) else path for path in glob.glob(f"{glob.escape(prefix)}*")]

    return completed


FILES = re.compile(r"^(?!.*=).*(FILE|DIR|FOLDER|PATH|OUT|PICTURE|SWEEP|TERMS|NAME|\.[a-z])")
"""Placeholders of values that may be files or folders."""


def _hardware() -> Iterable[str]:
    import hwspaces

    return hwspaces.names()


def _models() -> Iterable[str]:
    import workloads

    return workloads.names()


def _engines() -> Iterable[str]:
    import hwspaces

    return hwspaces.engine_names()


def _launched() -> Iterable[str]:
    return (*_engines(), "dynamo", "kubernetes")


CATALOGUES: dict[str, Callable[[], Iterable[str]]] = {
    "hardware": _hardware,
    "model": _models,
    "draft": _models,
    "engine": _engines,
    "emit": _launched,
    # Arguments without a flag, behind their verb.
    "hardware name": _hardware,
    "models name": _models,
    "emit kind": _launched,
    "completion shell": lambda: SHELLS,
}
"""Argument -> the names that it may have."""
