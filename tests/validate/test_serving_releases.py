"""Differences between releases: numbers of versions, host beside the device, and longer steps by version and date."""

import pytest

import hwspaces
from sweeps.measure.validate.serving.releases import hides_host, longer_step, numbers


def test_numbers_of_versions():
    assert numbers("0.5.6.post1") == [0, 5, 6] and numbers("1.0.0rc3") == [1, 0, 0] and numbers("") == []


def test_the_host_of_vllm_works_beside_the_device_from_a_version_on():
    assert [hides_host("vllm", version, False) for version in ("", "0.13.0", "0.14", "1.0")] == [
        False,
        False,
        True,
        True,
    ]
    assert hides_host("trtllm", "", True) and not hides_host("sglang", "0.5.12", False)


@pytest.mark.parametrize(
    ("name", "version", "date", "expected"),
    [
        ("MI300X", "", "", 0.0),
        ("MI300X", "", "2025-12-10", 5.5e-3),
        ("MI300X", "", "2026-02-27", 10.9e-3),
        ("MI300X", "0.5.9", "2026-05-18", 10.9e-3),  # a version says more than a day
        ("MI300X", "0.5.12", "2025-12-10", 0.0),
        ("MI325X", "0.5.4", "", 5.5e-3),
        ("MI355X", "", "2025-12-15", 4.7e-3),
        ("MI355X", "0.5.6.post1", "", 0.0),
    ],
)
def test_steps_of_older_releases(name, version, date, expected):
    assert longer_step(version, date, hwspaces.hardware(name).hardware) == expected
