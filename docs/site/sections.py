"""Index page of every section of the site, from the tables of docs/README.md."""

import re
from pathlib import Path

from docs.site import pages

SECTIONS = {
    "Learn": "learn",
    "Guide": "guide",
    "Notebooks": "notebooks",
    "Reference": "reference",
    "Evidence": "evidence",
}
"""Title -> folder."""

GENERATED = {"reference": ("api/index", "cli/index")}
"""Pages of a folder that no file in Markdown has."""

ROW = re.compile(r"^\| (.+?) \| (.+?) \|$", re.M)
LINK = re.compile(r"\[([^]]+)\]\(([^)]+)\.md\)")
FOLDERS = re.compile(rf"(\]\((?:\.\./)*(?:{'|'.join(SECTIONS.values())})/)README\.md")


def write(docs: Path) -> None:
    """Write DOCS/FOLDER/index.rst for all sections."""
    text = (docs / "README.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", text, re.M | re.S))
    for title, folder in SECTIONS.items():
        (docs / folder).mkdir(exist_ok=True)
        pages.write(docs / folder / "index.rst", index(docs, folder, title, listed.get(title, "")))


def index(docs: Path, folder: str, title: str, listed: str) -> str:
    """The page of one section: its README.md, or pages in the order of docs/README.md; then all others."""
    own = docs / folder / "README.md"
    heads, *rows = ROW.findall(listed) or [("page", "content")]
    # The README.md of a section is its index page.
    doc = [(LINK.sub(r":doc:`\1 </\2>`", page).replace("/README>`", "/index>`"), content) for page, content in rows]
    cells = [(page, pages.plain(content)) for page, content in doc]
    links = LINK.findall(own.read_text(encoding="utf-8") if own.exists() else "\n".join(page for page, _ in rows))
    names = [str(path.relative_to(docs / folder).with_suffix("")) for path in sorted((docs / folder).rglob("*.md"))]
    known = [name for _, target in links if (name := target.removeprefix(f"{folder}/")) in names]
    # Pages that the tables do not have are listed by their titles.
    others = [*GENERATED.get(folder, ()), *(name for name in names if name not in (*known, "README"))]
    parts = [pages.title(title)]
    if own.exists():
        parts.append(".. include:: README.md\n   :parser: myst_parser.sphinx_\n   :start-line: 1")
    if others:
        parts.append(pages.toctree(others, ":maxdepth: 1"))
    if cells and not own.exists():
        parts.append(pages.table(heads, cells, "35 65"))
    if known:
        parts.append(pages.toctree(known, ":hidden:"))
    return "\n\n".join(parts) + "\n"


def linked(text: str) -> str:
    """Text whose links to the README.md of a section lead to its page."""
    return FOLDERS.sub(r"\1index.rst", text)
