"""`jaxroof capacity` of a whole service: its largest rate beside `serve` at it, a bound, and one line of errors."""

import itertools
import json
import math

import pytest

import sweeps
from sweeps.answers import service_capacity as report
from sweeps.cli import main
from sweeps.run.simulated.objective import parse_target
from sweeps.serving.bracket import bracket
from tests.commands import printed, refused

PLACE = ("--hardware", "H100-SXM", "--model", "Llama-3.1-8B")
LOAD = ("--isl", "512", "--osl", "9", "--requests", "200")
SLO = ("--slo", "ttft=150ms,tpot_p99=20ms")
POOLS = ("--dp", "2", "--prefill", "dp=1")
ALIKE = ("--dp", "3", "--router", "least_requests")


@pytest.fixture(scope="module")
def pools(cache):
    """One search, of two pools."""
    load = {"isl": 512, "osl": 9, "requests": 200}
    return sweeps.service_capacity(
        "Llama-3.1-8B", "H100-SXM", "ttft=150ms,tpot_p99=20ms", deployment={"dp": 2}, prefill={"dp": 1}, **load
    )


def same_as_served(capsys, found: dict, *service: str) -> None:
    """`serve` of the same service has these figures at this rate, and keeps the limits."""
    words = ("--rate", str(found["capacity"]), "--slo", "ttft=150ms", "--json")
    served = json.loads(printed(capsys, "serve", *PLACE, *service, *LOAD, *words, progress=True))["metrics"]
    for name in ("ttft_mean", "ttft_p99", "tpot_p99", "tokens_per_second", "usd_per_million_tokens"):
        assert found["metrics"][name] == pytest.approx(served[name], rel=1e-6), name
    assert served["tpot_p99"] <= 0.02 and served["good_share"] >= 0.95


def test_the_largest_rate_of_pools_is_kept_and_the_next_is_not(pools, capsys):
    found = report.record(pools)
    assert found["state"] == "met" and found["stopped_by"]
    assert found["capacity"] < found["fails_at"] <= found["capacity"] * 1.02
    same_as_served(capsys, found, *POOLS)


def test_the_largest_rate_of_equal_replicas(cache, capsys):
    found = json.loads(printed(capsys, "capacity", *PLACE, *ALIKE, *LOAD, *SLO, "--json", progress=True))
    same_as_served(capsys, found, *ALIKE)


def test_the_text_says_the_rate_the_percentiles_and_what_stops_it(pools, capsys):
    report.show(pools)
    lines = capsys.readouterr().out.splitlines()
    said = next(line for line in lines if line.startswith("capacity: "))
    assert "requests/s keep TTFT <= 150 ms for 95 % of the requests; TPOT p99 <= 20 ms; " in said
    assert any(line.startswith("pools   prefill 1 x tp1, decode 2 x tp1") for line in lines)
    assert any(line.split()[:6] == ["latency", "mean", "p50", "p90", "p95", "p99"] for line in lines)
    assert any(line.startswith("stops   ") for line in lines)
    assert any(line.startswith("tried ") and "simulations of 200 requests" in line for line in lines)


@pytest.mark.parametrize(("slo", "state", "stops"), [("ttft=1ms", "none", "TTFT"), ("e2e=600s", "met", "a growing")])
def test_limits_that_nothing_and_every_run_keeps(cache, slo, state, stops):
    """Where latencies may be what they like, a rate is not kept whose queue grows."""
    load, place = {"isl": 512, "osl": 9, "requests": 200}, {"deployment": {"dp": 2}, "prefill": {"dp": 1}}
    found = report.record(sweeps.service_capacity("Llama-3.1-8B", "H100-SXM", slo, tolerance=0.2, **place, **load))
    assert found["state"] == state and stops in found["stopped_by"]
    assert bool(found["capacity"] > 0.0) == (state == "met")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--hardware", "H100-SXM,L4"), "--hardware H100-SXM,L4 must be one accelerator"),
        (("--hardware", "all"), "--hardware all must be one accelerator"),
        (("--concurrency", "1..8"), "--concurrency cannot be given"),
        (("--rates", "1..8"), "--rates cannot be given"),
        (("-o", "out.nc"), "--output cannot be given"),
        (("--router", "nearest"), "router = 'nearest' must be round_robin"),
        (("--router-weights", "near=2"), "router_weights = 'near=2'"),
        (("--tiers", "host=16GB"), "tiers = 'host=16GB' has no effect"),
        (("--tolerance", "2"), "tolerance = 2"),
        (("--isl", "0"), "isl"),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_bad_input_is_one_line(words, said, capsys):
    given = (*PLACE, *POOLS, *LOAD, *SLO)
    # a flag is given once: what is tried takes the place of what is usual
    usual = [pair for pair in zip(given[::2], given[1::2], strict=True) if pair[0] != words[0]]
    assert said in refused(capsys, "capacity", *itertools.chain(*usual), *words)


def test_a_service_needs_a_router(capsys):
    assert main(["capacity", *PLACE, "--dp", "2", *LOAD, *SLO]) == 2
    assert "deployment.dp: a load is that of one replica" in capsys.readouterr().err
    with pytest.raises(ValueError, match="a service needs router, prefill or tiers"):
        sweeps.service_capacity("Llama-3.1-8B", "H100-SXM", "ttft=1s", isl=512, osl=9)
    with pytest.raises(ValueError, match="rate = 3 cannot be given"):
        sweeps.service_capacity("Llama-3.1-8B", "H100-SXM", "ttft=1s", isl=512, osl=9, rate=3, router="random")


@pytest.mark.parametrize("first", [0.3, 9.9, 10.0, 400.0])
def test_the_bracket_closes_from_any_side(first):
    """Up to 10 requests/s are kept, whatever is tried first."""
    tried = []

    def at(load: float) -> dict[str, float]:
        tried.append(load)
        good = {"good_share": float(load <= 10.0), "ttft_p95": 1.0, "tpot_p95": 0.1, "e2e_p95": 1.0}
        return (
            good
            | dict.fromkeys(("refused", "rejected", "unfinished", "queueing_mean"), 0.0)
            | {
                "tpot_mean": 0.1,
                "finished": 100.0,
            }
        )

    found = bracket(at, first, parse_target("ttft=2s"), 0.01)
    assert found.low <= 10.0 < found.high <= found.low * 1.01 and found.simulations == len(tried) <= 16
    never = bracket(lambda load: at(1e3), first, parse_target("ttft=2s"), 0.01, 5)
    assert (never.low, never.simulations) == (0.0, 5) and math.isfinite(never.high)
