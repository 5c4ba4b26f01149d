"""The layout search: what it tries, and that its best is the best of a loop over all."""

import dataclasses

import jax
import numpy as np
import pytest

import workloads
from jaxroof.jobs.train import training_rules
from jaxroof.memory.legality import first_broken
from jaxroof.training import iteration_cost, training_memory
from jaxroof.training.memory import total_memory
from sweeps.ask.cases import case
from sweeps.ask.training import COLUMNS, layouts, settings
from sweeps.studies.train import search

WORK = {"global_batch": 16, "seq": 2048}


@pytest.fixture(scope="module")
def asked():
    return case("train", "H100-SXM", "Llama-2-7B", workload=WORK, check=False)


@pytest.fixture(scope="module")
def found(asked):
    return search(asked, 8)


def test_every_layout_uses_all_devices_once():
    for name, devices in (("Llama-2-7B", 8), ("Mixtral-8x7B", 16)):
        tried = layouts(workloads.model(name).model, devices, 16, 2048)
        own = tried.columns
        assert (own["tp"] * own["pp"] * own["cp"] * own["dp"] == devices).all()
        rows = set(zip(*(own[column].tolist() for column in COLUMNS), strict=True))
        assert len(rows) == len(tried)
        assert set(own["ep"].tolist()) == ({1} if name.startswith("Llama") else {1, 2, 4, 8})
        paths = tried.paths(True)
        groups = paths["deployment.dp"] * paths["deployment.attention_dp"]
        assert (groups == own["dp"]).all()


def test_the_best_is_the_best_of_a_loop(asked, found):
    """All layouts one after the other, by the pure functions: the same times, memory and order. 1e-4: float32."""
    scenario, tried = asked.scenario, found.layouts
    place = found.order[:: max(1, len(found.order) // 12)]

    @jax.jit
    def time(deployment, training):
        return iteration_cost(scenario.hardware, scenario.model, deployment, training, scenario.efficiency).time

    for i in place.tolist():
        row = {name: float(column[i]) for name, column in tried.columns.items()}
        degrees = {name: row[name] for name in ("tp", "pp", "cp", "dp")}
        counts = {name: row[name] for name in ("micro_batch", "zero", "recompute", "schedule", "virtual_stages")}
        deployment = dataclasses.replace(scenario.deployment, **degrees)
        training = dataclasses.replace(scenario.workload, **counts)
        assert (
            first_broken(training_rules(dataclasses.replace(scenario, deployment=deployment, workload=training)))
            is None
        )
        memory = float(total_memory(training_memory(scenario.model, deployment, training)))
        assert found.metrics["training_memory"][i] == pytest.approx(memory, rel=1e-4)
        assert memory <= scenario.hardware.memory.hbm.capacity
        assert found.metrics["iteration_time"][i] == pytest.approx(float(time(deployment, training)), rel=1e-4)
    times = found.metrics["iteration_time"]
    assert (np.diff(times[found.order]) >= 0.0).all()
    left = np.setdiff1d(np.arange(len(tried)), found.order)
    assert not found.metrics["feasible"][left].any()


def test_most_layouts_are_legal(found):
    """What the enumeration leaves out it need not evaluate: heads and widths alone are left to the rules."""
    assert found.metrics["legal"].mean() > 0.9 and len(found.order) > 100


def test_degrees_of_experts():
    """8 experts' devices out of 2 x 1 x 8: 4 attention groups share them, and 2 copies of all experts are left."""
    assert settings({"tp": 2, "dp": 8, "ep": 8}) == {"tp": 2, "dp": 2, "ep": 8, "attention_dp": 4}
    assert settings({"ep": 8}) == {"ep": 8, "attention_dp": 8, "dp": 1}
    assert settings({"tp": 4, "ep": 2}) == {"tp": 4, "ep": 2}
    with pytest.raises(ValueError, match="ep = 6 must be a multiple of tp x cp = 4"):
        settings({"tp": 4, "ep": 6, "dp": 3})
    with pytest.raises(ValueError, match="dp = 6 must be a multiple"):
        settings({"tp": 2, "ep": 8, "dp": 6})
