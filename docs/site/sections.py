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


def write(docs: Path) -> None:
    """Write DOCS/FOLDER/index.rst for all sections."""
    text = (docs / "README.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", text, re.M | re.S))
    for title, folder in SECTIONS.items():
        (docs / folder).mkdir(exist_ok=True)
        pages.write(docs / folder / "index.rst", index(docs, folder, title, listed.get(title, "")))


def index(docs: Path, folder: str, title: str, listed: str) -> str:
    """The page of one section: pages that docs/README.md lists, in its order, and the others of its folder."""
    heads, *rows = ROW.findall(listed) or [("page", "content")]
    cells = [(LINK.sub(r":doc:`\1 </\2>`", page), pages.plain(content)) for page, content in rows]
    known = [target.removeprefix(f"{folder}/") for _, target in LINK.findall("\n".join(page for page, _ in rows))]
    # Pages that the tables do not have are listed by their titles, below them.
    found = [str(path.relative_to(docs / folder).with_suffix("")) for path in sorted((docs / folder).rglob("*.md"))]
    others = [*GENERATED.get(folder, ()), *(page for page in found if page not in known)]
    parts = [pages.title(title)]
    if others:
        parts.append(pages.toctree(others, ":maxdepth: 1"))
    if known:
        parts += [pages.table(heads, cells, "35 65"), pages.toctree(known, ":hidden:")]
    return "\n\n".join(parts) + "\n"
