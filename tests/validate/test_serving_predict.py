"""Simulated latencies of served points: predictions against the scheduler."""

import dataclasses
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sweeps.measure.validate.serving.predict import engine_efficiencies, front_time, policy, traffic
from sweeps.measure.validate.serving.step_tables import Tables

import hwspaces
from jaxroof.jobs import Scenario
from jaxroof.jobs.serve import Service
from jaxroof.layers.collective import collective
from jaxroof.layers.experts import distinct_experts, own_choices
from jaxroof.op_time import op_time
from sweeps.cli import main
from sweeps.measure.validate.serving.attempt import attempted
from sweeps.run.precision import precision
from sweeps.run.simulated.simulation import simulated, size_for
from tests.serving_rows import read_rows

pytestmark = pytest.mark.xdist_group("predict")

ROWS = ({}, {"concurrency": "4", "batch_size": "4", "isl_tokens": "512", "osl_tokens": "128"})
REAL = Path(__file__).parents[3] / "shared" / "measured" / "e2e" / "silicon_sample.csv"


@pytest.fixture(scope="module")
def points(tmp_path_factory):
    found, skipped = read_rows(tmp_path_factory.mktemp("points"), *ROWS)
    assert not skipped
    return found


@pytest.fixture(scope="module")
def derated():
    return engine_efficiencies("derated")


def test_requests_wait_for_the_steps_that_are_launched(points):
    ready = _with_ahead(points[1], 0.0)
    tables = Tables(
        rows=np.full(2000, 1e-3),
        decode=np.full((200, 200), 2e-3),
        logits=np.full(200, 3e-3),
        prompt=np.zeros((5, 7, 100)),
        step_time=0.0,
        sequence_time=0.0,
    )
    host = engine_efficiencies("derated")["vllm"]
    once, thrice = (front_time(_with_ahead(ready, steps), tables, host) for steps in (1.0, 3.0))
    # rows, decode and logits take 1 + 2 + 3 ms
    assert thrice - once == pytest.approx(2.0 * 6e-3)
    assert once - front_time(ready, tables, host) == pytest.approx(6e-3)


def _with_ahead(point, steps):
    return dataclasses.replace(point, preset=dataclasses.replace(point.preset, ahead_steps=steps))


def test_predictions_are_the_schedulers(points, derated):
    point = _with_ahead(points[1], 0.0)
    predicted = attempted([point], derated)[0]
    with precision("float64"):
        requests, rules = traffic(point, 1 + point.row), policy(point)
        delay = derated["vllm"].host.request_time + point.preset.client_time
        efficiency = dataclasses.replace(
            derated["vllm"], host=dataclasses.replace(derated["vllm"].host, request_time=delay)
        )
        one = Scenario(
            hardware=point.hardware,
            model=point.model,
            deployment=point.deployment,
            workload=Service(traffic=requests, policy=rules),
            efficiency=efficiency,
        )
        together = jax.tree.map(lambda leaf: jnp.asarray(leaf, float)[None], one)
        with jax.numpy_dtype_promotion("standard"):
            found, _ = simulated(together, size_for(requests, rules))
        ttft = np.mean(np.asarray(found.first_token - found.arrival))
        each = np.asarray(found.finish - found.first_token)[0] / (np.asarray(requests.osl) - 1.0)
    # Tables are coarser than the scheduler's, which moves times by less than 1 %.
    assert predicted[0].ttft == pytest.approx(ttft, rel=0.02)
    assert predicted[0].tpot == pytest.approx(np.mean(each), rel=0.01)


def test_alike_tokens_share_experts():
    assert float(own_choices(64.0, 1.0)) == 64.0
    assert float(own_choices(64.0, 0.5)) == pytest.approx(8.0)
    assert float(own_choices(0.5, 0.5)) == 0.5  # below one token nothing is shared
    assert float(jax.grad(own_choices)(0.0, 0.5)) == 1.0
    # 128 (1 - (1 - 1/16)^8) of 128 experts, 8 each
    assert float(distinct_experts(128.0, 8.0, own_choices(64.0, 0.5))) == pytest.approx(51.6, abs=0.1)


def test_collectives_between_the_kernels_of_an_engine():
    hardware = hwspaces.hardware("H100-SXM").hardware
    plain = hwspaces.efficiency("derated").efficiency

    def time(**changes):
        constants = dataclasses.replace(plain.collective, **changes)
        op = collective("all_reduce", jnp.asarray(2.0**20), 8.0, 1.0)
        return float(op_time(op, hardware, dataclasses.replace(plain, collective=constants)))

    alone = time()
    assert time(share=0.5) == pytest.approx(2.0 * alone)
    assert time(wait_time=1e-5) == pytest.approx(alone + 1e-5)
    assert time(two_shot=0.0) > 1.2 * alone  # one stage reads 7 messages, the library is slower


def test_the_command(tmp_path, capsys):
    read_rows(tmp_path, *ROWS)
    file = str(tmp_path / "measured.csv")
    assert main(["validate", "serving", "--data", file, "--efficiency", "derated", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["concurrency"] for row in found["rows"]] == [16.0, 4.0]
    assert found["errors"]["points"]["all"]["tpot"]["n"] == 2
    assert main(["validate", "serving", "--data", file, "--engine", "sglang"]) == 2
    assert "none of 2 rows of sglang can be simulated" in capsys.readouterr().err


@pytest.mark.skipif(not REAL.exists(), reason="no measured data beside the project")
def test_measured_points(tmp_path):
    from sweeps.measure.validate.serving.serving_points import points as read

    found, _ = read(REAL)
    dense = [p for p in found if getattr(p, "model_name", "") == "Llama-3.1-70B" and p.engine == "vllm"]
    dense = [p for p in dense if getattr(p, "concurrency", 1e9) <= 4.0][:2]
    one_each, _ = attempted(dense, engine_efficiencies("derated"))
    errors = np.abs([one.ratio("tpot") - 1.0 for one in one_each])
    assert np.median(errors) < 0.25  # of constant shares; of the learned constants 3 % over all rows of the model
