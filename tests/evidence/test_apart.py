"""Evidence and product apart: no import, no module of `sweeps.measure` without a verb, and commands that exist."""

import ast
import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("jaxroof", "hwspaces", "workloads", "sweeps")
COMMANDS = sorted(
    path.stem for path in Path(__file__).parent.glob("*.py") if "\ndef main(" in path.read_text(encoding="utf-8")
)
"""Modules of this folder that are run with `python -m`."""


def module_name(path: Path) -> str:
    """Dotted name of a module of the repository."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_name(path): path for package in PACKAGES for path in (ROOT / package).rglob("*.py")}


def imports(name: str) -> set[str]:
    """Names that a module imports, inside its functions too, and the packages around them."""
    found = set()
    for node in ast.walk(ast.parse(MODULES[name].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found | {".".join(each.split(".")[:n]) for each in found for n in range(1, each.count(".") + 1)}


def test_the_product_imports_no_evidence():
    assert {name for name in MODULES if any(each.split(".")[0] == "tests" for each in imports(name))} == set()


def test_every_module_that_measures_serves_a_verb():
    """What only a fit needs is evidence: `sweeps.measure` has no module that the command line does not reach."""
    reached, waiting = set(), [name for name in MODULES if name.startswith("sweeps.cli")]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += [each for each in imports(name) if each in MODULES]
    assert {name for name in MODULES if name.startswith("sweeps.measure")} - reached == set()


def test_the_wheel_carries_packages_alone():
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]
    assert build["targets"]["wheel"] == {"packages": list(PACKAGES)}


def test_commands_that_files_and_pages_name_are_there():
    """`python -m tests.evidence.NAME` in data, docs and code; every command stands in the table of README.md."""
    named = set()
    for folder, ending in (("hwspaces", "toml"), ("docs", "md"), ("tests/evidence", "*")):
        for path in (ROOT / folder).rglob(f"*.{ending}"):
            if path.suffix in (".toml", ".md", ".py"):
                named |= set(re.findall(r"python -m tests\.evidence\.(\w+)", path.read_text(encoding="utf-8")))
    assert named - {"NAME"} <= set(COMMANDS)
    table = (Path(__file__).parent / "README.md").read_text(encoding="utf-8")
    assert {name for name in COMMANDS if f"`{name}" not in table} == set()


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_says_what_it_takes(name, capsys):
    with pytest.raises(SystemExit) as ended:
        importlib.import_module(f"tests.evidence.{name}").main(["--help"])
    assert ended.value.code == 0
    assert f"python -m tests.evidence.{name}" in capsys.readouterr().out


def test_a_command_runs_from_the_repository_root():
    done = subprocess.run(
        [sys.executable, "-m", "tests.evidence.area_fit", "--help"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0 and "usage: python -m tests.evidence.area_fit" in done.stdout
