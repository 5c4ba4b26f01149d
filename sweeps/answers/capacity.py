"""Text of a capacity search: the table of accelerators, those left out, and all of it as one JSON object."""

import math
from typing import Any

import hwspaces
from hwspaces import formatted
from hwspaces.accelerators.prices import servers_text
from sweeps.answers import tables
from sweeps.answers.brief import Brief
from sweeps.data.labels import number
from sweeps.run.simulated.load import Load
from sweeps.run.simulated.policies import policy_record, policy_text
from sweeps.serving.capacity import MET, MORE, NEVER, Capacity, Search
from sweeps.serving.target import good_share_of

FIGURES = ("ttft_p50", "ttft_p99", "tpot_p50", "tpot_p99", "tokens_per_second_per_device", "batch_mean", "kv_use_max")
"""Metrics at the capacity, beside the load, in the JSON."""

COSTS = {"usd_per_million_tokens": "USD/M\ntokens", "usd_per_million_prompt_tokens": "USD/M\nprompt tokens"}
"""Columns of what tokens cost on the rented devices."""


def show(search: Search) -> None:
    """Print the report."""
    out = tables.console()
    if out.short(lambda: brief(search)):
        return
    # Loads of the curve: numbers of clients in a closed loop, requests/s in an open one.
    fleet, loads = search.fleet, search.curve["concurrency" if search.closed else "rate"].values
    what = "clients" if search.closed else "requests/s"
    out.print(f"{fleet.model.name}: {what} at which {search.target.text}")
    out.print(f"{_requests(fleet.requests)}; {fleet.requests.stream.source}")
    out.print(f"policy of {hwspaces.engine(fleet.engine).text}: {policy_text(fleet.policy)}", end="\n\n")
    able = [one for one in search.capacities if one.state != NEVER]
    if able:
        out.print(_ranking(search, able, what))
        devices = {one.place.case.hardware.name: one.place.case.hardware.price for one in able}
        by_server = [one.place for one in able if one.place.server > 1]
        rented = [f"{place.label}: {servers_text(place.devices, place.server)}" for place in by_server]
        tables.print_lines(out, "server", rented)
        tables.print_lines(out, "price", [f"{name}: {price.text}" for name, price in devices.items() if price])
    else:
        # Without any capacity, the place with the largest share of good requests shows how far the target is.
        nearest = max(search.capacities, key=lambda one: good_share_of(one.metrics))
        out.print(f"nothing keeps it at {number(loads[0])} {what}; nearest is {nearest.place.label}: {nearest.missed}")
    for line in _bounds(search, what):
        out.print(line)
    failed = [one for one in search.capacities if one.state == NEVER]
    if failed:
        out.print()
        misses = tables.table(f"not at {number(loads[0])} {what}", "devices", "because", numbers=("devices",))
        for one in failed:
            misses.add_row(one.place.label, str(one.place.devices), one.missed)
        out.print(misses)
    if fleet.left_out:
        out.print()
    for name, why in fleet.left_out.items():
        out.print(f"left out  {name}: {why}")
    out.print()
    served = search.simulations * len(fleet.requests.stream)
    ends = f"{number(loads[0])} to {number(loads[-1])} {what}"
    halved = f"{search.rounds} halvings to {100 * search.tolerance:g} %"
    out.print(f"tried   {len(fleet.places)} accelerators x ({len(loads)} loads from {ends}, then {halved})")
    count = f"{search.simulations:,} simulations of {len(fleet.requests.stream):,} requests"
    rate = f"{served / search.seconds:,.0f} requests/s"
    out.print(f"        {count} in {search.seconds:.1f} s: {rate}, compilation included")
    if search.longer:
        out.print(f"        {len(fleet.requests.stream):,} requests, as with fewer of them some have no limit")
    tables.print_lines(out, "note", dict.fromkeys((*fleet.notes, *fleet.model.notes)))


def brief(search: Search) -> Brief:
    """The search on a screen: the accelerator that serves most for its price, and the others."""
    fleet, loads = search.fleet, search.curve["concurrency" if search.closed else "rate"].values
    what = "clients" if search.closed else "requests/s"
    able = [one for one in search.capacities if one.state != NEVER]
    failed = [one for one in search.capacities if one.state == NEVER]
    notes = tuple(dict.fromkeys((*fleet.notes, *fleet.model.notes)))
    asked, setting = f"{fleet.model.name}: {what} at which {search.target.text}", _requests(fleet.requests)
    misses = tuple((one.place.label, one.missed) for one in failed)
    if not able:
        return Brief(asked, setting, f"Nothing keeps it at {number(loads[0])} {what}.", misses, notes=notes)
    first, priced = able[0], any(math.isfinite(one.per_dollar) for one in able)
    more = "at least " if first.state == MORE else ""
    sentence = f"{first.place.devices} x {first.place.label}: {more}{number(first.load)} {what}"
    sentence += f", {_number(first.per_dollar)} requests per USD" if math.isfinite(first.per_dollar) else ""
    heads = ("devices", what, "per device", *(["per USD"] if priced else []), "TTFT p99", "TPOT p99")
    listing = tables.short_table("#", "accelerator", *heads, texts=("accelerator",))
    for rank, one in enumerate(able, 1):
        bound = ">= " if one.state == MORE else ""
        cells = [str(one.place.devices), f"{bound}{number(one.load)}", f"{bound}{number(one.per_device)}"]
        cells += [_number(one.per_dollar)] if priced else []
        times = [_time(one.metrics[name]) if name in one.metrics else "-" for name in ("ttft_p99", "tpot_p99")]
        listing.add_row(str(rank) if search.ranked else "-", one.place.label, *cells, *times)
    return Brief(
        asked=asked,
        setting=setting,
        answer=sentence,
        facts=(("limited", f"a larger load of the first: {first.missed}"), *misses),
        table=listing,
        notes=notes,
        next="in every layout: jaxroof compare",
    )


def record(search: Search) -> dict[str, Any]:
    """The search for machines: SI numbers; what does not exist is null."""
    fleet, axis = search.fleet, "concurrency" if search.closed else "rate"
    return {
        "model": fleet.model.name,
        "precision": fleet.model.precision,
        "load": axis,
        "target": search.target.text,
        "share": search.target.share,
        "tolerance": search.tolerance,
        "engine": fleet.engine,
        "policy": policy_record(fleet.policy),
        "ranked": search.ranked,
        "requests": len(fleet.requests.stream),
        "source": fleet.requests.stream.source,
        **({} if fleet.requests.images is None else {"images": fleet.requests.images.record()}),
        "rows": [
            {"rank": rank if search.ranked else None, **_row(one, search)}
            for rank, one in enumerate(search.capacities, 1)
        ],
        "left_out": dict(fleet.left_out),
        "curve": {
            axis: search.curve[axis].values.tolist(),
            **{
                name: {str(row.hardware.values): row.values.tolist() for row in search.curve[name]}
                for name in ("ttft_p50", "ttft_p99", "tpot_p50", "tpot_p99", "tokens_per_second", "good_share")
            },
        },
        "tried": {"simulations": search.simulations, "rounds": search.rounds, "seconds": round(search.seconds, 3)},
        "notes": list(fleet.notes),
    }


def _bounds(search: Search, what: str) -> list[str]:
    """Bounds of accelerators that keep the target at every load tried, in words; empty where there are none."""
    # Censored: the target held at every load that was tried, so the capacity itself is not known.
    bounds = [one for one in search.capacities if one.censored]
    lines = []
    # Two causes with two remedies: too few requests for a queue to build up, or loads that are too small.
    for idle in (True, False):
        labels = [one.place.label for one in bounds if (one.place.label in search.idle) == idle]
        if not labels:
            continue
        why = "every load that was tried is kept: give larger ones"
        if idle:
            requests = f"with {len(search.fleet.requests.stream):,} requests the queue does not build up"
            why = f"{requests}, even where all come at once: give more requests"
        lines.append(f"{', '.join(labels)}: at least {number(bounds[0].load)} {what}; {why}")
    return [*lines, "no ranks: a bound does not compare with a capacity"] if lines else []


def _ranking(search: Search, able: list[Capacity], what: str) -> Any:
    # Columns that would be empty are left out: costs without prices, TPOT without output tokens.
    priced = any(math.isfinite(one.per_dollar) for one in able)
    output = search.output
    paid = {name: head for name, head in COSTS.items() if priced and name in search.cost(able[0])}
    heads = ["devices", what, f"{what}\n/device", *(["requests\n/USD"] if priced else []), *paid.values()]
    heads += ["TTFT p50", "p99", *(["TPOT p50", "p99 ", "tokens/s\n/device"] if output else [])]
    ranking = tables.table("#", "accelerator", *heads, "beyond it", numbers=("#", *heads))
    for rank, one in enumerate(able, 1):
        # A lower bound of a capacity is marked as one.
        more = ">= " if one.state == MORE else ""
        cells = [str(one.place.devices), f"{more}{number(one.load)}", f"{more}{number(one.per_device)}"]
        cells += [_number(one.per_dollar)] if priced else []
        cells += [_number(search.cost(one)[name]) for name in paid]
        names = ("ttft_p50", "ttft_p99", *(("tpot_p50", "tpot_p99") if output else ()))
        cells += [_time(one.metrics[name]) for name in names]
        cells += [_number(one.metrics["tokens_per_second_per_device"])] if output else []
        ranking.add_row(str(rank) if search.ranked else "-", one.place.label, *cells, one.missed)
    return ranking


def _row(one: Capacity, search: Search) -> dict[str, Any]:
    device = one.place.case.hardware
    return {
        "hardware": device.name,
        **({} if device.price is None else device.price.record()),
        "label": one.place.label,
        "devices": one.place.devices,
        "server": one.place.server,
        "rented_devices": one.place.rented_devices,
        "state": one.state,
        "censored": one.censored,
        "idle": one.place.label in search.idle,
        "capacity": one.load,
        "fails_at": one.fails,
        "capacity_per_device": one.per_device,
        "requests_per_usd": one.per_dollar,
        **search.cost(one),
        **{name: one.metrics[name] for name in FIGURES},
        "good_share": good_share_of(one.metrics),
        "missed": one.missed or None,
        "feasible": one.state in (MET, MORE),
    }


def _requests(load: Load) -> str:
    count = f"{len(load.stream):,} requests"
    return count if load.clients is None else f"{count} from clients"


def _time(value: float) -> str:
    return formatted(value, "s") if math.isfinite(value) and value > 0.0 else "-"


def _number(value: float) -> str:
    return number(value) if math.isfinite(value) else "-"
