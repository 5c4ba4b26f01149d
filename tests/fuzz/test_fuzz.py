"""Every loader answers documents that are nearly right with a value or one clear ValueError."""

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.mutate import mutated
from tests.fuzz.target import finding, varied
from tests.fuzz.targets import targets

TARGETS = targets()

FEW = {"drawn": 2, "problem": 4, "netcdf": 20, "dataset": 25, "surface": 40, "question": 60, "serve": 60}
"""Inputs of targets that take long; of the others `MANY`."""

MANY = 100


@pytest.mark.parametrize("name", TARGETS)
def test_valid_documents_are_read(name):
    for data in TARGETS[name].seeds()[:2]:
        assert finding(TARGETS[name], data) is None


@pytest.mark.filterwarnings("ignore")  # of netCDF and pandas on files that make no sense
@pytest.mark.parametrize("name", TARGETS)
def test_documents_that_are_nearly_right_are_read_or_refused(name):
    target, rng = TARGETS[name], random.Random(7)
    seeds = target.seeds()
    for _ in range(FEW.get(name, MANY)):
        found = finding(target, varied(target, rng.choice(seeds), rng))
        assert found is None, f"{found.place}: {found.text}: {found.data[:300]!r}"


LEAVES = st.none() | st.booleans() | st.integers(-(10**40), 10**40) | st.floats() | st.text(max_size=20)
DOCUMENTS = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
)


@pytest.mark.parametrize("name", ["spec", "design", "hardware", "blis", "trace_bench", "quantisation"])
@settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_value_may_stand_anywhere(name, data):
    target = TARGETS[name]
    tree = target.form.parsed(data.draw(st.sampled_from(target.seeds())))
    key = data.draw(st.sampled_from([*tree, *target.words]))
    tree[key] = data.draw(DOCUMENTS)
    if data.draw(st.booleans()):
        tree = mutated(tree, random.Random(data.draw(st.integers(0, 2**32))), target.words)
    found = finding(target, target.form.text(tree))
    assert found is None, f"{found.place}: {found.text}: {found.data[:300]!r}"
