"""More of a resource is not slower: random steps on a part of the catalogue, and the search's own parts."""

import numpy as np
import pytest

from tests.evidence.monotonicity import EXCEPTIONS, RESOURCES, Tally, allowed, drawn, draws, searched, slower

ACCELERATORS = (
    "A100-SXM-80GB",
    "AiMX",
    "B200-SXM",
    "Gaudi3",
    "H100-SXM",
    "L40S",
    "MI300X",
    "SN40L",
    "TPU-v6e",
    "Trainium2",
    "V100-SXM",
    "WSE-3",
)
"""One or two of every kind of cores and links."""

NEVER_FELT = ("HBM capacity", "energies")
"""What a step does not run out of: a model that does not fit is said, and energies are of no time without a limit."""


@pytest.fixture(scope="module")
def found():
    return searched(draws(rounds=1, steps=8, accelerators=ACCELERATORS))


@pytest.mark.parametrize("resource", RESOURCES)
def test_more_of_a_resource_is_not_slower_but_for_the_named_exceptions(found, resource):
    tally = found[resource]
    assert tally.points > 30
    assert tally.wrong == 0, f"+{tally.worst:.1%}: {tally.case[0].described(tally.case[1])}"
    if resource not in {one.resource for one in EXCEPTIONS}:
        assert tally.slower == 0


@pytest.mark.parametrize("resource", [name for name in RESOURCES if name not in NEVER_FELT])
def test_a_device_that_is_short_of_a_resource_is_slower(found, resource):
    assert found[resource].felt > 0.01 * found[resource].points


def test_many_points_differ(found):
    """The factor arrives: most steps are faster with more of what they use most."""
    draw = drawn("H100-SXM", "learned-vllm", 64, np.random.default_rng(0))
    assert np.mean(slower(draw)["clock and its rates"] < -0.01) > 0.3
    assert sum(tally.points for tally in found.values()) > 4000


def test_exceptions_are_of_known_resources_and_happen(found):
    """Of whole cores too few steps are slower to be met in a short search."""
    for one in EXCEPTIONS:
        assert one.resource in RESOURCES
        assert one.resource == "cores and matrix peaks" or found[one.resource].slower > 0


def test_a_switched_domain_is_hardly_an_exception():
    import hwspaces

    assert allowed("scale-up devices", hwspaces.hardware("H100-SXM").hardware) == 0.04
    assert allowed("scale-up devices", hwspaces.hardware("L40S").hardware) > 1.0


def test_a_slower_step_is_counted():
    tally, draw = Tally(), drawn("H100-SXM", "kernel", 4, np.random.default_rng(1))
    tally.add(draw, np.array([-0.5, 0.005, 0.02, 0.2]), most=0.1)
    assert (tally.points, tally.slower, tally.wrong, tally.worst) == (4, 2, 1, 0.2)
