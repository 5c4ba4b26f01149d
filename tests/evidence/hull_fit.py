"""Hulls of an engine's file, whose constants stay: `python -m tests.evidence.hull_fit --data DIR --engine vllm`."""

import argparse
import sys
from pathlib import Path

from rich.console import Console

import hwspaces
from hwspaces.performance.kernel_tables import hull_lines
from jaxroof.efficiency import Hull
from tests.evidence.harness import data, fitting
from tests.evidence.hulls import hulls
from tests.evidence.learned_fit import COLLECTIVE_HULL, FITS, KERNELS, all_groups, assembled


@fitting(data("folder with kernels/"), KERNELS, width=160)
def main(options: argparse.Namespace, console: Console) -> str:
    """Fit the kernels with each architecture left out, and print."""
    engine = options.engine
    fits = [found for each in FITS for found in each(options.data, engine)]
    entry = hwspaces.efficiency(f"learned-{engine}")
    text = (Path(hwspaces.__file__).parents[1] / entry.file).read_text(encoding="utf-8")
    found = hulls(fits, all_groups(options.data), engine, assembled, console)
    for path, hull in {**found, "collective": COLLECTIVE_HULL}.items():
        text = with_hull(text, path, hull)
    return text


def with_hull(text: str, table: str, hull: Hull) -> str:
    """The text of an efficiency file with the hull of one of its tables replaced, or added where there was none.

    Raises:
      ValueError: one line, where the table is missing.
    """
    start = text.find(f"\n[{table}]\n")
    if start < 0:
        raise ValueError(f"{table}: the file has no such table")
    end = text.find("\n[", start + 1)
    block = text[start : len(text) if end < 0 else end].rstrip("\n").split("\n")
    kept = [line for line in block if not line.startswith("hull.")]
    place = next((i for i, line in enumerate(kept) if line.startswith("source")), len(kept))
    lines = "\n".join([*kept[:place], *hull_lines(hull), *kept[place:]])
    return text[:start] + lines + ("\n" if end < 0 else "\n" + text[end:])


if __name__ == "__main__":
    sys.exit(main())
