"""Published times of expert kernels: those that were not fitted, and the refit of the others."""

import pytest

import hwspaces
from tests.evidence.expert_exchange import FITTED, FORWARDED, LOW_LATENCY, TABLES, fit, predicted

LOW = [row for row in TABLES if row.source == LOW_LATENCY]


def error(row) -> float:
    return float(predicted(row)) / row.measured - 1.0


def test_a_published_bandwidth_as_a_time():
    """4096 tokens of 7168 B and 224 B of scales, to 3.614 of four nodes at 58 GB/s: 1.887 ms."""
    row = next(row for row in TABLES if row.source == FORWARDED and row.devices == 32 and row.operation == "dispatch")
    assert row.measured == pytest.approx(4096 * 7392 * 3.6141 / 58e9, rel=1e-4)


def test_forwarding_kernels_are_predicted_without_a_fit():
    """Across nodes within 10 %, the largest error that was seen: 9.3 %. Inside of one the constants are NCCL's, whose
    kernels are slower: up to 21 % too slow.
    """
    for row in TABLES:
        if row.source != LOW_LATENCY:
            assert abs(error(row)) < (0.10 if row.devices > 8 else 0.22), row


def test_low_latency_kernels_on_groups_that_were_not_fitted():
    for row in LOW:
        assert abs(error(row)) < (0.08 if row.devices in FITTED else 0.06), row


def test_the_shipped_constants_are_those_of_the_refit():
    links = hwspaces.hardware("H800-SXM").hardware.links
    found = fit([row for row in LOW if row.devices in FITTED])
    inner, outer = links.scale_up.transport.dispatch, links.scale_out.transport.dispatch
    assert found["fixed_time"] == pytest.approx(inner.fixed_time, rel=0.01) == outer.fixed_time
    assert found["scale_up.share"] == pytest.approx(inner.share, rel=0.01)
    assert found["scale_out.share"] == pytest.approx(outer.share, rel=0.01)
