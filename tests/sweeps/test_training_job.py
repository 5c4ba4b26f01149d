"""The training job: units of its metrics by Euler's theorem, grids over its words, and what is refused."""

import jax
import numpy as np
import pytest

import hwspaces
import sweeps
from jaxroof import Deployment, Training
from jaxroof.jobs import Scenario
from jaxroof.jobs.train import TRAIN
from jaxroof.numerics.xla_options import QUICK
from sweeps.ask.axes import leaf, leaf_paths, replaced
from sweeps.ask.cases import case
from sweeps.run.points import answers_at
from sweeps.run.precision import precision
from sweeps.studies.sensitivity.gradient import metric_names
from sweeps.studies.sensitivity.point import sensitivity_at
from tests.evidence.gradients import drawn
from tests.evidence.unit_powers import BASES, leaf_powers, metric_powers

POINTS = 512
WORK = {"global_batch": 64, "seq": 2048}


def test_units_add_up(chip, dense):
    """Euler's theorem: when every number is counted in another second, joule or dollar, every metric is too, so its
    derivative in that direction is its value times its power. At random points, for all metrics at once; in float64,
    1e-6. Energy, measured links and gradients in every number apart, in a minute:
    `python -m tests.evidence.gradients --structure training`.
    """
    place = Scenario(
        hardware=chip,
        model=dense,
        deployment=Deployment(tp=2.0, pp=4.0, cp=2.0, dp=2.0),
        workload=Training(global_batch=128.0, seq=2048.0, schedule=2.0, virtual_stages=2.0, zero=1.0, tokens=1e12),
        efficiency=hwspaces.efficiency().efficiency,
    )
    names = metric_names(TRAIN, place)
    assert {"iteration_time", "bubble_time", "dp_exposed", "training_usd"} < set(names)
    with precision("float64"):
        points = drawn(place, POINTS, np.random.default_rng(0))

        def metrics(point):
            return {name: value * 1.0 for name, value in answers_at(TRAIN, point, names).items()}

        along = jax.vmap(lambda point, direction: jax.jvp(metrics, (point,), (direction,)))
        turned = jax.jit(along, compiler_options=QUICK)
        for base in BASES:
            direction = points
            for path in leaf_paths(place):
                direction = replaced(direction, path, leaf_powers(path).get(base, 0) * leaf(points, path))
            values, slopes = jax.device_get(turned(points, direction))
            for name in names:
                assert np.isfinite(values[name]).all()
                error = np.abs(slopes[name] - metric_powers(name).get(base, 0) * values[name])
                assert (error <= 1e-6 * np.abs(values[name])).all(), f"{name} in {base}"


def test_words_are_codes():
    """Schedules, recomputation and ZeRO stages along axes of one compiled function."""
    axes = {"schedule": ["gpipe", "zero-bubble"], "recompute": ["none", "full"], "zero": [0, 3]}
    names = ["iteration_time", "training_memory", "activations_memory", "weights_memory", "bubble_share"]
    grid = sweeps.sweep(
        job="train",
        hardware="H100-SXM",
        model="Llama-2-7B",
        deployment={"pp": 4, "dp": 2},
        workload=WORK | axes,
        efficiency="datasheet",
        output={"variables": names},
    )
    assert grid.schedule.values.tolist() == [0.0, 3.0] and grid.recompute.values.tolist() == [0.0, 2.0]
    assert grid.iteration_time.attrs["units"] == "s" and grid.training_memory.attrs["units"] == "byte"
    gpipe, zero_bubble = grid.sel(schedule=0.0), grid.sel(schedule=3.0)
    assert (gpipe.activations_memory > zero_bubble.activations_memory).all()
    assert (gpipe.bubble_share > zero_bubble.bubble_share).all()
    none, full = grid.sel(recompute=0.0), grid.sel(recompute=2.0)
    assert (none.activations_memory > full.activations_memory).all()
    assert (none.iteration_time < full.iteration_time).all()
    plain, sharded = (float(gpipe.weights_memory.sel(zero=zero)) for zero in (0.0, 3.0))
    assert sharded == pytest.approx(plain / 2, rel=1e-6)


@pytest.mark.parametrize(
    ("work", "deployment", "words"),
    [
        ({"seq": 2048}, {}, "a training run needs workload.global_batch"),
        (WORK | {"zero": 4}, {}, "workload.zero = 4 must be 0, 1, 2 or 3"),
        (WORK | {"schedule": "pipedream"}, {}, "workload.schedule = 'pipedream' must be one of gpipe, 1f1b"),
        (WORK | {"recompute": 3}, {}, "workload.recompute = 3 must be one of none, selective, full"),
        (WORK | {"offload": 1}, {}, "give workload.host_bandwidth"),
        (WORK | {"lora": "rank=16"}, {}, "must be like rank=16,target=q,v"),
        (WORK | {"lora": "rank=inf,target=q"}, {}, "must be like rank=16,target=q,v"),
        (WORK | {"lora": "rank=16,target=w"}, {}, "there is no target 'w'"),
        (WORK | {"batch": 1}, {}, "workload.batch is not a number of a training run"),
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


def test_t4_1_an_a100_has_no_fp8():
    with pytest.raises(ValueError, match="A100-SXM-80GB has no fp8 figure"):
        case("train", "A100-SXM-80GB", "Llama-2-13B", weights="fp8", workload=WORK)


def test_sensitivities_of_an_iteration():
    """One token more or one device less are as much more work per device; codes have no elasticity. 3 %: the update
    and what messages slow down do not depend on tokens, and attention does on their square.
    """
    place = case("train", "H100-SXM", "Llama-2-7B", workload=WORK | {"zero": 1}, deployment={"dp": 8}).scenario
    found = sensitivity_at("train", place, ["iteration_time"], ["workload", "deployment.dp"])
    slopes = dict(zip((knob.path for knob in found.knobs), found.elasticities["iteration_time"], strict=True))
    assert slopes["workload.global_batch"] == pytest.approx(1.0, abs=0.03)
    assert slopes["workload.seq"] == pytest.approx(1.0, abs=0.1)
    assert slopes["deployment.dp"] == pytest.approx(-1.0, abs=0.05)
    assert not {"workload.zero", "workload.schedule"} & set(slopes)
