"""Hulls of an engine's file, whose constants stay: `python -m tests.evidence.hull_fit --data DIR --engine vllm`."""

import functools
import sys
from pathlib import Path

from rich.console import Console

import hwspaces
from hwspaces.performance.kernel_tables import hull_lines
from jaxroof.efficiency import Hull
from sweeps.run.precision import precision
from tests.evidence.fit_command import exit_status, fit_parser
from tests.evidence.hulls import hulls
from tests.evidence.learned_fit import COLLECTIVE_HULL, ENGINES, FITS, assembled


def main(words: list[str] | None = None) -> int:
    """Fit the kernels with each architecture left out, print, and write; returns the exit status."""
    parser = fit_parser("hull_fit", __doc__, "folder with kernels/")
    parser.add_argument("--engine", required=True, choices=ENGINES, help="whose kernels")
    options = parser.parse_args(words)
    with precision("float64"):
        fitted = functools.partial(_refreshed, options.data / "kernels", options.engine, Console(width=160))
        return exit_status("hull_fit", options.output, fitted, options.data, options.force)


def _refreshed(folder: Path, engine: str, console: Console) -> str:
    fits = [found for fit in FITS for found in fit(folder, engine)]
    entry = hwspaces.efficiency(f"learned-{engine}")
    text = (Path(hwspaces.__file__).parents[1] / entry.file).read_text(encoding="utf-8")
    found = hulls(fits, folder, engine, assembled, console)
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
