"""Ops against numbers that were worked out by hand."""

import pytest

EXACT = 1e-6
"""Relative: a few float32 roundings."""


def check(op, **expected):
    """Every named quantity of `op` is what was worked out."""
    found = {name: float(getattr(op, name)) for name in expected}
    assert found == pytest.approx(expected, rel=EXACT)
