"""The checker of designs that could be built: the start of a space passes, and every rule that is broken is named."""

import dataclasses

import pytest

import hwspaces
from tests.evidence.buildable import broken


@pytest.fixture(scope="module")
def device():
    """The design that the space starts from."""
    return hwspaces.hardware("gpu-n3").hardware


def test_the_start_of_a_space_could_be_built(device):
    assert broken(device, "gpu-n3") == []


def changed(device, part: str, **fields):
    return dataclasses.replace(device, **{part: dataclasses.replace(getattr(device, part), **fields)})


@pytest.mark.parametrize(
    "part, fields, rules",
    [
        ("design", {"stacks": 7.5}, ["stacks 7.5 not whole", "bandwidth", "capacity", "W/mm2 of dies"]),
        ("design", {"stacks": 20.0}, ["bandwidth", "capacity", "mm of die edge"]),
        ("cores", {"clock": 3e9}, ["bf16 peak", "W/mm2 of dies"]),
        ("silicon", {"dies": 1.0}, ["mm2 of one die"]),
        ("design", {"stacks": 30.0}, ["bandwidth", "capacity", "mm of die edge", "mm2 of interposer"]),
        ("power", {"tdp": 2e3}, ["W/mm2 of dies", "W of one package"]),
    ],
)
def test_a_rule_that_is_broken_is_named(device, part, fields, rules):
    found = broken(changed(device, part, **fields), "gpu-n3")
    assert len(found) == len(rules) and all(map(str.startswith, found, rules)), found
