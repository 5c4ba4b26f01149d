"""Write the output blocks and pictures of README and the guide anew: `python -m tests.pages`, `make docs-figures`."""

import argparse
import pathlib
import shutil
import tempfile

from rich.console import Console

from tests.pages.difference import difference
from tests.pages.made import Made
from tests.pages.page import PAGES, ROOT, blocks


def main() -> None:
    """Every page, or those that are named; a line for every block that has changed."""
    parser = argparse.ArgumentParser(prog="python -m tests.pages", description=__doc__)
    parser.add_argument("pages", nargs="*", type=pathlib.Path, help="pages (default: README.md and docs/guide/)")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 where something differs")
    options = parser.parse_args()
    console = Console()
    differing = 0
    for page in [path.resolve() for path in options.pages] or PAGES:
        with console.status(str(page.relative_to(ROOT))), tempfile.TemporaryDirectory() as folder:
            differing += _page(page, Made(pathlib.Path(folder)), options.check, console)
    if options.check and differing:
        raise SystemExit(1)


def _page(page: pathlib.Path, made: Made, check: bool, console: Console) -> int:
    """Number of blocks of a page that differ; the page is written with today's unless it is only checked."""
    text, shift, differing = page.read_text(encoding="utf-8"), 0, 0
    for block in blocks(page):
        today = made.of(block)
        if isinstance(today, pathlib.Path):
            if not check:
                shutil.copyfile(today, page.parent / block.text)
            continue
        found = difference(block.text, today, block.within)
        if found:
            differing += 1
            console.print(f"{page.relative_to(ROOT)}: {found}", markup=False, highlight=False)
        start, end = block.span
        text = text[: start + shift] + today + text[end + shift :]
        shift += len(today) - (end - start)
    if not check:
        page.write_text(text, encoding="utf-8")
    return differing


if __name__ == "__main__":
    main()
