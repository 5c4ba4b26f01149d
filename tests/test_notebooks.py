"""Notebooks of docs/notebooks: their form, and their cells run in order, each notebook in one namespace."""

import ast
import importlib
import pathlib
import re
import warnings

import pytest

FOLDER = pathlib.Path(__file__).parents[1] / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("[0-9]*.md"))
CELL = re.compile(r"^```\{code-cell\} ipython3\n(.*?)^```$", re.M | re.S)

NEEDED = {"09_optimisation": ("optax",)}
"""Libraries beside matplotlib and pandas, which all notebooks need."""


def cells(notebook: pathlib.Path) -> list[str]:
    """Code of a notebook's cells, without IPython's magic lines."""
    text = notebook.read_text(encoding="utf-8")
    return ["\n".join(line for line in cell.splitlines() if not line.startswith("%")) for cell in CELL.findall(text)]


def test_the_index_lists_all_notebooks():
    index = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"\]\((\d\d_\w+\.md)\)", index) == [notebook.name for notebook in NOTEBOOKS]
    assert len(NOTEBOOKS) == 10


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=[notebook.stem for notebook in NOTEBOOKS])
def test_a_notebook_has_a_kernel_and_three_to_eight_cells(notebook):
    text = notebook.read_text(encoding="utf-8")
    assert text.startswith("---\njupytext:\n") and "\n  name: python3\n---\n\n# " in text
    assert 3 <= len(cells(notebook)) <= 8
    assert text.count("```") == 2 * len(cells(notebook)), "every block is a cell"


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=[notebook.stem for notebook in NOTEBOOKS])
def test_the_cells_of_a_notebook_run(notebook, tmp_path, monkeypatch, cache):
    for library in ("matplotlib", "pandas", *NEEDED.get(notebook.stem, ())):
        pytest.importorskip(library, reason=f"the notebook needs {library}: pip install '.[plot,validate,optimize]'")
    import jax
    import matplotlib.pyplot as plt

    plt.switch_backend("Agg")
    # As users have it: default constants, JAX's own promotion, a folder of their own.
    monkeypatch.setattr(importlib.import_module("hwspaces.performance.efficiency"), "DEFAULT", "learned")
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"), warnings.catch_warnings():
        for number, cell in enumerate(cells(notebook), 1):
            shown = _run(cell, f"{notebook.name}, cell {number}", names)
            # What a cell shows can be drawn.
            if hasattr(shown, "savefig"):
                shown.savefig(tmp_path / "shown.png")
    plt.close("all")


def _run(cell: str, where: str, names: dict) -> object:
    """Run a cell; the value of its last line where that is an expression, which a notebook shows."""
    tree = ast.parse(cell)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, where, "exec"), names)
    return None if last is None else eval(compile(ast.Expression(last.value), where, "eval"), names)
