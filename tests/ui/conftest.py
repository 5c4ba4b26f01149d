"""The explorer with the constants that a person gets, and one that runs as a process of its own."""

import importlib

import pytest

from tests.ui.browser import explorer


@pytest.fixture(autouse=True)
def learned(monkeypatch):
    """Other tests run on constants without errors."""
    monkeypatch.setattr(importlib.import_module("hwspaces.performance.efficiency"), "DEFAULT", "learned")


@pytest.fixture(scope="package")
def address():
    """Address of an explorer."""
    for package in ("starlette", "uvicorn"):
        pytest.importorskip(package, reason="the explorer needs Starlette and uvicorn: pip install '.[ui]'")
    with explorer() as address:
        yield address
