"""Folders of shards: the same bits as in memory however they are cut, read lazily, merged, and refused when wrong."""

import json
import pathlib
import shutil
from copy import copy as copy_of

import numpy as np
import pytest
import xarray as xr

import sweeps
from sweeps.data.keep.rows import KeptPoints
from sweeps.data.pieces import Box, View
from sweeps.data.shards import manifest
from sweeps.run.shards.run import run
from sweeps.run.shards.work import ShardWork

pytestmark = pytest.mark.xdist_group("shards")

SPEC = {
    "hardware": ["H100-SXM", "MI300X", "H200-SXM"],  # the second is of another structure
    "job": "step",
    "model": "Llama-3.1-8B",
    "deployment": {"tp": [1, 2]},
    "workload": {"decode": [4, 16, 64], "context": 2048},
    "axes": {"hardware.memory.hbm.bandwidth": ["1 TB/s", "2 TB/s", "5 TB/s"]},
    "set": {"hardware.memory.hbm.capacity": "24 GB"},  # so that some points are not feasible
    "output": {"variables": ["step_time", "tokens_per_second_per_device", "bound", "die_area", "feasible"]},
}

KEPT = ["top=5:step_time", "pareto=step_time:tokens_per_second_per_device", "histogram", "quantiles"]


@pytest.fixture(scope="module")
def whole() -> xr.Dataset:
    """All of the sweep in memory."""
    return sweeps.sweep(SPEC)


@pytest.fixture(scope="module")
def works() -> dict[bool, ShardWork]:
    """The sweep in chunks of a few points, so that there are many, with everything kept and with little."""
    made = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sweeps.run.compilers.CHUNK_BYTES", {"cpu": 600})
        for little in (False, True):
            made[little] = ShardWork({**SPEC, "output": {**SPEC["output"], **({"keep": KEPT} if little else {})}})
    return made


def cut(work: ShardWork, points: int) -> ShardWork:
    """The same work in shards of another size; what is compiled is shared."""
    other = copy_of(work)
    other.shard_points, other.boxes = points, list(work.plan.boxes(points))
    return other


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> pathlib.Path:
    """The sweep in a folder of a shard per structure."""
    place = tmp_path_factory.mktemp("shards") / "sweep"
    sweeps.sweep_to_folder(place, SPEC)
    return place


@pytest.fixture
def copy(folder, tmp_path) -> pathlib.Path:
    """A folder that a test may harm."""
    return pathlib.Path(shutil.copytree(folder, tmp_path / "copy"))


@pytest.mark.parametrize("points", [1, 7, 1000])
def test_how_it_is_cut_changes_no_bit(whole, tmp_path, works, points):
    run(tmp_path / "sweep", cut(works[False], points))
    xr.testing.assert_identical(sweeps.open(tmp_path / "sweep").load(), whole)


def test_it_reads_what_is_asked_for(whole, folder):
    found = sweeps.open(folder)
    part = {"hardware": [2, 0], "decode": slice(1, None), "hbm_bandwidth": 1}
    xr.testing.assert_identical(found.isel(part).load(), whole.isel(part))
    xr.testing.assert_identical(xr.open_dataset(folder).load(), whole)  # as a backend of xarray


def test_merged_it_is_the_file_of_the_sweep(whole, folder, tmp_path):
    sweeps.merge(folder, tmp_path / "merged.nc")
    sweeps.sweep_to_file(tmp_path / "direct.nc", SPEC)
    with xr.open_dataset(tmp_path / "merged.nc") as merged, xr.open_dataset(tmp_path / "direct.nc") as direct:
        xr.testing.assert_identical(merged.load(), direct.load())


def test_compressed_and_rounded(whole, tmp_path):
    spec = {**SPEC, "output": {**SPEC["output"], "compression": 4, "digits": 3}}
    found = sweeps.sweep_to_folder(tmp_path / "sweep", spec).load()
    np.testing.assert_allclose(found.step_time, whole.step_time, rtol=5e-3)
    np.testing.assert_array_equal(found.feasible, whole.feasible)


def test_a_finished_folder_is_checked_and_left_alone(copy):
    before = {path.name: path.read_bytes() for path in copy.iterdir()}
    sweeps.sweep_to_folder(copy, SPEC)
    after = {path.name: path.read_bytes() for path in copy.iterdir()}
    assert {name: content for name, content in before.items() if name != ".lock"} == {
        name: content for name, content in after.items() if name != ".lock"
    }


def test_what_is_missing_is_computed(copy, whole):
    (copy / manifest.file_name(0)).unlink()
    with pytest.raises(ValueError, match="shard-0000000.nc cannot be read: No such file"):
        sweeps.open(copy).load()
    xr.testing.assert_identical(sweeps.sweep_to_folder(copy, SPEC).load(), whole)


def test_an_unfinished_folder_says_so(copy):
    lines = (copy / manifest.NAME).read_bytes().splitlines(keepends=True)
    (copy / manifest.NAME).write_bytes(b"".join(lines[:2]) + lines[2][:40])  # as an interruption leaves it
    with pytest.raises(ValueError, match="is not finished: 1 of 2 shards"):
        sweeps.open(copy)
    partial = sweeps.open(copy, partial=True).step_time
    assert 0 < int(partial.isnull().sum()) < partial.size


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"workload": {**SPEC["workload"], "context": 600}}, "workload.context was 2048, is 600"),
        ({"output": {"variables": ["step_time"]}}, r"output.variables was \[.*\], is \[\"step_time\"\]"),
        ({"model": "Llama-3.1-70B"}, 'model was "Llama-3.1-8B", is "Llama-3.1-70B"'),
    ],
)
def test_another_specification_is_refused_with_the_difference(copy, change, words):
    with pytest.raises(ValueError, match=f"belongs to another sweep: .*{words}"):
        sweeps.sweep_to_folder(copy, {**SPEC, **change})


def test_the_manifest_says_how_it_was_made(folder):
    header = json.loads((folder / manifest.NAME).read_text().splitlines()[0])["is"]
    assert header["software"].keys() == {"jaxroof", "jax", "numpy"}
    assert header["points"] == 54 and header["shards"] == 2 and header["spec"]["model"] == "Llama-3.1-8B"
    shards = manifest.read(folder).shards.values()
    assert sum(shard.points for shard in shards) == 54
    assert all((folder / shard.file).stat().st_size == shard.bytes for shard in shards)


def test_boxes_are_disjoint_and_cover_the_sweep(works):
    work = cut(works[False], 10)
    seen = np.zeros([axis.size for axis in work.plan.axes], int)
    for box in work.boxes:
        seen[np.ix_(*box.positions)] += 1
    assert (seen == 1).all() and len(work.boxes) > 4


@pytest.fixture(scope="module")
def kept(tmp_path_factory, works) -> xr.Dataset:
    """The sweep with little of it kept."""
    place = tmp_path_factory.mktemp("kept") / "sweep"
    run(place, works[True])
    return sweeps.open(place)


@pytest.fixture(scope="module")
def table(whole, works) -> dict[str, np.ndarray]:
    """Every point of the sweep, in its order."""
    dims = ["hardware", "tp", "decode", "hbm_bandwidth"]
    (wide,) = xr.broadcast(whole)
    order = [name for name in ("hardware", "decode", "tp", "hbm_bandwidth") if name in wide.dims]
    assert set(order) == set(dims)
    axes = [axis.name for axis in works[False].plan.axes]
    return {str(name): wide[name].transpose(*axes).values.reshape(-1) for name in whole.data_vars}


def test_the_best_points_are_those_of_a_sort(kept, table):
    places = np.flatnonzero(table["feasible"])
    expected = places[np.lexsort((places, table["step_time"][places]))][:5]
    np.testing.assert_array_equal(kept.top_number, expected)
    np.testing.assert_array_equal(kept.top_step_time, table["step_time"][expected])
    assert kept.top_hardware.dims == ("rank",)


def test_the_front_is_what_no_point_beats(kept, table):
    places = np.flatnonzero(table["feasible"])
    a, b = table["step_time"][places], -table["tokens_per_second_per_device"][places]
    beaten = (a[:, None] >= a) & (b[:, None] >= b) & ((a[:, None] > a) | (b[:, None] > b) | (places[:, None] > places))
    np.testing.assert_array_equal(np.sort(kept.pareto_number), places[~beaten.any(1)])


def test_counts_and_quantiles(kept, table):
    values = np.sort(table["step_time"][table["feasible"]])
    assert int(kept.histogram_step_time.sum()) == values.size
    for low, high, count in zip(
        kept.step_time_bin.values, kept.step_time_bin_upper.values, kept.histogram_step_time.values, strict=True
    ):
        assert int(((values >= low) & (values < high)).sum()) == count
    expected = np.quantile(values, kept["quantile"].values, method="inverted_cdf")
    np.testing.assert_allclose(kept.quantiles_step_time, expected, rtol=0.005)
    codes, counts = np.unique(table["bound"][table["feasible"]], return_counts=True)
    np.testing.assert_array_equal(kept.bound_code, codes)
    np.testing.assert_array_equal(kept.histogram_bound, counts)


@pytest.mark.parametrize("over", [(True, True), (True, False), (False, True), (False, False)])
def test_values_of_the_points_that_can_be(over):
    shape = (3, 4)
    mask = np.array([[True, False, True, True], [False] * 4, [True, True, False, False]])
    mask = mask[tuple(slice(None) if varies else 0 for varies in over)]
    arrays = {"tpot": (np.arange(12.0).reshape(shape), (True, True)), "feasible": (mask, over)}
    views = {name: View(array, tuple((0, n) for n in array.shape), dims) for name, (array, dims) in arrays.items()}
    points = KeptPoints(Box(0, (0, 0), (1, 1), tuple(map(np.arange, shape)), frozenset(arrays)), views, shape)
    there = np.broadcast_to(views["feasible"].host(), shape)
    np.testing.assert_array_equal(points.flat("tpot"), arrays["tpot"][0][there])
    assert points.flat("feasible").tolist() == [True] * there.sum()


@pytest.mark.parametrize("points", [1, 7])
def test_how_it_is_cut_changes_nothing_that_is_kept(kept, tmp_path, works, points):
    run(tmp_path / "sweep", cut(works[True], points))
    xr.testing.assert_identical(sweeps.open(tmp_path / "sweep"), kept)


@pytest.mark.parametrize(
    ("keep", "words"),
    [
        (["best"], "output.keep: 'best' is not known"),
        (["top"], "'top=' must be top=N or top=N:METRIC"),
        (["top=0"], "output.keep: top = 0 must be at least 1"),
        (["top=3:bound"], "bound is neither better high nor low"),
        (["pareto=step_time"], "'pareto=step_time' must be pareto"),
        (["pareto=step_time:nothing"], "there is no variable nothing here"),
        (["histogram=3"], "'histogram=3' must be histogram"),
    ],
)
def test_what_cannot_be_kept(tmp_path, keep, words):
    with pytest.raises(ValueError, match=words):
        sweeps.sweep_to_folder(tmp_path / "sweep", {**SPEC, "output": {**SPEC["output"], "keep": keep}})
    assert not (tmp_path / "sweep").exists()


def test_what_belongs_to_folders_is_refused_elsewhere(tmp_path):
    with pytest.raises(ValueError, match="output.keep = .* is for folders"):
        sweeps.sweep({**SPEC, "output": {"keep": ["pareto"]}})


QUERIES = {
    "step_time < 5 ms and feasible": lambda t: (t["step_time"] < 5e-3) & t["feasible"],
    "not feasible or step_time > 8e-3": lambda t: ~t["feasible"] | (t["step_time"] > 8e-3),
    "2 * step_time + 1 ms < 10 ms": lambda t: 2 * t["step_time"].astype(float) + 1e-3 < 10e-3,
    "3 ms <= step_time <= 8 ms": lambda t: (t["step_time"] >= 3e-3) & (t["step_time"] <= 8e-3),
}


@pytest.mark.parametrize("where", QUERIES)
def test_queries(folder, table, where, monkeypatch):
    monkeypatch.setattr("sweeps.data.querying.run.PART_POINTS", 7)
    found = sweeps.query(sweeps.open(folder), where, "step_time", 4)
    places = np.flatnonzero(QUERIES[where](table))
    assert (found.matches, found.points) == (len(places), 54)
    expected = places[np.lexsort((places, table["step_time"][places]))][:4]
    np.testing.assert_array_equal(found.rows.number, expected)
    np.testing.assert_array_equal(found.rows.step_time, table["step_time"][expected])


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("step_time <", "is not a condition"),
        ("__import__('os')", "is not allowed"),
        ("step_time.real > 1", "is not allowed"),
        ("[x for x in hardware]", "is not allowed"),
        ("hardware > 'A'", "compares names"),
        ("hardware == 3", "compares names"),
        ("hardware + 1 < 2", "is a name, which cannot be calculated with"),
        ("step_time", "is a number, not a condition"),
        ("nothing < 1", "there is no nothing here"),
        ("step_time < 3 parsecs", "has no unit that is known"),
        ("(" * 200 + "step_time" + ")" * 200 + "<" + "-" * 100 + "1", "levels of brackets|not a condition"),
    ],
)
def test_conditions_that_are_none(folder, where, words):
    with pytest.raises(ValueError, match=words):
        sweeps.query(sweeps.open(folder), where)


@pytest.mark.parametrize(
    "asked", [{"workload.isl": [64, 128, 256], "workload.batch": {"from": 1, "to": 8000, "n": 8000}}, None]
)
def test_shards_have_the_points_that_are_asked_for(tmp_path, asked):
    """24,000 points, of a grid or drawn, in shards of 3,000 (or of whole rows of the grid) with the bits of one."""
    source = {**SMALL_SPEC, "axes": asked} if asked else {**SMALL_SPEC, **DRAWN}
    found = sweeps.sweep_to_folder(tmp_path / "parts", source, shard_points=3000)
    assert len(list((tmp_path / "parts").glob("shard-*.nc"))) == (9 if asked else 8)
    whole = sweeps.sweep_to_folder(tmp_path / "whole", source)
    assert len(list((tmp_path / "whole").glob("shard-*.nc"))) == 1
    assert (found.tpot.values == whole.tpot.values).all()


SMALL_SPEC = {
    "hardware": "H100-SXM",
    "model": "Llama-3.1-8B",
    "efficiency": "derated",
    "workload": {"osl": 8},
    "output": {"variables": ["tpot"]},
}

DRAWN = {
    "mode": "sample",
    "sample": {"points": 24000, "seed": 2},
    "workload": {"batch": {"from": 1, "to": 200}, "isl": 64, "osl": 8},
}
