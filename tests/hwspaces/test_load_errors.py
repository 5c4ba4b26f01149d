"""A user's own file: what is read from it, and the one line that says what is wrong with it."""

import dataclasses
import json
from pathlib import Path

import pytest

import hwspaces

GOOD = """
[accelerator.MyChip]
vendor = "me"
architecture = "Hopper"
date = 2026-01-31
matrix.bf16_TFLOPs = 500
vector.fp32_TFLOPs = 25
cores.count = 100
cores.clock_MHz = 1000
memory.hbm.capacity_GiB = 96
memory.hbm.bandwidth_TBps = 4
memory.l2.capacity_MiB = 32
links.scale_up.technology = "NVLink"
links.scale_up.bandwidth_GBps = 300
links.scale_up.devices = 4
price_USD_per_h = 3.6
"""


def written(folder: Path, text: str, name: str = "my.toml") -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def refused(source, *said: str) -> None:
    with pytest.raises(ValueError) as error:
        hwspaces.hardware(source)
    message = str(error.value)
    assert "\n" not in message
    for text in said:
        assert text in message, message


def test_own_toml(tmp_path):
    path = written(tmp_path, GOOD)
    entry = hwspaces.hardware(path)
    hardware = entry.hardware
    assert entry.name == "MyChip"
    # products in float32 run on the vector units: 25 TFLOP/s
    assert hardware.matrix == {"bf16": 500e12, "fp32": 25e12}
    assert hardware.memory.hbm.capacity == 96 * 2**30
    assert hardware.cores.vector_flops == pytest.approx(0.25e12)
    # Hopper's table of the catalogue: 5120 B per clock at 1 GHz
    assert hardware.memory.l2.bandwidth == pytest.approx(5.12e12)
    assert hardware.links.scale_up.latency == hwspaces.hardware("H100").hardware.links.scale_up.latency
    assert hardware.links.scale_out is None
    assert hardware.price == pytest.approx(0.001)
    assert (entry.price.usd_per_hour, entry.price.date) == (pytest.approx(3.6), "2026-01-31")
    assert entry.price.kind == entry.price.source == f"given in {path}"
    assert entry.sources["matrix.bf16"] == f"given in {path}"
    assert all(path in entry.sources for path in entry.figures)


def test_own_architecture_link_and_sources(tmp_path):
    text = GOOD.replace('"Hopper"', '"Mine"').replace('"NVLink"', '"Glass"')
    text += """
sources.matrix.bf16 = "sheet"
[source]
sheet = "MyChip data sheet"
[architecture.Mine]
exp_per_clock_per_core = 8
source = "sheet"
[link.Glass]
latency_us = 3
source = "sheet"
"""
    entry = hwspaces.hardware(written(tmp_path, text))
    assert entry.hardware.cores.exp_rate == pytest.approx(8e9)
    assert entry.hardware.links.scale_up.latency == pytest.approx(3e-6)
    assert entry.sources["matrix.bf16"] == entry.sources["links.scale_up.latency"] == "MyChip data sheet"


def test_quantities_are_texts_with_a_unit_in_every_table(tmp_path):
    text = GOOD.replace('"Hopper"', '"Mine"').replace('"NVLink"', '"Glass"')
    text = text.replace("bandwidth_TBps = 4", 'bandwidth = "4 TB/s"')
    tables = """
[architecture.Mine]
exp_per_clock_per_core = 8
[link.Glass]
latency = "3 us"
[process.Own]
density = "2e12 1/m2"
sram_cell = "0.021 um2"
analog = 1
"""
    entry = hwspaces.hardware(written(tmp_path, text + tables))
    assert entry.hardware.memory.hbm.bandwidth == 4e12
    assert entry.hardware.links.scale_up.latency == pytest.approx(3e-6)
    refused(written(tmp_path, text + tables.replace('"3 us"', '"3 m"')), "latency = '3 m' has the unit 'm'")


INTEGERS = """
[accelerator.Small]
matrix.int8_TOPs = 4
vector.int8_GOPs = 32
memory.hbm.capacity_GB = 1
memory.hbm.bandwidth_GBps = 0.5
"""


def test_vector_units_of_integers_have_no_float32(tmp_path):
    """32 GOP/s on the one core; products in float32 are refused and not run on the vector units."""
    hardware = hwspaces.hardware(written(tmp_path, INTEGERS)).hardware
    assert hardware.matrix == {"int8": 4e12} and hardware.cores.vector_flops == 32e9


@pytest.mark.parametrize(
    "more", ["vector.fp32_GFLOPs = 32", "vector.fraction_of_matrix = 0.1", "matrix.bf16_TFLOPs = 2"]
)
def test_vector_units_of_integers_stand_beside_no_floating_point(tmp_path, more):
    path = more.partition(" ")[0].rpartition("_")[0] if "fraction" not in more else more.partition(" ")[0]
    refused(written(tmp_path, INTEGERS + more), f"int8 is of a device without floating point, but {path} is given")


def test_several_in_one_file(tmp_path):
    path = written(tmp_path, GOOD + GOOD.replace("MyChip", "Other"))
    assert hwspaces.hardware(f"{path}#other").name == "Other"
    refused(path, "my.toml: holds 2 accelerators", "MyChip, Other")
    refused(f"{path}#Othr", "no such accelerator in the file; did you mean Other?")


def test_catalogue_files_are_readable_as_a_users_own():
    """All but the price, which is no figure of the files."""
    path = Path(hwspaces.__file__).parent / "catalogue" / "nvidia_hopper.toml"
    copied = hwspaces.hardware(f"{path}#H100-SXM")
    assert copied.hardware == dataclasses.replace(hwspaces.hardware("H100-SXM").hardware, price=None)
    assert copied.price is None


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("bandwidth_TBps = 4", "bandwidth_TBps = -4", "MyChip.memory.hbm: bandwidth_TBps = -4 must be a positive"),
        ("bandwidth_TBps = 4", "bandwidth_TBps = 0", "bandwidth_TBps = 0 must be a positive"),
        ("bandwidth_TBps = 4", "bandwidth_TBps = nan", "bandwidth_TBps = nan must be a positive"),
        ("bandwidth_TBps = 4", "bandwidth_TBps = inf", "bandwidth_TBps = inf must be a positive"),
        ("bandwidth_TBps = 4", "bandwidth_TBps = true", "bandwidth_TBps = True is not a number"),
        ("bandwidth_TBps = 4", 'bandwidth_TBps = "4"', "bandwidth_TBps = '4' is not a number"),
        ("bandwidth_TBps = 4", "bandwidth_TB = 4", "has the unit TB; allowed: bandwidth_"),
        ("bandwidth_TBps = 4", "bandwidth = 4", "has no unit; allowed: bandwidth_"),
        ("bandwidth_TBps = 4", "bandwith_TBps = 4", "did you mean bandwidth_GBps?"),
        ("memory.hbm.bandwidth_TBps = 4", "", "memory.hbm.bandwidth is missing"),
        ("memory.hbm", "memory.hbn", "table hbn is not known; did you mean memory.hbm"),
        ("matrix.bf16_TFLOPs", "matrix.bf15_TFLOPs", "did you mean bf16_TFLOPs"),
        ("matrix.bf16_TFLOPs = 500", "", "matrix is missing; give at least one of bf16"),
        ("vector.fp32_TFLOPs = 25", "", "MyChip.vector: fp32_TFLOPs"),
        ("cores.count = 100", "cores.count = 0", "MyChip.cores: count = 0 must be a positive"),
        ('"NVLink"', '"NVLnk"', "technology = 'NVLnk' is not known; latency_us is missing; did you mean NVLink"),
        ("links.scale_up.devices = 4", "", "links.scale_up: devices is missing"),
        ('vendor = "me"', "vendor = 3", "vendor = 3 is not text"),
        ('vendor = "me"', 'status = "GAA"', "status = 'GAA' is not known; did you mean GA?"),
        ('vendor = "me"', 'vendr = "me"', "vendr = 'me' is not known; did you mean vendor"),
        ('vendor = "me"', "aliases = 3", "aliases = 3 is not a list of texts"),
        ('vendor = "me"', "sources = 3", "sources"),
        ('vendor = "me"', 'sources.matrix.fp9 = "x"', "matrix.fp9 = 'x': no such figure; did you mean matrix.bf16?"),
        ("2026-01-31", '"today"', "date = 'today' is not a date"),
        ("price_USD_per_h = 3.6", "price_USD = 3.6", "price_USD = 3.6"),
        ("price_USD_per_h = 3.6", "price_USD_per_h = 3.6\nprice_USD_per_s = 1", "price is given twice"),
        ("[accelerator.MyChip]", "[accelerater.MyChip]", "table accelerater is not known; did you mean accelerator"),
        ("[accelerator.MyChip]", "[accelerator.MyChip", "my.toml: not TOML"),
        ("[accelerator.MyChip]", "[architecture.MyChip]", "my.toml: no accelerator in it"),
        ("memory.l2.capacity_MiB = 32", "memory.l2 = 3", "memory: l2 = 3 is not a table"),
    ],
)
def test_bad_toml(tmp_path, old, new, said):
    assert old in GOOD
    refused(written(tmp_path, GOOD.replace(old, new)), "my.toml", said)


def test_bad_architecture_and_link_tables(tmp_path):
    bad = '[architecture.Hopper]\nl3_bytes_per_clock = 3\nsource = "x"\n'
    refused(written(tmp_path, GOOD + bad), "my.toml", "l3_bytes_per_clock = 3 is not known")
    refused(written(tmp_path, GOOD + "[link.NVLink]\nlatency_GB = 3\n"), "my.toml", "has the unit GB; allowed")
    refused(written(tmp_path, GOOD + "[link.NVLink]\nsource = 3\n"), "my.toml", "link.NVLink", "is not text")
    refused(written(tmp_path, GOOD + "[source]\nx = 3\n"), "my.toml", "source must hold named texts")


def test_missing_and_unreadable_files(tmp_path):
    refused(tmp_path / "none.toml", "none.toml: no such file")
    refused(tmp_path / "none.json", "none.json: no such file")
    (tmp_path / "folder.toml").mkdir()
    refused(tmp_path / "folder.toml", "folder.toml: cannot be read")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    refused(tmp_path / "binary.toml", "binary.toml: cannot be read")


@pytest.mark.parametrize("name", ["H1000", "mi300", "tpu_v55", "", "nothing like it", "chip.yaml"])
def test_unknown_name(name):
    refused(name, repr(name), "neither in the catalogue nor a .toml or .json file")


def test_unknown_name_suggests():
    refused("h100_smx", "did you mean H100-SXM")


BLIS = {
    "H100": {
        "TFlopsPeak": 989.5,
        "TFlopsFP8": 1979,
        "BwPeakTBs": 3.35,
        "mfuPrefill": 0.45,
        "mfuDecode": 0.30,
        "MemoryGiB": 80,
    }
}


def test_blis_json(tmp_path):
    entry = hwspaces.hardware(written(tmp_path, json.dumps(BLIS), "hardware_config.json"))
    hardware = entry.hardware
    assert hardware.matrix == {"bf16": 989.5e12, "fp16": 989.5e12, "fp8": 1979e12}
    assert hardware.memory.hbm.bandwidth == pytest.approx(3.35e12)
    assert hardware.memory.hbm.capacity == 80 * 2**30
    assert hardware.memory.l2 is None and hardware.links.scale_up is None and hardware.cores.count == 1.0
    assert any("mfuPrefill = 0.45" in text and "--efficiency" in text for text in entry.assumptions)
    assert all(path in entry.sources for path in entry.figures)


def test_blis_json_with_several(tmp_path):
    several = BLIS | {"A100-SXM": {"TFlopsPeak": 312, "TFlopsFP8": 0, "BwPeakTBs": 2.039, "MemoryGiB": 80}}
    path = written(tmp_path, json.dumps(several), "hardware_config.json")
    a100 = hwspaces.hardware(f"{path}#a100_sxm")
    assert a100.name == "A100-SXM"
    assert "fp8" not in a100.hardware.matrix
    refused(path, "holds 2 accelerators")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"BwPeakTBs": -1}, "H100: BwPeakTBs = -1 must be a positive"),
        ({"BwPeakTBs": True}, "BwPeakTBs = True is not a number"),
        ({"BwPeakTBs": float("nan")}, "BwPeakTBs = nan must be a positive"),
        ({"BwPeakTBs": "3.35"}, "BwPeakTBs = '3.35' is not a number"),
        ({"BwPeakTB": 3}, "BwPeakTB = 3 is not known; did you mean BwPeakTBs"),
        ({"mfuPrefill": -1}, "mfuPrefill = -1 must be a positive"),
    ],
)
def test_bad_blis_json(tmp_path, change, said):
    text = json.dumps({"H100": BLIS["H100"] | change})
    refused(written(tmp_path, text, "config.json"), "config.json", said)


def test_blis_json_of_another_shape(tmp_path):
    lacking = {"H100": {"TFlopsPeak": 989.5, "MemoryGiB": 80}}
    refused(written(tmp_path, json.dumps(lacking), "a.json"), "a.json: H100: BwPeakTBs is missing")
    refused(written(tmp_path, "[1, 2]", "b.json"), "b.json: not a hardware_config.json")
    refused(written(tmp_path, "{", "c.json"), "c.json: not JSON")
    refused(written(tmp_path, "{}", "d.json"), "d.json: no accelerator in it")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"hardware.memory.hbm.bandwith": "8TB/s"}, "did you mean memory.hbm.bandwidth"),
        ({"memory.hbm.bandwidth": "8TB"}, "--set memory.hbm.bandwidth = '8TB' has the unit 'TB'; allowed"),
        ({"memory.hbm.bandwidth": "-8TB/s"}, "must be a positive finite number"),
        ({"memory.hbm.bandwidth": 0}, "must be a positive finite number"),
        ({"links.scale_up.bandwidth": "0GB/s"}, "must be a positive finite number"),
        ({"links.scale_up.transport.bulk.share": 0}, "must be a positive finite number"),
        ({"links.scale_up.latency": "0GB"}, "has the unit 'GB'"),
        ({"links.scale_up.reduces": False}, "is not a number"),
        ({"matrix.fp5": "1PFLOP/s"}, "'fp5' is not a precision; did you mean"),
        ({"cores.count": True}, "is not a number"),
    ],
)
def test_bad_override(settings, said):
    with pytest.raises(ValueError) as error:
        hwspaces.overridden(hwspaces.hardware("H100"), settings)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_what_a_link_does_not_do_may_be_zero():
    zeros = {"hardware.links.scale_up.reduces": "0", "links.scale_up.latency": "0us", "links.scale_out.latency": 0}
    zeros |= {"links.scale_up.transport.bulk.fixed_time": "0", "links.scale_up.transport.shot_limit": "0 MiB"}
    links = hwspaces.overridden(hwspaces.hardware("H100"), zeros).hardware.links
    assert links.scale_up.reduces == links.scale_up.latency == links.scale_out.latency == 0.0
    assert links.scale_up.transport.bulk.fixed_time == links.scale_up.transport.shot_limit == 0.0


def test_override_of_half_a_tier_says_what_else_it_needs():
    gh200 = hwspaces.hardware("GH200-96GB")
    with pytest.raises(ValueError, match="links.scale_up also needs links.scale_up.latency and links.scale_up.devices"):
        hwspaces.overridden(gh200, {"links.scale_up.bandwidth": "450GB/s"})


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ('base = "NVLnk"', "base = 'NVLnk' is not known; did you mean NVLink"),
        ('base = "Glass"', "leads back to itself"),
        ("latency_us = 1\nbulk = { share = 0.5 }", "missing; give all constants, or base"),
        ('base = "NVLink"\nbulk = { share = 1.5 }', "share = 1.5 must be in"),
        ('base = "NVLink"\nbulk = { fixed_time_GB = 1 }', "has the unit GB"),
        ('base = "NVLink"\nbulk = 3', "is not a table of fixed_time_us and share"),
        ('base = "NVLink"\nreduces = 1', "must be true or false"),
        ('base = "NVLink"\ncolour_us = 1', "colour_us = 1 is not known"),
        ('base = "NVLink"\ntopology = "star"', "topology = 'star' is not known"),
    ],
)
def test_bad_link_technologies(tmp_path, table, message):
    text = GOOD.replace('"NVLink"', '"Glass"') + f"[link.Glass]\n{table}\n"
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        hwspaces.hardware(written(tmp_path, text))
