"""The house's rules that code can check: which package imports which, how long a module is, what starts fast."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

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
        {
            "version",
            "awaited",
            "arrays",
            "tree",
            "struct",
            "field",
            "dependence",
            "dual",
            "shape",
            "smooth",
            "rule",
        },  # the ground
        {
            "hardware",
            "silicon",
            "money",
            "model",
            "deployment",
            "batch",
            "policy",
            "traffic",
            "fanout",
            "op",
        },  # vocabulary
        {
            "area",
            "technology",
            "package",
            "speculation",
            "layers",
            "cost",
            "reserved",
            "memory",
            "paging",
            "legality",
            "weight_only",
            "nests",
        },  # parts
        {"traced_once", "efficiency", "energy", "governor", "roofline", "collectives"},  # realism
        {"forward", "op_time", "overlap", "step", "price_tables", "step_price", "prices"},  # assembly
        {"steady_state", "steady_classes", "steady_search", "scheduler", "training"},
        {"prompt_queue", "jobs"},
    ),
    "hwspaces": (
        {"document", "extras", "interrupted", "unfinished", "output", "plain", "units", "leaves"},  # files and figures
        {"expression", "laws"},  # figures that follow from others
        {"link_technology", "energy", "derived", "technology_tables"},  # tables that accelerators refer to
        {"silicon", "voltage", "prices", "servers", "entry", "schema"},  # one accelerator
        {"constants", "blis", "load", "price_lists"},  # all of them
        {"space", "named"},  # designs that could be built
        {"hull", "surface", "surface_ops", "surface_efficiency", "kernel_tables", "inherited_tables"},  # efficiencies
        {"efficiency_entry", "blis_efficiency", "efficiency", "efficiency_file"},
        {"engine"},  # inference engines
    ),
    "workloads": (
        {"config", "expression_syntax", "expressions", "family", "families", "formats", "images", "kinds", "modules"}
        | {"stream", "tensors", "towers", "unread", "words"},  # texts, and what names in them mean
        {
            *("gguf", "storage", "overrides", "mlx", "integers", "quark", "torchao", "replaced_modules"),
            "compressed_tensors",
            "modelopt",
            "quantization",
            "precision",
            "coverage",
            "experts",
            "windows",
            "selection",
        }
        | {"other_parameters", "encoder_decoder", "encoders", "layer", "linear_attention", "attention", "latent"}
        | {"feedforward", "layer_kinds", "heads", "drafts", "layer_inputs", "shared_layers"},  # parts of a model
        {"catalogue", "huggingface", "hub", "entry"},  # models
        {"traced", "networks", "functions"},  # functions
        {"arrivals", "lengths", "prefixes", "streams", "classes", "traffic", "traces", "summary"},  # requests
        {"nests"},  # loop nests
    ),
    "sweeps": ({"ask"}, {"data"}, {"run"}, {"serving"}, {"studies"}, {"measure"}, {"show"}, {"cli"}),
}
"""Floors of every package, from the ground up: a module imports from its own floor and those below."""

SHARED = {"hwspaces.files.document", "hwspaces.files.extras"}
"""The one reader of TOML and JSON files, and what to install: they import nothing of the distribution, and `workloads`
may import them."""

NOT_IN_THE_COST_MODEL = {"xarray", "netCDF4", "argparse", "pandas", "matplotlib", "tomllib", "rich", "scipy"}
"""Files, tables, text and flags belong to the other packages."""

ARRAYS = {"jaxroof.numerics.arrays", "jaxroof.numerics.struct", "jaxroof.numerics.derivatives"}
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
            below = floor.get(".".join(other.split(".")[:2]), 0)
            assert below <= floor[here], f"{name} imports {other}, which stands above it"


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
