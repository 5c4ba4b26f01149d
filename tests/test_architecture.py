"""The house's rules that code can check: which package imports which, how long a module is, what starts fast."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.rooms import first_line, rooms

ROOT = Path(__file__).parents[1]

MAY_IMPORT = {
    "jaxroof": {"jaxroof"},
    "hwspaces": {"hwspaces", "jaxroof"},
    "workloads": {"workloads", "jaxroof"},
    "sweeps": {"sweeps", "workloads", "hwspaces", "jaxroof"},
}
"""Package -> packages of this distribution that its modules may import."""

FLOORS = {
    "jaxroof": (
        {"version", "public", "command", "numerics"},
        {"fanout"},
        {"silicon", "model", "op", "batch", "nests"},  # vocabulary
        {"hardware", "deployment", "tracing"},
        {"layers", "chip", "units"},  # the ops of a model; the area and cost of a device; its rates
        {"memory", "efficiency"},
        {"collectives"},
        {"roofline"},  # the time of one op
        {"energy"},
        {"step"},  # one engine step
        {"prices", "training"},
        {"steady", "scheduler"},  # many requests
        {"jobs"},  # what a point answers
    ),
    "hwspaces": ({"files", "quantities"}, {"accelerators", "engines"}, {"performance"}),
    "workloads": (
        {"config", "expressions", "families", "streams", "traced"},
        {"precisions", "traces"},
        {"models", "nests"},
    ),
    "sweeps": (
        *({"ask"}, {"data"}, {"run"}, {"serving"}, {"studies"}, {"measure"}, {"show"}, {"answers", "reports"}),
        {"entries"},  # Python's
        {"ui"},  # a local page of answers
        {"cli"},
    ),
}
"""Floors of every package, from the ground up: a room imports from rooms below its own floor, and no two rooms of one
floor import each other."""

SHARED = {"hwspaces.files.document", "hwspaces.files.extras"}
"""The one reader of TOML and JSON files, and what to install: they import nothing of the distribution, and `workloads`
may import them."""

NOT_IN_THE_COST_MODEL = {"xarray", "netCDF4", "argparse", "pandas", "matplotlib", "tomllib", "rich", "scipy"}
"""Files, tables, text and flags belong to the other packages."""

ARRAYS = {f"jaxroof.numerics.{name}" for name in ("arrays", "struct", "derivatives", "at_once")} | {"jaxroof.tracing"}
"""The modules of the cost model that know NumPy; JAX is known to the first, and imported on use."""

LONGEST = 400
"""Lines of a module."""

MODULES = sorted(path for package in MAY_IMPORT for path in (ROOT / package).rglob("*.py"))


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def imported(path: Path) -> set[str]:
    """Top-level names of everything that a module imports, inside its functions too."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{named(path)}:{node.lineno}: imports are absolute"
            if not {f"{node.module}.{alias.name}" for alias in node.names} <= SHARED:
                names.add(node.module.partition(".")[0])
    return names


@pytest.mark.parametrize("path", MODULES, ids=named)
def test_imports_run_one_way(path):
    package = path.relative_to(ROOT).parts[0]
    assert imported(path) & (set(MAY_IMPORT) | {"tests"}) <= MAY_IMPORT[package]


def imported_modules(path: Path) -> set[str]:
    """Dotted names of the modules of this distribution that a module imports, inside its functions too."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                names.add(node.module if f"{node.module}.{alias.name}" not in KNOWN else f"{node.module}.{alias.name}")
    return names & KNOWN.keys()


def dotted(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


KNOWN = {dotted(path): path for path in MODULES}
"""Modules by their dotted names."""


@pytest.mark.parametrize("package", FLOORS)
def test_imports_run_down_the_floors(package):
    floor = {f"{package}.{name}": number for number, names in enumerate(FLOORS[package]) for name in names}
    places = {".".join(name.split(".")[:2]) for name in KNOWN if name.startswith(f"{package}.")}
    assert places == floor.keys(), "every module and folder stands on a floor"
    for name, path in KNOWN.items():
        here = ".".join(name.split(".")[:2])
        for other in imported_modules(path) if here in floor else ():
            there = ".".join(other.split(".")[:2])
            below = floor.get(there, -1)
            assert below < floor[here] or there == here, f"{name} imports {other}, which is not below it"


def test_imports_have_no_circles():
    left = {name: imported_modules(path) - {name} for name, path in KNOWN.items()}
    while free := {name for name, others in left.items() if not others & left.keys()}:
        left = {name: others for name, others in left.items() if name not in free}
    assert not left, f"modules that import each other, and what imports them: {sorted(left)}"


def test_the_shared_reader_imports_none_of_the_packages():
    for module in SHARED:
        assert not imported(ROOT / f"{module.replace('.', '/')}.py") & set(MAY_IMPORT)


@pytest.mark.parametrize("path", sorted((ROOT / "jaxroof").rglob("*.py")), ids=named)
def test_the_cost_model_is_pure(path):
    assert imported(path) & NOT_IN_THE_COST_MODEL == set()
    assert dotted(path) in ARRAYS or "numpy" not in imported(path)


def test_jax_is_imported_in_one_place():
    """Structs that were made before are pytrees from then on; `import jax` elsewhere would leave them unknown to it."""
    found = []
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import) and dotted(path) != "jaxroof.numerics.arrays":
                found += [f"{named(path)}:{node.lineno}" for alias in node.names if alias.name.split(".")[0] == "jax"]
    assert not found, "from jaxroof.numerics.arrays import jax"


@pytest.mark.parametrize("path", MODULES, ids=named)
def test_modules_are_short_and_say_what_they_answer(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= LONGEST
    if path.name == "__init__.py" and not text.strip():
        return
    first = (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]
    assert len(first) > 10 or path.name == "version.py", "opens with one line that says what it answers"


def test_the_four_packages_are_shipped_and_tests_are_not():
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]
    assert set(build["targets"]["wheel"]["packages"]) == set(MAY_IMPORT)


@pytest.mark.parametrize("words", [["--help"], []])
def test_help_does_not_import_jax(words):
    """Half a second of waiting for a line of text; the slow imports belong to the verbs."""
    code = (
        "import sys\n"
        "from sweeps.cli import main\n"
        "try:\n"
        f"    main({words!r})\n"
        "except SystemExit as end:\n"
        "    assert not end.code\n"
        "slow = {'jax', 'jaxlib', 'numpy', 'xarray', 'matplotlib', 'pandas'} & set(sys.modules)\n"
        "sys.exit(f'imported {sorted(slow)}' if slow else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("room", rooms(), ids=named)
def test_rooms_have_a_page_that_lists_their_modules(room):
    text = (room / "README.md").read_text(encoding="utf-8")
    rows = [line.split(" | ")[:2] for line in text.splitlines() if line.startswith("| `")]
    listed = {name.strip("|` "): content for name, content in rows}
    there = {path.stem: first_line(path).rstrip(".:") for path in room.glob("*.py") if path.name != "__init__.py"}
    assert listed == there, "python -m tests.rooms writes the pages anew"


VERB_LINES = 120
"""Of a verb, comments not counted."""

SHARED_BY_VERBS = {"common", "examples", "help", "outputs", "parser", "progress"}


def test_verbs_are_short_and_what_they_say_stands_elsewhere():
    files = {path.stem: path for path in (ROOT / "sweeps" / "cli").glob("*.py")}
    assert not [name for name in files if name.endswith("_report")]
    code = {
        name: [line for line in path.read_text(encoding="utf-8").splitlines() if not line.strip().startswith("#")]
        for name, path in files.items()
    }
    assert {name for name, lines in code.items() if len(lines) > VERB_LINES} <= SHARED_BY_VERBS
