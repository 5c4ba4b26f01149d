"""Printed answers of the command, its refusals, and files that a failure leaves as they were."""

import json
import math
import subprocess
import sys

import pytest
import xarray as xr

import sweeps
from sweeps.answers.sweep import speed_text
from sweeps.cli import main
from sweeps.data import best, labels
from tests.commands import printed, refused

DEPLOYMENT = ("--hardware", "H100-SXM", "--model", "meta-llama/Llama-3.1-8B", "--tp", "2")
STEP = ("step", *DEPLOYMENT, "--decode", "64", "--context", "2048")
REQUEST = ("request", *DEPLOYMENT, "--isl", "1024", "--osl", "128", "--batch", "16")

SPEC = """
hardware = "H100-SXM"
model = "Llama-3.1-8B"
deployment = { tp = [1, 2] }
workload = { batch = [1, 64, 4096], isl = 1024, osl = 128 }
output = { variables = ["tpot", "tokens_per_second_per_device", "feasible"] }
"""


@pytest.fixture
def spec(tmp_path):
    """The path of a small specification, alone in its folder."""
    path = tmp_path / "spec.toml"
    path.write_text(SPEC)
    return path


def test_a_step_is_a_table_of_its_ops_with_totals(capsys):
    lines = printed(capsys, *STEP, "--set", "hardware.memory.hbm.bandwidth=8TB/s").splitlines()
    assert lines[0] == "Llama-3.1-8B on 2 x H100-SXM: decode of 64 sequences at 2,048 tokens"
    assert (
        lines[1]
        == "weights bf16 (torch_dtype), KV cache bf16, efficiency derated, engine vllm 0.24 (newest with evidence)"
    )
    assert lines[2] == "with hardware.memory.hbm.bandwidth = 8TB/s"
    assert lines[4].split() == ["FLOP", "bytes", "message", "power"]
    assert lines[5].split() == ["op", "runs", "time", "share", *["/device"] * 2, "FLOP/B", *["/device"] * 2, "bound"]
    names = [line.split()[0] for line in lines if line.strip()]
    assert names.index("qkv_proj") < names.index("decode_attention") < names.index("head") < names.index("total")
    assert "100.0 %" in lines[[line.split()[:1] for line in lines].index(["total"])]
    assert {"step", "use", "bound", "memory"} <= set(names)
    assert "prefill_attention" not in names  # ops without work are left out


def test_step_json_holds_finite_numbers_that_agree(capsys):
    found = json.loads(printed(capsys, *STEP, "--json"), parse_constant=pytest.fail)
    metrics, ops = found["metrics"], found["ops"]
    assert found["precision"] == "bf16" and found["precision_source"] == "torch_dtype"
    assert metrics["fits"] is True and metrics["bound"] in ("hbm", "launch")
    assert set(ops[0]) == {
        *("name", "count", "time_s", "share", "flops_per_device", "bytes_per_device", "message_bytes_per_device"),
        *("precision", "intensity", "bound", "algorithm", "energy_per_device_J", "power_per_device_W"),
    }
    roofs = found["roofs"]["step"]
    assert roofs["memory_bandwidth"] == 3.35e12 and list(roofs["matrix_flops"]) == ["bf16"]
    assert found["command"] == " ".join(["jaxroof", *STEP, "--json"])
    assert sum(op["time_s"] for op in ops) == pytest.approx(metrics["step_time"], rel=1e-12)
    assert sum(op["share"] for op in ops) == pytest.approx(1.0, rel=1e-12)
    # 32 layers; qkv of (32 + 2 * 8) / 2 heads of 128 over 4096: 2 * 64 * 4096 * 3072 FLOP each
    qkv = next(op for op in ops if op["name"] == "qkv_proj")
    assert (qkv["count"], qkv["flops_per_device"]) == (32.0, 32 * 2.0 * 64 * 4096 * 3072)
    assert all(op["intensity"] is None or math.isfinite(op["intensity"]) for op in ops)


@pytest.mark.parametrize(
    ("work", "tokens", "unit"),
    [
        ({"prefill": 2048}, 2048, "prompt token"),
        ({"decode": 64, "context": 2048}, 64, "output token"),
        ({"prefill": 1000, "prefills": 2, "past": 500, "decode": 64, "context": 2048}, 2064, "token, prompt or output"),
    ],
)
def test_figures_per_token_of_a_step_are_of_the_tokens_that_it_processes(capsys, work, tokens, unit):
    """Cached tokens of prompts are not processed. Two devices at 3.99 USD/h share them."""
    flags = [word for name, value in work.items() for word in (f"--{name}", str(value))]
    out = printed(capsys, *STEP[:7], *flags)
    found = json.loads(printed(capsys, *STEP[:7], *flags, "--json"))
    metrics, time = found["metrics"], found["metrics"]["step_time"]
    assert found["token_unit"] == unit
    assert f" per {unit}\n" in out and f"USD per million {unit.replace('token', 'tokens')} (" in out
    assert metrics["tokens_per_second"] == pytest.approx(tokens / time, rel=1e-12)
    assert metrics["joules_per_token"] == pytest.approx(metrics["power"] * 2 * time / tokens, rel=1e-12)
    assert f" g CO2 per million {unit.replace('token', 'tokens')}\n" in out
    assert "at 3.99 USD/h (on demand, neocloud, median of 8, 2026-10-10)" in out
    assert (found["price_usd_per_hour"], found["price_date"]) == (pytest.approx(3.99), "2026-10-10")
    assert metrics["usd_per_million_tokens"] == pytest.approx(1e6 * 2 * 3.99 / 3600 * time / tokens, rel=1e-9)
    swept = sweeps.sweep(
        job="step",
        hardware="H100-SXM",
        model="Llama-3.1-8B",
        deployment={"tp": 2},
        workload=work,
        efficiency="derated",
        output={"dtype": "float64", "variables": ["tokens_per_second", "joules_per_token"]},
    )
    for name in swept:
        assert float(swept[name]) == pytest.approx(metrics[name], rel=1e-12), name
        assert swept[name].attrs["long_name"].endswith("of a single step, prompt and output tokens")


def test_a_heading_says_what_the_cache_is_and_not_what_was_asked_for(capsys):
    """fp8 is asked for, then its bytes are set: what is computed has half a byte."""
    words = (*STEP, "--kv", "fp8")
    assert "KV cache fp8, efficiency derated" in printed(capsys, *words)
    set_by_hand = (*words, "--set", "deployment.kv_bytes=0.5B")
    assert "KV cache 0.5 B per element, efficiency derated" in printed(capsys, *set_by_hand)
    assert json.loads(printed(capsys, *set_by_hand, "--json"))["kv_precision"] == "0.5 B per element"


def test_a_request_answers_in_words_and_agrees_with_a_sweep(capsys):
    lines = printed(capsys, *REQUEST).splitlines()
    values = {line.split()[0]: line for line in reversed(lines) if line.strip()}
    assert {"ttft", "tpot", "e2e", "tokens_per_second_per_device", "feasible", "prefill", "decode", "memory"} <= set(
        values
    )
    assert "time to first token" in values["ttft"]
    assert "fits: weights" in values["memory"] and "KV cache for" in values["memory"]
    found = json.loads(printed(capsys, *REQUEST, "--json"))
    assert {op["step"] for op in found["ops"]} == {"prefill", "decode"}
    swept = sweeps.sweep(
        hardware="H100-SXM",
        model="Llama-3.1-8B",
        deployment={"tp": 2},
        workload={"batch": 16, "isl": 1024, "osl": 128},
        output={"dtype": "float64", "variables": ["ttft", "tpot", "decode_mbu", "sequence_capacity"]},
    )
    for name in swept:
        assert float(swept[name]) == pytest.approx(found["metrics"][name], rel=1e-12), name


def test_a_naming_convention_and_a_wide_replica_are_said_aloud(capsys):
    words = ("step", "--hardware", "H100-SXM", "--model", "acme/Llama-3.1-70B-FP8", "--tp", "16")
    out = printed(capsys, *words, "--decode", "8", "--context", "1024")
    assert "naming convention" in out
    assert "the replica exceeds its scale-up domain" in out


@pytest.mark.parametrize("verb", ["hardware", "models"])
def test_catalogues_are_listed_plainly_and_as_json(capsys, verb):
    out = printed(capsys, verb)
    assert "\x1b" not in out and "…" not in out
    name = {"hardware": "H100-SXM", "models": "Llama-3.1-8B"}[verb]
    assert any(line.split()[:1] == [name] for line in out.splitlines())
    assert name in {entry["name"] for entry in json.loads(printed(capsys, verb, "--json"))}
    assert json.loads(printed(capsys, verb, name, "--json"))["name"] == name


def test_one_entry_shows_its_figures_and_sources(capsys):
    assert "3.35 TB/s  NVIDIA H100" in printed(capsys, "hardware", "h100")
    assert "torch_dtype" in printed(capsys, "models", "llama-3.1-8b")


def test_a_sweep_writes_a_file_and_says_where_the_best_points_are(capsys, spec):
    path = spec.with_name("out.nc")
    out = printed(capsys, "sweep", str(spec), "-o", str(path))
    assert "6 points: 3 batch x 2 tp" in out and "4 points (67 %) are feasible" in out
    with xr.open_dataset(path) as dataset:
        point = best.best(dataset, "tokens_per_second_per_device")
        values = dataset["tokens_per_second_per_device"].where(dataset["feasible"])
        assert point.value == float(values.max())  # 4096 requests would be faster, but do not fit
        assert best.coordinates(dataset, point) == {"batch": "64", "tp": "1"}
        assert best.feasible_points(dataset) == (4, 6)
        assert labels.axes(dataset) == ("batch", "tp")


REFUSALS = {
    "unknown verb": (("stepp",), "did you mean step"),
    "unknown flag": ((*STEP, "--jsn"), "did you mean --json"),
    "flag twice": ((*STEP, "--decode", "8"), "given twice"),
    "hardware is missing": (("step", "--model", "Llama-3.1-8B", "--prefill", "8"), "--hardware is missing"),
    "unknown hardware": (("step", *DEPLOYMENT[2:], "--hardware", "H10", "--prefill", "8"), "did you mean H100-SXM"),
    "unknown model": (("step", *DEPLOYMENT[:2], "--model", "Llma-3.1-8B", "--prefill", "8"), "Llama-3.1-8B"),
    "missing config": (("step", *DEPLOYMENT[:2], "--model", "./no/config.json", "--prefill", "8"), "no such file"),
    "no workload": (("step", *DEPLOYMENT), "needs --prefill"),
    "decode alone": (("step", *DEPLOYMENT, "--decode", "8"), "belong together"),
    "zero": (("step", *DEPLOYMENT, "--prefill", "0"), "positive"),
    "nan": (("step", *DEPLOYMENT, "--prefill", "nan"), "positive"),
    "half a token": (("step", *DEPLOYMENT, "--prefill", "1.5"), "whole number"),
    "too many devices": (
        ("step", *DEPLOYMENT[:4], "--tp", "64", "--prefill", "8"),
        "does not divide the 32 attention heads",
    ),
    "no int8 unit": (
        ("step", "--hardware", "B300-SXM", "--model", "Llama-3.2-1B", "--weights", "int8", "--prefill", "8"),
        "B300-SXM has no int8 figure; it has bf16, fp16, fp8, fp4, tf32, fp32; engines run int8 activations on int8",
    ),
    "no bf16": (
        ("step", "--hardware", "Raspberry-Pi-5", "--model", "Llama-3.2-1B", "--prefill", "8"),
        "Raspberry-Pi-5 has no bf16 figure; it has fp16, int8, fp32; weights fp16, or such as",
    ),
    "integers alone": (
        ("request", "--hardware", "Edge-TPU", "--model", "Llama-3.2-1B", "--isl", "8", "--osl", "8"),
        "Edge-TPU has no bf16 figure; it has int8",
    ),
    "no link": (
        ("step", "--hardware", "Jetson-AGX-Orin", "--model", "Llama-3.2-1B", "--tp", "2", "--prefill", "8"),
        "Jetson-AGX-Orin: tp = 2 exceeds the 1 devices that the hardware's links connect",
    ),
    "malformed set": ((*STEP, "--set", "foo"), "PATH=VALUE"),
    "unknown path": ((*STEP, "--set", "hardware.memory.hbm.bandwith=8TB/s"), "did you mean memory.hbm.bandwidth"),
    "wrong unit": ((*STEP, "--set", "hardware.memory.hbm.bandwidth=8TB"), "TB/s"),
    "set twice": ((*STEP, *("--set", "price=1USD/h") * 2), "given twice"),
    "set what a flag sets": ((*STEP, "--set", "deployment.tp=4"), "use --tp"),
    "all cached": ((*REQUEST, "--cached", "1024"), "must be below"),
    "no output length": (("request", *DEPLOYMENT, "--isl", "8"), "--osl TOKENS is missing"),
}


@pytest.mark.parametrize("words, reason", REFUSALS.values(), ids=REFUSALS)
def test_bad_input_is_one_line_and_status_2(capsys, words, reason):
    assert reason in refused(capsys, *words)


SPEC_REFUSALS = {
    "unreadable": ("hardware = [", "not TOML"),
    "unknown key": (SPEC + "[outputs]\n", "did you mean output"),
    "unknown leaf": (SPEC + '[axes]\n"hardware.memory.hbm.bandwith" = ["1TB/s"]\n', "did you mean"),
    "wrong unit": (SPEC + '[set]\n"hardware.memory.hbm.bandwidth" = "1 TB"\n', "TB/s"),
    "illegal split": (SPEC.replace("[1, 2]", "[2, 3]"), "tp = 3 does not divide"),
}


@pytest.mark.parametrize("text, reason", SPEC_REFUSALS.values(), ids=SPEC_REFUSALS)
def test_a_bad_specification_writes_nothing(capsys, spec, text, reason):
    spec.write_text(text)
    assert reason in refused(capsys, "sweep", spec, "-o", spec.with_name("out.nc"))
    assert list(spec.parent.iterdir()) == [spec]


def test_a_sweep_refuses_what_it_cannot_read_or_write(capsys, spec):
    assert "no such file" in refused(capsys, "sweep", spec.with_name("none.toml"), "-o", spec.with_name("out.nc"))
    assert "-o OUT.nc is missing" in refused(capsys, "sweep", spec)
    assert "there is no folder" in refused(capsys, "sweep", spec, "-o", spec.parent / "none" / "out.nc")
    assert list(spec.parent.iterdir()) == [spec]


def test_an_interrupted_sweep_leaves_the_old_file_and_no_other(capsys, spec, monkeypatch):
    path = spec.with_name("out.nc")
    path.write_text("what was there before")

    def interrupted(self, points):
        raise KeyboardInterrupt

    monkeypatch.setattr("sweeps.cli.progress.Progress.add", interrupted)
    assert main(["sweep", str(spec), "-o", str(path), "--force"]) == 130
    assert "jaxroof sweep: stopped by SIGINT; nothing was written" in capsys.readouterr().err
    assert sorted(spec.parent.iterdir()) == [path, spec]
    assert path.read_text() == "what was there before"


def test_a_closed_pipe_is_no_traceback():
    script = "import sys; from sweeps.cli import main; sys.exit(main())"
    command = f"{sys.executable} -c '{script}' hardware | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert done.stderr == "" and "accelerators of" in done.stdout


def test_help_does_not_import_jax():
    """Half a second of imports is too long to wait for a usage line."""
    script = """
import sys
from sweeps.cli import main
from sweeps.answers.sweep import speed_text
from sweeps.cli.verbs import VERBS
for words in (["--help"], *([verb, "--help"] for verb in VERBS)):
    try:
        main(words)
    except SystemExit as stop:
        assert stop.code == 0
    heavy = {"jax", "xarray", "matplotlib", "netCDF4", "rich"} & set(sys.modules)
    assert not heavy, (words, heavy)
"""
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)


TWO = """
hardware = ["H100-SXM", "H200-SXM"]
model = ["Llama-3.1-8B", "Llama-3.1-70B"]
deployment = { tp = [4, 8] }
workload = { batch = [1, 64], isl = 1024, osl = 128 }
output = { variables = ["tpot", "feasible"] }
"""


def test_notes_of_a_sweep_are_printed_once(tmp_path, capsys):
    (tmp_path / "two.toml").write_text(TWO)
    lines = printed(capsys, "sweep", str(tmp_path / "two.toml"), "-o", str(tmp_path / "two.nc")).splitlines()
    notes = [line.removeprefix("note").strip() for line in lines if line.startswith("note")]
    assert "Llama-3.1-8B, Llama-3.1-70B: weights bf16 (from torch_dtype)" in notes
    assert sum("network: assumption" in note for note in notes) == 1
    plain = [note.partition(": ")[2] if note.startswith(("Llama", "H")) else note for note in notes]
    assert len(set(plain)) == len(plain)


def test_keep_is_given_again_or_with_commas(spec, tmp_path, capsys):
    folders = [f"{tmp_path}/{name}/" for name in ("again", "commas")]
    printed(capsys, "sweep", str(spec), "-o", folders[0], "--keep", "pareto", "--keep", "top=2")
    printed(capsys, "sweep", str(spec), "-o", folders[1], "--keep", "pareto, top=2")
    again, commas = map(sweeps.open, folders)
    assert again.equals(commas) and set(again.sizes) == {"rank", "front"}
    twice = ("sweep", str(spec), "-o", f"{tmp_path}/twice/", "--keep", "top=2", "--keep", "top=2")
    assert "has a name twice" in refused(capsys, *twice)


def test_a_rate_is_of_the_seconds_that_stand_before_it():
    assert speed_text(1_000_000, 20.0) == "20.0 s, 50,000/s"
    assert speed_text(10, 2.0) == "2.0 s"


SMALL = ("--hardware", "H100-SXM", "--model", "Llama-3.1-8B", "--isl", "8", "--osl", "8")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("serve", *SMALL, "--concurrency", "1000000000"), "concurrency = 1,000,000,000 must be at most 100,000"),
        (("disaggregate", *SMALL, "--devices", "1000000000"), "devices = 1,000,000,000 must be at most 16,384"),
        (
            (*"compare --model Llama-3.1-8B --isl 8 --osl 8 --slo ttft=1s --max-devices 1000000000".split(),),
            "max_devices = 1,000,000,000 must be at most 16,384",
        ),
    ],
)
def test_counts_that_would_take_forever_are_refused(words, said, capsys):
    assert said in refused(capsys, *words)


@pytest.mark.parametrize("engine", ["{}", '""', "3", '["vllm"]'])
def test_an_engine_that_is_no_name_is_refused(engine, tmp_path, capsys):
    text = f'job = "serve"\nhardware = "H100-SXM"\nmodel = "Llama-3.1-8B"\nengine = {engine}\n'
    (tmp_path / "spec.toml").write_text(text + "[workload]\nrate = 1\nisl = 64\nosl = 8\nrequests = 4\n")
    said = refused(capsys, "sweep", str(tmp_path / "spec.toml"), "-o", str(tmp_path / "x.nc"))
    assert "engine = " in said and "vllm" in said
