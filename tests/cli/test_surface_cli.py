"""`jaxroof surface`: from a benchmark's file to a prediction, and one line where that is impossible."""

import pytest

from sweeps.cli import main


@pytest.fixture
def measured(tmp_path):
    folder = tmp_path / "gemm" / "h100"
    folder.mkdir(parents=True)
    file = folder / "data.csv"
    rows = [f"{m},{k},{n},{50 + m},0.1" for m in (16, 64) for k in (1024, 8192) for n in (512, 8192)]
    file.write_text("\n".join(["m,k,n,latency_us,mfu", *rows]) + "\n")
    return file


def test_import_show_and_predict(measured, tmp_path, capsys):
    out = tmp_path / "own.nc"
    assert main(["surface", "import", str(measured), "-o", str(out), "-v"]) == 0
    assert "1 tables with 8 times, measured on H100-SXM" in capsys.readouterr().out
    assert main(["surface", "show", str(out), "-v"]) == 0
    shown = capsys.readouterr().out
    assert "linear_fp8_scaled" in shown and "m 16-64 (2)" in shown and "H100-SXM" in shown
    words = ["step", "--hardware", "H100", "--model", "llama-3.1-8b", "--decode", "16", "--context", "1000"]
    assert main([*words, "--efficiency", f"surface:{out}", "-v"]) == 0
    said = capsys.readouterr().out
    assert "surface:own" in said and "beyond the evidence" not in said  # the model below has seen H100
    assert "surface model" in said and "bf16 products were not measured, fp8 with block scales were" in said
    assert main([*words, "--efficiency", f"surface:{out}", "--set", "hardware.memory.hbm.bandwidth=40TB/s", "-v"]) == 0
    said = capsys.readouterr().out
    assert "beyond the evidence: HBM bytes per clock and core a factor of " in said


def test_a_simulation_runs_on_tables(measured, tmp_path, capsys):
    out = tmp_path / "own.nc"
    assert main(["surface", "import", str(measured), "-o", str(out), "-v"]) == 0
    words = ["serve", "--hardware", "H100", "--model", "llama-3.1-8b", "--weights", "fp8-block", "--concurrency", "2"]
    words += ["--isl", "64", "--osl", "8", "--requests", "4", "--efficiency", f"surface:{out}"]
    assert main([*words, "-v"]) == 0
    said = capsys.readouterr().out
    assert "TPOT" in said and "surface clamped" in said and "4 finished" in said


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text.replace("16,1024,512,66", "16,1024,512,-66"), "row 1 (m 16, n 512, k 1024): -66 us"),
        (lambda text: text.replace("mfu", "share"), "not recognised"),
    ],
)
def test_bad_files_are_one_line_and_exit_2(measured, tmp_path, capsys, change, words):
    measured.write_text(change(measured.read_text()))
    assert main(["surface", "import", str(measured), "-o", str(tmp_path / "own.nc")]) == 2
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1
    assert not (tmp_path / "own.nc").exists()


def test_what_is_dropped_is_counted(measured, tmp_path, capsys):
    measured.write_text(measured.read_text() + "16,1024,512,66,0.1\n")
    assert main(["surface", "import", str(measured), "-o", str(tmp_path / "own.nc"), "--drop", "-v"]) == 0
    assert "dropped: 0 impossible, 1 duplicate" in capsys.readouterr().out


def test_a_version_of_the_engine_is_not_that_of_the_program(tmp_path, capsys):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {"m": [1, 1], "n": 512, "k": 512, "dtype": "bfloat16", "latency_us": 9.0, "gpu": "h100_sxm"}
    )
    frame.assign(backend="vllm", version=["1", "2"]).to_parquet(tmp_path / "gemm.parquet")
    words = ["surface", "import", str(tmp_path / "gemm.parquet"), "-o", str(tmp_path / "own.nc")]
    assert main(words) == 2
    assert "choose one with --engine-version: 1, 2" in capsys.readouterr().err
    for flag in ("--engine-version", "--version"):
        assert main([*words, flag, "2", "--force", "-v"]) == 0
        assert "1 tables with 1 times" in capsys.readouterr().out


def test_without_an_action_it_says_so(capsys):
    assert main(["surface"]) == 2
    assert "ACTION" in capsys.readouterr().err
