"""Files that are written: refusals before anything is computed, whole files alone, leftovers and links."""

import errno
import os
import socket
import stat
import subprocess
import sys

import netCDF4
import numpy as np
import pytest
import xarray as xr

import sweeps
from hwspaces.files import output, unfinished
from hwspaces.files.output import Wanted
from sweeps.data import store
from sweeps.data.shards import folder

SPEC = {"hardware": "H100-SXM", "model": "Llama-3.1-8B", "workload": {"batch": [1, 2], "isl": 128, "osl": 16}}

SMALL = xr.Dataset({"tpot": ("batch", [1.0, 2.0])})


def refused(path, kinds=("dataset",), inputs=(), force=False, **other) -> str:
    """Why a file is not written."""
    with pytest.raises(ValueError) as error:
        output.require([Wanted(str(path), kinds, "-o", **other)], [str(each) for each in inputs], force)
    assert "\n" not in str(error.value)
    return str(error.value)


def part(name: str, process: int, host: str | None = None) -> str:
    return f".part-{host or socket.gethostname()}-{process}-0-{name}"


@pytest.fixture(scope="module")
def dead() -> int:
    """The number of a process that has ended."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return ended.pid


def test_an_input_is_not_written_over_by_any_name(tmp_path):
    file = tmp_path / "in.nc"
    store.saved(file, SMALL)
    (tmp_path / "link.nc").symlink_to(file)
    os.link(file, tmp_path / "hard.nc")
    (tmp_path / "folder").symlink_to(tmp_path)
    for name in ("in.nc", "link.nc", "hard.nc", "folder/in.nc"):
        for force in (False, True):
            said = refused(tmp_path / name, inputs=[file], force=force)
            assert said == f"-o {tmp_path / name} is {file}, which is read: give another name"
            with pytest.raises(ValueError, match="which is read"):
                store.saved(tmp_path / name, SMALL, force, [str(file)])
    output.require([Wanted(str(tmp_path / "other.nc"), ("dataset",))], [str(file)])


def test_files_of_a_folder_that_is_read_are_not_written_over(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    said = refused(tmp_path / "config.json", ("timeline",), [tmp_path], True)
    assert said.endswith(f"config.json is in {tmp_path}, which is read: give another name")
    store.saved(tmp_path / "run.nc", SMALL)
    output.require([Wanted(str(tmp_path / "run.nc"), ("dataset",))], [str(tmp_path)])  # jaxroof's own, not read
    (tmp_path / "manifest.jsonl").write_text("{}")
    store.saved(tmp_path / "shard-00000000.nc", SMALL)
    assert "which is read" in refused(tmp_path / "shard-00000000.nc", inputs=[tmp_path], force=True)


def test_files_are_found_wherever_they_are_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a.toml", "b.csv", "c.json", "d.nc", "e.toml", "f.nc"):
        (tmp_path / name).write_text("")
    (tmp_path / "spec.toml").write_text('hardware = ["H100", "a.toml#X"]\n[requests]\ntrace = "c.json#2"\n')
    named = output.named(["spec.toml"], {"x": "policy=b.csv"}, "surface:d.nc:learned", "L40S,e.toml", 3, None, "f")
    assert sorted(named) == ["a.toml", "b.csv", "c.json", "d.nc", "e.toml", "spec.toml"]
    (tmp_path / "spec.toml").write_text("not = [toml")
    assert output.named("spec.toml", "no\0name", "x" * 5000, "\udcff") == ("spec.toml",)


def test_names_end_as_what_is_written(tmp_path):
    assert refused(tmp_path / "x.csv").endswith("x.csv must end in .nc")
    assert refused(tmp_path / "x", ("dataset", "rows", "png")).endswith("x must end in .nc, .csv or .png")
    output.require([Wanted(str(tmp_path / "X.NC"), ("dataset",))])


def foreign(tmp_path):
    """Files that jaxroof did not write, one of every ending; some speak of jaxroof."""
    with netCDF4.Dataset(tmp_path / "x.nc", "w") as file:
        file.title = "ERA5, read by jaxroof"
    contents = {
        ".png": b"\x89PNG\r\n\x1a\n" + b"\0" * 50,
        ".svg": b'<?xml version="1.0"?><svg><title>jaxroof</title></svg>',
        ".csv": b"hardware,devices\njaxroof,1\n",
        ".json": b'{"displayTimeUnit": "ms", "traceEvents": []}',
        ".toml": b"# My server\n\n[linear]\nmatrix = 0.5\n",
    }
    for suffix, content in contents.items():
        (tmp_path / f"x{suffix}").write_bytes(content)
    return [tmp_path / f"x{suffix}" for suffix in (".nc", *contents)]


def test_files_of_others_are_not_replaced_unless_forced(tmp_path):
    for path in foreign(tmp_path):
        kinds = tuple(name for name, kind in output.KINDS.items() if path.suffix in kind.suffixes)
        before = path.read_bytes()
        for kind in kinds:
            said = refused(path, (kind,))
            assert said == (
                f"-o {path} is there already, and jaxroof did not write it: give another name, or --force (in Python "
                "force=True) to replace it"
            )
            output.require([Wanted(str(path), (kind,))], force=True)
        assert path.read_bytes() == before
        path.write_bytes(b"")  # as `touch` and `mktemp` leave it
        output.require([Wanted(str(path), kinds)])


def test_a_file_of_another_kind_is_not_replaced(tmp_path):
    from hwspaces.performance.surface import SurfaceTable, write_surfaces

    path = tmp_path / "x.nc"
    table = SurfaceTable("gemm", "elementwise", "bf16", {"bytes": np.array([1.0])}, np.array([1.0]), {})
    write_surfaces(path, [table], {})
    write_surfaces(path, [table], {})
    with pytest.raises(ValueError, match="holds measured kernels, not a dataset"):
        store.saved(path, SMALL)
    store.saved(path, SMALL, force=True)
    with pytest.raises(ValueError, match="holds a dataset, not measured kernels"):
        write_surfaces(path, [table], {})


def test_two_outputs_of_one_name_are_refused(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path)
    wanted = [Wanted(str(tmp_path / "x.nc"), ("dataset",), "-o"), Wanted(f"{tmp_path}/link/x.nc", ("dataset",), "--b")]
    with pytest.raises(ValueError, match="x.nc are one file: give each a name of its own"):
        output.require(wanted)


def test_what_is_no_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe.nc")
    (tmp_path / "none.nc").symlink_to(tmp_path / "nothing.nc")
    (tmp_path / "circle.nc").symlink_to(tmp_path / "circle.nc")
    (tmp_path / "folder.nc").mkdir()
    assert refused(tmp_path / "pipe.nc").endswith(
        "is a pipe, and jaxroof writes whole files alone: give the name of a file"
    )
    assert "-o /dev/null is a device" in refused("/dev/null")
    assert "-o /dev/null is a device" in refused("/dev/null", folder="shards")
    assert refused(tmp_path / "none.nc").endswith("is a link that leads nowhere: give the name of a file")
    assert "is a link that leads nowhere" in refused(tmp_path / "circle.nc")
    assert refused(tmp_path / "folder.nc").endswith("is a folder; give the name of a file")
    assert refused(tmp_path / "no" / "x.nc").endswith(f"there is no folder {tmp_path / 'no'}")
    assert refused(tmp_path / f"{'x' * 300}.nc").endswith("cannot be written: File name too long")
    for name in ("a\0.nc", "a\x1b[31m.nc", "a\n.nc"):
        assert "has a control character: give a name without" in refused(name)
    for name, kind in (("C:\\out.nc", ""), ("C:\\out\\", "shards")):
        assert "has a backslash in its name" in refused(name, folder=kind)
    assert "no folder" in refused(tmp_path / "no" / "folder", folder="shards")
    assert not (tmp_path / "nothing.nc").exists()


def test_a_folder_of_shards_does_not_hold_what_is_read(tmp_path):
    spec = tmp_path / "spec.toml"
    spec.write_text("")
    said = refused(tmp_path, (), [spec], folder="shards")
    assert said.endswith(f"has {spec} in it, which is read: give another folder")
    assert refused(spec, (), folder="shards").endswith("is a file; give the name of a folder")
    output.require([Wanted(str(tmp_path), ("png",), folder="pictures")], [str(spec)])  # each picture is asked about
    with pytest.raises(ValueError, match="which is read: give another folder"):
        sweeps.sweep_to_folder(tmp_path, {**SPEC, "hardware": str(spec)})


def test_a_link_stands_for_the_file_that_it_leads_to(tmp_path):
    (tmp_path / "runs").mkdir()
    store.saved(tmp_path / "runs" / "1.nc", SMALL)
    link = tmp_path / "latest.nc"
    link.symlink_to("runs/1.nc")
    store.saved(link, SMALL.assign(ttft=3.0))
    assert link.is_symlink() and sorted(os.listdir(tmp_path / "runs")) == ["1.nc"]
    with xr.open_dataset(tmp_path / "runs" / "1.nc") as found:
        assert float(found.ttft) == 3.0


def test_a_sweep_refuses_its_output_before_it_plans(tmp_path, monkeypatch):
    def planned(*_):
        raise AssertionError("nothing is computed")

    monkeypatch.setattr("sweeps.run.sweep.planned", planned)
    hardware = tmp_path / "mine.nc"
    hardware.write_text("")
    with pytest.raises(ValueError, match="must end in .nc"):
        sweeps.sweep_to_file(tmp_path / "out.csv", SPEC)
    with pytest.raises(ValueError, match="is .*mine.nc, which is read"):
        sweeps.sweep_to_file(hardware, {**SPEC, "efficiency": f"surface:{hardware}"}, force=True)


def test_the_old_file_stays_where_the_new_one_fails(tmp_path):
    path = tmp_path / "x.nc"
    store.saved(path, SMALL)
    before = path.read_bytes()
    for error in (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), OSError(errno.EIO, os.strerror(errno.EIO))):
        with pytest.raises(ValueError) as said, output.replacing(path, ("dataset",)) as name:
            with open(name, "w") as file:
                file.write("half")
            raise error
        assert str(said.value).startswith(f"{path} cannot be written: {error.strerror}")
        assert (" bytes are free in " in str(said.value)) == (error.errno == errno.ENOSPC)
        assert path.read_bytes() == before and os.listdir(tmp_path) == ["x.nc"]
    for other in (KeyboardInterrupt(), ValueError("mine"), RuntimeError("mine"), BrokenPipeError()):
        with pytest.raises(type(other)) as raised, output.replacing(path, ("dataset",)):
            raise other
        assert raised.value is other and os.listdir(tmp_path) == ["x.nc"]


def test_a_folder_that_vanishes_is_said(tmp_path):
    (tmp_path / "gone").mkdir()
    with pytest.raises(ValueError, match=r"x\.csv cannot be written: No such file or directory"):
        with output.replacing(tmp_path / "gone" / "x.csv", ("rows",)) as name:
            os.unlink(name)
            (tmp_path / "gone").rmdir()
    assert os.listdir(tmp_path) == []


LIMITED = """
import resource, sys
import numpy as np, xarray as xr
from sweeps.data import store
from sweeps.data.shards import encode, folder
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))
place, many = sys.argv[1], xr.Dataset({"tpot": ("batch", np.random.rand(100_000))})
import pathlib
for write in (
    lambda: store.saved(f"{place}/x.nc", many),
    lambda: folder.written(pathlib.Path(place) / "x.json", bytes(30_000)),
    lambda: encode.write(folder.unfinished.begun(pathlib.Path(place) / "shard-1.nc"), many, encode.Stored()),
):
    try:
        write()
    except ValueError as error:
        print(error)
"""


def test_a_limit_of_files_is_said_with_what_is_free(tmp_path):
    store.saved(tmp_path / "x.nc", SMALL)
    before = (tmp_path / "x.nc").read_bytes()
    found = subprocess.run([sys.executable, "-c", LIMITED, tmp_path], capture_output=True, text=True, timeout=120)
    assert (found.returncode, found.stderr) == (0, "")
    first, second, third = found.stdout.splitlines()
    for line, name in ((first, tmp_path / "x.nc"), (second, tmp_path / "x.json"), (third, tmp_path)):
        assert line.startswith(f"{name} cannot be written: File too large; ")
        assert f" bytes are free in {tmp_path}; a file may have at most 20,000 bytes (ulimit -f)" in line
    assert os.listdir(tmp_path) == ["x.nc"] and (tmp_path / "x.nc").read_bytes() == before


def test_what_a_library_says_comes_with_what_is_free(tmp_path):
    file = tmp_path / "x.nc"
    file.write_bytes(b"half")
    said = unfinished.refusal(file, RuntimeError("NetCDF: HDF error"), file)
    assert said.startswith(f"{file} cannot be written: NetCDF: HDF error; ")
    assert f" bytes are free in {tmp_path}" in said


def test_what_dead_processes_left_goes_at_the_next_write(tmp_path, dead):
    gone = [part("x.nc", dead), part("other.png", dead)]
    kept = [
        part("x.nc", os.getppid()),  # lives
        part("x.nc", dead, "elsewhere"),
        f".part-{socket.gethostname()}-{dead}-x.nc",  # no name of ours
        f".part-{socket.gethostname()}-{dead}-0-",
        f"{part('x.nc', dead)[1:]}",
    ]
    for name in (*gone, *kept):
        (tmp_path / name).write_text("half")
    (tmp_path / part("folder", dead)).mkdir()
    (tmp_path / part("link.nc", dead)).symlink_to(tmp_path / kept[0])
    store.saved(tmp_path / "x.nc", SMALL)
    assert sorted(os.listdir(tmp_path)) == sorted([*kept, part("folder", dead), part("link.nc", dead), "x.nc"])


def test_a_killed_process_leaves_no_half_file_under_its_name(tmp_path):
    code = (
        "import os, sys\nfrom hwspaces.files import output\n"
        "with output.replacing(sys.argv[1], ('rows',)) as name:\n"
        "    open(name, 'w').write('half')\n"
        "    os.kill(os.getpid(), 9)"
    )
    ended = subprocess.run([sys.executable, "-c", code, tmp_path / "x.csv"], timeout=120)
    assert ended.returncode == -9 and len(os.listdir(tmp_path)) == 1 and not (tmp_path / "x.csv").exists()
    store.saved(tmp_path / "y.nc", SMALL)
    assert os.listdir(tmp_path) == ["y.nc"]


def test_temporary_files_are_new_files_that_no_link_leads_to(tmp_path, monkeypatch):
    target = tmp_path / "target"
    target.write_text("mine")
    monkeypatch.setattr(unfinished, "_serial", iter(range(1000)))
    names = [tmp_path / f".part-{socket.gethostname()}-{os.getpid()}-{i}-x.nc" for i in range(3)]
    names[0].symlink_to(target)
    os.link(target, names[1])
    assert unfinished.begun(tmp_path / "x.nc") == names[2]
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(names[2].stat().st_mode) == 0o666 & ~mask
    assert target.read_text() == "mine"
    long = unfinished.begun(tmp_path / f"{'x' * 250}.nc")
    assert len(long.name) == 255 and long.name.endswith("x.nc")
    monkeypatch.setattr(unfinished, "_serial", iter([0] * 1000))
    with pytest.raises(ValueError, match="100 names for a temporary file beside it are taken"):
        unfinished.begun(tmp_path / "x.nc")


@pytest.mark.parametrize("lay", [os.symlink, os.link, lambda _, lock: os.mkfifo(lock), lambda _, lock: os.mkdir(lock)])
def test_a_lock_is_no_link_and_no_other_file(tmp_path, lay):
    target, place = tmp_path / "target", tmp_path / "sweep"
    target.write_text("mine")
    place.mkdir()
    lay(target, place / ".lock")
    with pytest.raises(ValueError, match="lock is not a lock that jaxroof made, but a link or another file: remove it"):
        with folder.locked(place):
            raise AssertionError("it was locked")
    assert target.read_text() == "mine"
    assert folder.writer(place) is None


def test_a_lock_of_something_else_is_kept(tmp_path):
    (tmp_path / ".lock").write_text("apt")
    with pytest.raises(ValueError, match="is not a lock that jaxroof made"), folder.locked(tmp_path):
        pass
    assert (tmp_path / ".lock").read_text() == "apt"
    (tmp_path / ".lock").write_text("process 71 on somewhere")
    with folder.locked(tmp_path):
        assert (tmp_path / ".lock").read_text() == f"process {os.getpid()} on {socket.gethostname()}"
