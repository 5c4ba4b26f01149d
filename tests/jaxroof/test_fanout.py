"""Tokens that nodes forward: parts that a token is sent to, bytes and time on each tier of links, by hand."""

import dataclasses

import jax
import pytest

from jaxroof.collectives import ALGORITHMS, collective_algorithm, collective_time, collective_times
from jaxroof.collectives.choice import sent_bytes
from jaxroof.efficiency import LinkEfficiency
from jaxroof.fanout import Fanout, allowed_parts, copies, distinct_devices
from jaxroof.hardware import Link, Links
from jaxroof.op import Collective
from tests.hand import EXACT

UP = Link(bandwidth=1e11, latency=1e-6, devices=8.0)
OUT = Link(bandwidth=1e10, latency=5e-6, devices=1024.0)
LINKS = Links(scale_up=UP, scale_out=OUT)
IDEAL = LinkEfficiency(losses=0.0)

ONE = 1e7
"""B of all tokens of a device, once each."""

LIMITED = Fanout(holders=64.0, experts=256.0, choices=8.0, groups=8.0, reached=4.0)
"""DeepSeek-V3's router on 64 devices."""


def sent(devices: float, fanout: Fanout | None, holders: float | None = None) -> Collective:
    """An exchange of 8 of 256 experts per token."""
    needed = float(distinct_devices(holders or devices, 256.0, 8.0))
    return Collective(
        operation="all_to_all",
        count=1.0,
        kernels=1.0,
        message_bytes=needed * ONE,
        participants=devices,
        fanout=fanout,
    )


def free(devices: float) -> Fanout:
    return Fanout(holders=devices, experts=256.0, choices=8.0)


@pytest.mark.parametrize(
    ("parts", "allowed"),
    [
        (2.0, 1.875),  # four groups each: one of them is allowed but in (1/2)^4 of all cases
        (4.0, 3.0),  # two groups each: 4 (1 - (1/2)^2)
        (8.0, 4.0),  # a group each
        (16.0, 8.0),  # two parts a group
        (1.0, 1.0),
    ],
)
def test_parts_of_allowed_groups(parts, allowed):
    assert float(allowed_parts(LIMITED, parts)) == pytest.approx(allowed, rel=1e-4)
    assert allowed_parts(free(64.0), parts) == parts


def test_copies_of_a_token():
    # four nodes of 64 experts: 4 (1 - (1 - 64/252.5)^8); with the limit three of them: 3 (1 - (1 - 64/188.5)^8)
    assert float(copies(free(64.0), 4.0)) == pytest.approx(3.6141, rel=1e-4)
    assert float(copies(LIMITED, 4.0)) == pytest.approx(2.89136, rel=1e-4)
    # one choice, two holders of four devices each: all four need it
    assert float(copies(Fanout(holders=2.0, experts=256.0, choices=1.0), 8.0)) == pytest.approx(4.0, rel=1e-4)


def test_bytes_on_each_tier():
    """16 devices in two nodes: 1.9930 copies of a token for nodes, half of them over the network, 6.5228 for devices,
    seven eighths of which are forwarded inside of the nodes.
    """
    found = sent_bytes(LINKS, sent(16.0, free(16.0)))
    assert float(found["scale_out"]) == pytest.approx(0.5 * 1.993013 * ONE, rel=1e-4)
    assert float(found["scale_up"]) == pytest.approx(0.875 * 6.52283 * ONE, rel=1e-4)
    plain = sent_bytes(LINKS, sent(16.0, None))
    assert float(plain["scale_out"]) == pytest.approx(0.5 * 6.52283 * ONE, rel=1e-4)


def test_time_of_a_forwarded_exchange():
    """Hops 4 x 1 us and 2 x 5 us; 9.965 MB at 10 GB/s take 996.5 us, 57.07 MB at 100 GB/s less."""
    times = collective_times(LINKS, sent(16.0, free(16.0)), IDEAL)
    assert 1e6 * float(times["forwarded"]) == pytest.approx(14.0 + 996.507, rel=1e-4)
    # without forwarding all copies cross the network: 0.5 x 65.23 MB
    assert 1e6 * float(times["direct"]) == pytest.approx(14.0 + 3261.41, rel=1e-4)
    chosen = collective_algorithm(LINKS, sent(16.0, free(16.0)), IDEAL)
    assert ALGORITHMS[int(chosen)] == "forwarded"
    assert "forwarded" not in collective_times(LINKS, sent(16.0, None), IDEAL)


@pytest.mark.parametrize("links", [LINKS, Links(scale_up=UP, scale_out=None)])
def test_inside_of_a_node_nothing_changes(links):
    for fanout in (free(8.0), dataclasses.replace(LIMITED, holders=8.0)):
        op = sent(8.0, fanout)
        assert float(collective_time(links, op, IDEAL)) == float(collective_time(links, sent(8.0, None), IDEAL))
        assert sent_bytes(links, op) == sent_bytes(links, sent(8.0, None))


def test_a_limit_of_groups_saves_network_bytes():
    times = {
        fanout.groups: float(collective_time(LINKS, sent(64.0, fanout), IDEAL)) for fanout in (free(64.0), LIMITED)
    }
    assert times[8.0] < times[None]


def test_more_bandwidth_is_never_slower_and_gradients_are_finite():
    def time(up, out, devices):
        links = Links(scale_up=dataclasses.replace(UP, bandwidth=up), scale_out=dataclasses.replace(OUT, bandwidth=out))
        return collective_time(links, sent(devices, dataclasses.replace(LIMITED, holders=devices)), IDEAL)

    for devices in (8.0, 12.0, 16.0, 72.0):
        base = float(time(1e11, 1e10, devices))
        assert float(time(2e11, 1e10, devices)) <= base * (1 + EXACT)
        assert float(time(1e11, 2e10, devices)) <= base * (1 + EXACT)
        slopes = jax.grad(lambda rates, devices=devices: time(*rates, devices))((1e11, 1e10))
        assert all(float(slope) <= 0.0 for slope in slopes)
