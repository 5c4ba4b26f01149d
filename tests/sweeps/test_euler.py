"""Units of every formula: elasticities over all numbers add up to the powers of second, joule and dollar."""

import pytest

from sweeps.api import precision
from sweeps.cases import case
from sweeps.elasticity.check import checked
from sweeps.elasticity.dimensions import leaf_powers, metric_powers, powers
from sweeps.jobs import JOBS

POINTS = 10_000


@pytest.mark.parametrize(
    ("job", "hardware", "model", "work", "deployment", "metric"),
    [
        ("request", "H100-SXM", "Llama-3.1-70B", {"batch": 64, "isl": 2048, "osl": 256}, {"tp": 8}, "e2e"),
        (
            *("step", "H200-SXM", "DeepSeek-V2-Lite", {"decode": 64, "context": 2048}),
            *({"attention_dp": 2, "ep": 2}, "usd_per_million_tokens"),
        ),
    ],
)
def test_elasticities_add_up(job, hardware, model, work, deployment, metric):
    """A grouped-query model, and one with latent attention and experts; every number of every struct is drawn anew.

    Seconds, joules and dollars each; values and gradients are finite. 1e-5: 16th powers in float64.
    """
    scenario = case(job, hardware, model, workload=work, deployment=deployment).scenario
    with precision("float64"):
        found = checked(JOBS[job], scenario, metric, POINTS)
    assert found.points >= POINTS and found.leaves > 120
    assert found.not_finite == set()
    assert {base: error for base, error in found.worst.items() if not error < 1e-5} == {}


def test_powers_of_units():
    assert powers("B/s") == {"s": -1} and powers("W") == {"J": 1, "s": -1} and powers("Hz") == {"s": -1}
    assert powers("USD/s") == {"USD": 1, "s": -1} and powers("J/FLOP") == {"J": 1} and powers("1") == {}
    assert leaf_powers("efficiency.linear.wide.energy_rate") == {"s": -1}
    assert leaf_powers("efficiency.host.step_time") == {"s": 1}
    assert metric_powers("usd_per_million_tokens") == {"USD": 1} and metric_powers("tpot") == {"s": 1}
    assert metric_powers("tokens_per_joule_at_tdp") == {"J": -1}
