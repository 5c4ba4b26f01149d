"""Run the pages' commands, write their outputs and pictures anew: `python -m tests.pages`, `make docs-figures`."""

import argparse
import pathlib
import shutil
import tempfile

from tests.pages.difference import difference
from tests.pages.made import Made, NotInstalled
from tests.pages.page import PAGES, ROOT, Block, blocks


def main() -> None:
    """Every page, or those that are named; a line for every block that has changed or cannot be made."""
    parser = argparse.ArgumentParser(prog="python -m tests.pages", description=__doc__)
    parser.add_argument("pages", nargs="*", type=pathlib.Path, help="pages (default: README.md, docs but for evidence)")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 where something differs")
    parser.add_argument("--quick", action="store_true", help="leave blocks marked slow, and pictures, as they are")
    options = parser.parse_args()
    differing, failed = 0, 0
    for page in [path.resolve() for path in options.pages] or PAGES:
        with tempfile.TemporaryDirectory() as folder:
            changed, broken = _page(page, Made(pathlib.Path(folder)), options)
        differing, failed = differing + changed, failed + broken
    if failed or (options.check and differing):
        raise SystemExit(1)


def _page(page: pathlib.Path, made: Made, options: argparse.Namespace) -> tuple[int, int]:
    """Blocks of a page that differ and that cannot be made; the page is written unless it is only checked."""
    text, shift, differing, failed = page.read_text(encoding="utf-8"), 0, 0, 0
    for block in blocks(page):
        if options.quick and (block.slow or block.kind == "picture"):
            continue
        try:
            today = made.of(block)
        except NotInstalled as missing:
            print(f"{_where(block)}: left as it is; {missing} is not installed", flush=True)
            continue
        except ValueError as error:
            failed += 1
            print(f"{_where(block)}: {error}", flush=True)
            continue
        if isinstance(today, pathlib.Path):
            if not options.check:
                shutil.copyfile(today, page.parent / block.text)
            continue
        found = difference(block.text, today, block.within)
        if found:
            differing += 1
            print(f"{_where(block)}: {found}", flush=True)
        start, end = block.span
        text = text[: start + shift] + today + text[end + shift :]
        shift += len(today) - (end - start)
    if not options.check:
        page.write_text(text, encoding="utf-8")
    return differing, failed


def _where(block: Block) -> str:
    return f"{block.page.relative_to(ROOT)}:{block.line}"


if __name__ == "__main__":
    main()
