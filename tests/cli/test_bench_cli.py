"""`jaxroof bench` writes surfaces that predict, refuses what it cannot do, and leaves nothing half done."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import pytest

import hwspaces
from hwspaces.files.output import KINDS
from hwspaces.performance.surface import read_surfaces
from sweeps.cli import main
from tests.commands import refused

QUICK = ("--budget", "1s", "--attention", "4,2,16")


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """The files of a hasty benchmark of small products, decoding and memory."""
    folder = tmp_path_factory.mktemp("bench")
    with pytest.MonkeyPatch.context() as patch:
        small_spans(patch)
        words = ["bench", "-o", str(folder / "cpu.nc"), "--hardware-out", str(folder / "cpu.toml"), *QUICK, "--json"]
        only = "bandwidth,gemm,decode,elementwise,copy"
        assert main([*words, "--precision", "fp32", "--only", only, "-v"]) == 0
    return folder


def small_spans(patch) -> None:
    """Shapes, and caches to overflow, that take no time."""
    from sweeps.measure.microbench import device, run
    from sweeps.measure.microbench.plan import Span

    space = run.space
    spans = {"m": (1, 16), "n": (64, 128), "k": (64, 128), "sequences": (1, 2), "keys": (16, 32), "queries": (8, 16)}
    spans["bytes"] = (1 << 17, 1 << 18)

    def smaller(*words):
        made = space(*words)
        return made._replace(spans={axis: Span(*spans[axis], spans[axis][1]) for axis in made.spans})

    patch.setattr(run, "space", smaller)
    patch.setattr(device, "_host_cache", lambda: 1e6)


def test_it_writes_complete_surfaces_with_their_origin(measured, capsys):
    file = read_surfaces(measured / "cpu.nc")
    assert [table.name for table in file.tables] == ["gemm_fp32", "decode_fp32", "elementwise_fp32"]
    assert all((table.seconds > 0).all() and table.seconds.size > 1 for table in file.tables)
    assert set(file.bandwidths) == set(hwspaces.performance.surface.BANDWIDTHS)
    origin = file.provenance
    assert origin["jax"] == jax.__version__ and origin["seed"] == "0" and "gemm_fp32_spread" in origin
    assert origin["command"].startswith("jaxroof bench --output") and origin["copy_fp32_seconds"]
    assert sorted(path.name for path in measured.iterdir()) == ["cpu.nc", "cpu.toml"]


def test_the_measured_device_is_a_hardware_entry(measured):
    assert KINDS["hardware"].recognised(measured / "cpu.toml") and KINDS["surfaces"].recognised(measured / "cpu.nc")
    entry = hwspaces.hardware(measured / "cpu.toml")
    assert set(entry.hardware.matrix) == {"fp32"} and entry.hardware.memory.hbm.bandwidth > 0


def test_a_check_compares_fresh_shapes(measured, monkeypatch, capsys):
    small_spans(monkeypatch)
    assert (
        main(["bench", "--check", str(measured / "cpu.nc"), "--points", "2", "--only", "gemm,elementwise", "-v"]) == 0
    )
    out, err = capsys.readouterr()
    assert "gemm_fp32" in out and "elementwise_fp32" in out and "corrected" in out and err == ""
    words = ["bench", "--check", str(measured / "cpu.nc"), "--points", "1", "--only", "decode", "--json"]
    assert main([*words, "-v"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found["errors"]) == {"decode_fp32", "all"}
    assert all(row["measured"] > 0 and row["predicted"] > 0 for row in found["rows"])


def test_tables_say_what_was_measured(tmp_path, monkeypatch, capsys):
    small_spans(monkeypatch)
    file = tmp_path / "cpu.nc"
    assert main(["bench", "-o", str(file), *QUICK, "--only", "prefill", "--precision", "fp32,int8,tf32", "-v"]) == 0
    out, err = capsys.readouterr()
    assert "prefill_fp32" in out and "prefill_int8 does not run on this device" in out and err == ""
    assert [table.name for table in read_surfaces(file).tables] == ["prefill_fp32"]


def test_an_interrupt_leaves_nothing_behind(tmp_path, monkeypatch, capsys):
    small_spans(monkeypatch)

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("sweeps.cli.bench.BenchProgress.add", interrupted)
    assert main(["bench", "-o", str(tmp_path / "cpu.nc"), *QUICK, "--only", "copy"]) == 130
    assert capsys.readouterr().err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_wrong_flags_are_refused_before_anything_is_measured(tmp_path, capsys):
    output = tmp_path / "cpu.nc"
    assert "-o OUT.nc is missing" in refused(capsys, "bench")
    assert "no folder" in refused(capsys, "bench", "-o", tmp_path / "missing" / "cpu.nc")
    assert "is a folder" in refused(capsys, "bench", "-o", tmp_path)
    assert "'gem' is not known; known: bandwidth, gemm" in refused(capsys, "bench", "-o", output, "--only", "gem")
    assert "'bf61' is not known" in refused(capsys, "bench", "-o", output, "--precision", "bf61")
    assert "--budget" in refused(capsys, "bench", "-o", output, "--budget", "3GB")
    assert "HEADS,KV_HEADS,WIDTH" in refused(capsys, "bench", "-o", output, "--attention", "7,2,64")
    assert "belongs to --check" in refused(capsys, "bench", "-o", output, "--points", "3")
    assert "takes no --output" in refused(capsys, "bench", "--check", output, "-o", output)
    assert "no such file" in refused(capsys, "bench", "--check", tmp_path / "none.nc")
    needed = refused(capsys, "bench", "-o", output, "--hardware-out", tmp_path / "cpu.toml", "--only", "copy")
    assert "needs both gemm and bandwidth" in needed
    assert list(tmp_path.iterdir()) == []


def test_several_devices_also_run_collectives(tmp_path):
    """Four pretended devices, in a process of their own: JAX fixes their number when it starts."""
    code = (
        "import sys\n"
        "from sweeps.cli import main\n"
        "sys.exit(main(['bench', '-o', sys.argv[1], '--budget', '1ms', '--only', 'collective', '--json']))\n"
    )
    environment = dict(os.environ, XLA_FLAGS="--xla_force_host_platform_device_count=4", JAX_PLATFORMS="cpu")
    root = Path(__file__).parents[2]
    words = [sys.executable, "-c", code, str(tmp_path / "cpu.nc")]
    done = subprocess.run(words, cwd=root, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [message["name"] for message in found["collectives"]] == ["all_reduce", "all_gather"]
    assert all(message["seconds"] > 0 for message in found["collectives"])
    assert "all_reduce_seconds" in read_surfaces(tmp_path / "cpu.nc").provenance
