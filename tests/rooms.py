"""README.md of every room: its modules, what each is about, and what the rest of the code imports from it.

python -m tests.rooms          # writes them anew, from the modules' first lines and the imports
"""

import ast
import collections
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]

PACKAGES = ("jaxroof", "hwspaces", "workloads", "sweeps")

SHOWN = 4
"""Names of a module that its room's page lists, those that most others import first."""


def modules() -> dict[str, Path]:
    """Files of the four packages by dotted name."""
    files = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    return {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in files}


def rooms() -> list[Path]:
    """Folders of modules below the packages."""
    folders = [path.parent for path in modules().values() if path.name == "__init__.py"]
    return sorted(folder for folder in folders if folder.parent != ROOT)


def first_line(path: Path) -> str:
    """What a module is about, as its first line says."""
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")[0]


def _imports(files: dict[str, Path]) -> dict[str, set[tuple[str, str]]]:
    """Module -> names that are imported from it, each with who imports it."""
    found = collections.defaultdict(set)
    for importer, path in files.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                found[node.module] |= {(alias.name, importer) for alias in node.names}
    return found


def pages() -> Iterator[tuple[Path, str]]:
    """The page of every room, and its text."""
    files = modules()
    imports = _imports(files)
    for room in rooms():
        name = ".".join(room.relative_to(ROOT).parts)
        lines = [f"# {name}", "", first_line(room / "__init__.py"), ""]
        lines += ["| module | content | imported from outside |", "|---|---|---|"]
        for module, path in sorted(files.items()):
            if path.parent != room or path.name == "__init__.py":
                continue
            outside = {(each, by) for each, by in imports[module] if by != name and not by.startswith(f"{name}.")}
            users = collections.Counter(each for each, _ in sorted(outside))
            shown = [f"`{each}`" for each, _ in users.most_common(SHOWN)]
            more = f" and {len(users) - SHOWN} more" if len(users) > SHOWN else ""
            content = first_line(path).rstrip(".:")
            lines.append(f"| `{path.stem}` | {content} | {', '.join(shown) + more or 'nothing: private'} |")
        inside = [other.name for other in rooms() if other.parent == room]
        if inside:
            lines += ["", "Rooms inside: " + ", ".join(f"[{each}]({each}/README.md)" for each in inside) + "."]
        yield room / "README.md", "\n".join(lines) + "\n"


if __name__ == "__main__":
    for page, text in pages():
        page.write_text(text, encoding="utf-8")
