"""Queries: units of what a condition compares, and how many points one looks at."""

import time

import numpy as np
import pytest
import xarray as xr

import sweeps
from sweeps.cli import main
from sweeps.data.querying.expression import Condition, dimension


@pytest.fixture(scope="module")
def data() -> xr.Dataset:
    tpot = xr.DataArray([[0.01, 0.02], [0.03, 0.05]], dims=("hardware", "batch"), attrs={"units": "s"})
    variables = {"tpot": tpot, "ttft": tpot * 10, "weight_bytes": tpot * 1e12, "usd_per_million_tokens": tpot}
    variables |= {"feasible": tpot < 0.04, "power": tpot * 1e4, "joules_per_token": tpot, "strange": tpot}
    variables["bare"] = tpot.drop_attrs()
    found = xr.Dataset(variables, coords={"hardware": ["A", "B"], "batch": [1.0, 16.0]})
    found["strange"].attrs["units"] = "furlong"
    bandwidth = ("hardware", [1e12, 8e12], {"units": "byte s-1", "long_name": "HBM bandwidth"})
    return found.assign_coords(bandwidth=bandwidth)


@pytest.mark.parametrize(
    ("where", "matches"),
    [
        ("tpot < 40 ms", 3),
        ("tpot < 0.04", 3),
        ("40 ms > tpot and ttft < 250 ms", 2),
        ("ttft - 10 * tpot < 1 ms", 4),
        ("tpot < ttft", 4),
        ("1 / tpot > 60 Hz", 1),
        ("bandwidth * tpot > 100 GB", 2),
        ("power * tpot / 2 < 1 J", 1),
        ("weight_bytes < 25 GB", 2),
        ("batch * 2 > 3 and hardware == 'B'", 1),
        ("usd_per_million_tokens * batch < 0.1", 2),
        ("strange < 40 ms", 3),
        ("bare > 0.02", 2),
        ("bandwidth >= 8 TB/s", 2),
        ("cost < 25e-3", 2),
        ("tpot < 1e-5 h", 3),
    ],
)
def test_units_of_one_dimension(data, where, matches):
    assert sweeps.query(data, where).matches == matches


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("tpot < 40 GB", "tpot (in s) and 40 GB (in B) cannot be compared or added"),
        ("cost < 3 ms", "usd_per_million_tokens (without unit) and 3 ms (in s) cannot be compared or added"),
        ("tpot < weight_bytes", "tpot (in s) and weight_bytes (in B) cannot be compared or added"),
        ("feasible and (ttft + 3 GB < 2 s)", "ttft (in s) and 3 GB (in B) cannot be compared or added"),
        ("2 * tpot < 40 W", "2 * tpot (in s) and 40 W (in W) cannot be compared or added"),
        ("bandwidth > 8 TB", "bandwidth (in B/s) and 8 TB (in B) cannot be compared or added"),
        ("batch < 3 s", "batch (without unit) and 3 s (in s) cannot be compared or added"),
        ("bandwidth * tpot < 3 ms", "bandwidth * tpot (in B) and 3 ms (in s) cannot be compared or added"),
        ("tpot < 3 parsec", "3 parsec has no unit that is known; leave it out to give SI units"),
        ("tpot < amount__0", "there is no amount__ here"),
    ],
)
def test_units_of_another_dimension(data, where, words):
    with pytest.raises(ValueError) as caught:
        sweeps.query(data, where)
    assert str(caught.value) == f"--where: {words}"


def test_lists_in_lists_are_no_condition():
    with pytest.raises(ValueError, match="more than 50 levels of brackets|is not a condition|is not allowed"):
        Condition(f"tpot < {'{1: ' * 150}1{'}' * 150}", {"tpot": "s"})  # RecursionError


def test_dimensions():
    assert dimension("W") == dimension("J/s") == {"J": 1, "s": -1}
    assert dimension("m2 s/B") == {"m": 2, "s": 1, "B": -1}
    assert dimension("1/s") == dimension("Hz") and dimension("1") == {}
    assert dimension("furlong") is None and dimension("") is None


@pytest.mark.parametrize("text", ["tpot < " + "1" * 9_900, "tpot < 1" + " " * 9_900 + "x x", "tpot < " + "1 s + " * 40])
def test_long_conditions_are_read_at_once(text):
    begun = time.perf_counter()
    with pytest.raises(ValueError):
        Condition(text, {"tpot": "s"})
    assert time.perf_counter() - begun < 2.0


def test_points_beyond_the_limit_are_not_looked_at(data):
    sides = {f"side{i}": np.arange(20_000.0) for i in range(4)}
    begun = time.perf_counter()
    with pytest.raises(ValueError) as caught:
        sweeps.query(xr.Dataset(coords=sides), "side0 < 3")
    assert time.perf_counter() - begun < 2.0
    assert str(caught.value) == (
        "the query would look at 160,000,000,000,000,000 points (20,000 x 20,000 x 20,000 x 20,000), the limit is "
        "10,000,000,000; give --points-limit, in Python points_limit, for more"
    )
    with pytest.raises(ValueError, match="would look at 4 points"):
        sweeps.query(data, points_limit=3)
    assert sweeps.query(data, points_limit=4).points == 4


def test_flags(data, tmp_path, capsys):
    path = tmp_path / "own.nc"
    data.to_netcdf(path)
    assert main(["query", str(path), "--where", "tpot < 40 GB"]) == 2
    assert "--where: tpot (in s) and 40 GB (in B) cannot be compared or added" in capsys.readouterr().err
    assert main(["query", str(path), "--points-limit", "3"]) == 2
    assert "would look at 4 points (2 x 2), the limit is 3;" in capsys.readouterr().err
