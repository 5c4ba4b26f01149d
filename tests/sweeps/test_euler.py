"""Units of every formula: elasticities over all numbers add up to the powers of second, joule, dollar and metre."""

from jaxroof.jobs.request import REQUEST
from sweeps.ask.cases import case
from sweeps.run.evidence import without_hulls
from sweeps.run.precision import precision
from tests.evidence.gradients import checked
from tests.evidence.unit_powers import leaf_powers, metric_powers, powers

POINTS = 2_000


def test_elasticities_add_up():
    """Every number of every struct is drawn anew; reverse mode, with the usual smoothing.

    All real-valued metrics, of time, energy, area and money, and seconds, joules, dollars and metres each; values and
    gradients are finite. The limit of electrical power stretches steps at a good part of the points. 1e-5: 16th powers
    in float64.
    """
    work = {"batch": 64, "isl": 2048, "osl": 256}
    scenario = case("request", "H100-SXM", "Llama-3.1-8B", workload=work, deployment={"tp": 4}).scenario
    scenario = without_hulls(scenario)  # ranges of evidence are in units of their own
    with precision("float64"):
        found = checked(REQUEST, scenario, POINTS)
    assert found.points >= POINTS and found.leaves > 200
    assert {"joules_per_token", "power", "die_area", "owning_usd_per_million_tokens"} < set(found.metrics)
    assert 0.1 * found.points < found.throttled < 0.9 * found.points
    assert found.not_finite == set()
    assert {base: error for base, error in found.worst.items() if not error < 1e-5} == {}


def test_powers_of_units():
    assert powers("B/s") == {"s": -1} and powers("W") == {"J": 1, "s": -1} and powers("Hz") == {"s": -1}
    assert powers("USD/s") == {"USD": 1, "s": -1} and powers("J/FLOP") == {"J": 1} and powers("1") == {}
    assert powers("m2 s/B") == {"m": 2, "s": 1} and powers("1/m2") == {"m": -2} and powers("J s") == {"J": 1, "s": 1}
    assert leaf_powers("efficiency.linear.wide.energy_rate") == {"s": -1}
    assert leaf_powers("efficiency.host.step_time") == {"s": 1}
    assert leaf_powers("hardware.costs.electricity") == {"USD": 1, "J": -1}
    assert leaf_powers("hardware.silicon.areas.link") == {"m": 2, "s": 1}
    assert metric_powers("usd_per_million_tokens") == {"USD": 1} and metric_powers("tpot") == {"s": 1}
    assert metric_powers("tokens_per_joule_at_tdp") == {"J": -1} and metric_powers("device_price") == {"USD": 1}
    assert metric_powers("energy_delay_product") == {"J": 1, "s": 1}
