"""Versions on the command line and in Python."""

import importlib
import json
import platform
import subprocess
import types

import jax
import numpy
import pytest
import xarray

import jaxroof
from jaxroof.version import VERSION
from sweeps.answers import version
from sweeps.cli import main


def test_the_version_says_what_a_bug_report_needs(capsys):
    assert main(["--version"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith(f"jaxroof {VERSION}")
    assert second == (
        f"Python {platform.python_version()}, JAX {jax.__version__} on {len(jax.devices())} x "
        f"{jax.devices()[0].device_kind}, NumPy {numpy.__version__}, xarray {xarray.__version__}"
    )


def test_the_version_is_a_record_too(capsys):
    assert main(["--version", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["jaxroof"] == VERSION and found["jax"] == jax.__version__ and found["xarray"] == xarray.__version__
    assert set(found) == {"jaxroof", "commit", "python", "jax", "devices", "numpy", "xarray"}


def test_json_alone_is_refused(capsys):
    assert main(["--json"]) == 2
    assert capsys.readouterr().err == "jaxroof: --json stands behind a verb and its flags, or beside --version\n"


def test_a_checkout_names_its_commit(monkeypatch, tmp_path):
    package = tmp_path / "sweeps" / "answers"
    package.mkdir(parents=True)
    monkeypatch.setattr(version, "__file__", str(package / "version.py"))
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "--allow-empty", "-m", "first"]):
        subprocess.run([*git, *words], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout
    assert version.commit() == head[:8]


def test_no_device_is_no_error(monkeypatch):
    def none(*_):
        raise RuntimeError("no such platform")

    monkeypatch.setattr("jaxroof.numerics.arrays.jax", types.SimpleNamespace(devices=none))
    assert version.devices() is None


@pytest.mark.parametrize("package", ["jaxroof", "hwspaces", "workloads", "sweeps"])
def test_packages_have_a_version(package):
    module = importlib.import_module(package)
    assert module.__version__ == VERSION
    assert "__version__" not in module.__all__ and jaxroof.__version__ == VERSION
