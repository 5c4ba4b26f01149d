"""Generated pages are those of today's declarations and files."""

import pytest

from tests.reference import FOLDER, PAGES


@pytest.mark.parametrize("name", PAGES)
def test_pages_are_generated(name):
    assert (FOLDER / name).read_text(encoding="utf-8") == PAGES[name](), "run `python -m tests.reference`"
