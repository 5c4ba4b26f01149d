"""Derivatives of a simulated service: those of its very times, against differences in which no decision changes."""

from tests.evidence.service_slopes import CASES, compared


def test_derivatives_are_those_of_the_times():
    """1e-5: central differences over 2e-7. `python -m tests.evidence.service_slopes` has more cases."""
    found = compared(CASES["pools, a tier, conversations"], requests=40, changes=False)
    assert found.steps > 100
    assert found.unknown == 0
    assert found.largest < 1e-5
