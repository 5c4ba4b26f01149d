"""Docstrings of the code as reStructuredText: paragraphs, equations, arguments, results, errors and sources."""

import re
from collections.abc import Iterator

from docs.site import pages

SECTION = re.compile(r"^(Args|Returns|Raises|Yields|Source|Example|Examples):[ ]*(.*)$", re.M)

TITLES = {"Args": "Arguments", "Examples": "Example"}

EQUATION = re.compile(r"[\w()', /^.-]{1,40} (=|<=|>=) \S[^`]*")


def described(text: str) -> str:
    """A docstring in Google's style; single backticks are code, and an equation in a paragraph of its own stays so."""
    first, *parts = SECTION.split(text)
    found = [paragraph(each) for each in re.split(r"\n\s*\n", first.strip("\n"))]
    for name, rest, below in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        # What follows a section without being indented is text again.
        inside, _, after = below.partition("\n\n") if not below.startswith("\n ") else _split(below)
        found += [section(TITLES.get(name, name), f"{rest}{inside}"), *map(paragraph, filter(None, [after.strip()]))]
    return "\n\n".join(found)


def _split(below: str) -> tuple[str, str, str]:
    """A section's indented lines, and what comes after them."""
    found = re.search(r"\n(?=\S)", below)
    return (below[: found.start()], "", below[found.start() :]) if found else (below, "", "")


def section(title: str, text: str) -> str:
    """A field of a docstring: a list where it has several entries, code where it is an example."""
    lines = text.strip("\n").splitlines()
    body = "\n".join(lines) if lines[0][:1] != " " else _dedented(lines)
    if title == "Example" and body[:1] != "`":
        return f":Example:\n   .. code-block:: python\n\n{pages.indented(body, 6)}"
    if title in ("Arguments", "Raises"):
        entries = [f"* {pages.plain(' '.join(each.split()))}" for each in _emphasised(_entries(body))]
        return f":{title}:\n{pages.indented(chr(10).join(entries))}"
    paragraphs = [" ".join(each.split()) for each in re.split(r"\n\s*\n", body)]
    return f":{title}:\n{pages.indented((chr(10) * 2).join(map(pages.plain, paragraphs)))}"


def paragraph(text: str) -> str:
    """Text, or the lines of an equation, or code that is indented."""
    lines = text.splitlines()
    if lines and all(line.startswith("  ") for line in lines):
        return f".. code-block:: text\n\n{pages.indented(_dedented(lines))}"
    if lines and EQUATION.match(lines[0]) and not text.rstrip().endswith("."):
        return f".. code-block:: text\n\n{pages.indented(text)}"
    return pages.plain(text)


def _entries(body: str) -> Iterator[str]:
    """Entries of a section: each begins at the margin, and goes on indented."""
    yield from re.split(r"\n(?=\S)", body)


def _emphasised(entries: Iterator[str]) -> Iterator[str]:
    for entry in entries:
        names, colon, text = entry.partition(": ")
        if colon and re.fullmatch(r"[\w*, ]+", names):
            # Names of arguments and errors are code.
            yield ", ".join(f"`{name}`" for name in names.split(", ")) + colon + text
        else:
            yield entry


def _dedented(lines: list[str]) -> str:
    margin = min(len(line) - len(line.lstrip()) for line in lines if line.strip())
    return "\n".join(line[margin:] for line in lines)
