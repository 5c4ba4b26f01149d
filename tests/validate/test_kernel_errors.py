"""Scores of measured kernels: tables that are made here, whose times are known multiples of the predictions."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

import hwspaces
from sweeps.cli import main
from sweeps.measure.kernel_data.gemm import gemm_groups
from sweeps.measure.kernel_data.group import predicted
from sweeps.measure.validate import plausibility
from sweeps.measure.validate.kernel_errors import kernel_errors

KERNELS = Path(__file__).parents[2].parent / "shared" / "measured" / "kernels"

pandas = pytest.importorskip("pandas", reason="pip install '.[validate]'")


def gemm_table(folder: Path, factor: float = 1.0, **changed) -> Path:
    """Twelve products on an H100 whose times are `factor` times what the derated constants say."""
    sizes = [(m, n, k) for m in (16.0, 512.0, 8192.0) for n in (1024.0, 8192.0) for k in (1024.0, 8192.0)]
    frame = pandas.DataFrame(sizes, columns=["m", "n", "k"]).assign(
        gpu="h100_sxm", backend="vllm", version="0.24.0", kernel_source="some", dtype="bfloat16", timing="cudagraph"
    )
    frame["latency_us"] = 1.0
    frame.to_parquet(folder / "aic_gemm.parquet")
    (group,) = gemm_groups(folder)
    seconds, _ = predicted(group, hwspaces.hardware("H100").hardware, hwspaces.efficiency("derated").efficiency)
    frame["latency_us"] = factor * seconds * 1e6
    frame.assign(**changed).to_parquet(folder / "aic_gemm.parquet")
    return folder


def test_errors_are_those_of_the_table(tmp_path):
    """Measured is 1.25 times the prediction: every error is 1 / 1.25 - 1 = -20 %."""
    result = kernel_errors(gemm_table(tmp_path, 1.25), "derated")
    errors = result.errors()[()]
    assert errors["rows"] == 12
    assert errors["mape"] == pytest.approx(0.2, rel=1e-5)
    assert errors["signed_median"] == pytest.approx(-0.2, rel=1e-5)
    assert np.isnan(errors["coverage_90"])  # these constants claim no interval
    assert result.errors(long=True)[()]["rows"] < 12
    assert set(result.errors("family", "device")) == {("GEMM", "h100_sxm")}


def test_what_cannot_be_priced_is_named(tmp_path):
    """A precision that the device lacks and a device that nobody knows are left out with their reason."""
    folder = gemm_table(tmp_path)
    frame = pandas.read_parquet(folder / "aic_gemm.parquet")
    lacking, unknown = frame.assign(gpu="a100_sxm", dtype="fp8"), frame.assign(gpu="no_such_gpu")
    pandas.concat([frame, lacking, unknown]).to_parquet(folder / "aic_gemm.parquet")
    result = kernel_errors(folder, "derated")
    assert result.errors()[()]["rows"] == 12
    reasons = dict(result.left_out)
    assert sorted(reasons.values()) == [12, 12]
    assert any("no matrix peak for fp8" in reason for reason in reasons)
    assert any("no_such_gpu" in reason for reason in reasons)


def test_eager_rows_are_not_kernel_times(tmp_path):
    with pytest.raises(ValueError, match="no table of kernels"):
        kernel_errors(gemm_table(tmp_path, timing="eager"), "derated")


def test_command(tmp_path, capsys):
    folder = gemm_table(tmp_path, 1.25)
    assert main(["validate", "kernels", "--data", str(folder), "--efficiency", "derated", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["errors"]["mape"] == pytest.approx(0.2, rel=1e-5)
    assert found["errors"]["coverage_90"] is None
    assert {"family": "GEMM", "device": "h100_sxm"}.items() <= found["groups"][1].items()
    assert (
        main(["validate", "kernels", "--data", str(folder), "--efficiency", "derated", "--hardware", "H100", "-v"]) == 0
    )
    assert "GEMM" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--data", "nowhere"], "nowhere: no such folder"),
        (["--only", "gem"], "'gem' is not a family of kernels; known: gemm"),
        (["--efficiency", "learnd"], "neither a known efficiency"),
        (["--hardware", "H1000"], "'H1000' is neither in the catalogue"),
    ],
)
def test_bad_input_is_one_line(tmp_path, capsys, words, message):
    data = [] if "--data" in words else ["--data", str(gemm_table(tmp_path))]
    assert main(["validate", "kernels", *data, *words]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_a_table_without_a_column(tmp_path, capsys):
    folder = gemm_table(tmp_path)
    pandas.read_parquet(folder / "aic_gemm.parquet").drop(columns="k").to_parquet(folder / "aic_gemm.parquet")
    assert main(["validate", "kernels", "--data", str(folder)]) == 2
    assert "aic_gemm.parquet: column k is missing" in capsys.readouterr().err


LONG = pytest.mark.skipif("JAXROOF_LONG_TESTS" not in os.environ, reason="other numbers in the same code: on request")


@pytest.mark.parametrize(
    "name",
    ["learned-vllm", *(pytest.param(name, marks=LONG) for name in ("kernel", "learned-sglang", "learned-trtllm"))],
)
def test_large_kernels_are_plausible_on_every_accelerator(name):
    """Before a fit is believed on a GPU that it never saw: shares of peak and bandwidth as on measured ones.

    Not of a Cortex-A76, whose memory is fast for its vector units: attention's products take as long as its cache.
    """
    found = plausibility.catalogue_shares(hwspaces.efficiency(name).efficiency)
    remarks = {device: plausibility.implausible(shares) for device, shares in found.items()}
    assert {device: words for device, words in remarks.items() if words and device != "Cortex-A76"} == {}
    assert len(found) > 55


@pytest.mark.skipif(not KERNELS.is_dir(), reason="the measured kernels are not beside the project")
def test_public_tables(capsys):
    """The command runs over the measured tables themselves."""
    assert main(["validate", "kernels", "--data", str(KERNELS), "--only", "gemm", "--hardware", "A100", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["errors"]["rows"] > 10_000
