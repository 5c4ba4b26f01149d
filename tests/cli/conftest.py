"""Commands in tests keep compiled programs in a folder of the tests' own."""

import pytest


@pytest.fixture(autouse=True, scope="module")
def own_cache(cache):
    """Every module of tests here has `cache`."""
