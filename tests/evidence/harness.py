"""Commands of evidence: their flags, one line for what is wrong, files that fits write, and tables of errors."""

import argparse
import functools
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

from hwspaces.files import output as files
from sweeps.measure.validate.relative_errors import errors, grouped
from sweeps.run.precision import precision


class Flag(NamedTuple):
    """One argument of a command, as `argparse` takes it."""

    names: tuple[str, ...]
    settings: dict[str, Any]


def flag(*names: str, **settings: Any) -> Flag:
    """The flag with these names."""
    return Flag(names, settings)


def data(words: str, metavar: str = "DIR") -> Flag:
    """`--data`, the measured files: `words` say which."""
    return flag("--data", required=True, type=Path, metavar=metavar, help=words)


EFFICIENCY = flag("--efficiency", default="learned", metavar="NAME", help="constants (default: learned)")
EVERY_ROW = flag("--rows", action="store_true", help="also print every row")


def several(name: str, choices: Sequence[str] | Mapping[str, Any], words: str) -> Flag:
    """A flag that may be given again, for some of several things."""
    return flag(name, action="append", default=[], choices=choices, help=words)


Main = Callable[[Sequence[str] | None], int]


def command(*flags: Flag) -> Callable[[Callable[[argparse.Namespace], int | None]], Main]:
    """A module's `main(words=None)` from what it does with its options; the module's docstring is its help.

    It returns the exit status: what is returned, else 0; 2 after one line on stderr for wrong or missing files.
    """

    def made(answer: Callable[[argparse.Namespace], int | None]) -> Main:
        own = inspect.unwrap(answer)  # a fit's
        name = Path(own.__code__.co_filename).stem

        @functools.wraps(answer)
        def main(words: Sequence[str] | None = None) -> int:
            prog, description = f"python -m tests.evidence.{name}", own.__globals__["__doc__"]
            parser = argparse.ArgumentParser(prog=prog, description=description)
            for names, settings in flags:
                parser.add_argument(*names, **settings)
            options = parser.parse_args(words)
            try:
                return answer(options) or 0
            except (ValueError, OSError) as error:
                print(f"{name}: {error}", file=sys.stderr)
                return 2

        return main

    return made


def fitting(
    *flags: Flag, dtype: str = "float64", width: int = 120
) -> Callable[[Callable[[argparse.Namespace, Console], str]], Main]:
    """A fit's `main(words=None)` from what gives the text of its file of constants, which `-o` writes.

    Args:
      dtype: precision of JAX.
      width: columns of what is printed.
    """
    output = flag("-o", "--output", type=Path, metavar="FILE", help="write the constants to this TOML file")
    force = flag("--force", action="store_true", help="replace a file that jaxroof did not write")

    def made(fitted: Callable[[argparse.Namespace, Console], str]) -> Main:
        @command(*flags, output, force)
        @functools.wraps(fitted)
        def main(options: argparse.Namespace) -> None:
            inputs = files.named(getattr(options, "data", None))
            if options.output is not None:
                files.require([files.Wanted(str(options.output), ("efficiency",), "-o")], inputs, options.force)
            with precision(dtype):
                text = fitted(options, Console(width=width))
            if options.output is not None:
                with files.replacing(options.output, ("efficiency",), inputs, options.force) as temporary:
                    Path(temporary).write_text(text, encoding="utf-8")

        return main

    return made


def error_text(predicted: Sequence[float] | np.ndarray, measured: Sequence[float] | np.ndarray) -> str:
    """Median, MAPE and signed error in %."""
    each = errors(np.asarray(predicted, float), np.asarray(measured, float))
    return f"{100 * each.median:.1f}, {100 * each.mape:.1f}, {100 * each.signed:+.1f}"


def score_table(
    found: Sequence[Any],
    figures: Mapping[str, tuple[Callable[[Any], float], Callable[[Any], float]]],
    gpu: Callable[[Any], str],
    model: Callable[[Any], str],
    split: tuple[str, Callable[[Any], bool], str, str],
) -> Table:
    """Median, MAPE and signed error in % of every figure, by device and then by model too.

    Args:
      figures: what is scored -> the prediction and the measured value.
      gpu, model: of a row.
      split: what rows are told apart by besides: its heading, its truth for a row, and the texts of yes and no.
    """
    head, holds, yes, no = split
    table = Table(title="errors of median, MAPE, signed in %")
    for each in ("by", head, "rows", *figures):
        table.add_column(each)
    keys: tuple[Callable[[Any], str], ...] = (lambda one: "", model)
    for key in keys:
        groups = grouped(found, lambda one, key=key: (gpu(one), key(one), holds(one)))
        for (device, name, held), group in sorted(groups.items()):
            texts = [error_text(*([of(one) for one in group] for of in pair)) for pair in figures.values()]
            table.add_row(f"{device} {name}", yes if held else no, str(len(group)), *texts)
    return table
