"""Every kind of picture is drawn of every kind of sweep, and shows what it says."""

import jax
import numpy as np
import pytest
import xarray as xr

import sweeps
from sweeps.cli import main
from sweeps.data import best
from sweeps.show import plane as planes
from sweeps.show import style
from sweeps.show.breakdown import breakdown
from sweeps.show.heatmap import heatmap
from sweeps.show.overview import overview
from sweeps.show.pareto import front, pareto
from sweeps.show.plane import influence, plane, positions, two_axes
from sweeps.show.scatter import lines

BANDWIDTH = "hardware.memory.hbm.bandwidth"
VARIABLES = [
    *("ttft", "tpot", "tokens_per_second_per_request", "tokens_per_second_per_device"),
    *("decode_bound", "legal", "fits", "feasible"),
]


@pytest.fixture(scope="module")
def grid():
    """96 points: of the largest batch some fit only with the larger memories; with a breakdown."""
    return sweeps.sweep(
        hardware="H100-SXM",
        model="Llama-3.1-8B",
        deployment={"tp": [1, 2]},
        workload={"batch": [1, 16, 64, 256], "isl": 2048, "osl": 128},
        axes={BANDWIDTH: sweeps.log("1TB/s", "8TB/s", 4), "hardware.memory.hbm.capacity": ["24GB", "48GB", "80GB"]},
        output={"breakdown": True, "variables": VARIABLES},
    )


@pytest.fixture(scope="module")
def sample():
    return sweeps.sweep(
        mode="sample",
        hardware="H100-SXM",
        model="Llama-3.1-8B",
        deployment={"tp": [1, 2]},
        workload={"batch": [1, 16, 64, 256], "isl": 2048, "osl": 128},
        axes={BANDWIDTH: sweeps.log("1TB/s", "8TB/s"), "hardware.memory.hbm.capacity": sweeps.linear("20GB", "80GB")},
        sample={"points": 64},
        output={"variables": VARIABLES},
    )


def texts(figure) -> str:
    """Everything that is written outside and on the axes of a figure."""
    parts = [text.get_text() for text in figure.texts]
    for axes in figure.axes:
        parts += [axes.get_xlabel(), axes.get_ylabel(), axes.get_title(), axes.get_title(loc="left")]
    return "\n".join(parts)


def test_the_overview_answers_in_its_title(grid):
    figure = overview(grid)
    point = best.best(grid, "tokens_per_second_per_device")
    assert f"{point.value:,.0f} tokens per second and device" in texts(figure)
    assert "HBM bandwidth (TB/s)" in texts(figure)
    assert {"Best design at each place", "Resource that binds decode there", "Trade-off of both metrics"} <= set(
        texts(figure).splitlines()
    )


def test_every_kind_of_figure_is_drawn_of_a_grid_and_of_a_sample(grid, sample, tmp_path):
    drawn = {
        "lines": lines(grid, "tpot", "hbm_bandwidth", "batch"),
        "median": heatmap(grid, "ttft", "batch", "hbm_capacity", "median"),
        "pareto": pareto(grid),
        "breakdown": breakdown(grid, "batch"),
        "sample": overview(sample),
        "sample_of_one_column": overview(
            sample[["tpot", "feasible"]].drop_vars(["tp", "hbm_bandwidth", "hbm_capacity"])
        ),
        "sample_lines": lines(sample, "tpot"),
        "sample_pareto": pareto(sample, "ttft", "tpot"),
    }
    for name, figure in drawn.items():
        style.saved(figure, tmp_path / f"{name}.png")
        assert (tmp_path / f"{name}.png").stat().st_size > 10_000
    assert "Prefill step" in texts(drawn["breakdown"])
    assert "HBM capacity (GB)" in texts(drawn["median"])


def test_a_plane_is_the_best_feasible_value_over_all_other_axes(grid):
    drawn = plane(grid, "tpot", "hbm_bandwidth", "batch")
    expected = grid["tpot"].where(grid["feasible"]).min(["tp", "hbm_capacity"]).transpose("batch", "hbm_bandwidth")
    np.testing.assert_array_equal(drawn.values, expected.values)
    # another variable is read at the points that hold the best values
    np.testing.assert_array_equal(drawn.variable(grid, "tpot"), expected.values)
    by_size = plane(grid, "tpot", "hbm_capacity", "batch")  # an axis that only feasibility depends on
    expected = grid["tpot"].where(grid["feasible"]).min(["tp", "hbm_bandwidth"]).transpose("batch", "hbm_capacity")
    assert expected.isnull().any()
    np.testing.assert_array_equal(by_size.values, expected.values)
    middle = plane(grid, "tpot", "hbm_bandwidth", "batch", "median")
    possible = grid["feasible"].any("hbm_capacity")
    np.testing.assert_allclose(
        middle.values, grid["tpot"].where(possible).median("tp").transpose("batch", "hbm_bandwidth").values, rtol=1e-6
    )


def test_what_is_beyond_the_evidence_is_marked(grid):
    """Half an octave out from 4 TB/s on: those cells have dots, and those points count as extrapolated."""
    outside = grid["hbm_bandwidth"].values > 3e12
    marked = grid.assign(decode_extrapolation=("hbm_bandwidth", np.where(outside, 0.5, 0.1)))
    drawn = plane(marked, "tpot", "hbm_bandwidth", "batch")
    there = planes.beyond_there(marked, drawn)
    assert outside.sum() == 2 and (there == (np.isfinite(drawn.values) & outside[None, :])).all()
    assert not planes.beyond_there(grid, drawn).any()
    said = [heatmap(one, "tpot", "hbm_bandwidth", "batch").axes[0] for one in (marked, grid)]
    assert [axes.get_title(loc="right") for axes in said] == ["dots: beyond the evidence", ""]
    assert [sum(bool(patch.get_hatch()) for patch in axes.patches) > 0 for axes in said] == [True, False]
    few = xr.Dataset({"step_extrapolation": ("n", [0.0, 0.3, 0.2])})
    assert planes.beyond(few).values.tolist() == [False, True, False]


def test_the_axes_of_a_map_are_the_influential_ones(grid, sample):
    assert influence(grid, "tpot")["hbm_capacity"] == 0.0
    assert two_axes(grid, "tpot") == ["hbm_bandwidth", "batch"]  # by variance; tp has two values only
    assert two_axes(sample, "tokens_per_second_per_device")[0] == "batch"


def test_a_front_is_what_a_slow_search_finds():
    a, b = np.random.default_rng(0).random((2, 200_000)).astype(np.float32)  # more than are searched at once
    found = front(a, b)
    assert (np.diff(a[found]) > 0).all() and (np.diff(b[found]) < 0).all()
    for i in found:
        assert not ((a <= a[i]) & (b <= b[i]) & ((a < a[i]) | (b < b[i]))).any()
    beaten = [((a[found] <= x) & (b[found] <= y)).any() for x, y in zip(a[:500], b[:500], strict=True)]
    assert all(beaten)


def test_positions_stand_on_the_scale_that_they_were_swept_on(grid):
    assert positions(grid, "hbm_bandwidth").kind == "log"
    assert positions(grid, "hbm_capacity").kind == "index"
    assert positions(grid, "hbm_capacity").texts == ("24", "48", "80")
    edges = positions(grid, "hbm_bandwidth").edges
    assert np.allclose(edges[1:] / edges[:-1], 2.0)  # 1, 2, 4, 8 TB/s


@pytest.fixture
def file(grid, tmp_path):
    grid.to_netcdf(tmp_path / "grid.nc")
    return tmp_path / "grid.nc"


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_the_verb_writes_a_picture_beside_the_file(file, capsys, ending):
    chosen = [] if ending == "png" else ["-o", str(file.with_suffix(".svg"))]
    assert main(["plot", str(file), "--at", "hbm_capacity=80GB", *chosen, "-v"]) == 0
    assert file.with_suffix(f".{ending}").stat().st_size > 10_000
    assert capsys.readouterr().out.startswith(f"{file.with_suffix(f'.{ending}')}: Best of ")


@pytest.mark.parametrize("kind", ["heatmap", "lines", "pareto", "breakdown"])
def test_the_verb_draws_every_kind(file, capsys, kind):
    axis = ["--x", "batch"] if kind == "breakdown" else []
    assert main(["plot", str(file), "--kind", kind, "--at", "hbm_capacity=80GB", *axis, "-v"]) == 0
    assert file.with_suffix(".png").stat().st_size > 10_000
    assert capsys.readouterr().out.startswith(f"{file.with_suffix('.png')}: ")


def test_a_roofline_names_the_ops_and_what_is_not_drawn(tmp_path, capsys):
    path = tmp_path / "roof.svg"
    step = ["--hardware", "H100-SXM", "--model", "Llama-3.1-8B", "--tp", "2", "--prefill", "512"]
    before = jax.config.jax_compilation_cache_dir, jax.config.jax_persistent_cache_min_compile_time_secs
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path / "nowhere" / "else"))
        patch.setattr("pathlib.Path.mkdir", lambda *_, **__: None)
        assert main(["plot", "--kind", "roofline", *step, "-o", str(path), "-v"]) == 0
    assert (jax.config.jax_compilation_cache_dir, jax.config.jax_persistent_cache_min_compile_time_secs) == before
    assert path.read_text().startswith("<?xml")
    assert "prefill of 1 x 512 tokens" in capsys.readouterr().out


REFUSALS = {
    "unknown kind": (["--kind", "heat"], "did you mean heatmap"),
    "unknown axis": (["--x", "bach"], "did you mean batch"),
    "unknown metric": (["--metric", "tpott"], "did you mean tpot"),
    "unknown reduction": (["--reduce", "bets"], "did you mean best"),
    "one axis twice": (["--x", "tp", "--y", "tp"], "both tp"),
    "unknown format": (["-o", "plot.pdf"], ".png or .svg"),
    "beyond an axis": (["--at", "tp=64"], "runs from 1 to 2"),
    "wrong unit": (["--at", "hbm_bandwidth=8TB"], "TB/s"),
    "flags of a roofline": (["--tp", "4"], "only for --kind roofline"),
}


@pytest.mark.parametrize("words, reason", REFUSALS.values(), ids=REFUSALS)
def test_bad_input_is_one_line_and_draws_nothing(file, capsys, monkeypatch, words, reason):
    monkeypatch.chdir(file.parent)
    assert main(["plot", file.name, *words]) == 2
    err = capsys.readouterr().err
    assert reason in err and err.count("\n") == 1
    assert list(file.parent.iterdir()) == [file]


def test_a_missing_matplotlib_is_one_line(file, capsys, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    assert main(["plot", str(file)]) == 2
    assert "plots need matplotlib: pip install 'matplotlib" in capsys.readouterr().err
