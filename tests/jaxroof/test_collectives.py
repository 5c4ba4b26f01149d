"""All-reduce on a ring: hand-worked times, which link a ring runs over, and the cases without a ring."""

import dataclasses

import jax
import jax.numpy as jnp
import pytest

from jaxroof import Links
from jaxroof.collectives import all_reduce_time, ring_tier

EXACT = 1e-6  # relative: a few float32 roundings


@pytest.mark.parametrize(
    ("devices", "message", "expected"),
    [
        (2.0, 4e6, 2 * 1e-6 + 2 * 1 / 2 * 4e6 / 4e11),  # 2 hops: 2 us + 10 us
        (4.0, 8e6, 6 * 1e-6 + 2 * 3 / 4 * 8e6 / 4e11),  # 6 hops: 6 us + 30 us
        (8.0, 8e6, 14 * 1e-6 + 2 * 7 / 8 * 8e6 / 4e11),  # 14 hops: 14 us + 35 us
        (8.0, 0.0, 14 * 1e-6),  # latency alone
    ],
)
def test_ring_inside_the_domain(chip, devices, message, expected):
    assert float(all_reduce_time(chip.links, message, devices, 1.0)) == pytest.approx(expected, rel=EXACT)


def test_ring_across_domains_runs_at_the_slowest_link(chip):
    # 16 devices in domains of 8: 30 hops x 5 us + 2 x 15/16 x 8 MB / 5e10 = 150 us + 300 us
    assert float(all_reduce_time(chip.links, 8e6, 16.0, 1.0)) == pytest.approx(450e-6, rel=EXACT)


def test_share_derates_bandwidth_and_not_latency(chip):
    assert float(all_reduce_time(chip.links, 8e6, 4.0, 0.5)) == pytest.approx(6e-6 + 60e-6, rel=EXACT)


def test_one_device_sends_nothing(chip):
    assert float(all_reduce_time(chip.links, 8e6, 1.0, 0.5)) == 0.0


def test_without_links_the_time_is_zero():
    nothing = Links(scale_up=None, scale_out=None)
    assert ring_tier(nothing, 4.0) is None
    assert float(all_reduce_time(nothing, 8e6, 4.0, 1.0)) == 0.0


def test_a_tier_alone_carries_every_ring(chip):
    inner = dataclasses.replace(chip.links, scale_out=None)
    outer = dataclasses.replace(chip.links, scale_up=None)
    assert ring_tier(inner, 64.0) == (4e11, 1e-6)
    assert ring_tier(outer, 2.0) == (5e10, 5e-6)


def test_domain_size_may_be_an_axis(chip):
    """8 devices fit a domain of 8 or 72 and cross one of 4: 14 hops x 5 us + 2 x 7/8 x 8 MB / 5e10."""

    def time(size):
        scale_up = dataclasses.replace(chip.links.scale_up, devices=size)
        return all_reduce_time(dataclasses.replace(chip.links, scale_up=scale_up), 8e6, 8.0, 1.0)

    times = jax.vmap(time)(jnp.array([4.0, 8.0, 72.0]))
    assert times.tolist() == pytest.approx([70e-6 + 280e-6, 49e-6, 49e-6], rel=EXACT)
