"""Text of generated pages as reStructuredText: titles, tables, and what docstrings and helps say."""

import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

RULES = "=-~^"
"""Lines below titles, by level."""


def title(text: str, level: int = 0) -> str:
    """A title of a level."""
    return f"{text}\n{RULES[level] * len(text)}\n"


def capital(text: str) -> str:
    """Text whose first letter is a capital."""
    return text[:1].upper() + text[1:]


def plain(text: str) -> str:
    """Text in which only `code` between backticks means something."""
    parts = re.split(r"(`+)(.+?)\1", text, flags=re.S)
    found = ""
    for place in range(0, len(parts), 3):
        words = re.sub(r"([\\*|_`])", r"\\\1", parts[place])
        # Code that a letter touches: the mark of its end needs a separator.
        found += ("\\ " if place and words[:1].isalnum() else "") + words
        if place + 2 < len(parts):
            code = " ".join(parts[place + 2].split())
            found += ("\\ " if words[-1:].isalnum() else "") + f"``{code}``"
    return found


def indented(text: str, by: int = 3) -> str:
    """Text further to the right; empty lines stay empty."""
    return "\n".join(" " * by + line if line.strip() else "" for line in text.splitlines())


def table(heads: Iterable[str], rows: Iterable[Iterable[str]], widths: str = "auto") -> str:
    """A table of cells in reStructuredText."""
    lines = [".. list-table::", "   :class: words", "   :header-rows: 1", f"   :widths: {widths}", ""]
    for row in (tuple(heads), *rows):
        for place, cell in enumerate(row):
            first, *others = cell.splitlines() or [""]
            lines.append(f"   {'*' if place == 0 else ' '} - {first}".rstrip())
            lines += [indented(other, 7) for other in others]
    return "\n".join(lines) + "\n"


def toctree(pages: Iterable[str], *options: str) -> str:
    """A list of pages for the navigation."""
    return "\n".join([".. toctree::", *(f"   {option}" for option in options), "", *(f"   {page}" for page in pages)])


def write_folder(folder: Path, texts: Mapping[str, str]) -> None:
    """Make a folder of generated pages hold exactly these, by name; those that stay the same are left alone."""
    if folder.exists() and {path.stem for path in folder.iterdir()} - texts.keys():
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        write(folder / f"{name}.rst", text)


def write(path: Path, text: str) -> None:
    """Write a page if it differs from what is there, so that Sphinx reads only what is new."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
