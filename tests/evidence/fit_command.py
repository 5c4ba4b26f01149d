"""Command of a fit of constants: its flags, the file that it writes, and one line for what is wrong."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from hwspaces.files import output as files


def fit_parser(module: str, description: str, data: str, metavar: str = "DIR") -> argparse.ArgumentParser:
    """Flags of every fit: `--data`, whose help is `data`, and `-o`."""
    parser = argparse.ArgumentParser(prog=f"python -m tests.evidence.{module}", description=description)
    parser.add_argument("--data", required=True, type=Path, metavar=metavar, help=data)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write the constants to this TOML file")
    parser.add_argument("--force", action="store_true", help="replace a file that jaxroof did not write")
    return parser


def exit_status(
    name: str, output: Path | None, fitted: Callable[[], str], data: Path | None = None, force: bool = False
) -> int:
    """0 after `fitted` has given the text of a file and `output` holds it; 2 after one line on stderr, `name` first."""
    inputs = files.named(data)
    try:
        if output is not None:
            files.require([files.Wanted(str(output), ("efficiency",), "-o")], inputs, force)
        text = fitted()
        if output is not None:
            with files.replacing(output, ("efficiency",), inputs, force) as temporary:
                Path(temporary).write_text(text, encoding="utf-8")
    except ValueError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 2
    return 0
