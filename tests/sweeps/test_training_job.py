"""The training job: units of its metrics by Euler's theorem, grids over its words, and what is refused."""

import numpy as np
import pytest

import hwspaces
import sweeps
from jaxroof import Deployment, Training
from sweeps.api import precision
from sweeps.cases import case
from sweeps.elasticity.check import checked
from sweeps.job import Scenario
from sweeps.training_job import TRAIN

POINTS = 512
WORK = {"global_batch": 64, "seq": 2048}


def test_elasticities_add_up(chip, dense):
    """Time and money of an iteration are finite, have finite gradients in every number, and change by the powers of
    their units when seconds and dollars do. 1e-5: 16th powers in float64. Energy, and links as measured, take half a
    minute to compile: `python -m sweeps.elasticity.check --structure training`."""
    deployment = Deployment(tp=2.0, pp=4.0, cp=2.0, dp=2.0)
    work = Training(global_batch=128.0, seq=2048.0, schedule=2.0, virtual_stages=2.0, zero=1.0, tokens=1e12)
    scenario = Scenario(
        hardware=chip, model=dense, deployment=deployment, workload=work, efficiency=hwspaces.efficiency().efficiency
    )
    with precision("float64"):
        found = checked(TRAIN, scenario, POINTS, chunk=POINTS)
    assert {"iteration_time", "bubble_time", "dp_exposed", "training_usd"} < set(found.metrics)
    assert found.not_finite == set()
    assert {base: error for base, error in found.worst.items() if not error < 1e-5} == {}


def test_words_are_codes():
    """Schedules, recomputation and ZeRO stages along axes of one compiled function; a grid equals its points."""
    axes = {"schedule": ["gpipe", "zero-bubble"], "recompute": ["none", "full"], "zero": [0, 3]}
    keys = {"job": "train", "hardware": "H100-SXM", "model": "Llama-2-7B", "deployment": {"pp": 4, "dp": 2}}
    names = ("iteration_time", "training_memory", "activations_memory", "dp_hidden", "bubble_share")
    keys["output"] = {"variables": list(names)}
    grid = sweeps.sweep(**keys, workload=WORK | axes)
    assert grid.schedule.values.tolist() == [0.0, 3.0] and grid.recompute.values.tolist() == [0.0, 2.0]
    one = sweeps.sweep(**keys, workload=WORK | {"schedule": "zero_bubble", "recompute": "full", "zero": 3})
    for name in names:
        found = grid[name].sel(
            {
                dim: value
                for dim, value in (("schedule", 3.0), ("recompute", 2.0), ("zero", 3.0))
                if dim in grid[name].dims
            }
        )
        np.testing.assert_allclose(found, one[name], rtol=1e-5)
    assert grid.iteration_time.attrs["units"] == "s" and grid.training_memory.attrs["units"] == "byte"
    assert (grid.activations_memory.sel(schedule=0.0) > grid.activations_memory.sel(schedule=3.0)).all()
    assert float(one.bubble_share) < float(grid.bubble_share.sel(schedule=0.0, recompute=2.0, zero=3.0))


@pytest.mark.parametrize(
    ("work", "deployment", "words"),
    [
        ({"seq": 2048}, {}, "a train needs workload.global_batch"),
        (WORK | {"zero": 4}, {}, "workload.zero = 4 must be 0, 1, 2 or 3"),
        (WORK | {"schedule": "pipedream"}, {}, "workload.schedule = 'pipedream' must be one of gpipe, 1f1b"),
        (WORK | {"recompute": 3}, {}, "workload.recompute = 3 must be one of none, selective, full"),
        (WORK | {"offload": 1}, {}, "give workload.host_bandwidth"),
        (WORK | {"lora": "rank=16"}, {}, "must be like rank=16,target=q,v"),
        (WORK | {"lora": "rank=16,target=w"}, {}, "there is no target 'w'"),
        (WORK | {"batch": 1}, {}, "workload.batch is not a number of a train"),
        (WORK, {"dp": 3}, "global_batch = 64 is no multiple of micro_batch x dp x attention_dp = 1 x 3"),
        (WORK | {"virtual_stages": 2}, {"pp": 4}, "and the others 1 chunk"),
        (WORK | {"schedule": "dualpipe"}, {"pp": 5}, "dualpipe an even pp"),
        (WORK | {"dropout": 2}, {}, "workload.dropout = 2 must be at most 1"),
    ],
)
def test_what_cannot_be_is_refused(work, deployment, words):
    with pytest.raises(ValueError) as error:
        case("train", "H100-SXM", "Llama-2-7B", workload=work, deployment=deployment)
    assert words in str(error.value) and "\n" not in str(error.value)


def test_illegal_points_of_a_grid_are_refused_or_masked():
    keys = {"job": "train", "hardware": "H100-SXM", "model": "Llama-2-7B", "workload": WORK}
    with pytest.raises(ValueError, match="global_batch = 64 is no multiple"):
        sweeps.sweep(**keys, deployment={"dp": [2, 3]})
    masked = sweeps.sweep(**keys, deployment={"dp": [2, 3]}, output={"illegal": "mask", "variables": ["legal"]})
    assert masked.legal.values.tolist() == [True, False]


def test_t4_1_fp8():
    """Llama-2-13B, tp 2 and dp 4, at the datasheet: products of linear layers take half the time at 8 bits, attention,
    norms and messages as long as before, and conversions come on top: the iteration is less than twice as fast. An
    A100 has no such units."""
    answers = {}
    for weights in ("bf16", "fp8"):
        keys = {"job": "train", "model": "Llama-2-13B", "weights": weights, "efficiency": "datasheet"}
        keys["output"] = {"variables": ["iteration_time", "tp_exposed"]}
        work = {"global_batch": 4, "seq": 4096}
        answers[weights] = sweeps.sweep(**keys, hardware="H100-SXM", workload=work, deployment={"tp": 2, "dp": 4})
    old, new = answers["bf16"], answers["fp8"]
    assert 1.2 < float(old.iteration_time / new.iteration_time) < 2.0
    assert float(old.tp_exposed) == pytest.approx(float(new.tp_exposed), rel=1e-6)
    with pytest.raises(ValueError, match="A100-SXM-80GB has no fp8"):
        case("train", "A100-SXM-80GB", "Llama-2-13B", weights="fp8", workload=WORK)
