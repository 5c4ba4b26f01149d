"""Units at the edge: text and keys to SI, SI to text, and what is refused."""

import math

import pytest

from hwspaces.quantities.leaves import leaf_unit, units
from hwspaces.quantities.units import formatted, from_key, quantity
from jaxroof.hardware import Hardware


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("8TB/s", "B/s", 8e12),
        ("8 TBps", "B/s", 8e12),
        ("1TiB/s", "B/s", 2.0**40),
        ("400 Gb/s", "B/s", 50e9),  # bits: 400e9 / 8
        ("400Gbps", "B/s", 50e9),
        ("80GiB", "B", 80 * 2**30),
        ("80 GB", "B", 80e9),
        ("989.4 TFLOP/s", "FLOP/s", 989.4e12),
        ("1.5PFLOPS", "FLOP/s", 1.5e15),
        ("2us", "s", 2e-6),
        ("2 µs", "s", 2e-6),
        ("1e-6s", "s", 1e-6),
        ("700 W", "W", 700.0),
        ("1.2kW", "W", 1200.0),
        ("3.6 USD/h", "USD/s", 0.001),  # 3.6 / 3600
        ("2MUSD/year", "USD/s", 2e6 / 31557600),  # 365.25 days
        ("1755MHz", "Hz", 1.755e9),
        ("8", "1", 8.0),
        ("25%", "1", 0.25),
        (8e12, "B/s", 8e12),
        ("8e12 B/s", "B/s", 8e12),
        ("8e12", "1/s", 8e12),
        (3, "1", 3.0),
    ],
)
def test_quantity_in_si(text, unit, value):
    assert quantity(text, unit, "x") == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    ("value", "unit", "said"),
    [
        ("8TB", "B/s", "'8TB' has the unit 'TB'; allowed: TBps, TB/s"),
        ("8 gb/s", "B/s", "allowed: GB/s, Gb/s"),  # the case says bit or byte
        ("fast", "B/s", "is not a number with a unit"),
        ("", "B", "is not a number with a unit"),
        ("-3GB", "B", "must be a positive finite number"),
        ("0W", "W", "must be a positive finite number"),
        ("nan GB", "B", "must be a positive finite number"),
        (10**400, "B", "must be a positive finite number"),
        ("1e308TB", "B", "must be a positive finite number"),
        (math.inf, "B", "must be a positive finite number"),
        (math.nan, "B", "must be a positive finite number"),
        (0, "B", "must be a positive finite number"),
        (True, "B", "is not a number"),
        (None, "B", "is not a number"),
        ([1], "B", "is not a number"),
    ],
)
def test_quantity_refused_in_one_line(value, unit, said):
    with pytest.raises(ValueError) as error:
        quantity(value, unit, "--set memory.hbm.bandwidth")
    message = str(error.value)
    assert message.startswith("--set memory.hbm.bandwidth = ")
    assert said in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("key", "value", "plain", "si"),
    [
        ("bandwidth_TBps", 3.35, "bandwidth", 3.35e12),
        ("bandwidth_Gbps", 400, "bandwidth", 50e9),
        ("capacity_GB", 80, "capacity", 80e9),
        ("capacity_GiB", 80, "capacity", 80 * 2**30),
        ("bf16_TFLOPs", 312, "bf16", 312e12),
        ("int8_TOPs", 624, "int8", 624e12),
        ("latency_us", 2, "latency", 2e-6),
        ("tdp_W", 700, "tdp", 700.0),
        ("price_USD_per_h", 3.6, "price", 0.001),
        ("clock_MHz", 1410, "clock", 1.41e9),
        ("exp_rate_per_s", 5, "exp_rate", 5.0),
        ("l2_bytes_per_clock", 5120, "l2", 5120.0),
        ("exp_per_clock_per_core", 16, "exp", 16.0),
        ("registers_KiB_per_core", 256, "registers", 262144.0),
    ],
)
def test_key_with_unit(key, value, plain, si):
    name, number = from_key(key, value, "file")
    assert (name, number) == (plain, pytest.approx(si, rel=1e-12))


UNITS = {"bandwidth": "B/s", "capacity": "B", "price": "USD/s"}


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("bandwidth", 3, "has no unit; allowed: bandwidth_"),
        ("bandwidth_GB", 3, "has the unit GB; allowed: bandwidth_"),
        ("bandwith_TBps", 3, "did you mean bandwidth_GBps?"),
        ("capacity_GiB", -1, "must be a positive finite number"),
        ("capacity_GiB", "80", "is not a number"),
    ],
)
def test_key_refused(key, value, said):
    with pytest.raises(ValueError) as error:
        from_key(key, value, "my.toml: X.memory", UNITS)
    assert str(error.value).startswith(f"my.toml: X.memory: {key} = {value!r}")
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_key_without_suffix_refused_when_any_key_is_taken():
    with pytest.raises(ValueError, match="has no unit suffix"):
        from_key("bandwidth", 3, "file")


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (3.35e12, "B/s", "3.35 TB/s"),
        (61.3e-6, "s", "61.3 us"),
        (90.0, "s", "90 s"),
        (141e9, "B", "141 GB"),
        (999.9e9, "B", "1 TB"),  # rounded before the prefix is chosen: never 1e+03 GB
        (989.4e12, "FLOP/s", "989 TFLOP/s"),
        (4.25 / 3600, "USD/s", "4.25 USD/h"),
        (700.0, "W", "700 W"),
        (0.0, "W", "0 W"),
        (1234.0, "1", "1230"),
        (0.25, "1", "0.25"),
        (12.0, "token/s", "12 token/s"),
    ],
)
def test_formatted(value, unit, text):
    assert formatted(value, unit) == text


def test_formatted_text_is_read_back():
    for value, unit in [(3.35e12, "B/s"), (6.13e-05, "s"), (1.41e11, "B"), (9.89e14, "FLOP/s"), (4.25 / 3600, "USD/s")]:
        assert quantity(formatted(value, unit), unit, "x") == pytest.approx(value, rel=1e-12)


def test_leaf_units_cover_the_hardware_struct():
    assert leaf_unit("hardware.memory.hbm.bandwidth") == leaf_unit("memory.hbm.bandwidth") == "B/s"
    assert leaf_unit("matrix.bf16") == "FLOP/s"
    assert leaf_unit("links.scale_up.latency") == "s"
    assert set(units(Hardware).values()) == {"FLOP/s", "1", "1/s", "B/s", "B", "s", "Hz", "W", "USD/s", "V", "FLOP"} | {
        *(
            "J",
            "J/B",
            "J/FLOP",
            "m",
            "m2",
            "m2/B",
            "m2 s/B",
            "m s/B",
            "1/m2",
            "W/m2",
            "USD",
            "USD/B",
            "USD/m2",
            "USD/J",
            "kg/J",
        ),
    }


@pytest.mark.parametrize("path", ["memory.hbm.bandwith", "hbm.bandwidth", "matrix", "memory.hbm.bandwidth.x"])
def test_unknown_leaf_refused(path):
    with pytest.raises(ValueError, match=r"is not a figure of the hardware; did you mean|known:"):
        leaf_unit(path)


def test_grid_intensity():
    """3.6 MJ are 1 kWh."""
    assert quantity("360 gCO2/kWh", "kg/J", "x") == pytest.approx(1e-7)
    assert quantity("0.36 kgCO2/kWh", "kg/J", "x") == pytest.approx(1e-7)
    assert formatted(1e-7, "kg/J") == "360 gCO2/kWh"
