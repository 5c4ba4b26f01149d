"""Chips in a few lines: what is estimated, how far from the whole description, and every problem in one line."""

import pickle
import re
import tomllib

import numpy as np
import pytest

import hwspaces
import workloads
from hwspaces.accelerators.described import KEYS, KINDS, OTHERS, SCHEMA_FILE, TEMPLATE, estimates_of, template
from hwspaces.files import document
from jaxroof import Deployment, decode, prefill, step_time
from jaxroof.hardware import Beside
from jaxroof.numerics.arrays import eager
from sweeps.studies.estimates import effects_of_estimates

CLASSES = {"TPU": "tpu", "Trainium": "npu", "Inferentia": "npu", "Jetson": "edge", "Apple": "edge"}

KIN = {one.name for kind in KINDS.values() for one in kind}


def loaded(tmp_path, text: str) -> hwspaces.HardwareEntry:
    path = tmp_path / "chip.toml"
    path.write_text(text)
    return hwspaces.hardware(path)


def few_lines(entry: hwspaces.HardwareEntry) -> str:
    """What a data sheet's first page says of a device."""
    figures = entry.figures
    kind = next((kind for begin, kind in CLASSES.items() if entry.name.startswith(begin)), "gpu")
    peaks = ", ".join(
        f'{precision} = "{figures[f"matrix.{precision}"]!r} FLOP/s"'
        for precision in ("bf16", "fp8", "fp4", "int8")
        if f"matrix.{precision}" in figures
    )
    memory = f'capacity = "{figures["memory.hbm.capacity"]!r} B", bandwidth = "{figures["memory.hbm.bandwidth"]!r} B/s"'
    lines = [f'class = "{kind}"', f"peak = {{ {peaks} }}", f"memory = {{ {memory} }}"]
    if "power.tdp" in figures:
        lines.append(f"power = {figures['power.tdp']!r}")
    return "\n".join(lines)


def test_the_template_is_a_chip(tmp_path):
    entry = loaded(tmp_path, TEMPLATE)
    assert (entry.name, entry.hardware.matrix["fp8"], entry.hardware.power.tdp) == ("MyChip", 2e15, 800.0)
    assert entry.hardware.links.scale_up.bandwidth == 6e11
    # 1 of B200's 2.25 PFLOP/s with 148 cores, 65.8, and as much L2 per core.
    assert entry.hardware.cores.count == 66.0
    assert entry.hardware.memory.l2.capacity == pytest.approx(132120576.0 * 66 / 148)
    assert entry.hardware.silicon is not None
    assert {"cores.count", "cores.clock", "memory.l2.capacity"} <= set(estimates_of(entry))
    assert any("cores.count" in sentence for sentence in entry.assumptions)


OTHERS_OF_A_CLASS = {
    "tpu": {"cores.compiled": 1.0, "cores.asynchronous": 1.0},
    "wafer": {"cores.hop_time": 1e-9, "cores.compiled": 1.0},
    "lpu": {"cores.hop_time": 3.5e-7},
    "dataflow": {"cores.hop_time": 5e-9},
    "gpu": {"cores.compiled": 0.0},
}
"""What makes a class more than a GPU with other peaks."""


@pytest.mark.parametrize("kind", OTHERS_OF_A_CLASS)
def test_a_chip_is_built_as_its_class_is(kind, tmp_path):
    entry = loaded(tmp_path, TEMPLATE.replace('class = "gpu" ', f'class = "{kind}" '))
    assert {path: entry.figures[path] for path in OTHERS_OF_A_CLASS[kind]} == OTHERS_OF_A_CLASS[kind]
    # A link that nothing is measured of has the latency of its kin.
    assert entry.hardware.links.scale_up.latency > 0.0
    assert effects_of_estimates(entry)


def test_several_memories_dies_and_units_in_the_memory(tmp_path):
    memory = """memory = { capacity = "64 GB", bandwidth = "4 TB/s", dies = { count = 2, bandwidth = "3 TB/s" },
      beside = { lpddr = { capacity = "512 GB", bandwidth = "0.6 TB/s", latency = "300 ns", cache = 0 }, cxl = {
      capacity = "2 TB", bandwidth = "128 GB/s", devices = 4 } },
      near = { bandwidth = "16 TB/s", flops = "32 TFLOP/s" } }
"""
    entry = loaded(tmp_path, f'peak = "1 PFLOP/s"\n{" ".join(memory.split())}\n')
    own = entry.hardware.memory
    assert own.beside["lpddr"] == Beside(bandwidth=6e11, capacity=5.12e11, latency=pytest.approx(3e-7), cache=0.0)
    cxl = own.beside["cxl"]
    assert (cxl.devices, cxl.energy, own.near.flops, own.dies.count) == (4.0, None, 3.2e13, 2.0)
    changed = hwspaces.overridden(entry, {"memory.beside.lpddr.bandwidth": "1 TB/s"})
    assert changed.hardware.memory.beside["lpddr"].bandwidth == 1e12


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('beside = { lpddr = { capacity = "1 GB" } }', "memory.beside.lpddr also needs bandwidth"),
        ('beside = { lpddr = { capacity = "1 GB", bandwidth = "1 GB" } }', "bandwidth = '1 GB'"),
        ('beside = { LPDDR = { capacity = "1 GB" } }', "LPDDR is no name of a memory"),
        ("beside = { lpddr = { speed = 3 } }", "speed = 3 is not known"),
        ('near = { bandwidth = "1 TB/s" }', "memory.near also needs flops"),
    ],
)
def test_a_memory_that_is_wrong_is_refused_by_name(text, said, tmp_path):
    with pytest.raises(ValueError, match=re.escape(said)):
        loaded(tmp_path, f'peak = "1 PFLOP/s"\nmemory = {{ capacity = "64 GB", bandwidth = "4 TB/s", {text} }}\n')


def test_what_is_given_is_no_estimate(tmp_path):
    text = TEMPLATE + 'cores = { count = 100, clock = "1.5 GHz" }\nvector = { fp32 = "40 TFLOP/s" }\n'
    entry = loaded(tmp_path, text)
    assert (entry.hardware.cores.count, entry.hardware.cores.clock) == (100.0, 1.5e9)
    assert entry.hardware.cores.vector_flops == pytest.approx(4e11)
    assert not {"cores.count", "cores.clock", "cores.vector_flops"} & set(estimates_of(entry))


def test_levels_may_be_written_out_as_in_the_catalogue(tmp_path):
    text = """
    [matrix]
    bf16_TFLOPs = 989.4
    [memory.hbm]
    capacity_GiB = 80
    bandwidth = "3.35 TB/s"
    [memory.l2]
    capacity = "64 MiB"
    """
    entry = loaded(tmp_path, "year = 2022\n" + text)
    assert entry.name == "chip"
    assert entry.hardware.matrix == {"bf16": 9.894e14, "fp32": pytest.approx(6.69e13)}
    assert entry.hardware.memory.l2.capacity == 2.0**26
    assert entry.hardware.cores.count == 132.0  # as the H100 that it is, by class and year


WRONG = """
nam = "X"
class = "gpuu"
peak = { bf16 = "1 PFLOP", fp7 = "2 PFLOP/s" }
memory = { capacty = "96", bandwidth = "4 TB/s", l3 = { capacity = "1 GB" } }
network = { bandwith = "50 GB/s" }
power = "600"
cores = { cout = 3 }
sram = "4 gb"
year = 1900
"""


def test_every_problem_is_said_at_once(tmp_path):
    with pytest.raises(document.Problems) as raised:
        loaded(tmp_path, WRONG)
    said = raised.value
    assert "\n" not in str(said) and str(said).startswith(f"{tmp_path / 'chip.toml'}: nam is not known")
    assert said.lines == (
        "nam is not known; did you mean name or sram?",
        "class = 'gpuu' is not known; did you mean gpu or tpu or npu?",
        "peak: bf16 = '1 PFLOP' has the unit 'PFLOP'; allowed: PFLOPs, PFLOPS, FLOP/s, GFLOP/s, TFLOP/s, PFLOP/s",
        "peak: fp7 = '2 PFLOP/s' is not known; did you mean fp8 or fp6 or fp4?",
        "memory: capacty = '96' is not known; did you mean capacity?",
        "memory.capacity is missing",
        "memory: table l3 is not known; did you mean memory.l2 or memory or memory.hbm?",
        "network: bandwith = '50 GB/s' is not known; did you mean bandwidth?",
        "network.bandwidth is missing",
        "power = '600' has no unit; write one, such as 700W",
        "and 3 more",
    )
    assert pickle.loads(pickle.dumps(said)).lines == said.lines
    for missing in ("peak", "memory"):
        with pytest.raises(ValueError, match=f"{missing} is missing"):
            loaded(tmp_path, 'peak = "1 PFLOP/s"' if missing == "memory" else 'memory = { capacity = "1 GB" }')
    with pytest.raises(ValueError, match="like: 'H10O' is neither in the catalogue"):
        loaded(tmp_path, TEMPLATE + 'like = "H10O"')


def test_single_quantities_are_short_for_tables(tmp_path):
    text = 'memory = { capacity = "96 GB", bandwidth = "4 TB/s" }\n'
    short = loaded(tmp_path, 'peak = "1 PFLOP/s"\nlink = "450 GB/s"\npower = "600 W"\n' + text)
    table = 'peak = { bf16 = "1 PFLOP/s" }\nlink = { bandwidth = "450 GB/s" }\npower = { tdp = "600 W" }\n'
    assert loaded(tmp_path, table + text).hardware == short.hardware


def test_numbers_without_a_unit_are_in_si_units_at_every_level(tmp_path):
    text = "memory = { capacity = 96e9, bandwidth = 4e12, l2 = { capacity = 64e6, bandwidth = 8e12 } }\npower = 600\n"
    own = loaded(tmp_path, "peak = 1e15\nlink = { bandwidth = 450e9, latency = 1e-6 }\n" + text).hardware
    assert (own.memory.hbm.capacity, own.memory.l2.capacity, own.power.tdp) == (96e9, 64e6, 600.0)
    assert own.links.scale_up.latency == pytest.approx(1e-6)


def test_a_chip_without_other_memory_than_sram(tmp_path):
    text = 'peak = { fp16 = "188 TFLOP/s", int8 = "750 TFLOP/s" }\n'
    with pytest.raises(ValueError, match="a chip whose only memory is SRAM has it there"):
        loaded(tmp_path, text + 'sram = "230 MB"')
    text += 'memory = { capacity = "230 MB", bandwidth = "80 TB/s" }\n'
    with pytest.raises(ValueError, match="120 times as much .* is of class wafer, lpu or dataflow"):
        loaded(tmp_path, text)
    for more in ('class = "lpu"', "cores = { count = 20 }"):
        assert loaded(tmp_path, text + more).hardware.memory.hbm.bandwidth == 8e13


READ = document.toml

HOSTILE = (0, -1, True, [], {}, "", "x", [1], {"a": 1}, {"capacity": 1}, 1e400, float("nan"), "1 PFLOP/s", "5 GB")


@pytest.mark.parametrize(
    "key", [*KEYS, *OTHERS, "memory.hbm", "memory.l2", "links.scale_up", "peak.bf16", "cores.count"]
)
def test_whatever_stands_in_a_file_is_read_or_refused_in_one_line(tmp_path, key, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for value in HOSTILE:
        tables = tomllib.loads(TEMPLATE)
        *around, leaf = key.split(".")
        inner = tables
        for name in around:
            inner = inner.setdefault(name, {})
        inner[leaf] = value
        files = {"chip.toml": tables}
        monkeypatch.setattr(document, "toml", lambda path, files=files: files.get(str(path)) or READ(path))
        try:
            assert hwspaces.hardware("chip.toml").hardware.matrix
        except ValueError as error:
            assert str(error).startswith("chip.toml") and "\n" not in str(error)


def test_a_file_is_like_no_other_file(tmp_path):
    with pytest.raises(ValueError, match="it is a name of the catalogue"):
        loaded(tmp_path, TEMPLATE + 'like = "chip.toml"')
    with pytest.raises(ValueError, match="no such accelerator"):
        hwspaces.hardware(f"{tmp_path / 'chip.toml'}#Other") if loaded(tmp_path, TEMPLATE) else None


def test_estimates_say_what_they_do(tmp_path):
    effects = effects_of_estimates(loaded(tmp_path, TEMPLATE))
    assert effects[0].path == "cores.clock"
    assert effects[0].half["decode"] > 1.02 > effects[0].twice["decode"]
    assert [one.size for one in effects] == sorted((one.size for one in effects), reverse=True)
    assert effects_of_estimates(hwspaces.hardware("H100-SXM")) == []


def test_what_the_template_leaves_out_may_be_added(tmp_path):
    """Eight lines are enough, and every further one is a key as well."""
    assert len([line for line in TEMPLATE.splitlines() if line and not line.startswith("#")]) <= 8
    whole = re.sub(r"^# (?=[a-z]+ = )", "", TEMPLATE, flags=re.M)
    entry = loaded(tmp_path, whole)
    assert len(tomllib.loads(whole)) == 12
    assert (entry.hardware.cores.count, entry.hardware.memory.on_chip.capacity) == (144.0, 2e9)
    assert entry.hardware.price == pytest.approx(3 / 3600)


def test_a_template_names_the_schema_that_is_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert template() == TEMPLATE
    (tmp_path / SCHEMA_FILE).write_text("{}")
    assert template() == f"#:schema ./{SCHEMA_FILE}\n{TEMPLATE}"


def test_devices_of_the_catalogue_in_a_few_lines(tmp_path):
    """Of devices that no class is estimated from, but Corsair of SRAM, without their year: steps of the short form.

    Its errors are those of a chip that its author describes in so few lines.
    """
    model, constants = workloads.model("Llama-3.1-8B").model, hwspaces.efficiency("learned").efficiency
    steps = {"decode": decode(32.0, 2048.0), "prefill": prefill(1.0, 4096.0)}
    errors: dict[str, list[float]] = {name: [] for name in steps}
    for name in hwspaces.names():
        entry = hwspaces.hardware(name)
        if name in (*KIN, "Corsair") or "bf16" not in entry.hardware.matrix:
            continue
        short = loaded(tmp_path, few_lines(entry)).hardware
        for step, batch in steps.items():
            with eager():
                times = [
                    float(step_time(one, model, Deployment(), batch, constants)) for one in (short, entry.hardware)
                ]
            errors[step].append(abs(np.log(times[0] / times[1])))
    assert len(errors["decode"]) > 50
    assert np.median(errors["decode"]) < 0.07
    assert np.median(errors["prefill"]) < 0.12
    assert np.mean(np.array(errors["decode"]) < np.log(1.25)) > 0.85


def test_exponentials_without_a_unit_of_their_own_run_on_the_vector_units(tmp_path):
    """67 TFLOP/s over 16 FLOP of an exponential, over 100 cores; a catalogue's device without the figure is left."""
    text = """
    [accelerator.Plain]
    matrix.bf16 = "989 TFLOP/s"
    vector.fp32 = "67 TFLOP/s"
    cores.count = 100
    memory.hbm.capacity = "80 GB"
    memory.hbm.bandwidth = "3.35 TB/s"
    """
    plain = loaded(tmp_path, text)
    assert plain.hardware.cores.exp_rate == pytest.approx(67e12 / 16 / 100)
    assert any(sentence.startswith("cores.exp_rate: ") for sentence in plain.assumptions)
    given = loaded(tmp_path, text + 'cores.exp_rate = "5e10 1/s"')
    assert given.hardware.cores.exp_rate == 5e10
    assert hwspaces.hardware("TPU-v6e").hardware.cores.exp_rate is None
