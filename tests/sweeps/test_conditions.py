"""Conditions: best points and fronts are per model and per number of its traffic, unless somebody says otherwise."""

import numpy as np
import pytest

import sweeps
from jaxroof.numerics.arrays import jax_numpy as jnp
from sweeps.cli import main
from sweeps.data.best import best
from sweeps.data.conditions import Groups, conditions, parts
from sweeps.data.keep.parse import unbeaten
from sweeps.data.keep.rows import as_sample

TWO = {
    "hardware": ["H100-SXM", "H200-SXM"],
    "model": ["Llama-3.1-8B", "Llama-3.1-70B"],
    "efficiency": "derated",
    "deployment": {"tp": [1, 2, 4, 8]},
    "workload": {"batch": [1, 4, 16, 64], "isl": [512, 4096], "osl": 256},
}
PAIR = ("tokens_per_second_per_request", "tokens_per_second_per_device")
VARIABLES = {"output": {"variables": [*PAIR, "feasible"]}}


@pytest.fixture(scope="module")
def whole():
    """Every point of a sweep over two models and two prompt lengths."""
    return sweeps.sweep(TWO | VARIABLES)


def kept(place, keep, **keys):
    output = VARIABLES["output"] | {"keep": keep}
    return sweeps.sweep_to_folder(place, TWO | {"output": output} | keys)


def test_model_and_lengths_are_conditions_and_batch_is_none(whole):
    assert conditions(whole) == ("model", "isl")
    assert conditions(whole, "none") == ()
    assert conditions(whole, "batch, tp") == ("batch", "tp")
    with pytest.raises(ValueError, match="there is no axis modle; did you mean model"):
        conditions(whole, ["modle"])


def test_what_does_not_vary_is_no_condition(whole):
    assert conditions(whole.isel(model=slice(0, 1))) == ("isl",)


def test_front_is_kept_per_model_and_length(whole, tmp_path):
    # The front of all of the larger model's points is empty: each of them is beaten by one of the smaller model.
    rows = as_sample(kept(tmp_path / "all", ["pareto"], per="none"))
    assert set(rows["model"].values) == {"Llama-3.1-8B"}
    rows = as_sample(kept(tmp_path / "per", ["pareto"]))
    assert rows.attrs["per"] == "model, isl"
    # Oracle: the front of every part of the whole sweep by itself.
    for values, part in parts(whole, ("model", "isl")):
        keys = [np.where(part["feasible"], -part[name], np.inf).reshape(-1) for name in PAIR]
        expected = {tuple(-key[at] for key in keys) for at in unbeaten(*keys, np.arange(keys[0].size))}
        here = (rows["model"] == values["model"]) & (rows["isl"] == values["isl"])
        found = zip(*(rows[name].values[here.values] for name in PAIR), strict=True)
        assert {tuple(map(float, pair)) for pair in found} == {tuple(map(float, pair)) for pair in expected}


def test_parts_of_a_folder_keep_what_the_whole_keeps(tmp_path):
    # Shards cut the axes, so that one model's best points are spread over several of them.
    keep = ["top=3:tokens_per_second_per_device"]
    one = as_sample(kept(tmp_path / "one", keep))
    output = VARIABLES["output"] | {"keep": keep}
    several = as_sample(sweeps.sweep_to_folder(tmp_path / "several", TWO | {"output": output}, shard_points=16))
    assert one.sizes["point"] == 3 * 4  # three of every model and length
    assert several["point"].values.tolist() == one["point"].values.tolist()


def test_sample_keeps_the_best_of_every_drawn_model(tmp_path):
    # Models take turns along the one axis of a sample.
    drawn = {
        **TWO,
        "mode": "sample",
        "sample": {"points": 256},
        "workload": {"batch": [1, 4, 16], "isl": 512, "osl": 256},
    }
    whole = sweeps.sweep(drawn | VARIABLES)
    output = VARIABLES["output"] | {"keep": ["top=1:tokens_per_second_per_device"]}
    rows = as_sample(sweeps.sweep_to_folder(tmp_path / "drawn", drawn | {"output": output}))
    own = list(parts(whole, ("model",)))
    assert rows["model"].values.tolist() == [values["model"] for values, _ in own]
    for at, (_, part) in enumerate(own):
        point = best(part, "tokens_per_second_per_device")
        assert rows["tokens_per_second_per_device"].values[at] == jnp.float32(point.value)


def test_length_that_is_drawn_from_a_range_is_no_condition():
    drawn = {**TWO, "mode": "sample", "sample": {"points": 128}}
    drawn["workload"] = {"batch": 8, "isl": {"from": 512, "to": 4096}, "osl": 256}
    dataset = sweeps.sweep(drawn | VARIABLES)
    assert conditions(dataset) == ("model",)
    with pytest.raises(ValueError, match="per isl: it is drawn from a range"):
        conditions(dataset, "isl")


def test_groups_number_points_as_the_labels_do(whole):
    sizes = {str(dim): whole.sizes[dim] for dim in ("hardware", "model", "batch", "isl", "tp")}
    groups = Groups.of(whole, sizes, ("model", "isl"))
    places = np.unravel_index(np.arange(np.prod(list(sizes.values()))), list(sizes.values()))
    assert groups.numbers(np.arange(len(places[0]))).tolist() == (2 * places[1] + places[3]).tolist()


def test_query_returns_the_best_of_every_condition(whole):
    found = sweeps.query(whole, "feasible", "throughput", top=1)
    assert found.per == ("model", "isl")
    assert found.rows["model"].values.tolist() == ["Llama-3.1-8B"] * 2 + ["Llama-3.1-70B"] * 2
    for at, (_, part) in enumerate(parts(whole, found.per)):
        point = best(part, "tokens_per_second_per_device")
        assert float(found.rows["tokens_per_second_per_device"].values[at]) == point.value
    assert sweeps.query(whole, "feasible", "throughput", top=1, per="none").rows.sizes["row"] == 1
    # An axis has no better end: the first rows of all.
    assert sweeps.query(whole, None, "batch", top=1).rows.sizes["row"] == 1


def test_command_says_what_bests_are_per(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = 'hardware = "H100-SXM"\nmodel = ["Llama-3.1-8B", "Llama-3.1-70B"]\nefficiency = "derated"\n'
    text += "[deployment]\ntp = 8\n[workload]\nbatch = [1, 16]\nisl = 512\nosl = 64\n"
    (tmp_path / "two.toml").write_text(text)
    main(["sweep", "two.toml", "-o", "two.nc", "-v"])
    told = capsys.readouterr().out
    assert "best per model (--per none: over all of them)" in told
    assert "of the feasible points of model Llama-3.1-70B" in told
    main(["sweep", "two.toml", "-o", "all.nc", "--per", "none", "-v"])
    told = capsys.readouterr().out
    assert "best per" not in told
    assert "best of all points: every axis is a freedom of the design" in told
    assert "at model" in told
    for per, words in ([], "Best design per model"), (["--per", "none"], "Best of 4 designs"):
        main(["plot", "two.nc", "--kind", "lines", "--x", "batch", "--y", "model", "-o", "two.png", *per, "-v"])
        assert words in capsys.readouterr().out
    main(["plot", "two.nc", "--kind", "pareto", "-o", "front.png", "-v"])
    assert "A front per model." in _details("two.nc")


def _details(file):
    from sweeps.show.of_file import picture

    return " ".join(text.get_text() for text in picture(file, "pareto").texts)


def test_names_of_conditions_are_refused_before_anything_is_computed():
    with pytest.raises(ValueError, match="there is no axis modle"):
        sweeps.sweep(TWO | {"per": "modle"})


def test_condition_is_no_variable_of_a_design():
    asked = {
        "hardware": "H100-SXM",
        "model": ["Llama-3.1-8B", "Llama-3.1-70B"],
        "efficiency": "derated",
        "workload": {"batch": 8, "isl": 512, "osl": 64},
        "axes": {"hardware.memory.hbm.bandwidth": {"from": "2TB/s", "to": "8TB/s"}},
        "optimize": {"minimize": "tpot"},
    }
    with pytest.raises(ValueError, match="model is a condition, not a freedom of the design"):
        sweeps.problem(asked)
    assert sweeps.problem(asked | {"per": "none"}).choices["model"].tolist() == ["Llama-3.1-8B", "Llama-3.1-70B"]
