"""Findings of fuzzing: each input that a loader once read wrongly is refused, in one line that names what is wrong."""

import json
import pathlib
import re

import netCDF4
import pytest
import xarray as xr

import hwspaces
import sweeps
import workloads
from hwspaces.files import document
from sweeps.ask import spec
from sweeps.data.keep import keepers
from sweeps.data.opened import opened
from sweeps.data.shards import encode, manifest
from sweeps.measure.surface_import import WantedRows, imported
from sweeps.run.simulated.objective import parse_slo
from sweeps.run.simulated.policies import chosen_policy
from sweeps.show.heatmap import heatmap
from sweeps.show.plane import plane
from sweeps.studies.optimize.spec import design
from tests import trace_files
from tests.fuzz.datasets import _HEADER as HEADER
from workloads.streams.arrivals import parse_arrivals
from workloads.traces import read_measured

BASE = {"hardware": "H100-SXM", "model": "Llama-3.1-8B"}
SAMPLE = {"mode": "sample", "axes": {"deployment.tp": [1, 2]}}
FRAME = {"file": "frame.nc", "bytes": 1, "sha256": ""}
TAKEN = {**BASE, "workload": {"batch": 1, "isl": 2, "osl": 2}, "axes": {"deployment.tp": [1, 2]}}


def refused(words: str, read, *arguments) -> None:
    """`read` refuses with one line that has `words`."""
    with pytest.raises(ValueError, match=re.escape(words)) as error:
        read(*arguments)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"deployment": {"tp": [4, [4], 8]}}, "deployment.tp has [4]"),  # TypeError: unhashable
        ({"deployments": 3}, "deployments must be a list of tables"),  # TypeError: no len()
        ({"sample": {"points": 10**400}, **SAMPLE}, "a number beyond 64 bits must be at most"),  # OverflowError
        ({"sample": {"points": 10**12}, **SAMPLE}, "must be at most 50,000,000"),  # memory
        ({"axes": {"deployment.tp": {"from": 1, "to": 2, "n": 10**12}}}, "must be at most 10,000,000"),  # memory
        ({"output": {"keep": ["top=1\n"]}}, "must be a name"),  # two lines
    ],
)
def test_specifications(changes, words):
    refused(words, spec.spec, {**BASE, **changes})


@pytest.mark.parametrize(
    ("optimize", "words"),
    [
        ({"minimize": 3}, "optimize.minimize = 3 must be the name"),  # TypeError: not iterable
        ({"minimize": "tpot", "starts": 10**12}, "must be at most 1,000,000"),  # memory
    ],
)
def test_optimisations(optimize, words):
    refused(words, design, {**TAKEN, "optimize": optimize})


def test_what_is_kept_and_limited():
    refused("must be a text such as", parse_slo, 0.5)  # AttributeError
    refused("beyond 64 bits", keepers, ["top=" + "9" * 400 + ":tpot"], None, "request")  # OverflowError


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('"a\\nb" = 1', "the key 'a\\nb' has characters that cannot be printed"),  # two lines
        (f'"{"k" * 1000}" = 1', "a key has 1,000 characters"),
        (f"a = {'[' * 40}{']' * 40}", "are inside each other"),
        (f"a = {'[' * 50_000}", "not TOML"),
        (f"a = {10**30}", "a whole number has at most 64 bits"),
        (f"a = {'9' * 5000}", "not TOML"),
    ],
)
def test_documents(tmp_path, text, words):
    path = tmp_path / "own.toml"
    path.write_text(text)
    refused(words, document.toml, path)


def test_files_that_are_too_large_or_no_files(tmp_path):
    path = tmp_path / "own.toml"
    with open(path, "wb") as file:
        file.truncate(document.LARGEST_TOML + 1)
    refused("at most 524,288 are read", document.toml, path)
    refused("it is not a file", document.toml, "/dev/zero")
    big = tmp_path / "config.json"
    with open(big, "wb") as file:
        file.truncate(2**25)
    refused("are read", workloads.model, str(big))
    refused("is not a path", workloads.model, "x" * 5000)  # OSError: file name too long
    refused("is not a path", workloads.model, "~nobody-of-that-name/config.json")  # RuntimeError


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ('[energy]\nprocess = {"4N" = "a"}', "is not a table"),  # TypeError
        ('[energy.process."4N"]\nprecisions = []', "precisions = [] is not text"),  # TypeError: unhashable
        ("[process.x]\nnames = [[]]", "is not a list of texts"),  # TypeError: unhashable
        ("[accelerator.B]\npower.tdp_W = 1e300", "must be from 1e-30 to 1e+30 in SI units"),  # inf in float32
        ("[accelerator.B]\npower.tdp_W = 1e-300", "must be from 1e-30 to 1e+30 in SI units"),
    ],
)
def test_hardware(tmp_path, table, words):
    path = tmp_path / "own.toml"
    path.write_text(f"{table}\n")
    refused(words, hwspaces.hardware, str(path))


def test_a_process_that_is_its_own_base(tmp_path):
    path = tmp_path / "own.toml"  # RecursionError
    text = (pathlib.Path(hwspaces.__file__).parent / "catalogue/nvidia_hopper.toml").read_text()
    path.write_text(f'{text}\n[energy.process."4N"]\nbase = "4N"\n')
    refused("leads back to it", hwspaces.hardware, f"{path}#H100-SXM")


@pytest.mark.parametrize("value", [[], 3, {}])
def test_efficiencies_name_their_models(tmp_path, value):
    text = (pathlib.Path(hwspaces.__file__).parent / "efficiencies/learned-vllm.toml").read_text()
    path = tmp_path / "own.toml"
    path.write_text(re.sub(r'(?m)^model = ".*"$', f"model = {json.dumps(value) if value != {} else '{}'}", text))
    refused("is not known", hwspaces.efficiency, str(path))  # TypeError: unhashable


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("m,k,n,latency_us,mfu\n1,2,3,4,5,6,7\n", "more values than there are columns"),  # TypeError
        (f"m,k,n,latency_us,mfu\n{10**400},2,3,4,5\n", "must be at most 1e+30"),  # OverflowError
    ],
)
def test_tables_of_kernels(tmp_path, text, words):
    path = tmp_path / "gemm/h100/data.csv"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    refused(words, imported, [path], "infersim", WantedRows())


def test_a_surface_that_is_no_surface(tmp_path):
    path = tmp_path / "own.nc"
    path.write_bytes(b"\x89HDF\r\n\x1a\n" + b"[" * 1000)
    refused("not a netCDF file", hwspaces.efficiency, f"surface:{path}")  # RuntimeError: HDF error


def test_figures_stay_within_float32():
    refused("must be from 1e-30 to 1e+30", hwspaces.quantity, "1e27 TB/s", "B/s", "--flag")


def test_engines_are_named(tmp_path):
    refused("['vllm']", chosen_policy, ["vllm"], {})  # TypeError: unhashable


@pytest.mark.parametrize("changes", [{"outputs": [{}]}, {"outputs": [3]}, {"axes": [3]}, {"axes": [["a", "b"]]}])
def test_manifests(tmp_path, changes):
    (tmp_path / "manifest.jsonl").write_bytes(manifest._line({**HEADER, **changes}))
    refused("must be", manifest.read, tmp_path)  # KeyError, TypeError


OUTPUT = {
    "name": "tpot",
    "dims": ["hardware", "batch"],
    "shape": [2, 3],
    "dtype": "float32",
    "ops": [],
    "complete": True,
}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"outputs": [{**OUTPUT, "name": "batch"}]}, "its header describes no sweep"),  # KeyError
        ({"outputs": [{**OUTPUT, "name": "a\nb"}]}, "its header describes no sweep"),  # two lines
        ({"frame": {"file": "a\nb", "bytes": 1, "sha256": ""}}, "frame.file = 'a\\nb' must be a name"),  # two lines
        ({"axes": [["a\nb", 2], ["batch", 3]]}, "names of axes must be of one line"),
    ],
)
def test_folders(tmp_path, changes, words):
    (tmp_path / "manifest.jsonl").write_bytes(
        manifest._line({**HEADER, "frame": FRAME, "outputs": [OUTPUT], **changes})
    )
    refused(words, sweeps.open, tmp_path, True)


def claiming(path: pathlib.Path, size: int) -> pathlib.Path:
    """A netCDF file of some kilobytes with a label along an axis of `size` numbers, none of which it has."""
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("batch", size)
        file.createVariable("batch", "f8", ("batch",), zlib=True, chunksizes=(min(size, 1024),))
    return path


def test_files_that_claim_more_than_they_hold(tmp_path):
    path = claiming(tmp_path / "own.nc", 10**12)
    assert path.stat().st_size < 100_000
    refused("claims 8,000,000,000,000 bytes of values", opened, path)  # memory
    refused("claims 8,000,000,000,000 bytes of values", encode.dataset, path.read_bytes())
    with opened(claiming(tmp_path / "small.nc", 1000)) as data:
        assert data.sizes == {"batch": 1000}


@pytest.mark.parametrize(
    ("name", "values", "attributes", "words"),
    [
        ("tpot", ["inf", "1"], {}, "tpot must be numbers"),  # TypeError
        ("tpot", [1.0, 2.0], {"long_name": 3}, "long_name of tpot is 3; it must be text"),  # AttributeError
        ("batch", [1.0, 2.0], {"units": 3}, "units of batch is 3; it must be text"),  # AttributeError
        ("point", ["0", "8 TB/s"], {}, "point must be numbers"),  # drawn for longer than 10 s
    ],
)
def test_results_whose_labels_are_wrong(tmp_path, name, values, attributes, words):
    xr.Dataset({name: ("point", values, attributes)}).to_netcdf(tmp_path / "own.nc", engine="netcdf4")
    refused(words, opened, tmp_path / "own.nc")


def test_metrics_that_are_whole_numbers_are_drawn():
    data = xr.Dataset({"tpot": ("batch", [3, 2])}, {"batch": ("batch", [1.0, 2.0])})
    assert plane(data, "tpot", "batch", None).values.tolist() == [[3.0, 2.0]]  # OverflowError
    refused("a heat map needs two axes", heatmap, data, "tpot")
    refused("a heat map needs two axes", heatmap, data.isel(batch=0), "tpot")  # IndexError


@pytest.mark.parametrize("text", ["5e-324", "poisson:1e-300", "gamma:rate=1e-320,cv=3", "stages:5e-324x60"])
def test_arrivals_are_finite(text):
    refused("no stage has requests" if "stages" in text else "from 1e-09 to 1000000", parse_arrivals, text)


def test_latencies_are_times(tmp_path):
    run = {**trace_files.VLLM, "ttfts": [1e308, *trace_files.VLLM["ttfts"][1:]]}
    (tmp_path / "own.json").write_text(json.dumps(run))
    words = "ttfts[0] is 1e+308; it must be a finite number of at least 0 and at most 1e+15"
    refused(words, read_measured, str(tmp_path / "own.json"))


def test_sizes_of_measured_kernels_are_bounded(tmp_path):
    path = tmp_path / "gemm/h100/data.csv"
    path.parent.mkdir(parents=True)
    path.write_text("m,k,n,latency_us,mfu\n1e308,1024,512,100,0.1\n")
    refused("row 1: m = ", imported, [path], "auto", WantedRows())
