"""The catalogue: every entry loads, every figure has a source, and the figures are the published ones."""

import csv
import dataclasses
import math
import subprocess
import sys
import time
from pathlib import Path

import jax
import pytest

import hwspaces
from hwspaces.accelerators.load import _files_with, _index, _plain, _texts
from hwspaces.quantities.leaves import leaf
from jaxroof.hardware import Hardware
from jaxroof.numerics.struct import declarations

REFERENCE = Path(__file__).parents[2].parent / "shared" / "reference" / "accelerators.csv"

# name: dense bf16 (or fp16) TFLOP/s, fp8 TFLOP/s, memory TB/s, cores: the vendors' datasheets
PUBLISHED = {
    "V100-SXM": (125, None, 0.9, 80),
    "A100-SXM-80GB": (312, None, 2.039, 108),
    "A100-PCIe-40GB": (312, None, 1.555, 108),
    "A30": (165, None, 0.933, 56),
    "L40S": (362.05, 733, 0.864, 142),
    "H100-SXM": (989.4, 1978.9, 3.35, 132),
    "H100-PCIe": (756, 1513, 2.0, 114),
    "H200-SXM": (989.4, 1978.9, 4.8, 132),
    "B200-SXM": (2250, 4500, 8.0, 148),
    "GB200": (2500, 5000, 8.0, 148),
    "MI300X": (1307.4, 2614.9, 5.3, 304),
    "MI355X": (2516, 5033, 8.0, 256),
    "TPU-v5e": (197, None, 0.819, 1),
    "TPU-v5p": (459, 459, 2.765, 2),
    "Trainium2": (667, 1299, 2.9, 8),
    "Ascend-910C": (752, None, 3.2, 48),
    "MTIA-300": (600, 1120, 6.1, 72),
    "MTIA-400": (3000, 6000, 9.4, 96),
    "MTIA-450": (3500, 7000, 18.4, 1),
    "MTIA-500": (5000, 10000, 27.6, 1),
    "Maia-200": (1268, 5072, 7.0, 72),
    "SN50": (1600, 3200, 1.84, 1),
}

# CSV name and column -> why the catalogue departs from it
DEVIATIONS = {
    ("Trainium1", "fp32_vector_tflops"): "47.5 is the TensorEngine's fp32; the VectorEngines reach 2 x 2.3",
    ("Inferentia2", "fp32_vector_tflops"): "47.5 is the TensorEngine's fp32; the VectorEngines reach 2 x 2.3",
    ("Trainium2", "fp32_vector_tflops"): "181 is the TensorEngines' fp32; the VectorEngines reach 8 x 1",
    ("TPU v4", "fp32_vector_tflops"): "the table has none; the ISCA 2023 paper gives the lanes and the clock",
    ("TPU v5e", "fp32_vector_tflops"): "the table has none; lanes, ALUs and clock are published",
    ("TPU v5p", "fp32_vector_tflops"): "the table has none; lanes, ALUs and clock are published",
    ("TPU v6e (Trillium)", "fp32_vector_tflops"): "the table has none: assumed, as v5p",
    ("TPU7x (Ironwood)", "fp32_vector_tflops"): "the table has none: assumed, the ratio of v6e",
    ("MI308X", "fp32_vector_tflops"): "the table has none: assumed, the ratio of MI300X",
    **dict.fromkeys(
        [("Ascend 950DT", column) for column in ("bf16_tflops", "fp16_tflops", "fp8_tflops", "fp4_tflops")],
        "the table has a list's totals of cube and vector units; the white paper has them apart",
    ),
    ("Ascend 950DT", "mem_gb"): "the table has a list's 96 GB; Huawei gives 144",
    ("Ascend 950DT", "cores"): "the table has none; the white paper has 32",
    ("Rubin (VR NVL72, per GPU)", "tdp_w"): "the table has none; MLPerf's system file has 2300",
    ("MI308X", "cores"): "the table has none; run logs show 80 compute units",
    ("Rubin (VR NVL72, per GPU)", "cores"): "the table has none; NVIDIA's blog says up to 224 SMs",
    ("MI455X", "cores"): "unknown: the whole device is one core",
}


def catalogue_items():
    return list(hwspaces.catalogue().items())


def flat(hardware) -> dict[str, float]:
    """Leaf path -> value."""
    leaves = jax.tree_util.tree_flatten_with_path(hardware)[0]
    return {".".join(getattr(k, "name", getattr(k, "key", None)) for k in path): leaf for path, leaf in leaves}


def test_names_are_those_of_the_catalogue():
    assert hwspaces.names() == tuple(hwspaces.catalogue()) and len(set(hwspaces.names())) == len(hwspaces.names()) > 70


@pytest.mark.parametrize("name", hwspaces.names())
def test_entry_is_whole(name):
    entry = hwspaces.hardware(name)
    # What a memory beside the device's own has by default is no figure of the device.
    leaves = {path: v for path, v in flat(entry.hardware).items() if ".beside." not in path or path in entry.figures}
    assert entry.name == name and entry.vendor and entry.product and entry.architecture and entry.date
    assert entry.status in ("GA", "announced")
    for path, value in leaves.items():
        zero = leaf(path).zero
        assert type(value) is float and math.isfinite(value) and (value > 0 or (zero and value == 0)), path
        assert leaf(path).unit
        assert entry.figures[path] == value
        assert entry.sources[path].strip(), path
    for source in entry.sources.values():
        assert len(source) > 8 and ("assumption" in source or " " in source), source
        assert "accelerators.csv" not in source
    assert all(isinstance(text, str) and text for text in (*entry.assumptions, *entry.notes))


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_figures(name):
    bf16, fp8, bandwidth, cores = PUBLISHED[name]
    hardware = hwspaces.hardware(name).hardware
    assert hardware.matrix.get("bf16", hardware.matrix.get("fp16")) == pytest.approx(bf16 * 1e12, rel=1e-9)
    assert hardware.matrix.get("fp8") == (None if fp8 is None else pytest.approx(fp8 * 1e12, rel=1e-9))
    assert hardware.memory.hbm.bandwidth == pytest.approx(bandwidth * 1e12, rel=1e-9)
    assert hardware.cores.count == cores


def test_rates_per_clock():
    # A100: 5120 B/clock x 1.41 GHz = 7.2192 TB/s; 128 B/clock/SM = 180.48 GB/s; 16 exp/clock/SM = 22.56e9/s
    a100 = hwspaces.hardware("A100-SXM").hardware
    assert a100.memory.l2.bandwidth == pytest.approx(7.2192e12, rel=1e-9)
    assert a100.memory.l2.capacity == 40 * 2**20
    assert a100.memory.scratchpad.bandwidth == pytest.approx(180.48e9, rel=1e-9)
    assert a100.memory.scratchpad.capacity == 164 * 2**10
    assert a100.memory.register_capacity == 256 * 2**10
    assert a100.cores.exp_rate == pytest.approx(22.56e9, rel=1e-9)
    # 19.5 TFLOP/s of 108 SMs = 180.6 GFLOP/s each
    assert a100.cores.vector_flops == pytest.approx(19.5e12 / 108, rel=1e-9)


def test_last_shared_cache_of_cdna3_is_the_infinity_cache():
    l2 = hwspaces.hardware("MI300X").hardware.memory.l2
    assert (l2.bandwidth, l2.capacity) == (pytest.approx(17.2e12, rel=1e-9), 256 * 2**20)


def test_links():
    h100 = hwspaces.hardware("H100-SXM").hardware.links
    assert (h100.scale_up.bandwidth, h100.scale_up.devices) == (450e9, 8.0)
    assert h100.scale_out.bandwidth == 50e9  # 400 Gbit/s
    assert hwspaces.hardware("GB200").hardware.links.scale_up.devices == 72.0
    l40s = hwspaces.hardware("L40S").hardware.links.scale_up
    assert (l40s.bandwidth, l40s.devices) == (32e9, 8.0)  # PCIe 4.0 x16 inside a server
    assert (h100.scale_up.reduces, l40s.reduces) == (1.0, 0.0)  # NVLink switches since the fourth generation
    assert l40s.transport.peers == 2.0 and l40s.transport.crossing > 1.0 == h100.scale_up.transport.crossing
    assert hwspaces.hardware("GH200-96GB").hardware.links.scale_up is None


def test_what_is_unknown_stays_unknown():
    assert "bf16" not in hwspaces.hardware("V100").hardware.matrix
    mi308x = hwspaces.hardware("MI308X")
    assert mi308x.hardware.memory.l2 is None and mi308x.hardware.power.tdp is None
    assert any("vector rate unknown" in text for text in mi308x.assumptions)
    mtia = hwspaces.hardware("MTIA-450")
    assert mtia.hardware.cores.count == 1.0
    assert any("number of cores unknown" in text for text in mtia.assumptions)
    # As one core a GPU of 23 TB/s would take seconds for a prompt: a number that is assumed says so.
    mi455x = hwspaces.hardware("MI455X")
    assert mi455x.hardware.cores.count == 256.0 and mi455x.sources["cores.count"].startswith("assumption")


def test_rates_of_a_whole_device_are_shared_by_its_cores():
    """Ascend 950: half of 54 TFLOP/s in bf16 on 32 cores; Trainium3: 8 VectorEngines of 1.2 TFLOP/s."""
    ascend, trainium = hwspaces.hardware("Ascend 950DT").hardware, hwspaces.hardware("trn3").hardware
    assert ascend.cores.vector_flops == pytest.approx(27e12 / 32, rel=1e-9)
    assert trainium.cores.count * trainium.cores.vector_flops == pytest.approx(9.6e12, rel=1e-9)
    assert trainium.matrix["fp4"] == trainium.matrix["fp8"] == 2.517e15


def test_assumed_figures_are_listed():
    for name, entry in catalogue_items():
        for path, source in entry.sources.items():
            if source.startswith("assumption"):
                assert entry.assumptions, (name, path)
    assert any("cores.clock" in text for text in hwspaces.hardware("B300").assumptions)
    network, costs, *_ = hwspaces.hardware("H100").assumptions
    assert network.startswith("links.scale_out: network: assumption: ")
    assert costs.startswith("costs: ") and "margin" in costs
    assert any("assumption: send-receive" in text for text in hwspaces.hardware("L40S").assumptions)


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("h100_sxm", "H100-SXM"),
        ("H100", "H100-SXM"),
        ("h100 sxm5", "H100-SXM"),
        ("nvidia_H100_PCIe", "H100-PCIe"),
        ("h100_pcie", "H100-PCIe"),
        ("H100_GPU", "H100-SXM"),
        ("h200_sxm", "H200-SXM"),
        ("a100_sxm", "A100-SXM-80GB"),
        ("A100-SXM", "A100-SXM-80GB"),
        ("A100", "A100-SXM-80GB"),
        ("A100-80", "A100-SXM-80GB"),
        ("a100_pcie", "A100-PCIe-80GB"),
        ("b200_sxm", "B200-SXM"),
        ("b300_sxm", "B300-SXM"),
        ("gb200", "GB200"),
        ("gb300", "GB300"),
        ("l40s", "L40S"),
        ("l4", "L4"),
        ("a30", "A30"),
        ("b60", "Arc-Pro-B60"),
        ("rtx_pro_6000_server", "RTX-PRO-6000-Server"),
        ("NVIDIA GeForce RTX 4090", "RTX-4090"),
        ("mi300x", "MI300X"),
        ("AMD Instinct MI325X", "MI325X"),
        ("tpu_v5e", "TPU-v5e"),
        ("Trillium", "TPU-v6e"),
        ("Ironwood", "TPU-v7x"),
        ("trn2", "Trainium2"),
        ("Gaudi3", "Gaudi3"),
        ("V100", "V100-SXM"),
    ],
)
def test_alias(alias, name):
    assert hwspaces.hardware(alias).name == name


def test_every_alias_finds_its_entry():
    for name, entry in catalogue_items():
        for alias in (name, *entry.aliases):
            for spelling in (alias, alias.lower(), alias.upper().replace("-", "_"), alias.replace("-", " ")):
                assert hwspaces.hardware(spelling).name == name


def test_precision_without_figure_raises():
    a100 = hwspaces.hardware("A100-SXM-80GB")
    assert hwspaces.require_precision(a100, "bf16") == 312e12
    with pytest.raises(ValueError, match=r"^A100-SXM-80GB has no fp4 figure; it has bf16, fp16, int8, tf32, fp32$"):
        hwspaces.require_precision(a100, "fp4")


def test_override_in_any_unit():
    entry = hwspaces.hardware("H100")
    settings = {"hardware.memory.hbm.bandwidth": "8TB/s", "price": 0.001, "matrix.fp4": "4PFLOP/s"}
    changed = hwspaces.overridden(entry, settings)
    assert changed.hardware.memory.hbm.bandwidth == 8e12
    assert changed.hardware.price == 0.001
    assert changed.hardware.matrix["fp4"] == 4e15
    assert changed.sources["memory.hbm.bandwidth"] == "--set hardware.memory.hbm.bandwidth=8TB/s"
    assert changed.hardware.memory.hbm.capacity == entry.hardware.memory.hbm.capacity
    assert entry.hardware.memory.hbm.bandwidth == 3.35e12


def test_override_completes_a_level_of_which_half_was_known():
    entry = hwspaces.hardware("MI355X")
    assert entry.hardware.memory.l2 is None
    changed = hwspaces.overridden(entry, {"memory.l2.bandwidth": "17.2TB/s"})
    assert changed.hardware.memory.l2.capacity == 256 * 2**20


def test_topologies_and_generations():
    def link(name):
        return hwspaces.hardware(name).hardware.links.scale_up

    assert [link(name).topology for name in ("H100", "MI300X", "H100-NVL", "TPU-v5p")] == [
        *("switched", "mesh", "mesh", "torus"),
    ]
    assert [link(name).axes for name in ("TPU-v5e", "TPU-v5p", "Trainium2")] == [2.0, 3.0, 2.0]
    assert link("H100-NVL").reduces == 0.0  # a bridge is no switch
    a100, h100, b200 = (link(name).transport for name in ("A100-SXM-80GB", "H100", "B200"))
    assert a100.bulk.share == h100.bulk.share and a100.bulk.fixed_time > h100.bulk.fixed_time
    assert b200.bulk.share == h100.bulk.share and b200.bulk.fixed_time > h100.bulk.fixed_time
    assert any("NVLink2: no public data" in sentence for sentence in hwspaces.hardware("V100-SXM").assumptions)
    assert not any("NVLink4" in sentence for sentence in hwspaces.hardware("H100").assumptions)


def test_a_third_tier_of_links_can_be_added():
    tier = {"links.cluster.bandwidth": "25GB/s", "links.cluster.latency": "5us", "links.cluster.devices": 32768.0}
    changed = hwspaces.overridden(hwspaces.hardware("H100"), tier).hardware.links.cluster
    assert (changed.bandwidth, changed.devices, changed.transport, changed.topology) == (25e9, 32768, None, "switched")


def test_every_leaf_can_be_overridden():
    entry = hwspaces.hardware("H100")
    for pattern, declared in declarations(Hardware).items():
        path = pattern.replace("*", "bf16")
        if declared.structure:
            continue
        if path.startswith(
            (
                *("links.cluster.", "energy.cluster", "memory.host.", "memory.storage.", "memory.on_chip.", "package."),
                *("memory.beside.", "memory.near.", "memory.dies."),
            )
        ):
            continue  # H100 has none; above, and below
        value = next(number for number in (7.0, 0.5, 1.0) if declared.allows(number))  # others, shares and switches
        assert flat(hwspaces.overridden(entry, {path: value}).hardware)[path] == value


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [("cores.asynchronous", 0.5, "must be 0 or 1"), ("links.scale_up.transport.bulk.share", "120%", "must be ")],
)
def test_figures_keep_the_range_that_their_declaration_gives(path, value, said):
    with pytest.raises(ValueError, match=said):
        hwspaces.overridden(hwspaces.hardware("H100"), {path: value})


def test_memory_outside_of_the_device_is_given_whole():
    entry = hwspaces.hardware("H100")
    given = {"memory.host.bandwidth": "25 GB/s", "memory.host.capacity": "128 GB"}
    assert hwspaces.overridden(entry, given).hardware.memory.host.capacity == 128e9
    with pytest.raises(ValueError, match=r"memory\.host also needs memory\.host\.capacity"):
        hwspaces.overridden(entry, {"memory.host.bandwidth": "25 GB/s"})


def test_on_chip_memory_is_given_whole():
    given = {"memory.on_chip.capacity": "32 MiB", "memory.on_chip.keeps_weights": 1}
    changed = hwspaces.overridden(hwspaces.hardware("TPU-v6e"), given).hardware.memory.on_chip
    assert (changed.capacity, changed.keeps_weights) == (32 * 2**20, 1.0)
    with pytest.raises(ValueError, match=r"memory\.on_chip also needs memory\.on_chip\.keeps_weights"):
        hwspaces.overridden(hwspaces.hardware("TPU-v6e"), {"memory.on_chip.capacity": "32 MiB"})
    edge, first = (hwspaces.hardware(name).hardware.memory.on_chip for name in ("Edge-TPU", "TPU-v1"))
    assert (edge.keeps_weights, first.keeps_weights) == (1.0, 0.0)


def test_hardware_is_a_pytree_of_the_fixed_structs():
    hardware = hwspaces.hardware("H100").hardware
    leaves, tree = jax.tree.flatten(hardware)
    assert jax.tree.unflatten(tree, leaves) == hardware
    assert dataclasses.is_dataclass(hardware)


def test_a_name_is_found_in_the_files_that_have_it_as_in_all():
    every = tuple(_texts())
    for entry in hwspaces.catalogue().values():
        for alias in (entry.name, *entry.aliases):
            files = _files_with(_plain(alias))
            assert len(files) < len(every)
            assert _index(files)[_plain(alias)] == _index(every)[_plain(alias)]


def test_one_name_loads_fast():
    # 0.15 s is ten times what it takes: this catches a catalogue that is parsed once per name, not a slow machine
    code = (
        "import time, hwspaces; start = time.perf_counter(); hwspaces.hardware('H100'); "
        "print(time.perf_counter() - start)"
    )
    root = Path(hwspaces.__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert float(done.stdout) < 1.5
    start = time.perf_counter()
    for name in hwspaces.names():
        hwspaces.hardware(name)
    assert time.perf_counter() - start < 1.0


@pytest.mark.skipif(not REFERENCE.exists(), reason=f"the reference table is not at {REFERENCE}")
def test_agrees_with_the_reference_table():
    columns = {
        "bf16_tflops": ("matrix.bf16", 1e12),
        "fp16_tflops": ("matrix.fp16", 1e12),
        "fp8_tflops": ("matrix.fp8", 1e12),
        "fp4_tflops": ("matrix.fp4", 1e12),
        "int8_tops": ("matrix.int8", 1e12),
        "cores": ("cores.count", 1.0),
        "mem_tbps": ("memory.hbm.bandwidth", 1e12),
        "scaleup_gbps_dir": ("links.scale_up.bandwidth", 1e9),
        "nic_gbps": ("links.scale_out.bandwidth", 1e9 / 8),
        "tdp_w": ("power.tdp", 1.0),
    }
    with REFERENCE.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {hwspaces.hardware(row["name"]).name for row in rows} <= set(hwspaces.rented_names()) and len(rows) > 60
    assert {name for name, _ in DEVIATIONS} <= {row["name"] for row in rows}
    for row in rows:
        entry = hwspaces.hardware(row["name"])
        if row["fp32_vector_tflops"] and (row["name"], "fp32_vector_tflops") not in DEVIATIONS:
            cores = entry.hardware.cores
            assert cores.count * cores.vector_flops == pytest.approx(float(row["fp32_vector_tflops"]) * 1e12, rel=1e-9)
        # sold in GB, built in GiB: which of the two it is stands in each entry
        capacity, sold = entry.hardware.memory.hbm.capacity, float(row["mem_gb"])
        assert (row["name"], "mem_gb") in DEVIATIONS or capacity in (sold * 1e9, sold * 2**30), entry.name
        for column, (path, size) in columns.items():
            if (row["name"], column) in DEVIATIONS:
                continue
            alone = column == "scaleup_gbps_dir" and entry.hardware.links.scale_up is None
            if row[column] and not alone:
                assert entry.figures.get(path) == pytest.approx(float(row[column]) * size, rel=1e-9), (entry.name, path)
            elif not row[column]:
                assert path not in entry.figures, (entry.name, path)
