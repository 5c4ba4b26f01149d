"""Laws among figures: their values and gradients, their units, their order, and what is refused."""

import dataclasses

import jax
import numpy as np
import pytest

import hwspaces
from hwspaces.quantities.expression import dimension
from hwspaces.quantities.laws import hardware_laws, obeying

H100 = hwspaces.hardware("H100-SXM").hardware
PEAK = "cores.count * cores.clock * cores.matrix_flops_per_clock.bf16"


def obeyed(texts, hardware=H100):
    return obeying(hardware, hardware_laws(texts, hardware, "laws"))


def test_a_peak_follows_from_cores_clock_and_width():
    found = obeyed({"matrix.bf16": PEAK})
    assert found.matrix["bf16"] == 132 * 1.83e9 * 4096  # an SM of Hopper does 4,096 FLOP per clock in bf16
    assert dataclasses.replace(found, matrix=H100.matrix) == H100  # and nothing else changes


def test_laws_are_applied_in_the_order_in_which_they_read_each_other():
    texts = {
        "power.tdp": "min('1 kW', matrix.bf16 * '0.5 pJ/FLOP')",
        "matrix.bf16": PEAK,
        "cores.clock": "base.cores.clock * 2",
    }
    for order in (texts, dict(reversed(texts.items()))):
        found = obeyed(order)
        assert found.cores.clock == 2 * 1.83e9
        assert found.matrix["bf16"] == 132 * 2 * 1.83e9 * 4096
        assert found.power.tdp == min(1000.0, 132 * 2 * 1.83e9 * 4096 * 0.5e-12)


def test_names_of_the_base_are_constants():
    laws = hardware_laws({"cores.clock": "base.cores.clock * 2"}, H100, "laws")
    once = obeying(H100, laws)
    assert obeying(once, laws) == once


def test_functions_of_the_whole_device_come_after_what_they_read():
    texts = {"power.tdp": "die_area() * '1 W' / '1 mm2'", "cores.count": "base.cores.count * 2"}
    found = obeyed(texts)
    area = hwspaces.quantities.laws.die_area(obeyed({"cores.count": "264"}))
    assert found.power.tdp == pytest.approx(1e6 * float(area))


def test_gradients_pass_through():
    laws = hardware_laws({"matrix.bf16": PEAK, "power.tdp": "max('1 W', matrix.bf16 * '1 pJ/FLOP')"}, H100, "laws")

    def tdp(count):
        changed = dataclasses.replace(H100, cores=dataclasses.replace(H100.cores, count=count))
        return obeying(changed, laws).power.tdp

    assert jax.grad(tdp)(132.0) == pytest.approx(1.83e9 * 4096e-12, rel=1e-6)


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ({"matrix.bf16": "cores.count"}, "is in plain numbers; it must be in FLOP/s"),
        ({"matrix.bf16": "cores.count + cores.clock"}, "adds plain numbers and 1/s"),
        ({"matrix.bf16": "cores.cout * 3"}, "did you mean cores.count"),
        ({"matrix.bf16": "matrix.bf16 * 2"}, "circle: matrix.bf16 <- matrix.bf16"),
        ({"matrix.bf16": "matrix.fp8 / 2", "matrix.fp8": "2 * matrix.bf16"}, "circle"),
        ({"matrix.bf16": "cores.count * ("}, "is not an expression"),
        ({"matrix.bf16": "__import__('os')"}, "the function __import__ is not known"),
        ({"matrix.bf16": "[1]"}, "'[1]' is not known"),
        ({"matrix.bf16": "cores.clock ** cores.asynchronous"}, "must be a number: its base has a unit"),
        ({"cores.count": "exp(cores.clock)"}, "is given 1/s in place of plain numbers"),
        ({"cores.count": "min()"}, "min has no arguments"),
        ({"cores.count": "'3 parsec'"}, "is no number with a unit"),
        ({"cores.count": 3}, "is not an expression"),
        ({"memory.host.capacity": "'3 GB'"}, "unknown of this device"),
        ({"cores.count": "-" * 60 + "1"}, "operations inside each other"),
        ({"cores.count": "1 + " * 400 + "1"}, "at most 1,000 are read"),
    ],
)
def test_a_wrong_law_is_refused_in_one_line(texts, said):
    with pytest.raises(ValueError) as caught:
        obeyed(texts)
    assert said in str(caught.value) and "\n" not in str(caught.value)
    assert str(caught.value).startswith("laws: ")


def test_dimensions():
    assert dimension("m2 s/B") == {"m": 2, "s": 1, "B": -1}
    assert dimension("W") == dimension("J/s") and dimension("Hz") == dimension("1/s")


PEAKS_AT_ANOTHER_CLOCK = {
    **dict.fromkeys(("B100-SXM", "B200-SXM", "B300-SXM"), "peaks of 1.50 and 1.86 GHz beside the largest clock"),
    **dict.fromkeys(("H100-PCIe", "H100-NVL", "L40S"), "peaks of a lower clock than the largest"),
    **dict.fromkeys(("H20-96GB", "H20-141GB"), "matrix units that are cut down"),
    "Gaudi2": "two matrix engines beside 24 cores",
    "Gaudi3": "float16 without figure of its own",
    "P4": "int8 on vector units",
    "Edge-TPU": "a peak that is printed with one digit",
    "MTIA-400": "peaks that are printed with one digit",
    "GB10": "a peak that is printed with one digit",
    "Adreno-640": "cores of three times 128 lanes",
    **dict.fromkeys(("Wormhole-n150", "Wormhole-n300-chip"), "fp8 of fewer cores or a lower clock than the largest"),
    "GroqChip1": "four arrays of 320 x 320",
    "GB300": "three times the fp4 of Blackwell's first chips",
}
"""Accelerators whose peak is not cores x clock x a power of two, and why."""


def test_peaks_are_cores_times_clock_times_a_power_of_two():
    """Of all entries with a known number of cores and clock: whoever is not among the named ones is consistent."""
    odd = set()
    for name, entry in hwspaces.catalogue().items():
        cores = entry.hardware.cores
        for precision, width in (cores.matrix_flops_per_clock or {}).items():
            peak = entry.hardware.matrix[precision]
            assert peak == pytest.approx(cores.count * cores.clock * width, rel=0.01)
            if width != 2.0 ** np.round(np.log2(width)):
                odd.add(name)
    assert odd == set(PEAKS_AT_ANOTHER_CLOCK)
