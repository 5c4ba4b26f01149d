"""`jaxroof sensitivity`: its table, files and pictures, and wrong flags."""

import json

import pytest
import xarray as xr

from sweeps.cli import main

pytestmark = pytest.mark.xdist_group("sensitivity_cli")

CASE = ["--hardware", "H100-SXM", "--model", "Llama-3.1-8B", "--isl", "1000", "--osl", "100", "--batch", "9"]
CASE += ["--efficiency", "derated"]


def test_table_and_files(capsys, tmp_path):
    file, picture = tmp_path / "out.nc", tmp_path / "out.png"
    words = ["--metric", "tpot,ttft", "--knob", "hardware.memory,workload", "--second-order"]
    assert main(["sensitivity", *CASE, *words, "-o", str(file), "--plot", str(picture), "-v"]) == 0
    said = capsys.readouterr().out
    assert "hardware.memory.hbm.bandwidth" in said and "real changes and those that the gradient predicts" in said
    assert "bound   decode: hbm" in said and "pairs of knobs" in said
    with xr.open_dataset(file) as dataset:
        assert dataset["elasticity_of_tpot"].dims == ("knob",)
        assert dataset["change_of_ttft"].sizes["factor"] == 2
        assert dataset["knob_turned_to"].dims == ("knob", "factor")
        assert dataset["agreement_of_tpot"].sel(knob="hardware.memory.hbm.bandwidth") == 1
        assert dataset["curvature_of_tpot"].dims == ("knob", "other_knob")
        assert dataset["elasticity_of_tpot"].attrs["units"] == "1"
    assert picture.stat().st_size > 10_000  # pairs


def test_step_as_json(capsys, tmp_path):
    picture = tmp_path / "out.png"
    words = ["--hardware", "H100-SXM", "--model", "Llama-3.1-8B", "--decode", "8", "--context", "500"]
    assert (
        main(
            [
                "sensitivity",
                "--job",
                "step",
                *words,
                "--efficiency",
                "derated",
                "--smoothing",
                "0",
                "--json",
                "--plot",
                str(picture),
            ]
        )
        == 0
    )
    assert picture.stat().st_size > 10_000  # a tornado
    found = json.loads(capsys.readouterr().out)
    assert found["smoothing"] == 0.0 and "step_time" in found["metrics"]
    rows = {(row["path"], row["factor"]): row for row in found["checks"]["usd_per_million_tokens"]}
    assert rows["hardware.price", 1.1]["actual"] == pytest.approx(0.1) and rows["hardware.price", 1.1]["agrees"]
    assert abs(found["knobs"][0]["elasticities"]["usd_per_million_tokens"]) == pytest.approx(1.0)


def test_train(capsys, tmp_path):
    """A hundredth more of what binds saves a hundredth of the time; twice the sequences take twice as long."""
    words = ["--hardware", "H100-SXM", "--model", "Llama-3.1-8B", "--efficiency", "derated", "--dp", "8", "--zero", "3"]
    words += ["--global-batch", "64", "--seq", "4096", "--metric", "iteration_time,usd_per_billion_tokens", "--json"]
    assert main(["sensitivity", "--job", "train", *words, "-v"]) == 0
    found = json.loads(capsys.readouterr().out)
    slopes = {knob["path"]: knob["elasticities"] for knob in found["knobs"]}
    assert slopes["hardware.matrix.bf16"]["iteration_time"] == pytest.approx(-0.65, abs=0.15)
    assert slopes["workload.global_batch"]["iteration_time"] == pytest.approx(1.0, abs=0.05)
    assert slopes["hardware.price"]["usd_per_billion_tokens"] == pytest.approx(1.0, rel=1e-6)


def test_maps(capsys, tmp_path):
    spec, file, picture = tmp_path / "spec.toml", tmp_path / "out.nc", tmp_path / "out.svg"
    spec.write_text(
        'hardware = "H100-SXM"\nmodel = "Llama-3.1-8B"\nefficiency = "derated"\n[workload]\nisl = 500\nosl = 50\n'
        'batch = [1, 8, 64]\n[axes]\n"hardware.memory.hbm.bandwidth" = ["2TB/s", "8TB/s"]\n'
    )
    words = ["sensitivity", "--over", str(spec), "-o", str(file), "--plot", str(picture)]
    assert main([*words, "--metric", "tpot", "--knob", "workload.batch,hardware.memory.hbm.bandwidth", "-v"]) == 0
    assert "3 batch x 2 hbm_bandwidth points, 2 knobs" in capsys.readouterr().out
    with xr.open_dataset(file) as dataset:
        assert dataset["elasticity_of_tpot"].dims == ("knob", "batch", "hbm_bandwidth")
    assert picture.exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--job", "search"], "--job search has no sensitivities; known: request, step, train, serve"),
        (["--job", "train"], "--batch is of --job request, and this is --job train"),
        (["--seq", "5"], "--seq is of --job train, and this is --job request"),
        (["--smoothing", "0.5"], "--smoothing 0.5 must be 0"),
        (["--decode", "3"], "--decode is of --job step, and this is --job request"),
        (["--metric", "tpto"], "no real-valued metric tpto here; did you mean"),
        (["--knob", "hardware.memory.hbn"], "hardware.memory.hbn is not a number of this case"),
        (["--over", "nowhere.toml"], "--hardware is said by --over nowhere.toml"),
        (["-o", "out.txt"], "-o out.txt must end in .nc"),
    ],
)
def test_wrong_flags(capsys, words, said):
    assert main(["sensitivity", *CASE, *words]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1
