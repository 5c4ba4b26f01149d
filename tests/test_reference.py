"""Generated pages of the reference are those of today's declarations."""

import pytest

from tests.reference import FOLDER, PAGES


@pytest.mark.parametrize("name", PAGES)
def test_pages_are_generated_from_the_declarations(name):
    assert (FOLDER / name).read_text(encoding="utf-8") == PAGES[name](), "run `python -m tests.reference`"
