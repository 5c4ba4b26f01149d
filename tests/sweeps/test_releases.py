"""Differences between releases: numbers of versions, host beside the device, and longer steps by version and date."""

import pytest
from sweeps.ask.releases import hides_host, longer_step, numbers

import hwspaces
from sweeps.ask.engines import policy, release
from sweeps.run.simulated.spec import serve_spec


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
    device = hwspaces.hardware(name)
    assert longer_step("sglang", version, date, device.vendor, device.hardware) == expected
    assert longer_step("vllm", version, date, device.vendor, device.hardware) == 0.0


def test_an_engine_may_have_a_version():
    assert release("vllm@0.24") == ("vllm", "0.24") and release("sglang") == ("sglang", "")
    for words, said in (
        ("vllm@", "'' is no version"),
        ("vllm@new", "'new' is no version"),
        ("x@1", "'x@1' is not known"),
    ):
        with pytest.raises(ValueError, match=said):
            release(words)


def test_a_release_schedules_as_it_did():
    """Before 0.14 the host of vLLM worked after the device; a later release, and none, are as today's."""
    assert [policy(words).hidden_host for words in ("vllm", "vllm@0.13.0", "vllm@0.14", "trtllm@1.0")] == [1, 0, 1, 1]


def test_a_release_takes_longer_steps():
    """SGLang 0.5.9 on MI300X: 10.9 ms more; the same on H100, and other releases, are as they are."""
    asked = {"model": "Llama-3.1-8B", "efficiency": "learned-sglang"}
    times = {
        (name, engine): float(
            serve_spec(hardware=name, engine=engine, **asked).case().scenario.efficiency.host.step_time
        )
        for name in ("MI300X", "H100-SXM")
        for engine in ("sglang", "sglang@0.5.9", "sglang@0.5.12")
    }
    usual = times["H100-SXM", "sglang"]
    assert times.pop(("MI300X", "sglang@0.5.9")) == pytest.approx(usual + 10.9e-3)
    assert set(times.values()) == {usual}
