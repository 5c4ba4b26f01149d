"""Packages of other projects that have the names of jaxroof's: the command refuses them in one line."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

COMMAND = "import sys; from jaxroof.command import main; sys.argv[1:] = ['--help']; main()"


def started(*folders):
    """The command `jaxroof --help` of a process that finds packages in these folders first."""
    path = os.pathsep.join(map(str, folders))
    # Without the folders of installed packages, and in a folder that has none.
    words = [sys.executable, "-S", "-c", COMMAND]
    return subprocess.run(words, env={"PYTHONPATH": path}, capture_output=True, text=True, cwd="/")


def test_the_own_packages_are_run():
    done = started(ROOT)
    assert done.returncode == 0 and done.stdout.startswith("usage: jaxroof VERB")


@pytest.mark.parametrize("name", ["workloads", "sweeps", "hwspaces"])
def test_a_package_that_stands_before_is_refused(name, tmp_path):
    other = tmp_path / name
    other.mkdir()
    (other / "__init__.py").write_text("raise SystemExit('it was run')\n")
    done = started(tmp_path, ROOT)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr == (
        f"jaxroof: the package {name} is another project's, {other}/__init__.py, and hides jaxroof's own: "
        f"take {tmp_path} off PYTHONPATH, or use a virtual environment\n"
    )


def test_a_package_that_is_installed_over_it_is_refused(tmp_path):
    for name in ("jaxroof", "hwspaces", "workloads"):
        (tmp_path / name).mkdir()
        shutil.copy(ROOT / name / "__init__.py", tmp_path / name)
    for name in ("command.py", "public.py", "__init__.pyi"):
        shutil.copy(ROOT / "jaxroof" / name, tmp_path / "jaxroof")
    (tmp_path / "sweeps").mkdir()
    (tmp_path / "sweeps" / "__init__.py").write_text("__version__ = '0.3.0'\n")
    done = started(tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("jaxroof: another project named sweeps is installed over jaxroof's package")
    assert "`pip uninstall sweeps` and then reinstall jaxroof\n" in done.stderr and done.stderr.count("\n") == 1


def test_a_package_that_is_missing_is_refused(tmp_path):
    shutil.copytree(ROOT / "jaxroof", tmp_path / "jaxroof", ignore=shutil.ignore_patterns("[a-b]*", "__pycache__"))
    done = started(tmp_path)
    assert done.returncode == 2 and done.stderr.startswith("jaxroof: the package hwspaces is not in ")
