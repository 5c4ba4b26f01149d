"""Commands that install an extra's packages: what an index has, within the stated bounds, or a checkout."""

import importlib.metadata
import pathlib
import re

import pytest

from hwspaces.files.extras import installing

ROOT = pathlib.Path(__file__).parents[2]


def test_packages_are_named_with_their_bounds(monkeypatch):
    asked = ["jax<0.13,>=0.10", 'pandas<4,>=2.2; extra == "validate"', "pyarrow>=16; extra == 'validate'"]
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: asked)
    assert installing("validate") == "pip install 'pandas<4,>=2.2' 'pyarrow>=16'"
    assert installing("nothing") == "pip install '.[nothing]' in a checkout"


def test_a_checkout_that_is_not_installed(monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "requires", missing)
    assert installing("dask") == "pip install '.[dask]' in a checkout"


@pytest.mark.parametrize("extra", ["plot", "validate", "traces", "optimize", "pymoo", "optuna", "llvm", "dask"])
def test_the_installed_distribution_says_what_it_needs(extra):
    assert re.fullmatch(r"pip install ('[a-z0-9]+[^']*' ?)+", installing(extra))


def test_no_page_asks_an_index_for_jaxroof():
    """No index has it: pages install a checkout or a wheel."""
    pages = [path for place in ("docs", "sweeps", "workloads", "hwspaces") for path in (ROOT / place).rglob("*")]
    for path in [ROOT / "README.md", *pages]:
        if path.suffix in (".md", ".py"):
            assert not re.search(r"pip install ['\"]?jaxroof(?!\S* @ file:)", path.read_text(encoding="utf-8")), path
