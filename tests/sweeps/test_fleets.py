"""Fleets: the integer program against enumeration, duals by hand and by differences, and what a file may say."""

import dataclasses
import functools
import itertools
import math

import numpy as np
import pytest

from sweeps.show.fleet import day
from sweeps.studies.fleet import program as solve
from sweeps.studies.fleet.answer import YEAR
from sweeps.studies.fleet.answer import fleet as of_servers
from sweeps.studies.fleet.marginal import Duals
from sweeps.studies.fleet.options import FoundOptions, Option, kept
from sweeps.studies.fleet.program import COST, SHARE, LinearProgram
from sweeps.studies.fleet.question import question
from sweeps.studies.fleet.record import record

NAMES = ("H100-SXM", "H200-SXM")

fleet = functools.partial(of_servers, node=1)
"""Devices that are rented one by one where a test does not say machines."""

HOUR = YEAR / 3600.0
"""USD/year of a device of 1 USD/h."""


def program(rng: np.random.Generator) -> LinearProgram:
    """Two classes in two hours on two kinds of accelerators, small enough to enumerate."""
    places = np.array(list(itertools.product(range(2), range(2))))  # class and supply of each option
    return LinearProgram(
        load=rng.uniform(0.2, 4.0, (2, 2)),
        headroom=rng.choice([0.0, 0.25]),
        value=rng.choice([1.0, 2.0], 2),
        capacity=rng.uniform(0.8, 3.0, 4),
        devices=rng.choice([1, 2], 4),
        of_class=places[:, 0],
        of_supply=places[:, 1],
        year=rng.uniform(1.0, 3.0, 2),
        owned=rng.choice([0, 1, 2], 2),
        machine=rng.choice([1, 2], 2),
        available=rng.choice([np.inf, 6.0, 3.0], 2),
        tdp=np.ones(2),
        weights=np.array([14.0, 10.0]),
    )


def enumerated(one: LinearProgram, goal: str) -> float:
    """The least cost, or the largest share of the requests, over all machines and all replicas; inf: none serves all.

    Six machines of either kind and six replicas of every option are more than any of these loads needs.
    """
    counts = np.array(list(itertools.product(range(7), repeat=4)))
    uses = np.array([(counts * one.devices) @ (one.of_supply == s) for s in range(2)])
    room = np.array([(counts * one.capacity) @ (one.of_class == c) for c in range(2)])
    best = math.inf if goal == COST else 0.0
    for machines in itertools.product(range(13), repeat=2):
        rented = one.machine * machines
        cost = float(one.year @ rented)
        if (rented > one.available).any() or cost > one.budget:
            continue
        fits = (uses <= (one.owned + rented)[:, None]).all(axis=0)
        if goal == COST:
            serves = all((room[:, fits] >= one.need[:, t, None]).all(axis=0).any() for t in range(2))
            best = min(best, cost) if serves else best
        else:
            shares = [np.minimum(room[:, fits] / one.need[:, t, None], 1.0) for t in range(2)]
            served = sum((one.requests[:, t] @ shares[t]).max() for t in range(2))
            best = max(best, float(served) / one.requests.sum())
    return best


@pytest.mark.parametrize("seed", range(30))
def test_the_least_cost_is_that_of_enumeration(seed):
    one = program(np.random.default_rng(seed))
    expected = enumerated(one, COST)
    reduced, where = solve.needed_hours(one)
    found = solve.optimum(reduced, COST, 0.0, 60.0)
    if not math.isfinite(expected):
        assert found is None
        return
    assert found.cost == pytest.approx(expected, abs=1e-9)
    assert found.bound <= expected * (1.0 + 1e-9)
    # The replicas of every hour serve it on the devices that there are, in hours that the program left out too.
    devices = one.owned + one.machine * found.machines
    count = solve.replicas(one, devices, np.ones(one.load.shape))
    assert ((one.of_class == np.arange(2)[:, None]) * one.capacity @ count >= one.need * (1.0 - 2e-5)).all()
    assert ((one.of_supply == np.arange(2)[:, None]) * one.devices @ count <= devices[:, None]).all()
    assert (count == np.round(count)).all() and (where < reduced.load.shape[1]).all()


@pytest.mark.parametrize("seed", range(20))
def test_the_largest_share_within_a_budget_is_that_of_enumeration(seed):
    rng = np.random.default_rng(100 + seed)
    one = dataclasses.replace(program(rng), budget=rng.uniform(2.0, 6.0))
    reduced, _ = solve.needed_hours(one, SHARE)
    found = solve.optimum(reduced, SHARE, 0.0, 60.0)
    expected = enumerated(one, SHARE)
    assert found.value == pytest.approx(expected, abs=2e-5)  # the cost weighs 1e-5 beside the share
    assert found.bound >= expected - 1e-9
    assert found.cost <= one.budget * (1.0 + 1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_duals_are_differences_of_the_program_without_whole_numbers(seed):
    """A linear program is convex: half the step to either side brackets its dual."""
    rng = np.random.default_rng(seed)
    one = dataclasses.replace(program(rng), available=np.array([rng.uniform(2.0, 5.0), np.inf]), power_limit=40.0)
    base, step = Duals(one, COST), 1e-4

    def brackets(dual, change):
        more, less = (Duals(dataclasses.replace(one, **change(sign * step)), COST).value for sign in (1.0, -1.0))
        slack = 1e-6 + 1e-6 * abs(base.value) / step * 1e-3
        assert (base.value - more) / step - slack <= dual <= (less - base.value) / step + slack

    for s in range(2):
        unit = np.eye(2)[s]
        brackets(base.given[s], lambda by, unit=unit: {"owned": one.owned + by * unit})
    brackets(base.available[0], lambda by: {"available": one.available + np.array([by, 0.0])})
    brackets(base.power, lambda by: {"power_limit": one.power_limit + by})
    for c in range(2):
        grown = (np.arange(2) == c)[:, None]
        brackets(-base.growth[c].sum(), lambda by, grown=grown: {"load": one.load * (1.0 + by * grown)})


CHAT = {"model": "Llama-3.1-8B", "isl": 512, "osl": 128, "slo": "ttft=1s"}


def replicas_of(**rates: float):
    """Options of one device each, by accelerator, in place of those that a comparison finds."""

    def options(model, isl, osl, slo, hardware, **others):
        names = {name.replace("_", "-"): rate for name, rate in rates.items()}
        made = [
            Option(hardware=name, devices=1, layout="tp1", requests_per_second=rate, power=500.0)
            for name, rate in names.items()
        ]
        return FoundOptions(tuple(made), {})

    return options


def traffic(**changed):
    supplies = {"H100-SXM": {"price": "1USD/h"}, "H200-SXM": {"price": "1USD/h", "available": 100}}
    return {"headroom": 0, "accelerators": supplies, "classes": {"chat": {**CHAT, "rate": 300}}} | changed


def test_a_fleet_by_hand():
    """300 requests/s: 100 H200 of 2 requests/s, all there are, and 100 H100 of 1; each costs 1 USD/h.

    One more H200 stands for 2 H100: worth 2 USD/h, and 1 more than its rent. 10 % more traffic are 30 more H100.
    """
    plan = fleet(traffic(), options=replicas_of(H100_SXM=1.0, H200_SXM=2.0))
    assert plan.rented.tolist() == [100, 100] and plan.cost == pytest.approx(200 * HOUR)
    assert plan.bound == pytest.approx(plan.cost) and plan.goal == COST and plan.share == 1.0
    first, second = sorted(plan.marginals.supplies, key=lambda one: one.name)
    for one, worth in ((first, 1.0), (second, 2.0)):
        assert one.given.dual == pytest.approx(worth * HOUR)
        assert one.given.again == pytest.approx(worth * HOUR)
    assert first.available is None
    assert second.available.dual == pytest.approx(HOUR) and second.available.again == pytest.approx(HOUR)
    more = plan.marginals.classes["chat"]
    assert more.dual == pytest.approx(30 * HOUR) and more.again == pytest.approx(30 * HOUR)
    assert plan.marginals.hours.sum() == pytest.approx(1.0)
    assert plan.energy == pytest.approx(200 * 500.0 * YEAR)
    written = record(plan)
    assert [one["rented"] for one in written["accelerators"]] == [100, 100]
    values = {one["hardware"]: one for one in written["marginal"]["one_more_device"]}
    assert values["H200-SXM"]["available"]["solved_again"] == pytest.approx(HOUR)


def test_a_budget_that_is_too_small_serves_a_part():
    """150 USD/h are 100 H200 and 50 H100: 250 of 300 requests/s. 10 % more are 15 H100, 15 requests/s."""
    plan = fleet(traffic(), budget="150USD/h", options=replicas_of(H100_SXM=1.0, H200_SXM=2.0))
    assert plan.goal == SHARE and plan.share == pytest.approx(250 / 300)
    assert plan.least_cost == pytest.approx(200 * HOUR) and plan.cost == pytest.approx(150 * HOUR)
    assert plan.marginals.unit == "requests/day" and not plan.marginals.classes
    assert plan.marginals.budget.dual == pytest.approx(15 * 86400, rel=1e-3)
    assert plan.marginals.budget.again == pytest.approx(15 * 86400, rel=1e-3)
    enough = fleet(traffic(), budget="200.1USD/h", options=replicas_of(H100_SXM=1.0, H200_SXM=2.0))
    assert enough.goal == COST and enough.cost == pytest.approx(200 * HOUR)


def test_too_few_devices_or_too_little_power_serve_a_part():
    supplies = {"H200-SXM": {"price": "1USD/h", "available": 100}}
    options = replicas_of(H200_SXM=2.0)
    few = fleet(traffic(accelerators=supplies), options=options)
    assert few.goal == SHARE and few.least_cost is None and few.share == pytest.approx(200 / 300)
    assert few.marginals.supplies[0].available.dual == pytest.approx(2 * 86400, rel=1e-3)
    weak = fleet(traffic(accelerators=supplies, power_limit="35kW"), options=options)  # 50 of 700 W
    assert weak.share == pytest.approx(100 / 300)
    owned = {"H200-SXM": {"owned": 60}}
    with pytest.raises(ValueError, match="power_limit is below what the owned devices draw"):
        fleet(traffic(accelerators=owned, power_limit="35kW"), options=options)


def test_traffic_that_cannot_grow_says_so():
    """160 H200 serve 320 requests/s, and not 10 % more than 300."""
    supplies = {"H200-SXM": {"price": "1USD/h", "available": 160}}
    plan = fleet(traffic(accelerators=supplies), options=replicas_of(H200_SXM=2.0))
    assert plan.goal == COST and math.isnan(plan.marginals.classes["chat"].again)


def test_whole_machines_and_headroom():
    """10 requests/s and 20 % are 12 devices: 2 machines of 8."""
    supplies = {"H100-SXM": {"price": "1USD/h", "machine": 8}}
    asked = traffic(accelerators=supplies, headroom="20%", classes={"chat": {**CHAT, "rate": 10}})
    assert fleet(asked, options=replicas_of(H100_SXM=1.0)).rented.tolist() == [16]


def test_one_replica_serves_the_smallest_load_beside_the_largest():
    supplies = {"H100-SXM": {"price": "1USD/h"}}
    classes = {"chat": {**CHAT, "rate": 1e-9}, "batch": {**CHAT, "rate": 1e5}}
    plan = fleet(traffic(accelerators=supplies, classes=classes), options=replicas_of(H100_SXM=1.0))
    assert plan.rented[0] == pytest.approx(100_001, rel=1e-4)
    assert plan.goal == COST and plan.replicas[0].tolist() == [1] * 24


def test_more_valuable_requests_are_served_first():
    classes = {"chat": {**CHAT, "rate": 10}, "batch": {**CHAT, "rate": 10, "value": 3}}
    supplies = {"H100-SXM": {"price": "1USD/h"}}
    plan = fleet(traffic(accelerators=supplies, classes=classes), budget="12USD/h", options=replicas_of(H100_SXM=1.0))
    assert plan.served[:, 0] == pytest.approx([0.2, 1.0]) and plan.share == pytest.approx(0.6)


def test_equal_and_smaller_hours_change_nothing():
    rng = np.random.default_rng(0)
    for _ in range(5):
        one = program(rng)
        load = np.concatenate([one.load, 0.5 * one.load, one.load[:, :1]], axis=1)
        longer = dataclasses.replace(one, load=load, weights=np.ones(5))
        reduced, where = solve.needed_hours(longer)
        assert set(where[2:4]) == {-1} and where[4] == where[0]
        whole = solve.optimum(longer, COST, 0.0, 60.0)
        part = solve.optimum(reduced, COST, 0.0, 60.0)
        assert (whole is None and part is None) or whole.cost == pytest.approx(part.cost)


def test_replicas_that_a_smaller_one_beats_are_left_out():
    rates = {1: 1.0, 2: 1.9, 4: 4.4, 8: 8.4}
    made = [
        Option(hardware="H100-SXM", devices=devices, layout=f"tp{devices}", requests_per_second=rate)
        for devices, rate in rates.items()
    ]
    assert [option.devices for option in kept(made[::-1])] == [1, 4]


def test_a_curve_has_its_mean_and_its_peak():
    curve = {"mean": 10, "peak_hour": 14, "peak_to_mean": 1.5}
    load = np.array(question(traffic(classes={"chat": {**CHAT, "day": curve}})).classes[0].load)
    assert load.mean() == pytest.approx(10.0) and load.max() == load[14] == pytest.approx(15.0)
    assert load[2] == pytest.approx(5.0)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"classes": {}}, "classes is missing; give at least one table"),
        ({"clases": {}}, "there is no key clases; did you mean classes?"),
        ({"classes": {"chat": 3}}, "class chat = 3 must be a table; its keys: model, isl"),
        ({"classes": {"chat": {**CHAT}}}, "class chat: give either rate or day"),
        ({"classes": {"chat": {**CHAT, "rate": 1, "day": [1] * 24}}}, "class chat: give either rate or day"),
        ({"classes": {"chat": {"model": "Llama-3.1-8B"}}}, "class chat: isl is missing: prompt tokens"),
        ({"classes": {"chat": {**CHAT, "rate": -1}}}, "class chat: rate = -1 must be a positive finite number"),
        ({"classes": {"chat": {**CHAT, "rate": "3GB"}}}, "class chat: rate = '3GB' has the unit 'GB'"),
        ({"classes": {"chat": {**CHAT, "rate": 0}}}, "no class has a load above 0"),
        ({"classes": {"chat": {**CHAT, "day": [1.0] * 23}}}, "class chat: day has 23 numbers; 24 are needed"),
        ({"classes": {"chat": {**CHAT, "day": [1.0] * 23 + [True]}}}, r"class chat: day\[23\] = True is not a number"),
        ({"classes": {"chat": {**CHAT, "day": "busy"}}}, "class chat: day = 'busy' must be 24 numbers"),
        ({"classes": {"chat": {**CHAT, "day": {"mean": 3}}}}, "day: peak_hour is missing"),
        (
            {"classes": {"chat": {**CHAT, "day": {"mean": 3, "peak_hour": 24, "peak_to_mean": 1}}}},
            "peak_hour = 24 must be a whole number from 0 to 23",
        ),
        (
            {"classes": {"chat": {**CHAT, "day": {"mean": 3, "peak_hour": 9, "peak_to_mean": 3}}}},
            "peak_to_mean = 3 must be from 1 to 2",
        ),
        ({"classes": {"chat": {**CHAT, "rate": 1, "model": "Lama-3.1-8B"}}}, "class chat: .*Llama-3.1-8B"),
        ({"classes": {"chat": {**CHAT, "rate": 1, "osl": "gauss:3"}}}, "class chat: osl: 'gauss:3': 'gauss' is not"),
        ({"classes": {"chat": {**CHAT, "rate": 1, "slo": 3}}}, "class chat: slo = 3 must be a text"),
        ({"classes": {"chat": {**CHAT, "rate": 1, "value": 0}}}, "class chat: value = 0 must be a positive"),
        ({"accelerators": []}, "accelerators is empty"),
        ({"accelerators": "H100-SXM"}, "accelerators = 'H100-SXM' must be a list of names"),
        ({"accelerators": ["H1000"]}, "accelerators: .*H1000"),
        ({"accelerators": ["H100-SXM", "H100-SXM5"]}, "accelerator H100-SXM is given twice"),
        ({"accelerators": {"H100-SXM": {"owned": 1.5}}}, "owned = 1.5 must be a whole number from 0"),
        ({"accelerators": {"H100-SXM": {"machine": 0}}}, "machine = 0 must be a whole number from 1"),
        ({"accelerators": {"H100-SXM": {"price": "3"}}}, "price = '3' has no unit"),
        ({"accelerators": {"H100-SXM": {"prize": "3"}}}, "there is no key prize; did you mean price?"),
        ({"headroom": -0.1}, "headroom = -0.1 must be a positive"),
        ({"headroom": 20}, "headroom = 20 must be at most 10"),
        ({"budget": "2MUSD"}, "budget = '2MUSD' has the unit 'MUSD'; allowed: "),
        ({"max_devices": 0}, "max_devices = 0 must be a whole number"),
        ({"power_limit": "3GB"}, "power_limit = '3GB' has the unit 'GB'"),
    ],
)
def test_bad_files_are_refused_by_name(changed, said):
    with pytest.raises(ValueError, match=f"^traffic: .*{said}") as error:
        question(traffic(**changed))
    assert "\n" not in str(error.value)


def test_accelerators_without_a_price_are_left_out_by_name():
    asked = question(traffic(accelerators=["H100-SXM", "L20"]), prices="reserved_3y")
    assert [one.name for one in asked.supplies] == ["H100-SXM"] and asked.left_out == {"L20": "no price"}
    with pytest.raises(ValueError, match="none of L20 has a price"):
        question(traffic(accelerators=["L20"]), prices="reserved_3y")
    owned = traffic(accelerators={"L20": {"owned": 3}})
    assert question(owned, prices="reserved_3y").supplies[0].price is None


def test_a_class_that_nothing_serves_is_named():
    with pytest.raises(ValueError, match="traffic: class chat: no accelerator keeps ttft=1s: L4: too slow"):
        fleet(traffic(), options=lambda *words, **others: FoundOptions((), {"L4": "too slow"}))


def test_the_picture_of_the_day_says_what_it_shows():
    curve = {"mean": 40, "peak_hour": 14, "peak_to_mean": 1.8}
    classes = {"chat": {**CHAT, "rate": 30}, "code": {**CHAT, "day": curve}}
    plan = fleet(traffic(classes=classes), options=replicas_of(H100_SXM=1.0, H200_SXM=2.0))
    made = day(plan)
    assert made.texts[0].get_text().startswith(f"{plan.cost:,.0f} USD a year serve 6,048,000 requests a day")
    titles = [axes.get_title(loc="left") for axes in made.axes]
    assert titles[0].startswith("chat: Llama-3.1-8B") and titles[2] == "all classes: devices in use"
    labels = [text.get_text() for text in made.axes[0].get_legend().get_texts()]
    assert labels[0] == "capacity of H200-SXM" and "load" in labels
    # 30 + 72 requests/s at 14:00 on H200 of 2 requests/s: 51 devices.
    assert plan.rented.tolist() == [0, 51] and plan.in_use.sum(axis=(0, 1)).max() == 51
