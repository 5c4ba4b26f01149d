"""Plans of sweeps: what they say beside what the sweep then takes, and what is refused."""

import json
import pathlib
import resource

import pytest

from sweeps.cli import main
from sweeps.run.shards import forecast as module
from sweeps.run.shards.forecast import forecast
from sweeps.run.shards.run import run
from sweeps.run.shards.work import ShardWork

SPEC = """
hardware = "H100-SXM"
model = "Llama-3.1-70B"
efficiency = "derated"
deployment = {{ tp = 8 }}
workload = {{ batch = {{ from = 1, to = 256, n = 100 }}, isl = 2048, osl = 256 }}

[output]
variables = ["tpot", "ttft", "feasible"]
{output}

[axes]
"hardware.memory.hbm.bandwidth" = {{ from = "1 TB/s", to = "16 TB/s", n = {n}, scale = "log" }}
"hardware.matrix.bf16" = {{ from = "250 TFLOP/s", to = "4 PFLOP/s", n = {n}, scale = "log" }}
"hardware.links.scale_up.bandwidth" = {{ from = "50 GB/s", to = "1.8 TB/s", n = {n}, scale = "log" }}
"""


def written(folder: pathlib.Path, n: int, output: str = "") -> pathlib.Path:
    path = folder / "spec.toml"
    path.write_text(SPEC.format(n=n, output=output))
    return path


def content(n: int, output: str = "") -> dict:
    import tomllib

    return tomllib.loads(SPEC.format(n=n, output=output))


def test_a_plan_of_1e11_points_makes_no_grid_and_writes_nothing(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "SAMPLED", 1)
    spec = written(tmp_path, 1000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    words = ["--machines", "4", "--machine-price", "2.5", "--json"]
    assert main(["sweep", str(spec), "--plan", "-o", "big/", *words, "-v"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["points"] == 100 * 1000**3
    assert found["variables"] == ["tpot", "ttft", "feasible"]
    assert found["raw_bytes"] == 2 * 4 * 1e11 + 100  # two variables in float32, and a flag along the batch alone
    assert found["raw_bytes"] * 0.99 <= found["bytes"] <= found["raw_bytes"]
    assert found["shards"] * found["shard_points"] >= found["points"]
    assert found["sample_points"] < 1e8
    assert found["machine_hours"] == pytest.approx(1e11 / found["points_per_second"] / 3600)
    assert found["hours"] == pytest.approx(found["machine_hours"] / 4)
    assert found["usd"] == pytest.approx(2.5 * found["machine_hours"])
    assert [path.name for path in tmp_path.iterdir()] == ["spec.toml"]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2e6  # kB


@pytest.mark.parametrize("output", ["", "compression = 4\ndigits = 3", 'keep = ["top=10:tpot", "histogram"]'])
def test_files_and_bytes_are_those_of_the_sweep(tmp_path, output):
    source, points = content(20, output), 20_000
    planned = forecast(source, shard_points=points)
    run(tmp_path / "sweep", ShardWork(source, points))
    shards = list((tmp_path / "sweep").glob("shard-*.nc"))
    assert planned.shards == len(shards)
    assert planned.bytes == pytest.approx(sum(path.stat().st_size for path in shards), rel=0.2)
    assert planned.usd is None


def test_a_slow_sweep_is_sampled_in_small_shards(monkeypatch):
    monkeypatch.setattr(module, "SHARD_SECONDS", 1e-4)
    planned = forecast(content(20))
    assert planned.shards == 1 and planned.shard_points == 800_000
    assert planned.sample_points < 100_000


def test_a_file_is_as_large_as_its_values(tmp_path, capsys):
    assert main(["sweep", str(written(tmp_path, 10)), "--plan", "-o", str(tmp_path / "out.nc"), "-v"]) == 0
    said = capsys.readouterr().out
    assert "disk       800 kB\n" in said and "files      1, of 100,000 points at most" in said
    assert "price      not known: --machine-price" in said
    assert not (tmp_path / "out.nc").exists()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--json"], "--json is for --plan"),
        (["--machines", "3"], "--machines is for --plan"),
        (["--machine-price", "3"], "--machine-price is for --plan"),
        (["--plan", "-o", "x.nc", "--force"], "--force is for files that are written, and --plan writes none"),
        (["--plan", "--scheduler", "tcp://a:1"], "rates are measured on this machine"),
        (["--plan", "--workers", "2"], "workers = 2 are started by scheduler = dask alone"),
        (["--plan", "-o", "x.nc", "--compression", "3"], "--compression is for folders, and -o x.nc is a file"),
        (["--plan", "--machine-price", "dear"], "--machine-price = 'dear' is not a number"),
        (["--plan", "--machines", "0"], "--machines"),
    ],
)
def test_wrong_combinations(tmp_path, capsys, monkeypatch, flags, words):
    monkeypatch.chdir(tmp_path)
    assert main(["sweep", str(written(tmp_path, 10)), *flags]) == 2
    err = capsys.readouterr().err
    assert words in err and err.count("\n") == 1


def test_too_many_shards():
    with pytest.raises(ValueError, match="are more than 1,048,576 files; give larger ones: --shard-points N"):
        ShardWork(content(1000), 10)
