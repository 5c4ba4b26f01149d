"""How a fit of constants runs as a command: its flags, the file that it writes, and one line for what is wrong."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from sweeps.store import replacing


def fit_parser(module: str, description: str, data: str, metavar: str = "DIR") -> argparse.ArgumentParser:
    """Flags of every fit: `--data`, whose help is `data`, and `-o`."""
    parser = argparse.ArgumentParser(prog=f"python -m sweeps.validate.{module}", description=description)
    parser.add_argument("--data", required=True, type=Path, metavar=metavar, help=data)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write the constants to this TOML file")
    return parser


def exit_status(name: str, output: Path | None, fitted: Callable[[], str]) -> int:
    """0 after `fitted` has given the text of a file and `output` holds it; 2 after one line on stderr, `name` first."""
    try:
        text = fitted()
        if output is not None:
            with replacing(output) as temporary:
                Path(temporary).write_text(text, encoding="utf-8")
    except ValueError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 2
    return 0
