"""Spreads and hulls of an engine's file, whose constants stay.

`python -m tests.evidence.hull_fit --data DIR --engine vllm`
"""

import argparse
import sys
from pathlib import Path

from rich.console import Console

import hwspaces
from hwspaces.performance.efficiency_file import spread_line
from hwspaces.performance.kernel_tables import hull_lines
from tests.evidence.harness import data, fitting
from tests.evidence.hulls import hulls, measured
from tests.evidence.learned_fit import COLLECTIVE_HULL, FITS, KERNELS, all_groups, assembled
from tests.evidence.spreads import spreads


@fitting(data("folder with kernels/"), KERNELS, width=160)
def main(options: argparse.Namespace, console: Console) -> str:
    """Fit the kernels with each architecture left out, and print."""
    engine = options.engine
    fits = [found for each in FITS for found in each(options.data, engine)]
    entry = hwspaces.efficiency(f"learned-{engine}")
    text = (Path(hwspaces.__file__).parents[1] / entry.file).read_text(encoding="utf-8")
    rows = measured(all_groups(options.data), engine, entry.efficiency)
    for path, spread in spreads(entry.efficiency, fits, rows).items():
        text = with_lines(text, path, "spread", [spread_line(spread)])
    found = hulls(fits, all_groups(options.data), engine, assembled, console)
    for path, hull in {**found, "collective": COLLECTIVE_HULL}.items():
        text = with_lines(text, path, "hull.", hull_lines(hull))
    return text


def with_lines(text: str, table: str, begin: str, lines: list[str]) -> str:
    """The text of an efficiency file with those lines of one table that begin so replaced, or added where none did.

    Raises:
      ValueError: one line, where the table is missing.
    """
    start = text.find(f"\n[{table}]\n")
    if start < 0:
        raise ValueError(f"{table}: the file has no such table")
    end = text.find("\n[", start + 1)
    block = text[start : len(text) if end < 0 else end].rstrip("\n").split("\n")
    first = next((i for i, line in enumerate(block) if line.startswith((begin, "source", "hull."))), len(block))
    kept = [line for line in block[first:] if not line.startswith(begin)]
    whole = "\n".join([*block[:first], *lines, *kept])
    return text[:start] + whole + ("\n" if end < 0 else "\n" + text[end:])


if __name__ == "__main__":
    sys.exit(main())
