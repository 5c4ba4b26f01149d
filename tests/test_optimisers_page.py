"""Examples of docs/guide/optimisers.md run and print the figures of the page; missing libraries are skipped."""

import pathlib
import re

import numpy as np
import pytest

TEXT = (pathlib.Path(__file__).parents[1] / "docs" / "guide" / "optimisers.md").read_text(encoding="utf-8")
SECTIONS = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", TEXT, re.S)
CHANCE = ("pymoo", "optuna", "botorch")
"""Libraries whose figures depend on random numbers that another version may draw in another order."""


def numbers(text):
    return np.array([float(number) for number in re.findall(r"-?\d+\.?\d*(?:e[+-]?\d+)?", text)])


def test_every_example_has_its_output():
    assert len(SECTIONS) == TEXT.count("```python") == 7


def test_examples_run_and_print_the_figures_of_the_page(capsys):
    import jax

    names, missing = {}, []
    for code, printed in SECTIONS:
        try:
            with jax.numpy_dtype_promotion("standard"):  # users' JAX
                exec(compile(code, "docs/guide/optimisers.md", "exec"), names)
        except ModuleNotFoundError as error:
            missing.append(error.name)
            continue
        found = capsys.readouterr().out
        assert found.strip()
        if not any(f"import {name}" in code or f"from {name}" in code for name in CHANCE):
            assert numbers(found) == pytest.approx(numbers(printed), rel=0.02, abs=0.02), code
    if missing:
        pytest.skip(f"the other examples ran; not installed: {', '.join(missing)}")
