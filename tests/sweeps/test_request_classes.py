"""Classes of requests that share an engine: figures and limits of each, in a simulation and in a served comparison."""

import math

import numpy as np
import pytest

import sweeps
from jaxroof.batch import STATUSES
from jaxroof.jobs.serve import Objective
from sweeps.entries.comparisons import compare
from sweeps.run.simulated.classes import class_metric, limits_text, objective_of, padded_objective, target_of
from sweeps.run.simulated.load import load
from sweeps.run.simulated.objective import Target, parse_target
from sweeps.run.simulated.spec import ServeSpec
from sweeps.serving.capacity import capacity
from sweeps.serving.files import dataset
from sweeps.serving.run import simulation
from sweeps.serving.target import keeps, missed_text
from sweeps.studies.compare.requests import ServedRequests, demand
from workloads.streams.classes import classes_of
from workloads.streams.streams import mean_rate

pytestmark = pytest.mark.xdist_group("classes")

CHAT = """
[chat]
share = 0.75
isl = "uniform:100..300"
osl = 60
slo = "ttft=200ms,tpot=12ms"
[summaries]
share = 0.25
isl = 3000
osl = 20
{slo}
"""
PLACE = {"hardware": "H100-SXM", "model": "Llama-3.1-8B", "efficiency": "derated"}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    def write(slo="", text=CHAT):
        path = tmp_path_factory.mktemp("traffic") / "chat.toml"
        path.write_text(text.format(slo=slo))
        return str(path)

    return write


@pytest.fixture(scope="module")
def file(written):
    return written('slo = "ttft.p95=300ms,e2e=2s"')


@pytest.fixture(scope="module")
def found(file):
    return simulation(ServeSpec(**PLACE, traffic=file, rate=20, requests=80, slo="ttft=1s"))


def test_every_class_is_judged_by_its_own_requests_and_limits(found):
    kind, served, osl = found.load.stream.kind, found.served, found.load.stream.osl
    done = served.status == STATUSES.index("finished")
    ttft, e2e = served.first_token - served.arrival, served.finish - served.arrival
    tpot = (served.finish - served.first_token) / (osl - 1.0)
    good = np.where(kind == 0, (ttft <= 0.2) & (tpot <= 0.012), e2e <= 2.0) & done
    for position, name in enumerate(("chat", "summaries")):
        own, metrics = kind == position, found.classes[name]
        assert metrics["finished"] == (own & done).sum() == (60, 20)[position]
        assert metrics["ttft_p95"] == pytest.approx(np.percentile(ttft[own], 95))
        assert metrics["tpot_mean"] == pytest.approx(tpot[own].mean())
        assert metrics["good_share"] == pytest.approx(good[own].mean())
    assert 0.0 < found.classes["chat"]["good_share"] < 1.0  # so that the limits decide
    assert found.metrics["good_share"] == pytest.approx(good.mean())
    assert "itl_mean" not in found.classes["chat"]


def test_the_file_of_a_run_has_the_class_of_every_request(found):
    data = dataset(found)
    assert data.attrs["classes"] == "chat, summaries"
    chat = data.isel(request=data.request_class.values == 0)
    assert chat.sizes["request"] == 60 and set(chat.osl.values) == {60}


def test_a_load_says_the_limits_of_its_classes(file, written):
    chat, summaries = classes_of(file)
    assert limits_text(chat, Objective(ttft=1.0)) == "TTFT <= 200 ms, TPOT <= 12 ms"
    assert limits_text(summaries, Objective()) == "E2E <= 2 s, TTFT p95 <= 300 ms"
    _, plain = classes_of(written())
    assert limits_text(plain, Objective(ttft=1.0)) == "TTFT <= 1 s" and limits_text(plain, Objective()) == "none"
    each = objective_of(np.array([1, 0]), (chat, plain), Objective(ttft=1.0))
    assert each.ttft.tolist() == [1.0, 0.2] and each.tpot.tolist() == [math.inf, 0.012]
    assert padded_objective(each, 3).ttft.tolist() == [1.0, 0.2, math.inf]
    same = Objective(ttft=1.0)
    assert objective_of(None, (), same) is same and padded_objective(same, 9) is same
    words = ServeSpec(**PLACE, traffic=file, rate=2)
    assert load(words).text.endswith("(75 % chat, 25 % summaries)")


def test_a_target_is_kept_where_every_class_keeps_its_own(file, written):
    target = target_of(None, 0.9, classes_of(file))
    assert target.text.startswith("chat: TTFT <= 200 ms, TPOT <= 12 ms for 90 % of the requests; summaries: E2E <= 2 s")
    assert target_of("ttft=1s", 0.9, ()) == parse_target("ttft=1s", 0.9)
    assert target_of("ttft=1s", 0.9, classes_of(written())).classes["summaries"] == parse_target("ttft=1s", 0.9)
    # Places: both kept, chat's share missed, the percentile of summaries missed.
    counts = {"refused": 0.0, "rejected": 0.0, "unfinished": 0.0, "duration": 10.0}
    columns = {
        0: counts | {"finished": 75.0, "good_share": np.array([70, 67, 75]) / 75, "tpot_p90": 0.013, "ttft_p90": 0.1},
        1: counts | {"finished": 25.0, "good_share": np.array([24, 25, 25]) / 25, "e2e_p90": 1.0},
    }
    columns[1] |= {"ttft_p95": np.array([0.1, 0.1, 0.4])}
    metrics = {
        class_metric(i, name): np.broadcast_to(value, 3) for i, own in columns.items() for name, value in own.items()
    }
    assert keeps(metrics, target).tolist() == [True, False, False]
    words = [missed_text({name: float(values[i]) for name, values in metrics.items()}, target) for i in range(3)]
    assert words[0] == ""
    assert words[1] == "chat: 89.3 % of the requests are good, of 90 %, TPOT p90 13 ms of 12 ms"  # 67 of 75
    assert words[2] == "summaries: TTFT p95 400 ms of 300 ms"


@pytest.mark.parametrize(
    ("slo", "words"),
    [
        ('slo = "itl_p99=1s"', "class summaries: slo itl_p99: it is known of all requests together only; limit ttft"),
        ('slo = "tfft=1s"', "class summaries: slo: there is no limit tfft; did you mean ttft"),
        ("slo = {ttft = -1}", "class summaries: slo ttft = -1"),
        ("", "slo is missing: class summaries has no limits of its own"),
    ],
)
def test_wrong_limits_of_a_class_are_refused_by_its_name(written, slo, words):
    with pytest.raises(ValueError) as error:
        compare("Llama-3.1-8B", hardware=["H100-SXM"], traffic=written(slo))
    assert words in str(error.value)


@pytest.mark.parametrize("key", ["isl", "osl", "prefixes", "sessions", "trace"])
def test_keys_that_a_file_of_classes_takes_the_place_of_are_refused(file, key):
    with pytest.raises(ValueError, match=key + r" cannot be given: .*chat.toml says|traffic cannot be given: .* says"):
        load(ServeSpec(**PLACE, traffic=file, rate=2, **{key: "9"}))


def test_the_demand_of_a_class_is_that_of_its_requests(file):
    stream = ServedRequests({"traffic": file}).sample
    of_all = demand(stream, True)
    chat, summaries = of_all.classes
    assert (summaries.prompt, summaries.output, summaries.evenness) == (3000.0, 20.0, 1.0)
    assert chat.output == 60.0 and chat.prompt == pytest.approx(200.0, rel=0.02)  # 3,000 draws: a deviation of 0.5 %
    assert of_all.prompt == pytest.approx(0.75 * chat.prompt + 0.25 * 3000.0) and not chat.classes


def served(path, slo=None, simulate=1, **more):
    keys = {"devices": [1], "efficiency": "derated", "policy": {"token_budget": 2048}, "requests": 200} | more
    return compare("Llama-3.1-8B", slo, hardware=["H100-SXM"], traffic=path, simulate=simulate, **keys)


@pytest.fixture(scope="module")
def compared(file):
    return served(file)


def test_a_row_of_a_comparison_is_what_a_simulation_of_it_gives(compared):
    (row,) = compared.rows
    assert row.simulated and row.spec["traffic"].endswith("chat.toml")
    again = simulation(ServeSpec(**row.spec))
    for name, metrics in row.classes.items():
        for metric in ("ttft_p95", "tpot_mean", "good_share", "finished"):
            assert again.classes[name][metric] == pytest.approx(metrics[metric], rel=1e-6)
    each = {name: {key: np.array([value]) for key, value in values.items()} for name, values in row.classes.items()}
    assert all(keeps(each[name], own).all() for name, own in compared.question.target.classes.items())
    assert row.binds.startswith(("chat: ", "summaries: "))


def test_a_class_with_looser_limits_takes_a_load_between(written):
    tight, loose = "ttft=300ms,tpot=15ms", "ttft=3s,tpot=60ms"
    plain = CHAT.replace('slo = "ttft=200ms,tpot=12ms"', "")
    loads = [
        served(written("", plain), tight, simulate=0),
        served(written(f'slo = "{loose}"', plain), tight, simulate=0),
        served(written("", plain), loose, simulate=0),
    ]
    low, between, high = (one.rows[0].metrics["load"] for one in loads)
    assert low < between < high
    assert loads[1].rows[0].binds.endswith(" of chat") and loads[0].question.target.classes["chat"].share == 0.95


def test_advice_names_the_class_whose_limit_it_loosens(compared):
    from sweeps.studies.compare.advice import _looser

    assert set(_looser(compared.question.target)) == {
        "TTFT limit of 250 ms for chat",
        "TPOT limit of 15 ms for chat",
        "E2E limit of 2.5 s for summaries",
        "TTFT p95 limit of 375 ms for summaries",
    }
    assert _looser(Target(Objective(ttft=1.0)))["TTFT limit of 1.25 s"].objective.ttft == 1.25


def test_a_capacity_is_the_load_that_every_class_takes(file):
    keys = {"rates": [5.0, 80.0], "requests": 100, "tolerance": 0.2, "efficiency": "derated", "traffic": file}
    (one,) = capacity("Llama-3.1-8B", ["H100-SXM"], "ttft=1s", **keys).capacities
    assert 5.0 < one.load < 80.0 and one.missed.startswith(("chat: ", "summaries: "))


def test_a_request_is_of_a_class_in_every_replica(file):
    whole = load(ServeSpec(**PLACE, traffic=file, rate=20, requests=81))
    part = whole.replica(2)
    assert part.stream.kind.tolist() == whole.stream.kind[::2].tolist()
    limits = part.objective(Objective())
    assert np.array_equal(np.isfinite(limits.ttft), part.stream.kind == 0)


def test_a_sweep_judges_every_request_by_the_limits_of_its_class(file, found):
    work = {"traffic": file, "rate": 20, "requests": [40, 80]}
    data = sweeps.sweep({"job": "serve", **PLACE, "workload": work, "slo": "ttft=1s", "output": {"dtype": "float64"}})
    assert data.good_share.values[1] == pytest.approx(found.metrics["good_share"])
    assert data.ttft_p99.values[1] == pytest.approx(found.metrics["ttft_p99"], rel=1e-6)


OWN = """
[chat]
rate = 3
isl = 300
osl = 60
slo = "ttft=200ms,tpot=12ms"
[night]
arrivals = "onoff:rate=4,on=20,off=20"
isl = 2000
osl = 20
slo = "ttft=5s"
"""


def test_classes_with_rates_of_their_own_need_no_other(tmp_path):
    path = tmp_path / "own.toml"
    path.write_text(OWN)
    words = {**PLACE, "traffic": str(path), "requests": 200}
    found = load(ServeSpec(**words))
    assert len(found.stream) == 200 and found.clients is None
    shares = [np.mean(found.stream.kind == kind) for kind in (0, 1)]
    np.testing.assert_allclose([one.share for one in found.classes], shares)
    assert 0.5 < shares[0] < 0.7  # 3 of 3 + 2 requests per s
    # A rate of all of them scales their times.
    scaled = load(ServeSpec(**words, rate=10))
    np.testing.assert_allclose(scaled.stream.arrival * 10.0, found.stream.arrival * mean_rate(found.stream), rtol=1e-12)
    run = simulation(ServeSpec(**words))
    assert set(run.classes) == {"chat", "night"} and run.classes["chat"]["goodput"] > 2.0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"arrivals": "poisson:3"}, "arrivals cannot be given: .*own.toml says when requests of every class come"),
        ({"concurrency": 8}, "concurrency cannot be given: "),
    ],
)
def test_what_classes_with_rates_contradict(tmp_path, words, said):
    path = tmp_path / "own.toml"
    path.write_text(OWN)
    with pytest.raises(ValueError, match=said):
        load(ServeSpec(**PLACE, traffic=str(path), requests=50, **words))


def test_classes_with_shares_need_a_load(tmp_path):
    path = tmp_path / "chat.toml"
    path.write_text(CHAT.format(slo=""))
    with pytest.raises(ValueError, match="the load is missing: give rate, arrivals or concurrency, or a rate of every"):
        load(ServeSpec(**PLACE, traffic=str(path)))


def test_the_capacity_of_classes_with_rates(tmp_path):
    path = tmp_path / "own.toml"
    path.write_text(OWN)
    (one,) = capacity("Llama-3.1-8B", ["H100-SXM"], None, traffic=str(path), requests=120).capacities
    assert one.load > 5.0
