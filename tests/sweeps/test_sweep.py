"""Specifications to datasets: labels, units, provenance, samples, masks and files."""

import json
import shutil
import subprocess

import netCDF4
import numpy as np
import pytest
import xarray as xr

import sweeps
from sweeps.data.opened import opened

SPEC = {
    "job": "request",
    "hardware": ["H100-SXM", "MI300X"],
    "model": "Llama-3.1-8B",
    "workload": {"batch": [1, 32], "isl": 1024, "osl": 128},
    "axes": {"hardware.memory.hbm.bandwidth": {"from": "1 TB/s", "to": "8 TB/s", "n": 3, "scale": "log"}},
}


@pytest.fixture(scope="module")
def data():
    return sweeps.sweep(SPEC)


def test_axes_become_dimensions_with_units(data):
    assert data.tpot.dims == ("hardware", "batch", "hbm_bandwidth")
    np.testing.assert_allclose(data.hbm_bandwidth, [1e12, np.sqrt(8) * 1e12, 8e12])
    assert data.hbm_bandwidth.units == "byte s-1"
    assert data.tpot.units == "s"
    assert list(data.hardware.values) == ["H100-SXM", "MI300X"]


def test_everything_has_units_and_a_long_name(data):
    for name, variable in data.variables.items():
        assert variable.attrs["units"], name
        assert variable.attrs["long_name"], name


def test_what_binds_is_a_cf_flag_variable(data):
    meanings = data.decode_bound.flag_meanings.split()
    assert len(meanings) == len(data.decode_bound.flag_values)
    assert meanings[int(data.decode_bound.sel(hardware="H100-SXM", batch=1)[0])] == "hbm"


def test_the_dataset_says_how_it_was_made(data):
    assert json.loads(data.spec) == SPEC
    assert data.jaxroof_version in data.source
    again = sweeps.sweep(json.loads(data.spec))
    xr.testing.assert_identical(again, data)


@pytest.mark.parametrize("axes", [[1], 3, "x"])
def test_axes_of_a_space_that_are_no_table_are_refused(axes):
    with pytest.raises(ValueError, match="axes = .* must be a table"):
        sweeps.sweep(space="gpu-n3", model="Llama-3.1-8B", workload={"batch": 1, "isl": 8, "osl": 8}, axes=axes)


def test_the_question_that_a_dataset_says_can_be_asked_again():
    """Ranges of Python's callers stand in it as a file would have them."""
    keys = {"hardware": "H100-SXM", "model": "Llama-3.1-8B", "efficiency": "derated", "job": "step"}
    axes = {"hardware.memory.l2.capacity": sweeps.log("8MB", "64MB", 3), "workload.context": np.array([100.0, 1000.0])}
    first = sweeps.sweep(**keys, workload={"decode": 8}, axes=axes)
    assert sweeps.sweep(json.loads(first.attrs["spec"])).equals(first)


def test_a_file_reads_back_as_the_dataset(data, tmp_path):
    path = tmp_path / "out.nc"
    sweeps.sweep_to_file(path, SPEC)
    with xr.open_dataset(path) as opened:
        xr.testing.assert_identical(opened.load(), data)
    with netCDF4.Dataset(path) as file:  # as a script without xarray sees it
        assert file.variables["tpot"].dimensions == ("hardware", "batch", "hbm_bandwidth")
        assert all("units" in variable.ncattrs() for variable in file.variables.values())
        np.testing.assert_array_equal(file.variables["tpot"][:], data.tpot.values)
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.nc"]


def test_a_file_has_blanks_where_memory_has_them(tmp_path):
    """An unpriced device, and ops that one of two models does not have, leave the same blanks in both."""
    spec = {
        "hardware": ["H100-SXM", "VR200"],
        "prices": "reserved_1y",
        "model": ["Llama-3.1-8B", "Qwen3-30B-A3B"],
        "job": "step",
        "workload": {"decode": [1, 16], "context": 512},
        "output": {"breakdown": True},
    }
    memory = sweeps.sweep(spec)
    assert np.isnan(memory.usd_per_million_tokens.sel(hardware="VR200")).all()
    assert (memory.usd_per_million_tokens.sel(hardware="H100-SXM") > 0).all()
    sweeps.sweep_to_file(tmp_path / "out.nc", spec)
    with xr.open_dataset(tmp_path / "out.nc") as opened:
        xr.testing.assert_identical(opened.load(), memory)


def test_a_variable_that_only_the_second_device_has_figures_for():
    spec = {
        "hardware": ["VR200", "H100-SXM"],
        "prices": "reserved_1y",
        "model": "Llama-3.1-8B",
        "workload": {"isl": 512, "osl": 64},
        "output": {"variables": ["usd_per_million_tokens"]},
    }
    dollars = sweeps.sweep(spec).usd_per_million_tokens
    assert np.isnan(dollars.sel(hardware="VR200")) and dollars.sel(hardware="H100-SXM") > 0


@pytest.mark.skipif(shutil.which("ncdump") is None, reason="ncdump is not installed")
def test_ncdump_reads_the_header(tmp_path):
    sweeps.sweep_to_file(tmp_path / "out.nc", SPEC)
    header = subprocess.run(["ncdump", "-h", tmp_path / "out.nc"], capture_output=True, text=True, check=True).stdout
    assert 'tpot:units = "s"' in header


def test_same_spec_same_bytes(tmp_path):
    for name in ("a.nc", "b.nc"):
        sweeps.sweep_to_file(tmp_path / name, SPEC)
    assert (tmp_path / "a.nc").read_bytes() == (tmp_path / "b.nc").read_bytes()


def test_an_interrupted_write_leaves_what_was_there(tmp_path):
    path = tmp_path / "out.nc"
    path.write_text("precious")

    def interrupted(points: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweeps.sweep_to_file(path, SPEC, lambda asked, plan: interrupted, force=True)
    assert path.read_text() == "precious"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.nc"]


@pytest.mark.parametrize("method", ["sobol", "latin_hypercube", "random"])
def test_samples_cover_their_ranges_and_repeat_with_their_seed(method):
    spec = {
        "mode": "sample",
        "hardware": "H100-SXM",
        "model": ["Llama-3.1-8B", "Llama-2-7B"],
        "workload": {"batch": [1, 8], "isl": 512, "osl": 64},
        "axes": {"hardware.memory.hbm.bandwidth": sweeps.log("1 TB/s", "8 TB/s")},
        "sample": {"points": 200, "method": method, "seed": 3},
        "output": {"variables": ["tpot"]},
    }
    first, second = sweeps.sweep(spec), sweeps.sweep(spec)
    xr.testing.assert_identical(first, second)
    assert first.tpot.dims == ("point",)
    assert 1e12 <= first.hbm_bandwidth.min() < 1.5e12 < 6e12 < first.hbm_bandwidth.max() <= 8e12
    assert np.median(first.hbm_bandwidth) == pytest.approx(np.sqrt(8) * 1e12, rel=0.2)  # log-uniform
    assert set(first.batch.values) == {1.0, 8.0} and set(first.model.values) == {"Llama-3.1-8B", "Llama-2-7B"}
    other = sweeps.sweep({**spec, "sample": {**spec["sample"], "seed": 4}})
    assert not np.array_equal(other.hbm_bandwidth, first.hbm_bandwidth)


def test_an_illegal_split_is_refused_or_masked():
    spec = {
        "hardware": "H100-SXM",
        "model": "Qwen2.5-7B",
        "workload": {"batch": 1, "isl": 512, "osl": 64},
        "deployment": {"tp": [4, 8]},
    }
    with pytest.raises(ValueError, match="Qwen2.5-7B on H100-SXM: tp = 8 does not divide the 28 attention heads"):
        sweeps.sweep(spec)
    masked = sweeps.sweep({**spec, "output": {"illegal": "mask"}})
    assert masked.legal.values.tolist() == [True, False]
    assert masked.feasible.values.tolist() == [True, False]


def test_precisions_are_axes():
    spec = {"hardware": "H100-SXM", "model": "Llama-3.1-8B", "workload": {"batch": 64, "isl": 4096, "osl": 64}}
    data = sweeps.sweep({**spec, "weights": ["bf16", "fp8"], "kv": ["bf16", "fp8"]})
    assert data.tpot.dims == ("weights", "kv")
    assert data.tpot.sel(weights="fp8", kv="fp8") < data.tpot.sel(weights="bf16", kv="bf16")
    ratio = data.kv_capacity_tokens.sel(kv="fp8") / data.kv_capacity_tokens.sel(kv="bf16")
    np.testing.assert_allclose(ratio, 2.0, rtol=1e-5)


def test_attention_follows_the_cache_along_an_axis():
    """An engine that multiplies fp8 activations attends in fp8 over an fp8 cache, as at one point of its own."""
    spec = {"hardware": "H100-SXM", "model": "Llama-3.1-8B", "weights": "fp8", "efficiency": "learned"}
    spec |= {"workload": {"batch": 1, "isl": 32768, "osl": 1}}
    along = sweeps.sweep({**spec, "kv": ["bf16", "fp8"]})
    for name in ("bf16", "fp8"):
        alone = sweeps.sweep({**spec, "kv": name})
        np.testing.assert_allclose(along.ttft.sel(kv=name), alone.ttft, rtol=1e-6)


def test_a_fixed_value_holds_for_every_object_of_an_axis():
    spec = {"hardware": "H100-SXM", "model": ["Llama-3.1-8B", "Llama-2-7B"], "weights": "bf16"}
    spec |= {"workload": {"batch": 1, "isl": 512, "osl": 64}, "output": {"variables": ["weight_bytes"]}}
    plain = sweeps.sweep(spec).weight_bytes
    halved = sweeps.sweep({**spec, "set": {"model.blocks.0.count": 16}}).weight_bytes
    assert (halved < 0.6 * plain).all()


def test_a_step_sweep():
    data = sweeps.sweep(
        job="step",
        hardware="H100-SXM",
        model="Llama-3.1-8B",
        workload={"decode": [1, 64, 256], "context": 1024},
    )
    assert (data.step_time.diff("decode") > 0).all()


BAD = [
    ({"hardwear": "H100-SXM"}, "did you mean hardware"),
    ({"hardware": "H1000"}, "H1000"),
    ({"model": "no-such-model"}, "no-such-model"),
    ({"workload": {"batch": [], "isl": 8, "osl": 8}}, "workload.batch is an empty axis"),
    ({"workload": {"batch": -1, "isl": 8, "osl": 8}}, "workload.batch = -1"),
    ({"workload": {"batch": float("nan"), "isl": 8, "osl": 8}}, "workload.batch = nan"),
    ({"workload": {"batch": 0, "isl": 8, "osl": 8}}, "workload.batch = 0"),
    ({"job": "step", "workload": {"decode": 0, "context": 8}}, "workload.decode = 0"),
    ({"workload": {"batch": 1, "isl": 8}}, "workload.osl"),
    ({"workload": {"batch": 1, "isl": 8, "osl": 8, "cached": 8}}, "workload.cached"),
    ({"workload": {"batch": [1, 1], "isl": 8, "osl": 8}}, "twice"),
    ({"axes": {"workload.isl": [1, 2]}}, "workload.isl is given twice"),
    ({"axes": {"hardware.memory.hbm.bandwith": [1, 2]}}, "did you mean memory.hbm.bandwidth"),
    ({"axes": {"hardware.memory.hbm.bandwidth": ["1 TB", "2 TB"]}}, "unit"),
    ({"axes": {"hardware.memory.hbm.bandwidth": {"from": 2, "to": 1, "n": 3}}}, "below"),
    ({"axes": {"hardware.memory.hbm.bandwidth": {"from": 1, "to": 2}}}, ".n is missing"),
    ({"axes": {"hardware.memory.hbm.bandwidth": {"from": 1, "to": 2, "n": 0}}}, "at least 1"),
    ({"axes": {"deployment.tpp": [1, 2]}}, "deployment.tp"),
    ({"axes": {"hardware.memory": [1, 2]}}, "hardware.memory"),
    ({"weights": "fp4.5"}, "fp4.5"),
    ({"weights": "int8", "hardware": "B300-SXM"}, "B300-SXM has no int8 figure"),
    ({"kv": "fp2"}, "fp2"),
    ({"output": {"variables": ["tpott"]}}, "tpot"),
    ({"output": {"dtype": "float16"}}, "float32 or float64"),
    ({"job": "learn"}, "request or step"),
    ({"sample": {"points": 3}}, "sample"),
    ({"deployment": {"tp": 3}}, "tp = 3 does not divide"),
]


@pytest.mark.parametrize(("change", "said"), BAD, ids=[said for _, said in BAD])
def test_bad_input_is_refused_in_one_line(change, said, tmp_path):
    spec = {
        "hardware": "H100-SXM",
        "model": "Llama-3.1-8B",
        "workload": {"batch": 1, "isl": 8, "osl": 8},
    }
    with pytest.raises(ValueError) as error:
        sweeps.sweep_to_file(tmp_path / "out.nc", {**spec, **change})
    assert said in str(error.value) and "\n" not in str(error.value)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(ValueError, match="there is no folder"):
        sweeps.sweep_to_file(tmp_path / "none" / "out.nc", SPEC)
    with pytest.raises(ValueError, match="no such file"):
        opened(tmp_path / "none.nc")
