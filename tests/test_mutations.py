"""The changes of `tests.mutations`: each still applies to one place, and names tests that are there."""

import pytest

from tests.mutations import MUTATIONS, ROOT


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_change_applies_once(name):
    mutation = MUTATIONS[name]
    assert (ROOT / mutation.file).read_text(encoding="utf-8").count(mutation.old) == 1
    assert mutation.old != mutation.new
    assert all((ROOT / "tests" / each).exists() for each in mutation.tests.split())
