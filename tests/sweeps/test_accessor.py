"""Questions to a dataset, `dataset.jaxroof`, against brute force over its points."""

import itertools
import subprocess
import sys

import numpy as np
import pytest
import xarray as xr

import sweeps

SPEC = {"hardware": ["H100-SXM", "L40S", "MI300X"], "model": "Llama-3.1-8B", "efficiency": "derated"}
WORK = {"batch": [1, 8, 64, 512], "isl": 1024, "osl": 64}
BANDWIDTHS = {"hardware.memory.hbm.bandwidth": ["1TB/s", "2TB/s", "4TB/s"]}


@pytest.fixture(scope="module")
def data():
    return sweeps.sweep(**SPEC, workload=WORK, axes=BANDWIDTHS)


@pytest.fixture(scope="module")
def drawn():
    axes = {"workload.batch": sweeps.log(1, 64), "hardware.memory.hbm.bandwidth": sweeps.log(1e12, 4e12)}
    sample = {"points": 40, "seed": 1}
    place = {**SPEC, "hardware": "H100-SXM"}
    return sweeps.sweep(**place, workload={"isl": 1024, "osl": 64}, mode="sample", sample=sample, axes=axes)


def points(data):
    """Every point as a dictionary, in the order of the grid."""
    dims = [str(dim) for dim in data.sizes]
    full = {str(name): data[name].broadcast_like(data.feasible.broadcast_like(data.tpot)) for name in ("tpot", "ttft")}
    rate = data.tokens_per_second_per_device.broadcast_like(full["tpot"])
    for place in itertools.product(*(range(data.sizes[dim]) for dim in dims)):
        at = dict(zip(dims, place, strict=True))
        there = {dim: data[dim].values[i] for dim, i in at.items()}
        mask = data.feasible.isel({dim: i for dim, i in at.items() if dim in data.feasible.dims})
        values = {name: float(array.isel(at)) for name, array in {**full, "rate": rate}.items()}
        yield {**there, **values, "feasible": bool(mask)}


def beaten(one, others):
    better = [o for o in others if o["tpot"] <= one["tpot"] and o["rate"] >= one["rate"]]
    return any(o["tpot"] < one["tpot"] or o["rate"] > one["rate"] for o in better)


def test_the_front_is_that_of_all_pairs(data):
    possible = [one for one in points(data) if one["feasible"]]
    expected = {(one["tpot"], one["rate"]) for one in possible if not beaten(one, possible)}
    front = data.jaxroof.pareto("tpot", "tokens_per_second_per_device")
    found = list(zip(front.tpot.values.tolist(), front.tokens_per_second_per_device.values.tolist(), strict=True))
    assert set(found) == expected and len(found) == len(expected)
    assert np.all(np.diff(front.tpot) > 0.0)
    assert {"hardware", "batch", "hbm_bandwidth"} <= set(front.coords)


def test_a_front_per_value_of_a_condition():
    data = sweeps.sweep(**SPEC, workload={**WORK, "isl": [256, 1024]})
    each = data.jaxroof.pareto("tpot", "tokens_per_second_per_device")
    for isl in (256.0, 1024.0):
        alone = data.sel(isl=[isl]).jaxroof.pareto("tpot", "tokens_per_second_per_device", per="none")
        np.testing.assert_array_equal(each.tpot.values[each.isl.values == isl], alone.tpot.values)
    assert data.jaxroof.pareto("tpot", "tokens_per_second_per_device", per="none").sizes["row"] < each.sizes["row"]


def test_the_best_points_are_the_first_of_all_sorted(data):
    slow = [one for one in points(data) if one["feasible"] and one["hardware"] != "MI300X" and one["ttft"] < 0.5]
    expected = sorted(one["tpot"] for one in slow)[:3]
    found = data.jaxroof.best("tpot", where="hardware != 'MI300X' and ttft < 500 ms", n=3)
    np.testing.assert_array_equal(found.tpot.values, expected)
    highest = data.jaxroof.best("tokens_per_second_per_device")
    assert highest.tokens_per_second_per_device.item() == max(one["rate"] for one in points(data) if one["feasible"])
    assert bool(highest.feasible.item())


def test_elasticities_between_neighbours(data):
    found = data.jaxroof.sensitivity("tpot").elasticity_of_tpot
    assert list(found.knob.values) == ["batch", "hbm_bandwidth"]
    assert found.attrs["long_name"].startswith("elasticity of time per output token")
    at = {"hardware": "H100-SXM", "batch": 8.0}
    times, rates = np.log(data.tpot.sel(at).values.astype(float)), np.log([1e12, 2e12, 4e12])
    # Equal ratios, so that the slope in the middle is that between its neighbours; at an end it is one-sided.
    middle, first = (times[2] - times[0]) / (rates[2] - rates[0]), (times[1] - times[0]) / (rates[1] - rates[0])
    own = found.sel(knob="hbm_bandwidth", **at).values
    np.testing.assert_allclose(own[:2], [first, middle], rtol=1e-4)


def test_elasticities_are_gradients_where_the_dataset_has_them():
    work = {"batch": 8, "isl": 1024, "osl": 64}
    point = {"hardware": "H100-SXM", "model": "Llama-3.1-8B", "efficiency": "derated"}
    knobs = ["hardware.memory.hbm.bandwidth"]
    exact = sweeps.sensitivity(**point, workload=work, metrics=["tpot"], knobs=knobs).dataset
    assert exact.jaxroof.sensitivity("tpot").elasticity_of_tpot.item() == exact.elasticity_of_tpot.item()
    axes = {"hardware.memory.hbm.bandwidth": [3.31e12, 3.35e12, 3.39e12]}
    close = sweeps.sweep(**point, workload=work, axes=axes, output={"dtype": "float64"}).jaxroof.sensitivity("tpot")
    np.testing.assert_allclose(close.elasticity_of_tpot.values[0, 1], exact.elasticity_of_tpot.values[0], rtol=1e-3)


def test_elasticities_of_a_sample_are_those_of_a_plane(drawn):
    found = drawn.jaxroof.sensitivity("tpot").elasticity_of_tpot
    columns = np.log(np.stack([drawn[str(name)].values for name in found.knob.values], axis=1))
    centred = columns - columns.mean(axis=0)
    logs = np.log(drawn.tpot.values)
    # Normal equations of the same fit.
    expected = np.linalg.solve(centred.T @ centred, centred.T @ (logs - logs.mean()))
    np.testing.assert_allclose(found.values, expected, rtol=1e-4)
    assert found.sel(knob="hbm_bandwidth") < -0.3


def test_pictures(data, drawn):
    pytest.importorskip("matplotlib")
    assert data.jaxroof.plot("pareto", x="tpot", y="tokens_per_second_per_device").axes
    assert drawn.jaxroof.plot().axes and data.jaxroof.plot("lines", x="batch", at="hardware=L40S").axes


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda ask: ask.pareto("tpott", "ttft"), "did you mean tpot"),
        (lambda ask: ask.pareto("tpot", "batch"), "there is no metric that is better high or low, batch"),
        (lambda ask: ask.best("tpott"), "did you mean tpot"),
        (lambda ask: ask.best("tpot", where="ttft < 1 TB"), "cannot be compared"),
        (lambda ask: ask.sensitivity("weight_bytes"), "weight_bytes depends on no axis|no metric that is better"),
        (lambda ask: ask.plot("pictures"), "there is no picture of a dataset, pictures"),
    ],
)
def test_errors_are_one_line(data, ask, said):
    with pytest.raises(ValueError, match=said) as error:
        ask(data.jaxroof)
    assert "\n" not in str(error.value)


def test_datasets_that_xarray_opens_have_it(data, tmp_path):
    data.to_netcdf(tmp_path / "out.nc")
    code = (
        "import xarray as xr\n"
        f"data = xr.open_dataset({str(tmp_path / 'out.nc')!r})\n"
        "print(data.jaxroof.best('tpot', per='none').hardware.item())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == str(data.jaxroof.best("tpot", per="none").hardware.item()), done.stderr
    assert isinstance(data.jaxroof.best("tpot"), xr.Dataset)
