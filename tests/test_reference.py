"""Generated pages are those of today's declarations and files."""

import pytest

from tests import scenario_page
from tests.reference import FOLDER, PAGES

SCENARIOS = "evidence/scenarios.md"


@pytest.mark.parametrize("name", [name for name in PAGES if name != SCENARIOS])
def test_pages_are_generated(name):
    assert (FOLDER / name).read_text(encoding="utf-8") == PAGES[name](), "run `python -m tests.reference`"


def test_scenarios_are_those_of_the_files():
    """All but the section on default constants, which tests/sweeps/test_scenarios.py compares where it runs them."""
    found, _, _ = (FOLDER / SCENARIOS).read_text(encoding="utf-8").partition(f"\n{scenario_page.DEFAULT}")
    assert found == scenario_page.page(), "run `python -m tests.reference`"
